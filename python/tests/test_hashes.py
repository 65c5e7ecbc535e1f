# SPDX-License-Identifier: Apache-2.0
"""Hashes: ready-made ones, in place of keys."""

import array
import gc
import warnings
from typing import Any

import numpy as np
import pytest
import scbf
from support import GEOMETRY, filled

READY = np.random.default_rng(1).integers(0, 2**64, 1000, np.uint64)


def test_hashes_of_keys_are_the_keys() -> None:
    xxhash = pytest.importorskip("xxhash")
    texts = [f"key {i}" for i in range(1000)]
    hashes = np.array([xxhash.xxh3_64_intdigest(text.encode(), seed=42) for text in texts], np.uint64)
    some = filled(scbf.Hashes(hashes))
    assert some == filled(texts) and some.contains(texts).all()
    numbers = [xxhash.xxh3_64_intdigest((i % 2**64).to_bytes(8, "little"), seed=42) for i in range(-5, 5)]
    assert filled(scbf.Hashes(np.array(numbers, np.uint64))) == filled(range(-5, 5))


def test_all_calls_take_them() -> None:
    some = scbf.Filter(geometry=GEOMETRY, seed=42)
    there, all_of_them = scbf.Hashes(READY[:500]), scbf.Hashes(READY)
    assert len(there) == 500 and repr(there) == "<scbf.Hashes: 500 keys>"
    with some.bulk() as bulk:
        bulk.insert(there)
    expected = [i < 500 for i in range(1000)]
    assert some.contains(all_of_them).tolist() == expected and some.find(all_of_them).tolist() == list(range(500))
    assert (some.count(all_of_them) == expected).all()
    assert some.insert_new(all_of_them).tolist() == [not each for each in expected]
    bits = scbf.BloomFilter.of(some)
    replica = scbf.Replica(bits.advance(some))
    assert bits.contains(all_of_them).all() and replica.contains(all_of_them).all()
    bank = scbf.Bank(geometry=GEOMETRY, seed=42)
    bank.insert(bank.add_member(), there)
    assert bank.find(all_of_them).offsets.tolist() == [*range(501), *[500] * 500]
    assert some.remove(all_of_them, most_absent=0).removed == 1000 and some == filled([])


def test_where_they_may_lie() -> None:
    expected = filled(scbf.Hashes(READY))
    for same in (array.array("Q", READY.tolist()), memoryview(READY), READY[::1]):
        assert filled(scbf.Hashes(same)) == expected
    kept = scbf.Hashes(READY.copy())
    gc.collect()
    assert filled(kept) == expected
    assert filled(scbf.Hashes(READY[:0])) == filled([])
    view = READY.copy()
    alive = scbf.Hashes(view)
    with pytest.raises(ValueError):
        view.resize(5)  # as long as it is in use
    del alive


@pytest.mark.parametrize("wrong", [
    READY[::2], READY.reshape(10, 100), READY.astype(np.int64), READY.astype(">u8"), READY.astype(np.float64),
    READY.astype(np.uint32), [1, 2], 5, None, "text", b"12345678", READY[0]], ids=str)
def test_what_cannot_be_hashes(wrong: Any) -> None:
    with pytest.raises(scbf.InvalidKey, match="Hashes: .*must be an array of uint64"):
        scbf.Hashes(wrong)


def test_they_are_of_no_kind() -> None:
    some = filled(scbf.Hashes(READY))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "text" not in some and 5 not in some
        assert not filled([1]).contains(scbf.Hashes(READY)).any()
    with pytest.raises(scbf.InvalidArgument, match="number of a member"):
        scbf.Bank(10, 0.1).insert_each(scbf.Hashes(READY[:1]), [1])
