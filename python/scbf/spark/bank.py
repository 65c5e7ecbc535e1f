# SPDX-License-Identifier: Apache-2.0
"""Which groups of a data frame may hold a value: a filter for each group, asked together.

Spark brings the rows of a group together, and one task makes the group's filter. The filters go to the driver, which
keeps them in a Bank. A group is never divided: even the largest is the work of one task.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from scbf import Bank, BloomBank, BloomFilter, Filter, Growth, MemberLists
from scbf.errors import InvalidArgument
from scbf.spark import tree
from scbf.spark.arguments import check_seed, plan_for
from scbf.spark.build import COUNT_ERROR, DEFAULT_FPR, advice_for, check_rate, with_margin
from scbf.spark.errors import MissingPartial
from scbf.spark.keys import all_keys, column, is_binary_string
from scbf.spark.messages import Inbox, chunks_of, offsets_of
from scbf.spark.sessions import rows_by_partition
from scbf.spark.tree import Shape
from scbf.typing import Layout


class GroupBank:
    """Filters of groups of rows. Made by scbf.spark.bank().

    Attributes:
        groups: the groups; member i of the bank belongs to ``groups[i]``. One group may be None.
        bank: the filters, or their bits.
        type: the type of the column that the groups came from; None where it is not known, as for a loaded bank.
    """

    __slots__ = ("groups", "bank", "type")

    def __init__(self, groups: list[Any], bank: Bank | BloomBank, type: T.DataType | None = None) -> None:
        self.groups = groups
        self.bank = bank
        self.type = type

    def find(self, values: Any) -> list[Any] | list[list[Any]]:
        """Which groups may hold each value? For a column of values, a list of lists; for one value, a list.

        Every group that holds the value is among them; any other group appears at the filters' rate.
        """
        found = self.bank.find(values)
        if isinstance(found, MemberLists):
            return [[self.groups[member] for member in members] for members in found]
        return [self.groups[member] for member in found]

    def filter(self, group: Any) -> Filter | BloomFilter:
        """A copy of the filter of a group, or of its bits. Raises KeyError if there is no such group."""
        if group not in self.groups:
            raise KeyError(group)
        copy = self.bank.copy_member(self.groups.index(group))
        if is_labelled(self.bank) and copy.metadata == _label_of(group):
            copy.metadata = ""
        return copy

    def bits(self) -> GroupBank:
        """The same groups with only the bits of their filters, which give the same answers."""
        if not isinstance(self.bank, Bank):
            return self
        return GroupBank(list(self.groups), BloomBank.of(self.bank), self.type)

    @staticmethod
    def of(bank: Bank | BloomBank) -> GroupBank:
        """The groups that labelled() has noted in a bank.

        Raises:
            InvalidArgument: unless each member has a group of its own, and no member was removed.
        """
        if not is_labelled(bank):
            raise InvalidArgument("the bank's metadata name no groups: it was not saved by scbf.spark.save()")
        groups = [_group_of(bank.member_metadata(member)) for member in bank.members]
        if bank.members != list(range(len(groups))):
            raise InvalidArgument(f"the bank has {len(groups)} members, but numbers up to {bank.members[-1]}: some were "
                                  "removed")
        if len(set(map(_label_of, groups))) != len(groups):
            raise InvalidArgument("two members of the bank have the same group")
        return GroupBank(groups, bank)

    def labelled(self) -> Bank | BloomBank:
        """The bank, with each member's group noted in the member's metadata; the notes stay there.

        With these notes the bank can be saved. of() reads them, and so can other languages: the group 7 is noted as
        ``{"group": 7, "type": "int"}``.

        Raises:
            InvalidArgument: if the bank has other members or metadata by now, a group is longer than 1 MiB, or two
                groups are equal. Then nothing is noted.
        """
        self._check_members()
        if self.bank.metadata not in ("", _LABELLED):
            raise InvalidArgument(f"the bank has metadata, {self.bank.metadata[:100]!r}: must be empty")
        labels = [_label_of(group) for group in self.groups]
        if len(set(labels)) != len(labels):
            raise InvalidArgument("two members of the bank have the same group")
        for member, label in enumerate(labels):
            if self.bank.member_metadata(member) not in ("", label):
                raise InvalidArgument(f"member {member} of the bank has metadata, "
                                      f"{self.bank.member_metadata(member)[:100]!r}: must be empty")
            if len(label) > _MOST_METADATA:
                raise InvalidArgument(f"the group of member {member} takes {len(label)} bytes: must be at most "
                                      f"{_MOST_METADATA}")
        for member, label in enumerate(labels):
            self.bank.set_member_metadata(member, label)
        self.bank.metadata = _LABELLED
        return self.bank

    def column(self) -> pa.Array:
        """The groups as a column, in member order; of the type of the column that they came from, if that is known.

        Raises:
            InvalidArgument: if the bank has other members by now, or the groups are not of one type.
        """
        self._check_members()
        kinds = {_kind_of(group) for group in self.groups if group is not None}
        if len(kinds) > 1:
            raise InvalidArgument(f"groups of the types {', '.join(sorted(kinds))}: must be of one")
        if self.type is not None:
            arrow = to_arrow_type(self.type)
        else:
            arrow = _ARROW[next(iter(kinds), "string")]
        try:
            return pa.array(self.groups, arrow)
        except (pa.ArrowException, OverflowError) as error:
            raise InvalidArgument(f"groups: {error}") from None

    def _check_members(self) -> None:
        if self.bank.members != list(range(len(self.groups))):
            raise InvalidArgument(f"the bank has the members {self.bank.members}: its {len(self.groups)} groups are "
                                  f"members 0 to {len(self.groups) - 1}")

    def __len__(self) -> int:
        return len(self.groups)

    def __repr__(self) -> str:
        return f"<scbf.spark.GroupBank: {len(self)} groups, {self.bank.nbytes} bytes>"


_LABELLED = '{"scbf.spark": "groups"}'
_MOST_METADATA = 1 << 20
# How groups of each type are noted, and read; bool before int, of which it is a subclass.
_NOTED: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "null": (type(None), lambda group: group, lambda noted: noted),
    "boolean": (bool, bool, bool),
    "int": (int, int, int),
    "string": (str, str, str),
    "binary": (bytes, lambda group: base64.b64encode(group).decode(), base64.b64decode),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
}


def is_labelled(bank: Bank | BloomBank) -> bool:
    """Are its groups noted in its members' metadata?"""
    return bank.metadata == _LABELLED


