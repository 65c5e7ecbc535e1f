# SPDX-License-Identifier: Apache-2.0
"""Asking a filter or a bank on the executors: as a column, and as the runtime filter of a semi-join.

Only what readers need travels, bits instead of counters, as a file: once to each executor, by Spark's own
distribution of files. Every Python worker there maps it, so the executor's workers share one copy in memory.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from scbf import Bank, BloomBank, BloomFilter, Filter
from scbf.errors import InvalidArgument
from scbf.spark.arguments import check_filter
from scbf.spark.bank import GroupBank
from scbf.spark.build import Report, build
from scbf.spark.keys import check_frame, column, is_binary_string, key_frame, kind_of
from scbf.spark.sessions import is_connect, session


@dataclass(frozen=True)
class SharedFilter:
    """A filter that the executors of a session can ask; made by share().

    Attributes:
        name: of its file.
        nbytes: of its file, which each executor fetches once.
        session: id of the application, or of the Spark Connect session, whose executors have the file.
    """

    name: str
    nbytes: int
    session: str

    def contains(self, key: str | Column) -> Column:
        """Like scbf.spark.contains(), but checks neither the key's type nor the session."""
        return _asks(self.name)(column("key", key))


@dataclass(frozen=True)
class SharedBank:
    """A bank that the executors of a session can ask; made by share().

    Attributes:
        name: of its file.
        nbytes: of its files, which each executor fetches once.
        groups: name of the file of its groups; None if answers are numbers of members.
        element: the type of an answer's elements.
        session: as SharedFilter's.
    """

    name: str
    nbytes: int
    groups: str | None
    element: T.DataType
    session: str

    def find(self, value: str | Column) -> Column:
        """Like scbf.spark.find(), but checks neither the value's type nor the session."""
        return _finds(self)(column("value", value))


@overload
def share(filter: Filter | BloomFilter, *, spark: SparkSession | None = None) -> SharedFilter: ...
@overload
def share(filter: Bank | BloomBank | GroupBank, *, spark: SparkSession | None = None) -> SharedBank: ...
def share(filter: Filter | BloomFilter | Bank | BloomBank | GroupBank, *,
          spark: SparkSession | None = None) -> SharedFilter | SharedBank:
    """Gives the bits of a filter or of a bank to the executors of a session.

    Each executor fetches them with its next task, even one that does not ask. What they get is the filter as it is
    now: later insertions and removals are not seen. Equal bits are shared only once. Executors keep their copy until
    the session stops, because Spark takes no file back; the driver keeps its own until the process ends.

    Args:
        filter: counters, whose bits are taken, or bits; or a bank of either.
        spark: by default the active session, or the default one.
    Cost: the bits once on the driver's disk, twice with Spark Classic, and once on each executor's; the driver
        sends them to each executor.
    """
    check_filter(filter, (Filter, BloomFilter, Bank, BloomBank, GroupBank), "a Filter, a BloomFilter or a bank")
    spark = session(spark)
    if isinstance(filter, Filter | BloomFilter):
        bits = BloomFilter.of(filter) if isinstance(filter, Filter) else filter
        return SharedFilter(*_give(bits.save, spark), _session_key(spark))
    bank = filter.bank if isinstance(filter, GroupBank) else filter
    groups = filter.column() if isinstance(filter, GroupBank) else None
    name, nbytes = _give((BloomBank.of(bank) if isinstance(bank, Bank) else bank).save, spark)
    if groups is None:
        return SharedBank(name, nbytes, None, T.IntegerType(), _session_key(spark))
    names, names_bytes = _give(functools.partial(_save_column, groups), spark)
    return SharedBank(name, nbytes + names_bytes, names, from_arrow_type(groups.type), _session_key(spark))


def contains(df: DataFrame, key: str | Column, filter: Filter | BloomFilter | SharedFilter) -> Column:
    """Which rows' keys may be in a filter? A column of booleans, for select(), filter() and withColumn().

    False is certain; True is wrong at the filter's rate. For a null key it is False, so ``~contains(…)`` keeps rows
    without a key, as an anti-join does.

    The column asks the filter as it is during this call: later insertions and removals are not seen.

    Args:
        df: the frame that the column is for; it may be a streaming one.
        key: a column of integers, strings or binary, named as in build(), or an expression. It should have the kind of
            value that the filter was built of: "7" is not 7.
        filter: a Filter, a BloomFilter, or what share() made of one.
    Raises:
        InvalidKey: for a column that cannot be keys.
        InvalidArgument: if ``filter`` is none of these, or was shared with another session.
        KeyKindWarning: a warning if the filter is known to hold only numbers and the column is text, or the other way
            round; not for what share() made.
    Cost: the key column goes to a Python worker and a bit for each row comes back; the other columns wait in the
        JVM. Only the file of share() crosses the network.
    """
    if not isinstance(filter, SharedFilter):
        check_filter(filter, expected="a Filter, a BloomFilter, or what share() returned")
    keys = key_frame(df, key)
    if isinstance(filter, SharedFilter):
        _check_session("filter", filter, df)
        return filter.contains(key)
    kind = kind_of(keys.schema.fields[0].dataType)
    if kind is not None:
        filter._asked_for(kind, 2)  # type: ignore[union-attr]  # not in the stub
    return share(filter, spark=df.sparkSession).contains(key)


