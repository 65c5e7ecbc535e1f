# SPDX-License-Identifier: Apache-2.0
"""Properties: random operations against a model, and batches against loops over their keys."""

import json
import subprocess
from collections import Counter
from typing import Any

import numpy as np
import pytest
import scbf
from support import COMMAND

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule  # noqa: E402

# The same examples in every run, and no files.
settings.register_profile("short", max_examples=60, deadline=None, derandomize=True, database=None)
settings.register_profile("machine", max_examples=40, stateful_step_count=25, deadline=None, derandomize=True, database=None)
short = settings.get_profile("short")

GEOMETRIES = st.one_of(
    st.builds(scbf.Geometry.split, st.integers(1, 9), st.integers(16, 400)),
    st.builds(scbf.Geometry.split_block, st.integers(1, 3), st.integers(1, 40)),
    # Room for the counts of each block, so that no key is stuck.
    st.builds(lambda positions, blocks: scbf.Geometry.ranked(positions, blocks, spill_slots=blocks),
              st.integers(65, 112), st.integers(1, 40)),
)
GROWTHS = st.one_of(
    st.builds(scbf.Growth.one, GEOMETRIES),
    st.builds(scbf.Growth.tightening, st.integers(1, 50), st.floats(0.001, 0.3)),
)
INTEGERS = st.integers(-(2**63), 2**64 - 1)
FEW = st.integers(0, 40)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
KEYS = st.one_of(FEW, INTEGERS, TEXT, st.binary(max_size=20))
COLUMNS = st.one_of(
    st.lists(st.one_of(st.none(), FEW), max_size=60),
    st.lists(st.one_of(st.none(), INTEGERS), max_size=60),
    st.lists(st.one_of(st.none(), TEXT, st.binary(max_size=20)), max_size=60),
)


def bits_of(key: Any) -> bytes:
    """The bytes of a key: equal for equal keys."""
    if isinstance(key, int):
        return (key % 2**64).to_bytes(8, "little")
    return key.encode() if isinstance(key, str) else key


def count(model: "Counter[bytes]", key: Any) -> int:
    return model[bits_of(key)]


# ---- a filter and a Counter ---------------------------------------------------------------------


class FilterMachine(RuleBasedStateMachine):
    """Only what is there is removed: then no key is lost, and counts are upper bounds."""

    filters = Bundle("filters")

    @initialize(target=filters, geometry=GEOMETRIES, seed=st.integers(0, 2**64 - 1))
    def first(self, geometry: scbf.Geometry, seed: int) -> Any:
        self.geometry, self.seed = geometry, seed
        self.all: list[tuple[scbf.Filter, Counter[bytes]]] = []
        return self.made(scbf.Filter(geometry=geometry, seed=seed), Counter())

    def made(self, some: scbf.Filter, model: "Counter[bytes]") -> Any:
        self.all.append((some, model))
        return len(self.all) - 1

    @rule(i=filters, keys=COLUMNS)
    def insert(self, i: int, keys: list[Any]) -> None:
        some, model = self.all[i]
        valid = [bits_of(key) for key in keys if key is not None]
        report = some.insert(keys)
        assert (report.inserted, report.nulls) == (len(valid), len(keys) - len(valid))
        model.update(valid)

    @rule(i=filters, key=KEYS)
    def insert_one(self, i: int, key: Any) -> None:
        some, model = self.all[i]
        assert some.insert(key) is None
        model[bits_of(key)] += 1

    @rule(i=filters, data=st.data())
    def remove_what_is_there(self, i: int, data: st.DataObject) -> None:
        some, model = self.all[i]
        there = sorted(model.elements())
        keys = data.draw(st.lists(st.sampled_from(there), max_size=20, unique_by=id)) if there else []
        keys = list((Counter(keys) & model).elements())
        verdicts = np.full(len(keys), 9, np.uint8)
        assert some.remove(keys, out=verdicts).removed == len(keys) and (verdicts == 1).all()
        model.subtract(keys)

    @rule(i=filters, data=st.data())
    def remove_one(self, i: int, data: st.DataObject) -> None:
        some, model = self.all[i]
        there = sorted(+model)
        if there:
            key = data.draw(st.sampled_from(there))
            assert some.remove(key) is scbf.Removal.removed
            model[key] -= 1

    @rule(i=filters, j=filters)
    def merge(self, i: int, j: int) -> None:
        if sum(self.all[i][1].values()) + sum(self.all[j][1].values()) < 1000:
            self.all[i][0].merge(self.all[j][0])
            self.all[i][1].update(dict(self.all[j][1]))

    @rule(i=filters, keys=COLUMNS)
    def insert_and_subtract(self, i: int, keys: list[Any]) -> None:
        some, _ = self.all[i]
        before = some.copy()
        other = scbf.Filter(geometry=self.geometry, seed=self.seed)
        other.insert(keys)
        some |= other
        if some.subtract(other) == 0 and not some.statistics().saturated:
            assert some == before

    @rule(target=filters, i=filters)
    def copy(self, i: int) -> Any:
        if len(self.all) > 5:
            return i
        return self.made(self.all[i][0].copy(), self.all[i][1].copy())

    @rule(i=filters)
    def through_bytes(self, i: int) -> None:
        some, model = self.all[i]
        same = scbf.Filter.from_bytes(some.to_bytes(compress=len(model) % 2 == 0))
        assert same == some
        self.all[i] = (same, model)

    @rule(i=filters)
    def clear(self, i: int) -> None:
        self.all[i][0].clear()
        self.all[i][1].clear()

    @invariant()
    def nothing_is_lost(self) -> None:
        for some, model in getattr(self, "all", []):
            keys = sorted(+model)
            assert some.contains(keys).all()
            counts = some.count(keys)
            assert all(found >= min(model[key], 15) for key, found in zip(keys, counts.tolist()))
            assert len(some) == sum(model.values())
            if not keys:
                assert some.fill() == 0 or some.statistics().saturated
            bits = scbf.BloomFilter.of(some)
            assert bits.contains(keys).all()


