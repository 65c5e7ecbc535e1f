# SPDX-License-Identifier: Apache-2.0
"""BloomFilter, Delta and Replica: bits for whoever only asks, and changes that travel."""

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scbf
from support import GEOMETRY, Thread, filled


def bits_of(keys: Any) -> scbf.BloomFilter:
    made = scbf.BloomFilter(geometry=GEOMETRY, seed=42)
    made.insert(keys)
    return made


# ---- BloomFilter --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["split", "split_block"])
def test_bits_answer_as_their_counters(layout: str) -> None:
    counters = scbf.Filter(10_000, 0.01, layout=layout)
    counters.insert(range(10_000))
    counters.remove(range(5_000))
    counters.metadata = "kept"
    bits = scbf.BloomFilter.of(counters)
    queries = np.arange(100_000)
    assert (bits.contains(queries) == counters.contains(queries)).all()
    assert (bits.find(queries) == counters.find(queries)).all()
    assert (bits.contains_bits(queries) == counters.contains_bits(queries)).all()
    assert bits.nbytes * 4 == pytest.approx(counters.nbytes, rel=0.05)
    assert bits.geometry.cell == "bit" and counters.geometry.cell == "counter"
    assert (bits.metadata, bits.keys_inserted, bits.keys_removed, len(bits)) == ("kept", 10_000, 5_000, 5_000)
    built = scbf.BloomFilter(10_000, 0.01, layout=layout)
    built.insert(range(5_000, 10_000))
    assert built == bits
    assert 5_000 in bits and bits.contains(5_000) is True


def test_threads_of_a_replica() -> None:
    replica = scbf.Replica(scbf.BloomFilter(geometry=GEOMETRY, seed=42).advance(filled([1])))
    for keys in ([1, 2], [], 1):
        assert np.asarray(replica.contains(keys, threads=2)).any() == bool(keys)
        for threads in (-1, 2**40, "two", True, None):
            with pytest.raises(scbf.InvalidArgument, match="threads"):
                replica.contains(keys, threads=threads)



def test_bits_do_not_count() -> None:
    for name in ("remove", "count", "subtract"):
        assert not hasattr(scbf.BloomFilter, name)
    some = bits_of([1, 1, 1])
    assert some == bits_of([1])
    with pytest.raises(TypeError):
        some - bits_of([1])
    with pytest.raises(TypeError):
        scbf.BloomFilter.of(some)


def test_union_and_intersection() -> None:
    a, b = bits_of(range(100)), bits_of(range(50, 150))
    assert a | b == bits_of(range(150))
    both = a & b
    assert both.contains(range(50, 100)).all() and not both.contains(range(50)).any()
    c = a.copy()
    same = c
    c &= b
    assert c is same and c == both
    c |= a
    assert c is same and c == a
    assert (a & a) == a == (a | a)
    a.intersect(a)
    assert a == bits_of(range(100))
    for other in (scbf.BloomFilter(1000, 0.01), scbf.BloomFilter(geometry=GEOMETRY, seed=1)):
        with pytest.raises(scbf.Incompatible, match="differ"):
            a &= other
    with pytest.raises(TypeError):
        a & filled([1])


def test_estimates() -> None:
    a, b = bits_of(range(1000)), bits_of(range(500, 2000))
    for estimate, keys in [
        (a.estimated_keys(), 1000),
        (a.estimated_union(b), 2000),
        (a.estimated_intersection(b), 500),
        (a.estimated_union(a), 1000),
    ]:
        assert abs(estimate.keys - keys) < 5 * max(estimate.standard_error, 1)
        assert float(estimate) == estimate.keys and "±" in repr(estimate)
    full = scbf.BloomFilter(geometry=scbf.Geometry.split(1, 16))
    full.insert(range(1000))
    assert math.isinf(full.estimated_keys().keys)
    with pytest.raises(scbf.Incompatible):
        a.estimated_union(full)