def find(df: DataFrame, value: str | Column, bank: Bank | BloomBank | GroupBank | SharedBank) -> Column:
    """Which members of a bank may hold each row's value? A column of arrays, for select() and withColumn().

    For what bank() made, the arrays have the groups, of the type of the column that they came from; where that is not
    known, as for a loaded bank, integers are bigint. For any other bank they have the numbers of the members,
    ascending. Every group that holds the value is among them; any other appears at the filters' rate. The array for a
    null value is empty.

    The column asks the bank as it is during this call, like contains().

    Args:
        df: the frame that the column is for; it may be a streaming one.
        value: a column of integers, strings or binary, or an expression, as in contains().
        bank: a GroupBank, a Bank, a BloomBank, or what share() made of one.
    Raises:
        InvalidKey: for a column that cannot be keys.
        InvalidArgument: if ``bank`` is none of these, or was shared with another session, and as GroupBank.column().
    Cost: the value column goes to a Python worker and the arrays come back: at most 2**31 - 1 members for the rows of
        one batch (``spark.sql.execution.arrow.maxRecordsPerBatch``). Only the files of share() cross the network.
    """
    if not isinstance(bank, Bank | BloomBank | GroupBank | SharedBank):
        raise InvalidArgument(f"bank of type {type(bank).__name__}: must be a GroupBank, a Bank, a BloomBank, or what "
                              "share() made of one")
    key_frame(df, value)
    if isinstance(bank, SharedBank):
        _check_session("bank", bank, df)
        return bank.find(value)
    return share(bank, spark=df.sparkSession).find(value)


def _check_session(what: str, shared: SharedFilter | SharedBank, df: DataFrame) -> None:
    """Raises InvalidArgument unless the executors of the frame's session have the file."""
    if shared.session != _session_key(df.sparkSession):
        raise InvalidArgument(f"the {what} was shared with another session, or with one that was stopped: share it "
                              f"again, by share({what}, spark=df.sparkSession)")


def semi_join(big: DataFrame, small: DataFrame, on: str | Sequence[str], *, fpr: float = 0.01,
              capacity: int | None = None, report: Report | None = None) -> DataFrame:
    """The rows of ``big`` that have a partner in ``small``: exactly those of ``big.join(small, on, "left_semi")``.

    A filter of the keys of ``small`` drops most of the other rows where they are read, before they are shuffled.
    Of those rows it lets ``fpr`` through; the join drops them. Worth it where most rows have no partner and ``small``
    is too large for a broadcast join, which Spark chooses by itself below 10 MB.

    Args:
        big, small: any frames.
        on: the name of a column of both, or several, as in ``DataFrame.join``: "a.b" is a column of that name.
        fpr: false-positive rate of the filter.
        capacity: distinct keys of ``small``; None counts first.
        report: as in build().
    Raises:
        InvalidArgument: if the types of a column differ so that the join would convert them, or if they are
            floating-point, where equal numbers may have different bits.
        UndersizedPlan: if ``small`` has many more keys than ``capacity``.
    Cost: ``small`` is computed once to count (without ``capacity``), once for the filter and once for the join:
        cache it if that is expensive. The first two jobs run during this call; the join runs with the result.
    """
    check_frame(big)
    check_frame(small)
    names = [on] if isinstance(on, str) else list(on) if isinstance(on, Sequence) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"on {on!r}: must be the name of a column, or a list of one or more names")
    columns = [F.col(_quoted(name)) for name in names]
    fields = list(zip(big.select(*columns).schema, small.select(*columns).schema, strict=True))
    for name, (left, right) in zip(names, fields, strict=True):
        _check_joinable(name, left.dataType, right.dataType)
    key = _join_key(columns, fields)
    filter = build(small, key, capacity=capacity, fpr=fpr, bits=True, report=report)
    return big.filter(contains(big, key, filter)).join(small.select(*columns), on=names, how="left_semi")


def _quoted(name: str) -> str:
    """For F.col(), which takes a dot as the way to a field, and backticks as quotes."""
    return "`" + name.replace("`", "``") + "`"


def _check_joinable(name: str, left: T.DataType, right: T.DataType) -> None:
    """Raises InvalidArgument unless keys that are equal in the join have equal bytes."""
    both = (left, right)
    shown = f"on {name}: types {left.simpleString()} and {right.simpleString()}"
    if any(isinstance(t, (T.FloatType, T.DoubleType)) for t in both):
        raise InvalidArgument(f"{shown}: equal floating-point numbers may have different bits (0.0 and -0.0): join on "
                              "integers, or without a filter")
    if not all(isinstance(t, _JOINED) and is_binary_string(t) for t in both):
        raise InvalidArgument(f"{shown}: only integers, strings of bytes, binary, booleans, decimals, dates and "
                              "timestamps: use DataFrame.join")
    if left != right and not all(isinstance(t, T.IntegralType) for t in both):
        raise InvalidArgument(f"{shown}: the join would convert one of them: cast it to the type of the other first")


