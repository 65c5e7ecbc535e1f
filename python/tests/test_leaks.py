# SPDX-License-Identifier: Apache-2.0
"""Nothing is kept: memory stays bounded, and arguments have as many references as before."""

import array
import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scbf
from support import GEOMETRY, filled

MANY = 10_000
SMALL = scbf.Geometry.split_block(groups=1, blocks_per_group=16)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def grows_by(call: Callable[[], object], times: int) -> int:
    """How much memory so many calls keep, once as many have warmed up."""
    for _ in range(times // 4):
        call()
    before = resident_bytes()
    for _ in range(times):
        call()
    return resident_bytes() - before


#: What a leak of one small object in each of MANY calls would exceed.
MOST = 1_000_000

some = scbf.Filter(geometry=SMALL)
bits = scbf.BloomFilter(geometry=SMALL)
bank = scbf.Bank(geometry=SMALL)
bank.add_member()
whole = scbf.BloomFilter.of(some).advance(some)
replica = scbf.Replica(whole)
numbers = np.arange(20)
texts = [f"key {i}" for i in range(20)]
message = some.to_bytes()


class Bang(Exception):
    pass


def bang(*_arguments: object) -> Any:
    raise Bang


def generator(last: object = 3) -> Iterator[Any]:
    yield from (1, 2)
    if last is Bang:
        raise Bang
    yield last


def raises(kind: Any, call: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        try:
            call()
        except kind:
            return
        raise AssertionError("not raised")

    return run


CALLS: dict[str, Callable[[], object]] = {
    "filters": lambda: scbf.Filter(geometry=SMALL),
    "filters of bits": lambda: scbf.BloomFilter(geometry=SMALL),
    "banks": lambda: scbf.Bank(geometry=SMALL).add_member(),
    "banks of bits": lambda: (scbf.BloomBank(geometry=SMALL).add_member(bits), scbf.BloomBank.of(bank).find(numbers)),
    "replicas": lambda: scbf.Replica(whole).snapshot(),
    "deltas": lambda: scbf.Delta.from_bytes(whole.to_bytes()),
    "copies": lambda: (some.copy(), some | some, bits & bits, scbf.BloomFilter.of(some)),
    "messages": lambda: scbf.Filter.from_bytes(some.to_bytes()),
    "packed messages": lambda: scbf.Filter.from_bytes(some.to_bytes(compress=True)),
    "no messages": raises(scbf.CorruptFile, lambda: scbf.Filter.from_bytes(message[:-1])),
    "shapes": lambda: (some.geometry, some.growth, scbf.plan(capacity=100, fpr=0.1)),
    "no shapes": raises(scbf.InvalidArgument, lambda: scbf.Filter(10, 2.0)),
    "statistics": lambda: (some.statistics().stages[0].histogram, repr(some), some.metadata),
    "numbers": lambda: (some.contains(numbers), some.find(numbers), some.count(numbers), some.contains_bits(numbers)),
    "out": lambda: some.contains(numbers, out=np.zeros(20, bool)),
    "insertion": lambda: (some.insert(numbers), some.remove(numbers)),
    "lists": lambda: (some.insert(texts), some.remove(texts)),
    "strided": lambda: some.contains(numbers[::2]),
    "text": lambda: some.contains(np.array(["a", "bc"])),
    "objects": lambda: some.contains(np.array(["a", None], object)),
    "array module": lambda: some.contains(array.array("h", [1, 2])),
    "generators": lambda: (some.contains(generator()), bits.insert(generator()), some.count(range(5))),
    "sets": lambda: some.contains({1, 2, 3}),
    "one key": lambda: (some.contains("é" * 20), 5 in some, some.count(b"x"), bits.insert("y"), "z" in replica),
    "progress": lambda: some.contains(numbers, progress=lambda *_: None),
    "progress that raises": raises(Bang, lambda: some.contains(numbers, progress=bang)),
    "generators that raise": raises(Bang, lambda: some.insert(generator(Bang))),
    "generators of bad keys": raises(scbf.InvalidKey, lambda: some.contains(generator(1.5))),
    "bad keys": raises(scbf.InvalidKey, lambda: some.insert([1, "a" * 50])),
    "one bad key": raises(scbf.InvalidKey, lambda: 1.5 in some),
    "bad arrays": raises(scbf.InvalidKey, lambda: some.contains(np.zeros(3))),
    "bad text": raises(scbf.InvalidKey, lambda: some.contains(np.array(["a", "\ud800"]))),
    "bad out": raises(scbf.InvalidArgument, lambda: some.contains(numbers, out=np.zeros(3, bool))),
    "absent": raises(scbf.KeysAbsent, lambda: some.remove(["absent"], most_absent=0)),
    "incompatible": raises(scbf.Incompatible, lambda: some.merge(filled_small())),
    "buffers": lambda: (memoryview(some), np.asarray(bits).sum(), bytes(some)),
    "buffers refused": raises(TypeError, lambda: memoryview(some).__setitem__(0, 1)),
    "bank": lambda: (bank.insert(0, numbers), list(bank.find(numbers)), bank.find(5), bank.remove(0, numbers)),
    "bank refused": raises(scbf.InvalidArgument, lambda: bank.insert(9, numbers)),
    "full": raises(scbf.FilterFull, lambda: full().insert(range(500))),
    "with": lambda: scbf.Filter(geometry=SMALL).__exit__(None, None, None),
}


def filled_small() -> scbf.Filter:
    return scbf.Filter(geometry=SMALL, seed=1)


def full() -> scbf.Filter:
    return scbf.Filter(growth=scbf.Growth.fixed(scbf.Geometry.split(1, 64), 1))


@pytest.mark.parametrize("name", CALLS)
def test_memory_stays_bounded(name: str) -> None:
    call = CALLS[name]
    kept = grows_by(call, 1000)
    if kept > MOST // 10:  # perhaps something is made once: look again, longer
        kept = grows_by(call, MANY)
    assert kept <= MOST, f"{kept} bytes are kept"


def test_many_filters_and_large_ones() -> None:
    assert grows_by(lambda: scbf.Filter(geometry=SMALL), 100_000) <= MOST
    assert grows_by(lambda: scbf.Filter(memory_bytes=50_000_000, fpr=0.01).insert(5), 20) <= 20 * MOST
    many = np.arange(1_000_000)
    large = filled(many)
    assert grows_by(lambda: (large.contains(many), large.find(many), large.count(iter(range(70_000)))), 10) <= 20 * MOST


def test_arrow_is_released() -> None:
    pa = pytest.importorskip("pyarrow")
    columns = [
        pa.array([1, 2, 3], pa.int8()),
        pa.array(["a", None, "longer than twelve bytes"], pa.string_view()),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.chunked_array([["a"], ["b", None]]),
        pa.table({"key": [1, 2]}),
    ]
    wrong = [pa.array([1.5]), pa.table({"a": [1], "b": [2]}), pa.chunked_array([[1.5]])]
    before = pa.total_allocated_bytes()

    def call() -> None:
        for column in columns:
            some.contains(column)
            bits.insert(column)
        for column in wrong:
            raises(scbf.InvalidKey, lambda: some.contains(column))()
        raises(scbf.FilterFull, lambda: full().insert(pa.array(range(500))))()

    assert grows_by(call, 500) <= MOST
    assert pa.total_allocated_bytes() == before


# ---- references ---------------------------------------------------------------------------------


def arguments() -> dict[str, tuple[Any, type | None]]:
    """Keys, and what they raise."""
    return {
        "numbers": (np.arange(1000), None),
        "narrow": (np.arange(100, dtype=np.int8), None),
        "strided": (np.arange(1000)[::3], None),
        "text": (np.array(["a", "bc"]), None),
        "list": ([f"w{i}" for i in range(300)], None),
        "tuple": (tuple(range(1000, 1100)), None),
        "set": ({f"x{i}" for i in range(10)}, None),
        "objects": (np.array([f"y{i}" for i in range(10)], object), None),
        "one": ("a text that is a key" + str(id(object())), None),
        "number": (2**62 + 12345, None),
        "array": (array.array("i", range(10)), None),
        "generator": ((i for i in range(10)), None),
        "floats": (np.zeros(10), scbf.InvalidKey),
        "mixture": ([f"z{i}" for i in range(10)] + [1.5], scbf.InvalidKey),
        "records": (np.zeros(3, [("a", int)]), scbf.InvalidKey),
        "two dimensions": (np.zeros((3, 3), int), scbf.InvalidKey),
        "float": (1.2345, scbf.InvalidKey),
        "surrogate": ("\ud800" + str(id(object())), scbf.InvalidKey),
        "object": (object(), scbf.InvalidKey),
    }


@pytest.mark.parametrize("name", arguments())
@pytest.mark.parametrize("call", ["contains", "insert", "count", "remove", "__contains__"])
def test_references_of_keys(name: str, call: str) -> None:
    keys, error = arguments()[name]
    target = scbf.Filter(geometry=GEOMETRY)
    items = list(keys)[:5] if isinstance(keys, (list, tuple, set)) else []
    before = [sys.getrefcount(thing) for thing in [keys, target, *items]]
    for _ in range(5):
        try:
            getattr(target, call)(keys)
        except (scbf.InvalidKey, TypeError):
            assert error or call == "__contains__"
    assert [sys.getrefcount(thing) for thing in [keys, target, *items]] == before


def test_references_of_other_arguments() -> None:
    target, other = scbf.Filter(geometry=GEOMETRY), scbf.Filter(geometry=GEOMETRY)
    out = np.zeros(10, np.uint8)
    keys = np.arange(10)
    refusing = scbf.Filter(1000, 0.01)

    def progress(_done: int, _all: int) -> None:
        pass

    things = [target, other, out, keys, progress, bang, refusing, scbf.Filter, scbf.InvalidKey, None, True, False]
    calls: list[Callable[[], object]] = [
        lambda: target.contains(keys, out=out, progress=progress),
        lambda: target.count(keys, out),
        lambda: target.remove(keys, out, progress=progress),
        lambda: target.merge(other),
        lambda: target | other,
        lambda: target - other,
        lambda: target == other,
        lambda: target.__ior__(other),
        lambda: target.__isub__(other),
        lambda: target.to("scalar"),
        lambda: target.__enter__(),
        lambda: target == 5,
        lambda: memoryview(target),
        raises(scbf.Incompatible, lambda: target.merge(refusing)),
        raises(scbf.Incompatible, lambda: target | refusing),
        raises(TypeError, lambda: target | 5),
        raises(Bang, lambda: target.contains(keys, out=out, progress=bang)),
        raises(scbf.InvalidArgument, lambda: target.contains(keys[:3], out=out)),
        raises(scbf.InvalidKey, lambda: target.contains([True, False, None])),
        raises((BufferError, TypeError), lambda: _writable(target)),
    ]
    for call in calls:
        call()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(100):
        for call in calls:
            call()
    gc.collect()
    after = [sys.getrefcount(thing) for thing in things]
    assert [abs(a - b) < 50 for a, b in zip(after, before)] == [True] * len(things), (before, after)


def _writable(target: scbf.Filter) -> None:
    import ctypes

    (ctypes.c_char * 8).from_buffer(target)


def test_what_is_returned_belongs_to_the_caller_alone() -> None:
    for call in (some.contains, some.count, some.find, some.contains_bits):
        made = call(numbers)
        assert sys.getrefcount(made) == 2 and made.base is not None and made.flags.writeable
    out = np.zeros(20, bool)
    before = sys.getrefcount(out)
    some.contains(numbers, out=out)
    assert sys.getrefcount(out) == before
