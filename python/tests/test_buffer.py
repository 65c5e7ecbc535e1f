# SPDX-License-Identifier: Apache-2.0
"""The counters as a buffer: read in place, never written, and never moved while somebody looks."""

import gc
import hashlib
import io
from typing import Any

import numpy as np
import pytest
import scbf
from support import GEOMETRY, check_process, filled


@pytest.mark.parametrize("kind", [scbf.Filter, scbf.BloomFilter])
def test_what_it_is(kind: Any) -> None:
    some: Any = kind(geometry=GEOMETRY, seed=42)
    some.insert(range(100))
    view: Any = memoryview(some)
    assert (view.format, view.itemsize, view.ndim, view.readonly, view.c_contiguous) == ("Q", 8, 1, True, True)
    assert view.nbytes == some.nbytes and view.shape == (some.nbytes // 8,) and view.obj is some
    words = np.asarray(some)
    assert words.dtype == np.uint64 and not words.flags.writeable and not words.flags.owndata
    assert words.ctypes.data == np.asarray(view).ctypes.data  # no copy
    assert bytes(some) == words.tobytes() == bytes(view)
    assert some.to_bytes().endswith(bytes(some))  # as in a file
    assert hashlib.sha256(some).digest() == hashlib.sha256(words).digest()
    assert np.array_equal(np.frombuffer(some, np.uint64), words) and np.array_equal(np.array(some), words)
    assert view.cast("B").nbytes == some.nbytes
    out = io.BytesIO()
    assert out.write(some) == some.nbytes
    if kind is scbf.Filter:
        nibbles = np.frombuffer(some, np.uint8)
        assert (nibbles >> 4).sum(dtype=int) + (nibbles & 15).sum(dtype=int) == 100 * GEOMETRY.probes
    else:
        assert int.from_bytes(bytes(view), "little").bit_count() == some.statistics().nonzero


def test_numpy_is_told_that_there_is_no_buffer() -> None:
    some = scbf.Filter(growth=scbf.Growth.tightening(100, 0.01))
    some.insert(range(1000))
    with pytest.raises(BufferError, match="stages"):
        np.asarray(some)
    some.close()
    with pytest.raises(scbf.InvalidArgument, match="closed"):
        np.asarray(some)


def test_what_changes_in_place_is_seen() -> None:
    some = filled([])
    words = np.asarray(some)
    some.insert(range(100))
    assert np.array_equal(words, np.asarray(filled(range(100))))
    some.remove(range(100))
    assert not words.any()


def test_it_cannot_be_written() -> None:
    some = filled([1])
    with pytest.raises(TypeError):
        memoryview(some)[0] = 1
    with pytest.raises(ValueError):
        np.asarray(some)[0] = 1
    with pytest.raises((TypeError, BufferError)):
        io.BytesIO(b"x" * 100).readinto(some)
    with pytest.raises(scbf.InvalidArgument, match="out"):
        some.contains(range(8), out=some)


CHANGES: dict[str, Any] = {
    "clear": lambda some: some.clear(),
    "close": lambda some: some.close(),
    "exit": lambda some: some.__exit__(None, None, None),
    "merge": lambda some: some.merge(filled([1])),
    "subtract": lambda some: some.subtract(filled([1])),
    "to": lambda some: some.to("scalar"),
    "|=": lambda some: some.__ior__(filled([1])),
    "-=": lambda some: some.__isub__(filled([1])),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_might_move_it_is_refused(name: str) -> None:
    some = filled([1, 1, 2])
    for view in (memoryview(some), np.asarray(some), np.asarray(some)[3:5], memoryview(some)[::2]):
        with pytest.raises(scbf.Error, match="in use as a buffer: release the memoryview or array first"):
            CHANGES[name](some)
        assert some == filled([1, 1, 2])
        del view
    CHANGES[name](some)


def test_releasing_is_enough() -> None:
    some = filled([1])
    with memoryview(some), memoryview(some) as second:
        with pytest.raises(scbf.Error):
            some.clear()
        second.release()
        with pytest.raises(scbf.Error):
            some.clear()
    some.clear()


def test_changes_of_bits_are_refused() -> None:
    counters = filled([1])
    bits = scbf.BloomFilter.of(counters)
    first = bits.advance(counters)
    counters.insert(2)
    second = bits.copy().advance(counters)
    reader = scbf.BloomFilter.from_bytes(first.to_bytes())
    view = memoryview(reader)
    for change in (
        lambda: reader.apply(second),
        lambda: reader.advance(counters),
        lambda: reader.intersect(bits),
        lambda: reader.merge(bits),
    ):
        with pytest.raises(scbf.Error, match="in use as a buffer"):
            change()
    view.release()
    reader.intersect(bits)


def test_it_outlives_the_name_of_the_filter() -> None:
    words = np.asarray(filled(range(100)))
    gc.collect()
    again = [filled([i]) for i in range(20)]  # would take over freed memory
    assert np.array_equal(words, np.asarray(filled(range(100)))) and again


def test_a_filter_that_grows_while_exported() -> None:
    some = scbf.Filter(growth=scbf.Growth.tightening(1000, 0.01))
    words = np.asarray(some)
    some.insert(np.arange(100_000))
    assert some.stages > 1 and words.any()
    for _ in range(2):
        some.remove(np.arange(100_000))
    assert words.shape == (some.geometry.nbytes // 8,)
    with pytest.raises(scbf.Error, match="in use as a buffer"):
        some.clear()
    with pytest.raises(BufferError, match="stages: only those of one stage have a buffer"):
        memoryview(some)
    with pytest.raises(scbf.NotOnHost):
        memoryview(some)
    del words
    some.clear()
    assert memoryview(some).nbytes == some.nbytes


def test_a_mapped_filter(tmp_path: Any) -> None:
    filled(range(100)).save(tmp_path / "x")
    mapped = scbf.Filter.map(tmp_path / "x")
    words = np.asarray(mapped)
    assert np.array_equal(words, np.asarray(filled(range(100))))
    with pytest.raises(scbf.Error, match="in use as a buffer"):
        mapped.close()
    del mapped
    gc.collect()
    assert words.any()


def test_a_bulk_insertion_refuses_a_buffer_meanwhile() -> None:
    some = filled([])

    def progress(_done: int, _all: int) -> None:
        with pytest.raises(scbf.Error):
            memoryview(some)

    some.insert(np.arange(1_000_000) % 1000, progress=progress)


RACE = """
import sys, threading, time
import numpy as np, scbf

some = scbf.Filter(30_000_000, 0.01)
some.insert(range(1000))
asks, goes_on = threading.Event(), threading.Event()

def progress(done, all):
    asks.set()
    goes_on.wait()

def change():
    try:
        some.{change}()
    except scbf.Error:
        pass

reader = threading.Thread(target=lambda: some.contains([1], progress=progress))
reader.start()
asks.wait()
changer = threading.Thread(target=change)
changer.start()
time.sleep(0.2)  # it waits for the reader, and there is no buffer yet
threading.Timer(0.2, goes_on.set).start()
try:
    words = np.asarray(memoryview(some))
    before = words.sum()
except scbf.Error:
    sys.exit(0)
reader.join()
changer.join()
sys.exit(0 if words.sum() == before else "the counters went away")
"""


@pytest.mark.parametrize("change", ["close", "clear"])
def test_no_change_slips_in_behind_the_check(change: str) -> None:
    check_process(RACE.format(change=change))
