# SPDX-License-Identifier: Apache-2.0
"""Types of keys and of options, for annotations. The package's documentation says what is in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol, TypeAlias

import numpy


class ArrowArray(Protocol):
    """Has an Arrow array: of pyarrow, nanoarrow, …"""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """Has Arrow arrays, one after another: of pyarrow, Polars, DuckDB, pandas, …"""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Array(Protocol):
    """Has a NumPy array: of pandas, …"""

    def __array__(self) -> numpy.ndarray[Any, Any]: ...


#: One key.
Key: TypeAlias = int | str | bytes | numpy.integer[Any]
#: A column of keys.
KeyColumn: TypeAlias = (
    numpy.ndarray[Any, Any] | ArrowArray | ArrowStream | Array | memoryview | Iterable[Key | None]
)
#: What batch calls take.
Keys: TypeAlias = Key | KeyColumn
#: How the counters of a filter lie.
Layout: TypeAlias = Literal["split_block", "split", "ranked"]