_JOINED = (T.IntegralType, T.StringType, T.BinaryType, T.BooleanType, T.DecimalType, T.DateType, T.TimestampType,
           T.TimestampNTZType)


def _join_key(columns: list[Column], fields: list[tuple[T.StructField, T.StructField]]) -> Column:
    """One column that is equal where the join takes all columns for equal: the only one, or a 64-bit hash of them."""
    comparable = [_comparable(column, left, right) for column, (left, right) in zip(columns, fields, strict=True)]
    if len(columns) == 1 and isinstance(fields[0][0].dataType, (T.IntegralType, T.StringType, T.BinaryType)):
        return comparable[0]
    return F.xxhash64(*comparable)


def _comparable(column: Column, left: T.StructField, right: T.StructField) -> Column:
    """The column, such that values that are equal in the join have equal bytes."""
    if isinstance(left.dataType, T.IntegralType):
        return column.cast("bigint")
    if _is_char(left) or _is_char(right):
        return F.rtrim(column)  # the join pads the shorter of two char columns with spaces
    return column


def _is_char(field: T.StructField) -> bool:
    """Is it a column of type char(n)? To data frames it is a string; the type of the table is in the metadata."""
    return str((field.metadata or {}).get("__CHAR_VARCHAR_TYPE_STRING", "")).startswith("char(")


# ---- on the executors ----------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _mapped(path: str) -> BloomFilter:
    """The filter of a file, mapped once per Python worker."""
    return BloomFilter.map(path)


def _asks(name: str) -> Callable[[Column], Column]:
    """A function of a column that asks the file of this name."""

    def maybe_contains(keys: pa.Array) -> pa.Array:
        answers = _mapped(SparkFiles.get(name)).contains_bits(keys, threads=1)
        return pa.Array.from_buffers(pa.bool_(), len(keys), [None, pa.py_buffer(answers)])

    # The type hints of maybe_contains() say what kind of function it is.
    asks: Callable[[Column], Column] = arrow_udf(maybe_contains, T.BooleanType())  # type: ignore[call-overload]
    return asks


@functools.lru_cache(maxsize=64)
def _mapped_bank(path: str) -> BloomBank:
    """The bank of a file, mapped once per Python worker."""
    return BloomBank.map(path)


@functools.lru_cache(maxsize=64)
def _column_of(path: str) -> pa.Array:
    """What _save_column() saved."""
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all().column(0).combine_chunks()


def _finds(shared: SharedBank) -> Callable[[Column], Column]:
    """A function of a column that asks the files of a bank."""
    name, groups = shared.name, shared.groups

    def find_members(values: pa.Array) -> pa.Array:
        found = _mapped_bank(SparkFiles.get(name)).find(values, threads=1)
        members = pa.array(found.members)
        if groups is None:
            answers = members.cast(pa.int32())
        else:
            answers = _column_of(SparkFiles.get(groups)).take(members)
        return pa.ListArray.from_arrays(pa.array(found.offsets).cast(pa.int32()), answers)

    finds: Callable[[Column], Column] = arrow_udf(  # type: ignore[call-overload]
        find_members, T.ArrayType(shared.element))
    return finds


# ---- on the driver -------------------------------------------------------------------------------

# Names of files, by session.
_shared: set[tuple[str, str]] = set()


def _save_column(column: pa.Array, path: Path) -> None:
    table = pa.table({"group": column})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _give(save: Callable[[Path], None], spark: SparkSession) -> tuple[str, int]:
    """Saves a file that is named after its bytes, and gives it to the executors. Its name and length."""
    unnamed = _folder() / uuid.uuid4().hex
    save(unnamed)
    with open(unnamed, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    path = unnamed.with_name(f"scbf-{digest[:32]}.scbf")
    nbytes = unnamed.stat().st_size
    unnamed.replace(path)
    if (_session_key(spark), path.name) not in _shared:
        if is_connect(spark):
            spark.addArtifacts(str(path), file=True)
        else:
            spark.sparkContext.addFile(str(path))
        _shared.add((_session_key(spark), path.name))
    return path.name, nbytes


@functools.cache
def _folder() -> Path:
    """Where shared files lie, as long as this process lives: executors may fetch them at any time."""
    folder = tempfile.mkdtemp(prefix="scbf-shared-")
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # and no fork of it
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)


def _session_key(spark: SparkSession) -> str:
    """What shared files belong to: an application, or a session of Spark Connect."""
    return str(getattr(spark, "session_id")) if is_connect(spark) else str(spark.sparkContext.applicationId)