# The type of a column of such groups where nothing else is known; for decimals, whatever holds them all.
_ARROW: dict[str, pa.DataType | None] = {
    "boolean": pa.bool_(), "int": pa.int64(), "string": pa.string(), "binary": pa.binary(), "decimal": None,
    "date": pa.date32(),
}


def _kind_of(group: Any) -> str:
    for name, (type_, _, _) in _NOTED.items():
        if isinstance(group, type_):
            return name
    raise InvalidArgument(f"group {group!r}: groups of type {type(group).__name__} cannot be saved, nor asked by Spark")


def _label_of(group: Any) -> str:
    kind = _kind_of(group)
    return json.dumps({"group": _NOTED[kind][1](group), "type": kind})


def _group_of(label: str) -> Any:
    """The group of a label. Raises InvalidArgument unless the label is one that _label_of() makes."""
    try:
        noted = json.loads(label)
        group = _NOTED[noted["type"]][2](noted["group"])
        if _label_of(group) == label:
            return group
    except (ValueError, KeyError, TypeError, ArithmeticError, AttributeError, RecursionError, InvalidArgument):
        pass
    raise InvalidArgument(f"metadata {label[:100]!r} of a member: name no group") from None


def bank(df: DataFrame, value: str | Column, group: str | Column, *, capacity: int | float | None = None,
         fpr: float = DEFAULT_FPR, layout: Layout | None = None, seed: int = 0) -> GroupBank:
    """A filter for each group. Every member is, byte for byte, the filter of its group's values.

    Args:
        df: any frame.
        value: a column of integers, strings or binary, named as in build().
        group: a column of few distinct values: integers, decimals, strings, binary, booleans or dates. Null is a
            group.
        capacity: distinct values of the largest group. None counts them first, by group, and adds 3 %.
        fpr, layout, seed: of all members, as in build().
    Raises:
        InvalidKey: for values that cannot be keys.
        InvalidArgument: for groups of another type, a shape out of range, or a streaming frame.
        UndersizedPlan, UndersizedPlanWarning: as build(), for the worst group.
        MissingPartial: if the filter of a group did not arrive.
    Cost: one shuffle of both columns, with a sort. A task holds one filter, and half as much to
        partition its keys in. The driver holds the bank: at least 1.25 times the bytes of a filter for each group.
    """
    seed = check_seed(seed)
    planned = plan_for(capacity, fpr, layout)  # refuses what is out of range before anything is counted
    capacity = None if capacity is None else planned.capacity
    all_keys(df, value)
    rows = df.select(column("group", group).alias("group"), column("value", value).alias("key"))
    group_type = rows.schema["group"].dataType
    if not isinstance(group_type, _GROUPS) or not is_binary_string(group_type):
        raise InvalidArgument(f"groups of type {group_type.simpleString()}: only integers, decimals, strings of bytes, "
                              "binary, booleans and dates: cast it to string")
    counted = capacity is None
    if capacity is None:
        counts = rows.groupBy("group").agg(F.approx_count_distinct("key", COUNT_ERROR).alias("n"))
        largest = counts.agg(F.max("n")).first()
        capacity = with_margin(0 if largest is None or largest[0] is None else largest[0])
    shape = tree.shape_for(df.sparkSession, Filter, plan_for(capacity, fpr, layout).geometry, seed)
    made = _collected(rows, shape, capacity, fpr, advice_for(counted))
    made.type = group_type
    return made


