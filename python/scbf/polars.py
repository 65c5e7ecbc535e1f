# SPDX-License-Identifier: Apache-2.0
"""Filters in Polars: ``pl.col("k").scbf.contains(filter)``, registered when this module is imported.

    >>> import polars as pl, scbf, scbf.polars
    >>> seen = scbf.Filter(capacity=1000, fpr=0.01)
    >>> _ = seen.insert(["apple", "banana"])
    >>> frame = pl.DataFrame({"fruit": ["apple", None, "durian"]})
    >>> frame.filter(pl.col("fruit").scbf.contains(seen))["fruit"].to_list()
    ['apple']
    >>> frame["fruit"].scbf.contains(seen).to_list()
    [True, None, False]

The expression works wherever Polars computes expressions: eager, lazy and streaming, in ``filter``,
``with_columns``, ``group_by`` and ``over``. It is elementwise, so Polars moves it down into the scan of a
Parquet file, and the other columns are decoded only for rows that pass.

**Nulls.** A null key gives null, as with Polars' own ``is_in``; ``filter`` drops the row, even with ``~`` in
front. ``.fill_null(False)`` gives what ``Filter.contains()`` says of null keys.

**Keys** are those of the package: integers of up to 64 bits, String, Binary, Categorical and Enum. Others, such
as Float64, Date or Struct, raise :class:`scbf.InvalidKey` when the query runs.

The filter is asked when the query runs, not when the expression is made, so changes in between count. A
lazy frame that is serialised (Polars needs cloudpickle for that) carries a copy of the filter; not of a Replica,
which cannot be pickled: give its ``snapshot()``.
"""

from __future__ import annotations

from functools import partial

try:
    import polars
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("scbf.polars needs Polars: pip install polars", name="polars") from error

from scbf._asked import Asked, check_asked
from scbf.errors import InvalidKey

__all__ = ["ScbfExpr", "ScbfSeries", "contains"]


def _contains(keys: polars.Series, filter: Asked, threads: int) -> polars.Series:
    """The filter's answers, null for null keys. Uses Series' own methods only where it must: if the engine is busy,
    most of them take milliseconds."""
    if isinstance(keys.dtype, polars.Struct):  # which to Arrow is a table, too
        raise InvalidKey(f"{keys.dtype}: a Struct is no key; give one of its fields, as by struct.field()")
    answers = polars.Series(keys.name, filter.contains(keys, threads=threads))
    return answers.set(keys.is_null(), None) if keys.null_count() > 0 else answers


@polars.api.register_expr_namespace("scbf")
class ScbfExpr:
    """The namespace ``scbf`` of a Polars expression."""

    def __init__(self, keys: polars.Expr) -> None:
        self._keys = keys

    def contains(self, filter: Asked, *, threads: int = 0) -> polars.Expr:
        """Which keys may be in the filter? False is certain; True is wrong at the filter's rate.

        Args:
            filter: a Filter, BloomFilter or Replica.
            threads: at most this many for each batch of keys; 0 for all of the machine.
        Returns:
            a Boolean expression, as long as the keys; null where the key is null.
        Raises:
            TypeError: if ``filter`` is something else.
            InvalidKey: when the query runs, for columns that cannot be keys.
        """
        check_asked(filter)
        # One expression, which computes the keys once: they may be random, or expensive.
        return self._keys.map_batches(
            partial(_contains, filter=filter, threads=threads), return_dtype=polars.Boolean, is_elementwise=True
        )


def contains(keys: polars.Expr, filter: Asked, *, threads: int = 0) -> polars.Expr:
    """The same as ``keys.scbf.contains(filter)``, which type checkers do not know.

    >>> import polars as pl, scbf, scbf.polars
    >>> seen = scbf.Filter(capacity=1000, fpr=0.01)
    >>> _ = seen.insert(["apple"])
    >>> pl.DataFrame({"fruit": ["apple", "durian"]}).filter(scbf.polars.contains(pl.col("fruit"), seen)).height
    1

    Raises TypeError if ``keys`` is no expression.
    """
    if not isinstance(keys, polars.Expr):
        raise TypeError(f"contains() asks for an expression, not {type(keys).__name__}: give pl.col('key'); a Series has "
                        ".scbf.contains(filter)")
    return ScbfExpr(keys).contains(filter, threads=threads)


@polars.api.register_series_namespace("scbf")
class ScbfSeries:
    """The namespace ``scbf`` of a Polars Series."""

    def __init__(self, keys: polars.Series) -> None:
        self._keys = keys

    def contains(self, filter: Asked, *, threads: int = 0) -> polars.Series:
        """Like :meth:`ScbfExpr.contains`, but computed at once: a Boolean Series with the name of the keys."""
        check_asked(filter)
        return _contains(self._keys, filter, threads)
