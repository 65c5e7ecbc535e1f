# SPDX-License-Identifier: Apache-2.0
"""A filter of numbers that is asked for text, or the other way round, says so, once."""

import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scbf
from support import COMMAND, GEOMETRY, filled

FOR_TEXT = r"the filter holds numbers, it was asked for text, and has none of it: 5 and '5' are two keys"
FOR_NUMBERS = "the filter holds text, it was asked for numbers, and has none of it"
WAYS_TO_ASK: list[Callable[[Any, Any], Any]] = [
    lambda filter, keys: filter.contains(keys),
    lambda filter, keys: filter.contains_bits(keys),
    lambda filter, keys: filter.find(keys),
    lambda filter, keys: filter.count(keys),
    lambda filter, keys: filter.count_present(keys),
    lambda filter, keys: filter.remove(keys),
    lambda filter, keys: filter.contains(keys[0]),
    lambda filter, keys: keys[0] in filter,
    lambda filter, keys: filter.count(keys[0]),
    lambda filter, keys: filter.remove(keys[0]),
]


@pytest.fixture
def as_errors() -> Iterator[None]:
    """Whoever warns, fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("ask", WAYS_TO_ASK)
def test_whoever_asks_for_the_other_kind_is_warned_once(ask: Callable[[Any, Any], Any]) -> None:
    for holds, asked, message in (([1, 2], ["1", "2"], FOR_TEXT), (["1", "2"], [1, 2], FOR_NUMBERS)):
        filter = filled(holds)
        with pytest.warns(scbf.KeyKindWarning, match=message):
            ask(filter, asked)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ask(filter, asked)


@pytest.mark.parametrize("keys", [
    np.arange(3), np.arange(3, dtype=np.int8), pa.array([1, 2], pa.int16()), pa.array([1, 2]).dictionary_encode(),
    range(3), (i for i in range(3)), [None, 1], 7])
def test_numbers(keys: Any) -> None:
    filter = scbf.Filter(100, 0.01)
    filter.insert(keys)
    with pytest.warns(scbf.KeyKindWarning, match=FOR_TEXT):
        filter.contains(["a"])


@pytest.mark.parametrize("keys", [
    np.array(["a"]), pa.array(["a"]), pa.array(["a"], pa.string_view()), pa.array(["a"], pa.large_string()),
    pa.array(["a"]).dictionary_encode(), ["a"], (text for text in "abc"), [None, "a"], "a"])
def test_text(keys: Any) -> None:
    filter = scbf.Filter(100, 0.01)
    filter.insert_new(keys) if not hasattr(keys, "send") else filter.insert(keys)
    with pytest.warns(scbf.KeyKindWarning, match=FOR_NUMBERS):
        filter.contains([1])


def bank_of(holds: list[Any]) -> scbf.Bank:
    bank = scbf.Bank(geometry=GEOMETRY, seed=42)
    bank.add_member(), bank.add_member(filled(holds))
    bank.insert(0, holds)
    return bank


def find_nothing(bank: scbf.Bank | scbf.BloomBank, keys: list[Any]) -> None:
    assert bank.find(keys[0]) == [] and not any(map(len, bank.find(keys)))


@pytest.mark.parametrize("ask", [
    lambda bank, keys: bank.find(keys), lambda bank, keys: bank.find(keys[0]),
    lambda bank, keys: bank.remove(0, keys), lambda bank, keys: bank.remove(0, keys[0]),
    lambda bank, keys: bank.remove_each([0, 1], keys), lambda bank, keys: bank.copy_member(1).contains(keys),
    lambda bank, keys: bank.copy().find(keys), lambda bank, keys: scbf.BloomBank.of(bank).find(keys)])
def test_banks_warn_too(ask: Callable[[Any, Any], Any]) -> None:
    for holds, asked, message in (([1, 2], ["1", "2"], FOR_TEXT), (["1", "2"], [1, 2], FOR_NUMBERS)):
        with pytest.warns(scbf.KeyKindWarning, match=message.replace("the filter", "the (bank|filter)")):
            ask(bank_of(holds), asked)
    with pytest.warns(scbf.KeyKindWarning, match="the bank holds numbers"):
        bank_of([1]).find("1")


@pytest.mark.usefixtures("as_errors")
def test_banks_that_may_hold_both_do_not_warn(tmp_path: Path) -> None:
    def inserted(bank: scbf.Bank) -> None:
        bank.insert_each([0, 1], ["a", "b"])

    def removed(bank: scbf.Bank) -> None:
        bank.insert(1, "a")
        bank.remove(1, "a")

    def refused(bank: scbf.Bank) -> None:
        bank.remove(0, pa.array([None, None], pa.string()))
        with pytest.raises(scbf.InvalidArgument):
            bank.insert(9, ["a"])

    loaded = scbf.Filter.from_bytes(filled([3]).to_bytes())
    for change in (inserted, removed, refused, lambda bank: bank.add_member(loaded),
                   lambda bank: bank.add_members([loaded]), lambda bank: bank.replace_member(1, loaded),
                   lambda bank: bank.merge(1, loaded), lambda bank: bank.merge(0, filled(["a"]))):
        bank = bank_of([1, 2])
        change(bank)
        find_nothing(bank, ["x", "y"])
        find_nothing(scbf.BloomBank.of(bank), ["x", "y"])
    find_nothing(scbf.Bank.from_bytes(bank_of([1]).to_bytes()), ["x"])
    bits = scbf.BloomBank.of(bank_of([1]))
    bits.add_member(scbf.BloomFilter.of(loaded))
    find_nothing(bits, ["x"])
    bits = scbf.BloomBank.of(bank_of([1]))
    published = scbf.BloomFilter(geometry=GEOMETRY.of_bits, seed=42)
    bits.apply(1, published.advance(loaded))
    find_nothing(bits, ["x"])


def test_filters_made_of_others_hold_what_those_hold() -> None:
    numbers, text = filled([1]), filled(["a"])
    for made in (numbers.copy(), scbf.BloomFilter.of(numbers), numbers | numbers):
        with pytest.warns(scbf.KeyKindWarning):
            assert "1" not in made
    both = numbers | text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 1 in both and "a" in both
    both.clear()
    both.insert([5])
    with pytest.warns(scbf.KeyKindWarning):
        assert "5" not in both


@pytest.mark.usefixtures("as_errors")
class TestDoesNotWarn:
    def test_of_a_filter_that_is_empty_or_holds_both(self) -> None:
        filter = scbf.Filter(100, 0.01)
        assert "a" not in filter and 1 not in filter
        filter.insert([1])
        filter.insert(["a"])
        assert "a" in filter and 1 in filter and filter.contains([None]).tolist() == [False]

    def test_of_keys_that_are_all_missing_or_none(self) -> None:
        for keys in (pa.nulls(3), pa.array([None, None], pa.int64()), np.array([], np.int64), [], [None]):
            text = filled(["a"])
            assert not text.contains(keys).any() and text.remove(keys).removed == 0
            text.insert(keys)
            assert "a" in text
            empty = scbf.Filter(100, 0.01)
            empty.insert(keys)
            assert "a" not in empty and 1 not in empty

    def test_of_a_call_that_inserted_nothing(self) -> None:
        filter = scbf.Filter(100, 0.01)
        for keys in (np.array(["ok", "\ud800"]), ["a", 1.5]):
            with pytest.raises(scbf.InvalidKey):
                filter.insert(keys)
            with pytest.raises(scbf.InvalidKey):
                filter.insert_new(keys)
        assert filter.keys_inserted == 0 and 1 not in filter

    def test_of_bytes_which_may_be_either(self) -> None:
        number = (7).to_bytes(8, "little")
        for keys in (np.array([b"a"]), np.array([b"a"]).view("V1"), pa.array([b"a"]), b"a", [b"a"], ["a", b"b"]):
            filter = scbf.Filter(100, 0.01)
            filter.insert(keys)
            assert 5 not in filter
            assert not np.any(filled([7]).contains(keys))
        assert number in filled([7]) and filled([number]).contains([7]).all()

    def test_of_what_came_from_elsewhere(self, tmp_path: Path) -> None:
        filled([1]).save(tmp_path / "f.scbf")
        for filter in (scbf.Filter.load(tmp_path / "f.scbf"), scbf.Filter.map(tmp_path / "f.scbf"),
                       scbf.Filter.from_bytes(filled([1]).to_bytes())):
            assert "a" not in filter
        loaded = scbf.Filter.load(tmp_path / "f.scbf")
        loaded.insert([2])  # what else it holds is not known
        assert "a" not in loaded
        assert "a" not in filled([3]) | loaded


@pytest.mark.skipif(not COMMAND, reason="SCBF_COMMAND does not name the scbf command")
@pytest.mark.parametrize(("kind", "asked", "message"), [
    ("lines", 1, "the command built the filter of lines of text, it was asked for numbers"),
    ("decimal", "1", "the command built the filter of numbers, it was asked for text")])
def test_the_command_notes_what_it_built(tmp_path: Path, kind: str, asked: Any, message: str) -> None:
    file = tmp_path / "f.scbf"
    assert COMMAND
    subprocess.run([COMMAND, "build", "--keys", kind, "--capacity", "10", "-o", file, "-"], input=b"1\n2\n", check=True)
    filter = scbf.Filter.load(file)
    with pytest.warns(scbf.KeyKindWarning, match=message):
        assert asked not in filter
    assert ("1" if kind == "lines" else 1) in filter
    with pytest.warns(scbf.OverfullWarning, match="made for 10 keys at a false-positive rate of 0.01"):
        filter.insert(range(1000) if kind == "decimal" else map(str, range(1000)))


@pytest.mark.usefixtures("as_errors")
def test_metadata_that_are_no_notes_say_nothing() -> None:
    deep = '{"keys": "lines", "name": ' + "[" * 100_000 + "]" * 100_000 + "}"
    for metadata in ('{"keys": 5}', "{", '{"keys": "rows", "capacity": "x", "fpr": 7}',
                     '{"capacity": 0, "fpr": 0.001}', "[]", "free text", deep):
        odd = scbf.Filter(1000, 0.01)
        odd.metadata = metadata
        filter = scbf.Filter.from_bytes(odd.to_bytes())
        filter.insert(range(900))
        assert "a" not in filter and filter.metadata == metadata


@pytest.mark.skipif(not COMMAND, reason="SCBF_COMMAND does not name the scbf command")
@pytest.mark.parametrize("metadata", ['{"capacity": 0, "fpr": 5}', '{"capacity": -1, "fpr": -3}', '{"fpr": 1}'])
def test_the_command_believes_no_impossible_notes_either(metadata: str, tmp_path: Path) -> None:
    odd = scbf.Filter(capacity=10, fpr=0.01)
    odd.metadata = metadata
    odd.save(tmp_path / "odd")
    assert COMMAND
    done = subprocess.run([COMMAND, "insert", "--keys", "decimal", tmp_path / "odd", "-"],
                          input="".join(f"{i}\n" for i in range(17)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "planned" not in done.stderr and "in a filter for" not in done.stderr


@pytest.mark.usefixtures("as_errors")
def test_a_note_that_is_no_longer_true_hides_no_key() -> None:
    noted = scbf.Filter(100, 0.01)
    noted.insert(["a"])
    noted.metadata = '{"keys":"lines"}'
    loaded = scbf.Filter.from_bytes(noted.to_bytes())
    loaded.insert([5])
    again = scbf.Filter.from_bytes(loaded.to_bytes())
    assert 5 in loaded and 5 in again and again.contains([5, 6]).tolist() == [True, False]
    assert again.remove([5, 6]).removed == 1


def test_a_removal_that_finds_nothing_changes_nothing_and_says_why() -> None:
    filter = filled([1, 2])
    with pytest.warns(scbf.KeyKindWarning), pytest.raises(scbf.KeysAbsent):
        filter.remove(["1", "2"], most_absent=0)
    before = filter.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(scbf.KeyKindWarning):
            before.remove(["1", "2"])
    assert before == filter == filled([1, 2])


def test_bits_that_are_published_again_and_again_warn_once() -> None:
    counters = filled([1])
    bits = scbf.BloomFilter(geometry=GEOMETRY, seed=42)
    with pytest.warns(scbf.KeyKindWarning) as caught:
        for key in range(3):
            counters.insert([key])
            bits.advance(counters)
            assert "1" not in bits
    assert len(caught) == 1


def test_what_fails_changes_nothing(tmp_path: Path) -> None:
    bits = scbf.BloomFilter.of(filled([1]))
    bits.save(tmp_path / "bits.scbf")
    mapped = scbf.BloomFilter.map(tmp_path / "bits.scbf")
    with pytest.raises(scbf.ReadOnly):
        mapped.advance(filled(["a"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 1 in mapped
    warned = filled([1])
    for filter in (warned, warned.copy()):  # a copy is another filter
        with pytest.warns(scbf.KeyKindWarning):
            assert "1" not in filter