TestFilterMachine = FilterMachine.TestCase
TestFilterMachine.settings = settings.get_profile("machine")


# ---- batches and loops --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::scbf.KeyKindWarning")  # keys of both kinds come in any order
@short
@given(growth=GROWTHS, keys=COLUMNS, removed=COLUMNS, asked=COLUMNS, cut=st.integers(0, 60))
def test_a_batch_is_the_loop_and_any_split(
    growth: scbf.Growth, keys: list[Any], removed: list[Any], asked: list[Any], cut: int
) -> None:
    batch, loop, split = (scbf.Filter(growth=growth, seed=3) for _ in range(3))
    batch.insert(keys)
    for key in keys:
        if key is not None:
            loop.insert(key)
    split.insert(keys[:cut])
    split.insert(keys[cut:])
    assert batch == loop == split

    verdicts = np.full(len(removed), 9, np.uint8)
    report = batch.remove(removed, out=verdicts)
    one_by_one = [0 if key is None else int(loop.remove(key)) for key in removed]
    split.remove(removed[:cut])
    split.remove(removed[cut:])
    assert batch == loop == split and verdicts.tolist() == one_by_one
    assert (report.removed, report.ambiguous) == (one_by_one.count(1), one_by_one.count(2))
    assert len(batch) == len(loop) == len(split)

    answers = batch.contains(asked).tolist()
    assert answers == [key is not None and key in batch for key in asked]
    assert batch.find(asked).tolist() == [i for i, answer in enumerate(answers) if answer]
    assert batch.count(asked).tolist() == [0 if key is None else batch.count(key) for key in asked]
    bits = np.unpackbits(batch.contains_bits(asked), bitorder="little")[: len(asked)]
    assert bits.tolist() == answers


@pytest.mark.filterwarnings("ignore::scbf.KeyKindWarning")  # keys of both kinds come in any order
@short
@given(growth=GROWTHS, keys=COLUMNS, removed=COLUMNS, most=st.integers(0, 20))
def test_all_or_nothing(growth: scbf.Growth, keys: list[Any], removed: list[Any], most: int) -> None:
    some, plain = (scbf.Filter(growth=growth) for _ in range(2))
    some.insert(keys)
    plain.insert(keys)
    before = some.copy()
    verdicts, expected = np.full(len(removed), 9, np.uint8), np.full(len(removed), 9, np.uint8)
    report = plain.remove(removed, out=expected)
    try:
        same = some.remove(removed, out=verdicts, most_absent=most)
    except scbf.KeysAbsent as error:
        assert report.absent > most and error.absent == report.absent and error.removed == report.removed
        assert some == before and len(some) == len(before)
    else:
        assert report.absent <= most and repr(same) == repr(report) and some == plain
    assert verdicts.tolist() == expected.tolist()


# ---- columns ------------------------------------------------------------------------------------

DTYPES = st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])


@short
@given(data=st.data(), kind=DTYPES, order=st.sampled_from("<>"), size=st.integers(0, 100))
def test_arrays_of_numbers(data: st.DataObject, kind: str, order: str, size: int) -> None:
    info = np.iinfo(kind)
    keys = data.draw(st.lists(st.integers(int(info.min), int(info.max)), min_size=size, max_size=size))
    first, last, step = (data.draw(st.integers(-size, size)) for _ in range(3))
    some, other = (scbf.Filter(geometry=scbf.Geometry.split_block(1, 100)) for _ in range(2))
    cut = slice(first, last, step or None)
    some.insert(np.array(keys, order + kind)[cut])
    other.insert(keys[cut])
    assert some == other