# Bytes of filters that the driver collects before it adds them in one call. A larger filter is added at once.
_WAITING_BYTES = 64 << 20

# Not timestamps: in the hour that repeats when clocks are set back, two of them are equal in Python.
_GROUPS = (T.IntegralType, T.DecimalType, T.StringType, T.BinaryType, T.BooleanType, T.DateType)


def _collected(rows: DataFrame, shape: Shape, capacity: int, fpr: float, advice: str) -> GroupBank:
    """Makes the filters on the executors, and adds each to the bank as it arrives."""
    members, made = _members(rows, shape)
    bank = Bank(growth=Growth.one(shape.geometry), seed=shape.seed)
    bank._plan_for(capacity, fpr)  # type: ignore[attr-defined]  # not in the stub
    groups: list[Any] = []
    worst: tuple[float, float, Any] = (0.0, 0.0, None)
    inbox = Inbox()
    waiting: list[Filter] = []  # to be added together: each call goes over all rows of bits
    for row in rows_by_partition(members):
        group = bytes(row.group) if isinstance(row.group, bytearray) else row.group
        message = inbox.add(group, row.offset, row.total, row.data)
        if message is None:
            continue
        waiting.append(cast(Filter, shape.read(message)))
        if len(waiting) * shape.geometry.nbytes >= _WAITING_BYTES:
            bank.add_members(waiting)
            waiting.clear()
        groups.append(group)
        worst = max(worst, (row.estimated_fpr, row.estimated_keys, group), key=lambda each: each[:2])
    bank.add_members(waiting)
    inbox.check_empty()
    _check_complete(groups, made.get)
    check_rate(worst[1], worst[0], capacity, fpr, None, advice, f"the filter of group {worst[2]!r}")
    return GroupBank(groups, bank)


def _members(rows: DataFrame, shape: Shape) -> tuple[DataFrame, Observation]:
    """A message for each group, and an observation of the groups that have one."""
    group = rows.schema["group"]
    # The type of binary columns is checked here, unlike in mapInArrow().
    large = rows.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true"
    binary = pa.large_binary() if large else pa.binary()
    schema = T.StructType([group, *(T.StructField(name, type_) for name, type_ in (
        ("estimated_keys", T.DoubleType()), ("estimated_fpr", T.DoubleType()), ("offset", T.LongType()),
        ("total", T.LongType()), ("data", T.BinaryType())))])

    def of_group(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filter = shape.new()
        with filter.bulk(threads=1) as bulk:
            for batch in batches:
                bulk.insert(batch.column("key"))
        figures = filter.statistics()
        message = filter.to_bytes(compress=True)
        for offset, data in chunks_of((message,), shape.chunk_bytes):
            n = len(data)
            yield pa.record_batch({
                "group": pa.repeat(key[0], n), "estimated_keys": pa.repeat(figures.estimated_keys, n),
                "estimated_fpr": pa.repeat(figures.estimated_fpr, n),
                "offset": offsets_of(offset, data), "total": pa.repeat(len(message), n), "data": data.cast(binary)})

    made = Observation()
    members = rows.groupBy("group").applyInArrow(of_group, schema)
    # A set: a group that is made twice, because an executor was lost, may be observed twice. Nulls are not in it.
    members = members.observe(made, F.collect_set("group").alias("groups"), F.max(F.isnull("group")).alias("null"))
    # Many tasks make the filters at once; only then does the driver fetch them, from one task after another.
    return members.repartition("group"), made


def _check_complete(groups: list[Any], made: dict[str, Any]) -> None:
    expected = {bytes(group) if isinstance(group, bytearray) else group for group in made["groups"] or []}
    if made["null"]:
        expected.add(None)
    arrived = set(groups)
    if expected != arrived or len(groups) != len(arrived):
        missing = sorted(map(repr, expected - arrived))[:10]
        raise MissingPartial(f"of {len(expected)} groups, the filters of {len(arrived)} arrived, {len(groups)} in all"
                             f"{'; missing are ' + ', '.join(missing) if missing else ''}; there is no result")
