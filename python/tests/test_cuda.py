# SPDX-License-Identifier: Apache-2.0
"""What a build without CUDA says of arrays on a GPU. tests/cuda/fake/test_scbf_cuda.py tests scbf.cuda."""

import subprocess
import sys

import pytest
import scbf
from scbf import _scbf


@pytest.mark.skipif(_scbf.has_cuda, reason="this build has the CUDA backend")
def test_a_build_without_cuda_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", "import scbf.cuda"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: scbf.cuda: this build of scbf has no CUDA backend" in done.stderr


class OnDevice:
    """An object that says that its keys are on a device."""

    __cuda_array_interface__ = {"shape": (1,), "typestr": "<i8", "data": (4096, False), "version": 3}


def test_filters_of_the_host_refuse_arrays_on_a_device() -> None:
    with pytest.raises(scbf.BackendUnavailable, match=r"scbf\.cuda\.DeviceFilter takes them there"):
        scbf.Filter(1000, 0.01).contains(OnDevice())
