# SPDX-License-Identifier: Apache-2.0
"""A filter that holds clearly more keys than it was made for says so, once."""

import copy
import pickle
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scbf
from support import COMMAND

KINDS = [scbf.Filter, scbf.BloomFilter]
WARNING = r"the filter was made for 1000 keys at a false-positive rate of 0\.01 and holds about \d+ distinct ones"


@pytest.fixture
def as_errors() -> Iterator[None]:
    """Whoever warns, fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def keys(first: int, n: int) -> np.ndarray[Any, Any]:
    return np.arange(first, first + n, dtype=np.uint64)


@pytest.mark.parametrize("kind", KINDS)
def test_of_too_many_keys_it_warns_once(kind: Any) -> None:
    filter = kind(1000, 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filter.insert(keys(0, 1000))
    with pytest.warns(scbf.OverfullWarning, match=WARNING):
        filter.insert(keys(1000, 500))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filter.insert(keys(1500, 5000))
    assert filter.contains(keys(0, 6500)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_of_keys_one_by_one(kind: Any) -> None:
    filter = kind(1000, 0.01)
    with pytest.warns(scbf.OverfullWarning, match=WARNING) as caught:
        for i in range(3000):
            filter.insert(f"key {i}")
    assert len(caught) == 1


def test_as_an_error_it_leaves_the_keys_in() -> None:
    filter = scbf.Filter(1000, 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(scbf.OverfullWarning):
            filter.insert(keys(0, 2000))
    assert filter.contains(keys(0, 2000)).all()
    assert filter.keys_inserted == 2000


def test_where_keys_can_no_longer_be_told_from_the_fill() -> None:
    filter = scbf.BloomFilter(100, 0.01)
    with pytest.warns(scbf.OverfullWarning, match=r"holds far more: its rate is about 1;"):
        filter.insert(keys(0, 100_000))


def again(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def test_copies_pickles_unions_and_bits_know_the_plan() -> None:
    made = scbf.Filter(1000, 0.01)
    made.insert(keys(0, 900))
    bits = scbf.BloomFilter.of(made)
    for filter in (made.copy(), copy.copy(made), copy.deepcopy(made), made | made, bits, bits.copy(),
                   *(again(some) for some in (made, bits, made.copy(), again(made)))):
        with pytest.warns(scbf.OverfullWarning, match=WARNING):
            filter.insert(keys(1000, 900))
    other = made.copy()
    other.clear()
    other.insert(keys(1000, 900))
    with pytest.warns(scbf.OverfullWarning, match=WARNING):
        made |= other


def test_members_of_a_bank() -> None:
    bank = scbf.Bank(1000, 0.01)
    repeated, first, second, third = (bank.add_member() for _ in range(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(100):
            bank.insert(repeated, keys(0, 1000))
        bank.insert(first, keys(0, 1000))
    for member in (first, second):
        with pytest.warns(scbf.OverfullWarning, match=f"member {member} of the bank was made for 1000 keys") as caught:
            bank.insert(member, keys(0, 2000))
            bank.insert(member, keys(2000, 2000))
        assert len(caught) == 1
    with pytest.warns(scbf.OverfullWarning, match=f"member {third} of the bank"):
        bank.insert_each(np.full(2000, third), keys(0, 2000))
    with pytest.warns(scbf.OverfullWarning, match=WARNING):
        bank.copy_member(first).insert(keys(4000, 1))
    other = scbf.Filter(geometry=scbf.plan(1000, 0.01).geometry)
    other.insert(keys(0, 3000))
    merged = bank.add_member()
    with pytest.warns(scbf.OverfullWarning, match=f"member {merged} of the bank"):
        bank.merge(merged, other)
    bank.insert(merged, keys(0, 9000))  # once
    bank.remove_member(first)
    assert bank.add_member() == first
    with pytest.warns(scbf.OverfullWarning, match=f"member {first} of the bank"):
        bank.insert(first, keys(0, 2000))


def test_copies_pickles_and_bits_of_a_bank_know_the_plan() -> None:
    made = scbf.Bank(1000, 0.01)
    made.insert(made.add_member(), keys(0, 1000))
    bits = scbf.BloomBank.of(made)
    for bank in (made.copy(), copy.deepcopy(made), again(made), again(again(made.copy())), made):
        with pytest.warns(scbf.OverfullWarning, match="member 0 of the bank was made for 1000 keys") as caught:
            bank.insert(0, keys(0, 3000))
            bank.insert(0, keys(3000, 3000))
        assert len(caught) == 1
    with pytest.warns(scbf.OverfullWarning, match="member 0 of the bank"):
        made.copy().insert(0, keys(6000, 1))  # the copy has not warned yet
    for some in (bits, bits.copy(), again(bits)):
        with pytest.warns(scbf.OverfullWarning, match=WARNING):
            some.copy_member(0).insert(keys(1000, 2000))


@pytest.mark.parametrize("kind", [scbf.Filter, scbf.BloomFilter, scbf.Bank])
def test_files_know_the_plan_that_their_metadata_note(kind: Any, tmp_path: Path) -> None:
    made = kind(geometry=kind(1000, 0.01).growth.first_geometry)
    if kind is scbf.Bank:
        made.add_member()
    made.metadata = '{"capacity": 1000, "fpr": 0.01, "of": "mine"}'
    made.save(tmp_path / "file")
    loaded = kind.load(tmp_path / "file")
    for some in (loaded, kind.from_bytes(made.to_bytes()), again(made), again(loaded)):
        assert some.metadata == made.metadata and some.to_bytes() == made.to_bytes()
        with pytest.warns(scbf.OverfullWarning, match="was made for 1000 keys at a false-positive rate of 0.01"):
            some.insert(*([0] if kind is scbf.Bank else []), keys(0, 3000))


@pytest.mark.skipif(not COMMAND, reason="SCBF_COMMAND does not name the scbf command")
def test_a_bank_of_the_command_knows_its_plan(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("apple\nplum\n")
    assert COMMAND
    subprocess.run([COMMAND, "bank", "--capacity", "1000", "-o", tmp_path / "bank", tmp_path / "words"], check=True)
    bank = scbf.Bank.load(tmp_path / "bank")
    with pytest.warns(scbf.OverfullWarning, match="member 0 of the bank was made for 1000 keys"):
        bank.insert(0, [str(i) for i in range(3000)])
    with pytest.warns(scbf.OverfullWarning, match=WARNING):
        scbf.BloomBank.load(tmp_path / "bank").copy_member(0).insert([str(i) for i in range(3000)])


def test_after_clearing() -> None:
    filter, bank = scbf.Filter(1000, 0.01), scbf.Bank(1000, 0.01)
    member = bank.add_member()
    for _ in range(100):
        filter.insert(keys(0, 1000))
        bank.insert(member, keys(0, 1000))
    filter.clear()
    bank.clear(member)
    with pytest.warns(scbf.OverfullWarning, match=WARNING):
        filter.insert(keys(0, 5000))
    with pytest.warns(scbf.OverfullWarning, match="member 0 of the bank"):
        bank.insert(member, keys(0, 5000))


@pytest.mark.usefixtures("as_errors")
class TestDoesNotWarn:
    def test_of_repeated_keys(self) -> None:
        filter = scbf.Filter(1000, 0.01)
        for _ in range(20):
            filter.insert(keys(0, 1000))

    def test_of_keys_that_others_made_room_for(self) -> None:
        filter = scbf.Filter(1000, 0.01)
        for first in range(0, 10_000, 500):
            filter.insert(keys(first, 500))
            filter.remove(keys(first, 500))

    def test_of_a_few_more(self) -> None:
        filter = scbf.Filter(1000, 0.01)
        filter.insert(keys(0, 1030))

    def test_of_few_keys_where_estimates_are_uncertain(self) -> None:
        for capacity in range(1, 20):
            scbf.Filter(capacity, 0.01).insert(keys(0, capacity + 1))

    def test_where_nothing_was_planned_for(self) -> None:
        planned = scbf.Filter(1000, 0.01)
        for filter in (scbf.Filter(geometry=planned.geometry), scbf.Filter.from_bytes(planned.to_bytes()),
                       again(scbf.Filter(geometry=planned.geometry)),
                       scbf.Filter(growth=scbf.Growth.tightening(1000, 0.01))):  # fmt: skip
            filter.insert(keys(0, 5000))
            again(filter).insert(keys(5000, 5000))
