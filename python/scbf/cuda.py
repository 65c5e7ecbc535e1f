# SPDX-License-Identifier: Apache-2.0
"""Filters in the memory of a GPU, for keys that are there already.

    >>> import cupy, scbf.cuda                                               # doctest: +SKIP
    >>> seen = scbf.cuda.DeviceFilter(capacity=100_000_000, fpr=0.01)        # doctest: +SKIP
    >>> seen.insert(cupy.arange(50_000_000))                                 # doctest: +SKIP
    >>> cupy.asarray(seen.contains(cupy.array([1, 2, -1])))                  # doctest: +SKIP
    array([ True,  True, False])

For keys on the host, use ``scbf.Filter(…, backend="cuda")``: its counters are on the device, too.
"""

from scbf import _scbf

__all__ = ["DeviceArray", "DeviceFilter"]

if not _scbf.has_cuda:
    raise ImportError("scbf.cuda: this build of scbf has no CUDA backend; build it where there is a CUDA compiler, "
                      "with SCBF_CUDA=ON")

DeviceArray = _scbf.DeviceArray
DeviceFilter = _scbf.DeviceFilter

for _class in (DeviceArray, DeviceFilter):
    _class.__module__ = "scbf.cuda"