def test_bits_that_grow() -> None:
    growth = scbf.Growth.tightening(100, 0.01)
    counters = scbf.Filter(growth=growth)
    counters.insert(range(2000))
    bits = scbf.BloomFilter.of(counters)
    assert bits.stages == counters.stages > 1 and bits.contains(range(2000)).all()
    built = scbf.BloomFilter(growth=growth)
    built.insert(range(2000))
    assert built == bits and bits.growth == counters.growth
    with pytest.raises(scbf.Incompatible):
        bits.intersect(built)


# ---- Delta --------------------------------------------------------------------------------------


def published() -> tuple[scbf.Filter, scbf.BloomFilter, scbf.Delta]:
    counters = filled(range(1000))
    bits = scbf.BloomFilter.of(counters)
    return counters, bits, bits.advance(counters)


def test_epochs(tmp_path: Path) -> None:
    counters, bits, first = published()
    assert scbf.BloomFilter.of(counters).epoch is None and bits.epoch == 1
    assert first.whole and (first.since, first.epoch) == (None, 1) and first.nbytes == len(first.to_bytes())
    counters.insert(["new"])
    counters.remove(range(10))
    second = bits.advance(counters)
    assert not second.whole and (second.since, second.epoch, bits.epoch) == (1, 2, 2) and second.changes > 0
    assert bits == scbf.BloomFilter.of(counters)
    assert "epoch 1 to 2" in repr(second) and "whole, epoch 1" in repr(first)

    reader = scbf.BloomFilter.from_bytes(first.to_bytes())
    assert reader.epoch == 1 and "new" not in reader
    with pytest.raises(scbf.Incompatible):
        scbf.BloomFilter(geometry=GEOMETRY, seed=42).apply(second)
    reader.apply(second)
    assert reader == bits and reader.epoch == 2
    with pytest.raises(scbf.Incompatible, match="epoch"):
        reader.apply(second)
    with pytest.raises(scbf.Incompatible, match="epoch"):
        reader.apply(first)
    reader.insert("mine")
    assert reader.epoch is None

    path = tmp_path / "second.delta"
    second.save(path)
    assert path.read_bytes() == second.to_bytes()
    for same in (scbf.Delta.load(path), scbf.Delta.from_bytes(path.read_bytes()), pickle.loads(pickle.dumps(second))):
        assert same.to_bytes() == second.to_bytes() and (same.since, same.epoch) == (1, 2)
        assert same.changes == second.changes
    info = scbf.read_file_info(path)
    assert info.kind == "delta" and info.compressed and info.file_bytes == second.nbytes


def test_an_epoch_travels_with_the_bits() -> None:
    _, bits, _ = published()
    assert scbf.BloomFilter.from_bytes(bits.to_bytes()).epoch == 1
    assert pickle.loads(pickle.dumps(bits)).epoch == 1


def test_advance_from_bits_and_to_itself() -> None:
    _, bits, _ = published()
    other = scbf.BloomFilter.of(filled(range(1001)))
    change = bits.advance(other)
    assert (change.since, change.epoch) == (1, 2) and bits == other
    nothing = bits.advance(bits)
    assert nothing.changes == 0 and bits.epoch == 3 and bits == other


def test_messages_that_are_damaged() -> None:
    _, bits, first = published()
    message = first.to_bytes()
    for damaged in (b"", message[:-1], message[:100], b"x" + message[1:], message[:-1] + bytes([message[-1] ^ 1]),
                    message + b"\0", message + message):
        with pytest.raises(scbf.CorruptFile):
            scbf.Delta.from_bytes(damaged)
    with pytest.raises(scbf.Incompatible):
        scbf.Delta.from_bytes(filled([1]).to_bytes())
    with pytest.raises(scbf.Incompatible):
        scbf.Delta.from_bytes(scbf.BloomFilter(1000, 0.01).to_bytes())  # no epoch
    with pytest.raises(TypeError):
        scbf.Delta.from_bytes("text")
    with pytest.raises(TypeError):
        scbf.Delta()
    assert bits.epoch == 1


# ---- Replica ------------------------------------------------------------------------------------


