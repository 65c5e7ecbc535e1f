# SPDX-License-Identifier: Apache-2.0
"""scbf.cuda on a GPU, with the arrays and streams of CuPy, PyTorch and Numba, as far as they are there:
`python3 -m pytest tests/cuda/test_scbf_cuda_on_gpu.py`, where a build of the package with CUDA is installed. Not
part of ctest; tests/cuda/fake/test_scbf_cuda.py tests the same module more closely, without a GPU."""

from typing import Any

import numpy as np
import pytest
import scbf
import scbf.cuda
from scbf.cuda import DeviceFilter

N = 3_000_000
KEYS = np.random.default_rng(11).integers(-(2**63), 2**63 - 1, N, np.int64)


class Cupy:
    """Arrays by __cuda_array_interface__ and DLPack."""

    def __init__(self) -> None:
        self.cupy = pytest.importorskip("cupy")

    def put(self, values: Any) -> Any:
        return self.cupy.asarray(values)

    def take(self, answers: Any) -> Any:
        return self.cupy.asnumpy(self.cupy.asarray(answers))

    def stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def on(self, stream: Any) -> Any:
        return stream


class Torch:
    """Tensors by DLPack; there are none of unsigned 64 bits."""

    def __init__(self) -> None:
        self.torch = pytest.importorskip("torch")

    def put(self, values: Any) -> Any:
        return self.torch.from_numpy(np.ascontiguousarray(values)).cuda()

    def take(self, answers: Any) -> Any:
        return self.torch.from_dlpack(answers).cpu().numpy()

    def stream(self) -> Any:
        return self.torch.cuda.Stream()

    def on(self, stream: Any) -> Any:
        return self.torch.cuda.stream(stream)


class Numba:
    """Arrays by __cuda_array_interface__."""

    def __init__(self) -> None:
        self.cuda = pytest.importorskip("numba.cuda")

    def put(self, values: Any) -> Any:
        return self.cuda.to_device(values)

    def take(self, answers: Any) -> Any:
        return self.cuda.as_cuda_array(answers).copy_to_host()


@pytest.mark.parametrize("library", [Cupy, Torch, Numba])
@pytest.mark.parametrize("shape", [{"capacity": N, "fpr": 0.01}, {"capacity": N, "fpr": 0.01, "layout": "split"}])
def test_counters_and_answers_are_those_of_the_host(library: Any, shape: dict[str, Any]) -> None:
    arrays = library()
    there, here = DeviceFilter(**shape, seed=3), scbf.Filter(**shape, seed=3)
    keys, asked = KEYS[: N // 2], KEYS[N // 4 :]
    there.insert(arrays.put(keys))
    here.insert(keys)
    assert there.to_filter() == here
    on_device = arrays.put(asked)
    assert (arrays.take(there.contains(on_device)).astype(bool) == here.contains(asked)).all()
    assert (there.find(on_device).get() == here.find(asked)).all()
    assert (there.count(on_device).get() == here.count(asked)).all()
    repeated = np.concatenate([asked[::3], asked[::2]])
    new = here.insert_new(repeated)
    assert (arrays.take(there.insert_new(arrays.put(repeated))).astype(bool) == new).all()
    assert there.to_filter() == here
    verdicts = np.empty(len(asked), np.uint8)
    here.remove(asked, out=verdicts)
    assert (there.remove(on_device).get() == (verdicts == scbf.Removal.removed.value)).all()
    assert there.to_filter() == here


@pytest.mark.parametrize("library", [Cupy, Torch])
def test_streams_of_the_caller(library: Any) -> None:
    """Keys are made, inserted and asked for on one stream, and nothing waits between the insertions."""
    arrays = library()
    there, here = DeviceFilter(capacity=N, fpr=0.01, seed=3), scbf.Filter(capacity=N, fpr=0.01, seed=3)
    here.insert(KEYS[:1_000_000] * 3)
    stream = arrays.stream()
    with arrays.on(stream):
        for first in range(0, 1_000_000, 100_000):
            there.insert(arrays.put(KEYS[first : first + 100_000]) * 3, stream=stream)
        hits = [arrays.take(there.contains(arrays.put(KEYS[:N:7]) * 3, stream=stream)) for _ in range(3)]
    stream.synchronize()
    for each in hits:
        assert (each.astype(bool) == here.contains(KEYS[:N:7] * 3)).all()
    assert there.to_filter() == here


def test_filters_of_the_host_with_counters_on_the_device() -> None:
    there, here = scbf.Filter(2 * N, 0.01, backend="cuda", seed=1), scbf.Filter(2 * N, 0.01, seed=1)
    words = [f"key {i}" for i in range(100_000)]
    for keys in (KEYS, words):
        there.insert(keys)
        here.insert(keys)
    more = np.concatenate([KEYS[:1000], KEYS[::2] ^ 5, KEYS[::4] ^ 5])
    assert (there.insert_new(more) == here.insert_new(more)).all()
    assert there == here
    assert (there.contains(KEYS) == here.contains(KEYS)).all()
    assert there.contains(words).all()


def test_too_little_memory_is_an_error() -> None:
    with pytest.raises(scbf.OutOfDeviceMemory, match="GiB|bytes"):
        DeviceFilter(capacity=10**12, fpr=0.01)


def test_the_example_of_the_page() -> None:
    cupy = pytest.importorskip("cupy")
    seen = DeviceFilter(capacity=100_000_000, fpr=0.01)
    seen.insert(cupy.arange(50_000_000))
    assert cupy.asarray(seen.contains(cupy.array([1, 2, -1]))).tolist() == [True, True, False]
