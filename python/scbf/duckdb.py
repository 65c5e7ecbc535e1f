# SPDX-License-Identifier: Apache-2.0
"""Filters in DuckDB, as SQL functions.

    >>> import duckdb, scbf, scbf.duckdb
    >>> seen = scbf.Filter(capacity=1000, fpr=0.01)
    >>> _ = seen.insert(["apple", "banana"])
    >>> with duckdb.connect() as connection:
    ...     scbf.duckdb.register(connection, "seen", seen)
    ...     connection.execute("SELECT seen('apple'), seen('durian'), seen(NULL)").fetchall()
    [(True, False, None)]

DuckDB calls the function for at most 2,048 keys at a time, under Python's lock, and hands them over as Arrow
arrays; that costs more than asking the filter does. DuckDB's own join of two local tables is faster than the same
join behind such a function. The function pays off where the filter stands for rows that DuckDB does not have.
`docs/analytics.md` has the figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import duckdb  # noqa: F401 (only whether it is there)
    import pyarrow  # type: ignore[import-untyped]
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "scbf.duckdb needs DuckDB and pyarrow, by which DuckDB hands columns over: pip install duckdb pyarrow",
        name=error.name,
    ) from error

from scbf._asked import Asked, check_asked
from scbf.errors import InvalidKey

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["register"]


def register(connection: DuckDBPyConnection, name: str, filter: Asked, *, threads: int = 0) -> None:
    """Makes ``name(key)`` an SQL function: may the filter hold this key?

    It returns BOOLEAN: FALSE is certain, TRUE is wrong at the filter's rate, and NULL gives NULL. It takes columns
    of any of these types:

    * integers of up to 64 bits. Cast HUGEINT, the type of sums of integers, to BIGINT;
    * VARCHAR, ENUM and JSON, which are their text;
    * BLOB. BIT comes as the bytes that DuckDB has for it; cast it to VARCHAR;
    * UUID, as its text in lower case with hyphens. After ``SET arrow_lossless_conversion = true`` DuckDB sends UUID
      and BIT in forms that are refused: cast them to VARCHAR, which gives the same keys under both settings.

    All others are refused, such as BOOLEAN, DOUBLE, DECIMAL, DATE, TIMESTAMP, LIST and STRUCT.

    The filter is asked whenever a query runs, prepared ones included, so later changes of the filter show in later
    queries. (For this, DuckDB is told that the function has side effects. The price: in a WHERE clause, it reads the
    query's other columns even for rows that will not pass.) The connection keeps the filter until it
    is closed or ``connection.remove_function(name)`` is called. Call that only while no query uses the function:
    otherwise DuckDB crashes. Cursors of the connection see the function, too.

    Args:
        connection: what ``duckdb.connect()`` returns.
        name: the name of the new function.
        filter: a Filter, BloomFilter or Replica.
        threads: at most this many for each vector of keys; 0 leaves it to the filter.
    Raises:
        TypeError: if ``filter`` is something else.
        duckdb.Error: if ``name`` is taken by a Python function. When a query runs: for keys of other types,
            with the message of scbf.InvalidKey, and for a call with no key or several.
    """
    check_asked(filter)

    def contains(*columns: pyarrow.ChunkedArray) -> pyarrow.Array:
        if len(columns) != 1:
            raise TypeError(f"{name}() takes one key, not {len(columns)}")
        if pyarrow.types.is_struct(columns[0].type):  # which to Arrow is a table, too
            raise InvalidKey(f"{columns[0].type}: a STRUCT is no key; give one of its fields")
        return pyarrow.array(filter.contains(columns[0], threads=threads))

    # None for the parameters means any type. With types, the function would need casts, and a name for each type.
    # With side effects, or DuckDB would answer for constants once, when a query is prepared.
    connection.create_function(
        name, contains, None, "BOOLEAN", type="arrow", side_effects=True  # type: ignore[call-overload]
    )