def test_replica() -> None:
    counters, bits, first = published()
    replica = scbf.Replica(first)
    assert replica.epoch == 1 and 5 in replica and "new" not in replica
    assert replica.contains(["new", "x"]).tolist() == [False, False]
    counters.insert(["new"])
    change = bits.advance(counters)
    replica.apply(change)
    assert replica.epoch == 2 and "new" in replica and replica.contains("new") is True
    out = np.zeros(3, bool)
    assert replica.contains(["new", None, "x"], out=out) is out and out.tolist() == [True, False, False]
    snapshot = replica.snapshot()
    assert snapshot == bits and snapshot.epoch == 2
    with pytest.raises(scbf.Incompatible, match="epoch"):
        replica.apply(change)
    with pytest.raises(scbf.Incompatible):
        scbf.Replica(change)
    for wrong in (1.5, [1.5], [True]):
        with pytest.raises(scbf.InvalidKey):
            replica.contains(wrong)
    with pytest.raises(scbf.InvalidKey):
        [1] in replica  # noqa: B015
    with pytest.raises(scbf.InvalidArgument, match="out"):
        replica.contains([1], out=np.zeros(2, bool))


def test_a_replica_answers_as_its_bits() -> None:
    for growth in (scbf.Growth.one(GEOMETRY), scbf.Growth.tightening(100, 0.01)):
        counters = scbf.Filter(growth=growth)
        bits = scbf.BloomFilter.of(counters)
        replica = scbf.Replica(bits.advance(counters))
        assert (replica.nbytes, replica.geometry) == (bits.nbytes, bits.geometry)
        counters.insert(range(1000))
        replica.apply(bits.advance(counters))
        keys = [*range(900, 1100), None, *range(50)]
        for threads in (0, 1):
            assert replica.find(keys, threads=threads).tolist() == bits.find(keys).tolist()
            assert replica.contains_bits(keys, threads=threads).tolist() == bits.contains_bits(keys).tolist()
            assert replica.count_present(keys, threads=threads) == bits.contains(keys).sum() > 100
        out = np.zeros(32, np.uint8)
        assert replica.contains_bits(keys, out) is out and out.tolist() == bits.contains_bits(keys).tolist()
        assert replica.find([]).dtype == np.int64
        assert (replica.nbytes, replica.geometry) == (bits.nbytes, bits.geometry)
        for call in (replica.find, replica.contains_bits, replica.count_present):
            with pytest.raises(scbf.InvalidKey):
                call([1.5])
            with pytest.raises(scbf.InvalidArgument, match="threads"):
                call([1], threads=-1)


def test_dictionaries_in_a_replica() -> None:
    pa = pytest.importorskip("pyarrow")
    counters, _, first = published()
    assert scbf.Replica(first).contains(pa.array([1, 5000, 1]).dictionary_encode()).tolist() == [True, False, True]


def test_a_replica_is_asked_while_it_changes() -> None:
    counters, bits, first = published()
    replica = scbf.Replica(first)
    deltas = []
    for i in range(50):
        counters.insert(range(10_000 + 100 * i, 10_000 + 100 * (i + 1)))
        deltas.append(bits.advance(counters))
    stop = False

    def ask() -> None:
        while not stop:
            assert replica.contains(np.arange(1000), threads=1).all()
            assert 5 in replica

    threads = [Thread(ask) for _ in range(2)]
    for delta in deltas:
        replica.apply(delta)
    stop = True
    for thread in threads:
        thread.join()
    assert replica.snapshot() == bits and replica.epoch == 51


def test_a_delta_that_brings_another_seed_while_keys_are_read() -> None:
    counters, bits, first = published()
    other = scbf.Filter(geometry=GEOMETRY, seed=7)
    counters.insert(["a", "b"])
    other.insert(["a", "b", "c"])
    replica = scbf.Replica(first)
    replica.apply(bits.advance(counters))
    whole = bits.advance(other)
    assert whole.whole

    def keys() -> Any:
        yield "a"
        replica.apply(whole)
        yield from ["b", "c"]

    assert replica.contains(keys()).tolist() == [True, True, False]  # all by the filter of the beginning
    assert replica.contains(["a", "b", "c"]).tolist() == [True, True, True]
    assert replica.snapshot().seed == 7


def test_repr_of_a_replica() -> None:
    assert repr(scbf.Replica(published()[2])).startswith("<scbf.Replica: ")
