# SPDX-License-Identifier: Apache-2.0
"""Split counting Bloom filters: sets that change, in a few bits per key.

    >>> import numpy as np, scbf
    >>> seen = scbf.Filter(capacity=1_000_000, fpr=0.01)
    >>> seen.insert(np.arange(500_000))
    <scbf.InsertReport: 500000 inserted, 0 nulls>
    >>> seen.contains(np.array([1, 2, 3]))
    array([ True,  True,  True])

``Filter`` counts, so keys can be removed again; ``BloomFilter`` has its bits, for readers that only ask;
``Bank`` asks many filters at once, and ``BloomBank`` has its bits. All take *columns of keys*:

* NumPy arrays: integers of any width, ``S`` and ``U`` strings, ``V`` for bytes of one width;
* Arrow arrays, chunked arrays and streams from pyarrow, Polars, DuckDB, pandas, nanoarrow, by the PyCapsule
  interface, without pyarrow: integers, strings, binary, views, fixed-size binary, dictionaries, nulls;
* anything with the buffer protocol or ``__array__``; lists, sets, iterators of int, str or bytes;
* ``Hashes(array)``: ready-made hashes;
* or a single int, str or bytes.

Equal keys are equal whatever they come in. An integer is its 64-bit two's complement, so 7 is one key as
int8, uint64 and Python int; -1 and 2**64 - 1 have the same bits and are one key. Text is its UTF-8 bytes, so
``"a"`` and ``b"a"`` are one key. ``None``, ``pandas.NA`` and NaN in a column of objects, and Arrow nulls, are
null: neither inserted nor found. These are errors, which say what to do: bool, floating-point numbers, dates and
times (cast them to integers in one unit, without ``NaT``), integers beyond 64 bits, and numbers beside text in one
column.
"""

from typing import TYPE_CHECKING

from scbf import _scbf
from scbf._scbf import (
    Bank,
    BankFileInfo,
    BloomBank,
    BloomFilter,
    BulkInserter,
    Delta,
    FileInfo,
    Filter,
    Geometry,
    Growth,
    Hashes,
    InsertReport,
    KeyEstimate,
    Plan,
    Removal,
    RemoveReport,
    Replica,
    StageStatistics,
    Statistics,
    backends,
    plan,
    read_file_info,
    release_scratch,
    verify_file,
)
from scbf.errors import (
    BackendUnavailable,
    CorruptFile,
    DeviceError,
    DeviceLost,
    Error,
    FilterFull,
    Incompatible,
    InvalidArgument,
    InvalidKey,
    IoError,
    KeyKindWarning,
    KeysAbsent,
    MembersFull,
    NotOnHost,
    OutOfDeviceMemory,
    OverfullWarning,
    ReadOnly,
    RemovalStopped,
)
from scbf.members import MemberLists

__all__ = [
    "BackendUnavailable",
    "Bank",
    "BankFileInfo",
    "BloomBank",
    "BloomFilter",
    "BulkInserter",
    "CorruptFile",
    "Delta",
    "DeviceError",
    "DeviceLost",
    "Error",
    "FileInfo",
    "Filter",
    "FilterFull",
    "Geometry",
    "Growth",
    "Hashes",
    "Incompatible",
    "InsertReport",
    "InvalidArgument",
    "InvalidKey",
    "IoError",
    "KeyEstimate",
    "KeyKindWarning",
    "KeysAbsent",
    "MemberLists",
    "MembersFull",
    "NotOnHost",
    "OutOfDeviceMemory",
    "OverfullWarning",
    "Plan",
    "ReadOnly",
    "Removal",
    "RemovalStopped",
    "RemoveReport",
    "Replica",
    "StageStatistics",
    "Statistics",
    "backends",
    "plan",
    "read_file_info",
    "release_scratch",
    "verify_file",
]

if _scbf.has_index:
    from scbf._scbf import QueryAnswer, RoutingReport, SecondaryIndex, WriteReport

    __all__ += ["QueryAnswer", "RoutingReport", "SecondaryIndex", "WriteReport"]

# The module where users find them, for repr, help and pickles.
for _name in dir(_scbf):
    if isinstance(_class := getattr(_scbf, _name), type):
        _class.__module__ = "scbf"

__version__: str = _scbf.__version__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in ("QueryAnswer", "RoutingReport", "SecondaryIndex", "WriteReport"):
            raise AttributeError(f"scbf.{name}: this build has no secondary index, because RocksDB was not "
                                 "there when it was built")
        raise AttributeError(f"module 'scbf' has no attribute {name!r}")