@short
@given(keys=st.lists(st.one_of(st.none(), TEXT), max_size=50), first=st.integers(0, 50), count=st.integers(0, 50))
def test_columns_of_text(keys: list[Any], first: int, count: int) -> None:
    pa = pytest.importorskip("pyarrow")
    part = keys[first : first + count]
    model = scbf.Filter(geometry=scbf.Geometry.split_block(1, 100))
    model.insert([None if key is None else key.encode() for key in part])
    columns = [np.array(part, object), iter(part), tuple(part)]
    if first <= len(keys):
        for kind in (pa.string(), pa.large_string(), pa.string_view()):
            columns.append(pa.array(keys, kind).slice(first, count))
        columns.append(pa.array(keys, pa.string()).dictionary_encode().slice(first, count))
        columns.append(pa.chunked_array([keys[first : first + count // 2], part[count // 2 :]], pa.string()))
    for column in columns:
        some = scbf.Filter(geometry=scbf.Geometry.split_block(1, 100))
        report = some.insert(column)
        assert some == model and report.nulls == part.count(None)
    without = [key for key in part if key is not None and not key.endswith("\0")]
    some, other = (scbf.Filter(geometry=scbf.Geometry.split_block(1, 100)) for _ in range(2))
    some.insert(np.array(without, "U25"))
    other.insert(without)
    assert some == other


@short
@given(st.lists(st.one_of(st.none(), FEW), max_size=40), st.lists(st.integers(0, 4), max_size=40))
def test_banks(keys: list[Any], members: list[int]) -> None:
    bank = scbf.Bank(geometry=scbf.Geometry.split_block(1, 8))
    filters = [scbf.Filter(geometry=scbf.Geometry.split_block(1, 8)) for _ in range(5)]
    for some in filters:
        bank.add_member(some)
    for key, member in zip(keys, members):
        bank.insert(member, [key])
        filters[member].insert([key])
    found = bank.find(keys)
    for i, key in enumerate(keys):
        expected = [] if key is None else [m for m, some in enumerate(filters) if key in some]
        assert found[i].tolist() == expected and (key is None or bank.find(key) == expected)
    assert all(bank.copy_member(m) == some for m, some in enumerate(filters))


# ---- readers ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::scbf.KeyKindWarning")  # keys of both kinds come in any order
@short
@given(growth=GROWTHS, steps=st.lists(st.tuples(COLUMNS, COLUMNS), max_size=5), skip=st.integers(0, 5))
def test_deltas_lead_where_the_counters_are(growth: scbf.Growth, steps: list[Any], skip: int) -> None:
    counters = scbf.Filter(growth=growth)
    published = scbf.BloomFilter.of(counters)
    replica = scbf.Replica(published.advance(counters))
    late = scbf.BloomFilter.of(counters)
    for i, (inserted, removed) in enumerate(steps):
        counters.insert(inserted)
        counters.remove(removed)
        change = scbf.Delta.from_bytes(published.advance(counters).to_bytes())
        if i == skip and not change.whole:
            with pytest.raises(scbf.Incompatible):
                late.apply(change)
        replica.apply(change)
        assert replica.snapshot() == scbf.BloomFilter.of(counters) == published
        assert replica.epoch == published.epoch == i + 2


# ---- the command --------------------------------------------------------------------------------

LINES = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), min_size=1, max_size=8),
                 max_size=15)


@pytest.mark.skipif(not COMMAND, reason="SCBF_COMMAND does not name the scbf command")
@settings(short, max_examples=4)
@given(growth=GROWTHS, keys=LINES, more=LINES, asked=LINES, seed=st.integers(0, 2**64 - 1), compress=st.booleans())
def test_files_go_to_the_command_and_back(
    tmp_path_factory: pytest.TempPathFactory, growth: scbf.Growth, keys: list[str], more: list[str], asked: list[str],
    seed: int, compress: bool
) -> None:
    folder = tmp_path_factory.mktemp("command")
    file = folder / "of_python.scbf"

    def command(*arguments: Any, lines: list[str]) -> bytes:
        assert COMMAND
        text = "".join(line + "\n" for line in lines).encode()
        done = subprocess.run([COMMAND, *map(str, arguments)], input=text, capture_output=True)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    some = scbf.Filter(growth=growth, seed=seed)
    some.insert(keys)
    some.metadata = "free text"
    some.save(file, compress=compress)
    there = some.contains(asked)
    answers = command("query", "--load", file, lines=asked).decode().split("\n")[:-1]
    assert answers == [line for line, found in zip(asked, there) if found]
    info = json.loads(command("info", "--json", file, lines=[]))
    assert some == scbf.Filter.load(file) and info["metadata"] == "free text"

    command("insert", file, lines=more)
    some.insert(more)
    same = scbf.Filter.load(file)
    assert same == some and len(same) == len(some) and same.metadata == "free text"
    assert scbf.BloomFilter.of(same).contains(keys + more).all()
