# SPDX-License-Identifier: Apache-2.0
"""out=: arrays of the caller that answers go into."""

from typing import Any

import numpy as np
import pytest
import scbf
from support import filled


def test_out() -> None:
    some = filled([1, 2])
    for out in (np.zeros(3, bool), np.zeros(3, np.uint8), bytearray(3), np.zeros(9, bool)[3:6]):
        assert some.contains([1, 9, 2], out=out) is out
        assert bytes(out) == b"\1\0\1"
        assert some.contains([1, 9, 2], out) is out  # by position
    counts = np.zeros(2, np.uint8)
    assert some.count([1, 9], out=counts) is counts and counts.tolist() == [1, 0]
    bits = np.full(2, 255, np.uint8)
    assert some.contains_bits([1] * 9, out=bits) is bits and bits.tolist() == [255, 1]
    keys = np.arange(4, dtype=np.uint8)
    assert some.contains(keys, out=keys).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("order", ["<u8", ">u8", "<i4"])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_out_in_the_memory_of_the_keys(order: str, place: int) -> None:
    keys = np.arange(200_000).astype(order)
    some = scbf.Filter(200_000, 0.001)
    some.insert(keys[::2])
    columns: list[Any] = [lambda own: own, lambda own: own[::-1]]
    if order != ">u8":  # Arrow has no such integers
        columns.append(pytest.importorskip("pyarrow").array)
    for column in columns:
        verdicts = np.zeros(keys.size, np.uint8)
        want = some.contains(column(keys)).copy()
        want_report = some.copy().remove(column(keys), verdicts)
        for threads in (1, 2):
            own = keys.copy()
            out = own.view(np.uint8)[place * keys.size : (place + 1) * keys.size]
            assert (some.contains(column(own), out, threads=threads) == want).all()
            own[:] = keys
            report = some.copy().remove(column(own), out, threads=threads)
            assert (out == verdicts).all() and repr(report) == repr(want_report)


@pytest.mark.parametrize(
    "out",
    [
        np.zeros(2, bool),
        np.zeros(4, bool),
        np.zeros(0, bool),
        np.zeros(3, np.int64),
        np.zeros(6, bool)[::2],
        bytes(3),
        [0, 0, 0],
        "abc",
        np.array(0),
        object(),
    ],
    ids=lambda out: f"{type(out).__name__} {getattr(out, 'shape', '')}",
)
def test_wrong_out(out: Any) -> None:
    some = filled([1, 2])
    with pytest.raises(scbf.InvalidArgument, match="out: "):
        some.contains([1, 2, 3], out=out)
    with pytest.raises(scbf.InvalidArgument, match="out: "):
        some.count([1, 2, 3], out=out)
    with pytest.raises(scbf.InvalidArgument, match="out: "):
        some.remove([1, 2, 3], out=out)
    assert some == filled([1, 2])
    with pytest.raises(scbf.InvalidArgument, match="out: has 2 items"):
        some.contains_bits([1, 2, 3], out=np.zeros(2, np.uint8))


def test_out_that_cannot_be_written() -> None:
    out = np.zeros(3, bool)
    out.flags.writeable = False
    with pytest.raises(scbf.InvalidArgument, match="out: must be a contiguous array of bool or uint8 that can be written"):
        filled([1]).contains([1, 2, 3], out=out)


def test_out_is_for_columns() -> None:
    some = filled([1])
    for call in (some.contains, some.count):
        with pytest.raises(scbf.InvalidArgument, match="out"):
            call(1, out=np.zeros(1, np.uint8))


@pytest.mark.parametrize("kind", ["S1", "V1", "i1"])
def test_out_of_another_type(kind: str) -> None:
    with pytest.raises(scbf.InvalidArgument, match="out"):
        filled([1]).contains([1, 2, 3], out=np.zeros(3, kind))
