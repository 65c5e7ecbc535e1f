# SPDX-License-Identifier: Apache-2.0
"""Types of keys and of options, for annotations. The package's documentation says what each includes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol, TypeAlias, Union

import numpy

from scbf._scbf import Hashes


class ArrowArray(Protocol):
    """Offers an Arrow array, as objects of pyarrow, nanoarrow, … do."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """Offers Arrow arrays one after another, as objects of pyarrow, Polars, DuckDB, pandas, … do."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Array(Protocol):
    """Offers a NumPy array, as objects of pandas, … do."""

    def __array__(self) -> numpy.ndarray[Any, Any]: ...


#: One key.
Key: TypeAlias = int | str | bytes | numpy.integer[Any]
#: A column of keys.
KeyColumn: TypeAlias = Union[
    numpy.ndarray[Any, Any], ArrowArray, ArrowStream, Array, memoryview, Iterable[Key | None], Hashes
]
#: What batch calls take.
Keys: TypeAlias = Key | KeyColumn
#: How the counters of a filter are laid out.
Layout: TypeAlias = Literal["split_block", "split", "ranked"]
