# SPDX-License-Identifier: Apache-2.0
"""The answers of a bank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import overload

import numpy


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


class MemberLists:
    """For each of n keys, the members that may hold it, in ascending order.

    ``lists[i]`` is an array of uint32, a view of ``members``. As a column of Arrow, without a copy:

    >>> import pyarrow as pa, scbf
    >>> bank = scbf.Bank(capacity=1000, fpr=0.001)
    >>> _ = bank.insert(bank.add_member(), ["apple", "plum"])
    >>> _ = bank.insert(bank.add_member(), ["plum"])
    >>> found = bank.find(["plum", "apple", "stone"])
    >>> pa.LargeListArray.from_arrays(found.offsets, found.members).to_pylist()
    [[0, 1], [0], []]

    Attributes:
        offsets: n + 1 int64; the list of key i begins at ``offsets[i]``.
        members: uint32, all lists one after another.
    """

    __slots__ = ("offsets", "members")

    def __init__(self, offsets: numpy.ndarray, members: numpy.ndarray) -> None:
        self.offsets = offsets
        self.members = members

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, i: int) -> numpy.ndarray: ...
    @overload
    def __getitem__(self, i: slice) -> list[numpy.ndarray]: ...
    def __getitem__(self, i: int | slice) -> numpy.ndarray | list[numpy.ndarray]:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(f"key {i}: there are {len(self)}")
        i %= len(self)
        return self.members[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[numpy.ndarray]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<scbf.MemberLists: {_counted(len(self), 'key')}, {_counted(len(self.members), 'member')} in all>"
