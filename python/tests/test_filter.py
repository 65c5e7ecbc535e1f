# SPDX-License-Identifier: Apache-2.0
"""Filter: how it is made, its batch calls, and what two filters do together."""

import copy
import pickle
import re
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scbf
from support import GEOMETRY, filled, one_by_one

LAYOUTS = ["split", "split_block", "ranked"]


# ---- how it is made -----------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "layout"), [
    *((scbf.Filter, layout) for layout in (None, *LAYOUTS)),
    *((scbf.BloomFilter, layout) for layout in (None, "split", "split_block"))])  # fmt: skip
def test_from_two_of_three(kind: Any, layout: str | None) -> None:
    a = kind(capacity=10_000, fpr=0.01, layout=layout)
    assert a.geometry.predicted_fpr(10_000) <= 0.01
    assert a.geometry.layout == (layout or "split_block")
    b = kind(memory_bytes=100_000, fpr=0.01, layout=layout)
    assert b.nbytes <= 100_000
    c = kind(10_000, memory_bytes=100_000, layout=layout)
    assert c.nbytes <= 100_000
    assert kind(10_000, 0.01, layout=layout) == a
    assert kind(10_000, 0.01, memory_bytes=a.nbytes * 4, layout=layout).geometry.predicted_fpr(10_000) <= 0.01


def test_from_a_shape() -> None:
    geometry = scbf.Geometry.split(probes=5, counters_per_slice=1000)
    made = scbf.Filter(geometry=geometry)
    assert made.geometry == geometry and made.growth == scbf.Growth.one(geometry)
    growth = scbf.Growth.fixed(geometry, most_stages=3)
    assert scbf.Filter(growth=growth).growth == growth
    assert made.nbytes == geometry.nbytes and made.stages == 1 and made.fpr_bound == 1


def test_ranked_has_bits_and_banks() -> None:
    filter = scbf.Filter(1000, 0.01, layout="ranked")
    filter.insert(range(900))
    bits = scbf.BloomFilter(1000, 0.01, layout="ranked")
    bits.insert(range(900))
    assert scbf.BloomFilter.of(filter) == bits and pickle.loads(pickle.dumps(bits)) == bits
    assert bits.nbytes < 0.65 * filter.nbytes
    bank = scbf.Bank(growth=scbf.Growth.one(filter.geometry))
    member = bank.add_member(filter)
    assert bank.find(7) == [member]


def test_bits_of_ranked_are_planned_for_their_memory() -> None:
    bits = scbf.BloomFilter(fpr=0.01, memory_bytes=1_000_000, layout="ranked")
    assert 990_000 < bits.nbytes <= 1_000_000


def test_numbers_may_be_of_numpy() -> None:
    assert scbf.Filter(np.int64(1000), np.float64(0.01), seed=np.uint32(7)) == scbf.Filter(1000, 0.01, seed=7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give two of capacity, fpr and memory_bytes, such as"),
        ({"capacity": 10}, "at least two of capacity, fpr and memory"),
        ({"fpr": 0.1}, "at least two of capacity, fpr and memory"),
        ({"capacity": 0, "fpr": 0.1}, r"capacity 0: must be a whole number from 1 to .* empty, give max\(1, len\(keys\)\)$"),
        ({"capacity": 10, "fpr": 0.0}, r"fpr 0: must be in \(0, 1\)"),
        ({"capacity": 10, "fpr": 1.5}, r"fpr 1.5: must be in \(0, 1\)"),
        ({"capacity": 10, "fpr": float("nan")}, r"fpr nan: must be in \(0, 1\)"),
        ({"capacity": 10, "fpr": -1}, r"fpr -1: must be in \(0, 1\)"),
        ({"capacity": 2**63, "fpr": 0.1}, "capacity 9223372036854775808 at fpr 0.1: .* holds at most .* keys"),
        ({"capacity": 10, "fpr": 0.1, "layout": "slices"}, "layout 'slices': must be 'split', 'split_block' or 'ranked'"),
        ({"capacity": 10, "fpr": 0.1, "geometry": GEOMETRY}, "give two of"),
        ({"geometry": GEOMETRY, "growth": scbf.Growth.one(GEOMETRY)}, "give two of"),
        ({"geometry": GEOMETRY, "layout": "split"}, "give two of"),
        ({"memory_bytes": 1, "fpr": 0.1}, "memory"),
        ({"capacity": 10**9, "fpr": 0.001, "memory_bytes": 1000}, "memory"),
    ],
    ids=str,
)
def test_arguments_out_of_range(arguments: dict[str, Any], message: str) -> None:
    for kind in (scbf.Filter, scbf.BloomFilter, scbf.Bank, scbf.BloomBank):
        with pytest.raises(scbf.InvalidArgument, match=message):
            kind(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"capacity": -1, "fpr": 0.1}, {"capacity": "x", "fpr": 0.1}, {"capacity": 10.5, "fpr": 0.1}, {"capacity": True, "fpr": 0.1}],
    ids=str,
)
def test_numbers_that_are_not_whole(arguments: dict[str, Any]) -> None:
    for kind in (scbf.Filter, scbf.BloomFilter, scbf.Bank, scbf.BloomBank):
        with pytest.raises(scbf.InvalidArgument, match=f"capacity {arguments['capacity']}: must be a whole number"):
            kind(**arguments)
        with pytest.raises(scbf.InvalidArgument, match="seed -1: must be a whole number from 0"):
            kind(100, 0.1, seed=-1)
    assert scbf.Filter(1e6, 0.01).geometry == scbf.Filter(10**6, 0.01).geometry
    with pytest.raises(TypeError):
        scbf.Filter(size=1)  # type: ignore[call-arg]


def test_backends() -> None:
    keys = np.arange(3000)
    made = [scbf.Filter(3000, 0.01, backend=name) for name in ("auto", "scalar", "simd")]
    for one in made:
        one.insert(keys)
        assert one == made[0]
    assert [one.backend for one in made[1:]] == ["scalar", "simd"]
    assert made[0].to("scalar") is made[0] and made[0].backend == "scalar"
    with pytest.raises(scbf.BackendUnavailable, match="backend 'abacus': unknown; there are 'scalar', 'simd'"):
        scbf.Filter(1000, 0.01, backend="abacus")
    with pytest.raises(scbf.BackendUnavailable, match="abacus"):
        made[0].to("abacus")
    for backend in scbf.backends():
        assert backend.keys() == {"name", "description", "target", "available", "reason"}
        if not backend["available"]:
            with pytest.raises(scbf.BackendUnavailable):
                scbf.Filter(1000, 0.01, backend=backend["name"])


def test_shapes() -> None:
    blocks = scbf.Geometry.split_block(groups=2, blocks_per_group=100)
    assert (blocks.layout, blocks.cell, blocks.probes, blocks.groups, blocks.blocks_per_group) == (
        "split_block", "counter", 16, 2, 100)  # fmt: skip
    assert blocks.counters == 2 * 100 * 128 and blocks.nbytes == 2 * 100 * 64 and blocks.cache_lines_per_key == 2
    slices = scbf.Geometry.split(probes=7, counters_per_slice=1000)
    assert (slices.layout, slices.probes, slices.groups, slices.counters) == ("split", 7, 0, 7000)
    assert blocks != slices and blocks == scbf.Geometry.split_block(2, 100) and blocks != "split_block"
    assert hash(blocks) == hash(scbf.Geometry.split_block(2, 100)) and len({blocks, slices, blocks}) == 2
    ranked = scbf.Geometry.ranked(positions=82, blocks=100, spill_slots=7)
    assert (ranked.layout, ranked.probes, ranked.groups, ranked.positions, ranked.spill_slots) == ("ranked", 4, 1, 82, 7)
    assert ranked.counters == 100 * 4 * 82 and ranked.nbytes == 100 * 64 + (7 * 42 + 7) // 8 * 64
    assert ranked == scbf.Geometry.ranked(82, 100, 7) and ranked != scbf.Geometry.ranked(82, 100, 8)
    keys = blocks.capacity_for(0.01)
    assert blocks.predicted_fpr(keys) <= 0.01 < blocks.predicted_fpr(keys + 1)
    growths = [scbf.Growth.one(blocks), scbf.Growth.fixed(blocks, 3), scbf.Growth.tightening(100, 0.01)]
    assert [g.policy for g in growths] == ["one", "fixed", "tightening"] and len(set(growths)) == 3
    assert [g.most_stages for g in growths] == [1, 3, 256]
    with pytest.raises(scbf.InvalidArgument, match="groups 9"):
        scbf.Geometry.split_block(9, 1)
    with pytest.raises(scbf.InvalidArgument, match="0"):
        scbf.Growth.fixed(blocks, 0)
    with pytest.raises(scbf.InvalidArgument, match="layout 'x'"):
        scbf.Growth.tightening(100, 0.01, layout="x")
    with pytest.raises(scbf.InvalidArgument, match="fpr 2"):
        blocks.capacity_for(2)


def test_plan() -> None:
    plan = scbf.plan(capacity=1_000_000, fpr=0.01)
    assert plan.capacity == 1_000_000 and plan.fpr == 0.01 and plan.predicted_fpr <= 0.01
    assert plan.nbytes == plan.geometry.nbytes
    assert plan.bits_per_key == pytest.approx(8 * plan.nbytes / 1_000_000)
    assert plan.reason and "1000000" in repr(plan)
    assert scbf.plan(memory_bytes=plan.nbytes, fpr=0.01).capacity >= 1_000_000
    assert repr(scbf.plan(1e6, 0.01)) == repr(plan) == (
        "<scbf.Plan: 1000000 keys at fpr 0.01, 45.7 bits per key, split_block, 1 group of 89299 blocks>")
    with pytest.raises(scbf.InvalidArgument, match="capacity 1.5: must be a whole number"):
        scbf.plan(1.5, 0.01)
    assert scbf.plan(capacity=1000, fpr=1e-5, layout="split", probes=9).geometry.probes == 9
    assert scbf.plan(capacity=1000, fpr=1e-5, groups=3).geometry.groups == 3
    with pytest.raises(scbf.InvalidArgument, match="at least two"):
        scbf.plan(capacity=5)


# ---- batch calls --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("path", ["automatic", "direct", "partitioned"])
@pytest.mark.parametrize("threads", [0, 1, 2, 5])
def test_path_and_threads_change_nothing(layout: str, path: str, threads: int) -> None:
    options: Any = {"path": path, "threads": threads}
    keys = np.arange(50_000) * 3
    queries = np.arange(0, 150_000, 7)
    model = scbf.Filter(50_000, 0.01, layout=layout, backend="scalar")
    model.insert(keys, threads=1, path="direct")
    some = scbf.Filter(50_000, 0.01, layout=layout)
    assert some.insert(keys, **options).inserted == 50_000
    assert some == model
    assert (some.contains(queries, **options) == model.contains(queries, threads=1)).all()
    assert (some.count(queries, **options) == model.count(queries, threads=1)).all()
    assert (some.find(queries, **options) == model.find(queries, threads=1)).all()
    assert (some.contains_bits(queries, **options) == model.contains_bits(queries, threads=1)).all()
    assert some.count_present(queries, **options) == model.contains(queries, threads=1).sum()
    some.remove(keys[:30_000], **options)
    model.remove(keys[:30_000], threads=1, path="direct")
    assert some == model


def test_answers() -> None:
    some = filled(["a", "b", "a"])
    answers = some.contains(["a", "x", "b", None])
    assert answers.dtype == np.bool_ and answers.tolist() == [True, False, True, False]
    bits = some.contains_bits(["a", "x", "b", None] * 3)
    assert bits.dtype == np.uint8 and bits.tolist() == [0b01010101, 0b0101]
    found = some.find(["a", "x", "b", None])
    assert found.dtype == np.int64 and found.tolist() == [0, 2]
    assert some.count_present(["a", "x", "b", None] * 3) == 6 and type(some.count_present(["x"])) is int
    counts = some.count(["a", "x", "b", None])
    assert counts.dtype == np.uint8 and counts.tolist() == [2, 0, 1, 0]
    for answer in (answers, bits, found, counts):
        assert answer.flags.writeable and answer.flags.c_contiguous
    assert some.count("a") == 2 and type(some.count("a")) is int


def test_empty_columns() -> None:
    some = filled([1])
    assert some.contains([]).shape == some.contains_bits([]).shape == some.find([]).shape == some.count([]).shape == (0,)
    assert some.count_present([]) == 0
    report = some.insert([])
    assert (report.inserted, report.nulls) == (0, 0)
    removed = some.remove([])
    assert (removed.removed, removed.absent, removed.ambiguous, removed.nulls) == (0, 0, 0, 0)
    assert some.remove([], most_absent=0).removed == 0


def test_removal() -> None:
    some = filled([1, 1, 2])
    verdicts = np.full(5, 9, np.uint8)
    report = some.remove([1, 1, 1, 3, None], out=verdicts)
    assert (report.removed, report.absent, report.ambiguous, report.nulls) == (2, 2, 0, 1)
    assert verdicts.tolist() == [1, 1, 0, 0, 0]
    assert (verdicts[:3] == scbf.Removal.removed).tolist() == [True, True, False]
    assert some == filled([2]) and len(some) == 1 and some.keys_removed == 2
    assert some.remove(2) is scbf.Removal.removed and some.remove(2) is scbf.Removal.absent
    assert scbf.Removal.removed == 1 and scbf.Removal.absent == 0 and scbf.Removal.ambiguous == 2


def test_saturation() -> None:
    some = filled([7] * 20)
    assert some.count(7) == 15
    assert some.remove([7] * 20).removed == 20 and some.count(7) == 15 and 7 in some


def test_all_or_nothing() -> None:
    some = filled([1, 2, 3])
    verdicts = np.full(4, 9, np.uint8)
    with pytest.raises(scbf.KeysAbsent, match="2 of 4 keys are absent: at most 1 may be") as raised:
        some.remove([1, 2, 8, 9], out=verdicts, most_absent=1)
    error = raised.value
    assert (error.removed, error.absent, error.ambiguous, error.nulls) == (2, 2, 0, 0)
    assert isinstance(error, KeyError) and str(error).startswith("2 of 4")
    assert verdicts.tolist() == [1, 1, 0, 0]
    assert some == filled([1, 2, 3]) and len(some) == 3
    report = some.remove([1, 2, 8, 9, None], most_absent=2)
    assert (report.removed, report.absent, report.nulls) == (2, 2, 1)
    assert some == filled([3])
    assert some.remove(iter([3]), most_absent=0).removed == 1
    with pytest.raises(scbf.InvalidArgument, match="for columns"):
        some.remove(3, most_absent=0)


# ---- options ------------------------------------------------------------------------------------


def test_wrong_options() -> None:
    some = filled([1])
    with pytest.raises(scbf.InvalidArgument, match="path 'scenic': must be 'automatic', 'direct' or 'partitioned'"):
        some.contains([1], path="scenic")
    for options in ({"path": None}, {"thread": 1}):
        with pytest.raises(TypeError):
            some.contains([1], **options)
    for threads in (-1, 2**40, "two", True):
        with pytest.raises(scbf.InvalidArgument, match=re.escape(f"threads {threads!r}: must be 0, for all")):
            some.contains([1], threads=threads)


def test_progress_that_cannot_be_called_is_refused_before_anything_changes() -> None:
    some = filled([])
    with pytest.raises(TypeError, match="callable"):
        some.insert([1], progress=5)
    assert some == filled([])


def test_progress() -> None:
    some = filled([])
    seen: list[tuple[int, int | None]] = []
    some.insert(np.arange(5_000_000) % 1000, progress=lambda done, all: seen.append((done, all)))
    assert len(seen) > 1 and seen == sorted(seen) and seen[-1] == (5_000_000, 5_000_000)
    seen.clear()
    some.insert((i for i in range(100_000)), progress=lambda done, all: seen.append((done, all)))
    assert seen == [(65_536, None), (100_000, None)]
    seen.clear()
    some.insert((i % 1000 for i in range(1_000_000)), progress=lambda done, all: seen.append((done, all)))
    assert len(seen) < 8 and seen[-1] == (1_000_000, None)  # not for each of 16 blocks
    for call in (some.contains, some.count, some.count_present, some.find, some.contains_bits, some.remove):
        seen.clear()
        call([1, 2, 3], progress=lambda done, all: seen.append((done, all)))
        assert seen == [(3, 3)]
        seen.clear()
        call([], progress=lambda done, all: seen.append((done, all)))
        assert seen == []


def test_progress_of_many_small_chunks_is_as_rare_as_that_of_a_large_one() -> None:
    pa = pytest.importorskip("pyarrow")
    keys = np.arange(200_000) % 1000
    chunks = pa.chunked_array([keys[i : i + 20] for i in range(0, len(keys), 20)])
    some = filled([])
    for call in (some.insert, some.insert_new, some.contains, some.find, some.remove):
        seen: list[tuple[int, int | None]] = []
        begun = time.monotonic()
        call(chunks, progress=lambda done, all: seen.append((done, all)))
        assert len(seen) <= 2 + (time.monotonic() - begun) / 0.2
        assert seen == sorted(seen) and seen[-1] == (len(keys), len(keys))


# ---- two filters --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operators(layout: str) -> None:
    def made(keys: Any) -> scbf.Filter:
        some = scbf.Filter(10_000, 0.0001, layout=layout)
        some.insert(keys)
        return some

    a, b = made(range(0, 100)), made(range(50, 200))
    both = made([*range(0, 100), *range(50, 200)])
    assert a | b == both == b | a
    assert len(a | b) == 250 and a == made(range(0, 100))
    assert both - b == a and both - a == b
    c = a.copy()
    same = c
    c |= b
    assert c is same and c == both
    c -= a
    assert c is same and c == b
    c.merge(a)
    assert c == both
    assert c.subtract(a) == 0 and c == b


def test_a_filter_with_itself() -> None:
    some = filled([1, 2])
    some |= some
    assert some == filled([1, 1, 2, 2]) and len(some) == 4
    assert some | some == filled([1, 2] * 4)
    assert some == some and not (some != some)
    some -= some
    assert some == filled([])


def test_equality() -> None:
    a, b = filled([1, 2]), filled([2, 1])
    assert a == b and not (a != b)
    b.metadata = "other"
    assert a == b
    b.insert(3)
    assert a != b and not (a == b)
    assert a != scbf.Filter(geometry=GEOMETRY, seed=1)
    assert a != scbf.BloomFilter.of(a) and scbf.BloomFilter.of(a) != a
    for other in (None, 1, "a", object(), [1, 2]):
        assert a != other and not (a == other)


def test_filters_have_no_hash() -> None:
    for some in (filled([1]), scbf.BloomFilter.of(filled([1]))):
        with pytest.raises(TypeError, match="unhashable"):
            hash(some)


def test_filters_that_do_not_fit() -> None:
    a = scbf.Filter(1000, 0.01)
    a.insert([1, 2])
    for other, message in [
        (scbf.Filter(2000, 0.01), "the geometries differ: split_block, 1 group of 90 blocks and split_block, 1 group of"),
        (scbf.Filter(1000, 0.01, layout="split"), "the geometries differ"),
        (scbf.Filter(1000, 0.01, seed=1), "the seeds differ: 0 and 1"),
        (scbf.Filter(growth=scbf.Growth.tightening(1000, 0.01)), "grow"),
    ]:
        before = a.copy()
        for change in (a.merge, a.subtract, lambda other: a | other, lambda other: a - other):
            with pytest.raises(scbf.Incompatible, match=message):
                change(other)
        assert a == before and len(a) == 2
    b = scbf.Filter(1000, 0.01)
    b.insert(5)
    with pytest.raises(scbf.Incompatible, match="8 counters would fall below zero"):
        a -= b
    assert len(a) == 2
    for other in (None, 5, scbf.BloomFilter(1000, 0.01), [1]):
        with pytest.raises(TypeError):
            a | other
        with pytest.raises(TypeError):
            a - other
        with pytest.raises(TypeError):
            a.merge(other)


def test_subtraction_says_where_it_is_not_exact() -> None:
    assert (filled([1] * 20)).subtract(filled([1])) == GEOMETRY.probes


def test_copies() -> None:
    some = filled([1, 2])
    some.metadata = "m"
    for made in (some.copy(), copy.copy(some), copy.deepcopy(some), copy.deepcopy([some])[0]):
        assert made == some and made is not some
        assert (made.metadata, len(made), made.keys_inserted) == ("m", 2, 2)
        made.insert(3)
        assert made != some and len(some) == 2
    twice = copy.deepcopy([some, some])
    assert twice[0] is twice[1]


def test_no_subclasses() -> None:
    """Copies, sums and pickles of them would be of the base class."""
    for kind in (scbf.Filter, scbf.BloomFilter, scbf.Bank, scbf.BloomBank):
        with pytest.raises(TypeError, match="prohibits subclassing"):
            type("Mine", (kind,), {})


def test_bits_use_the_memory_that_they_are_given() -> None:
    assert scbf.BloomFilter(memory_bytes=1_000_000, fpr=0.01).nbytes > 900_000


def test_weak_references() -> None:
    some = filled([1])
    reference = weakref.ref(some)
    assert reference() is some
    del some
    assert reference() is None


# ---- what it says of itself ---------------------------------------------------------------------


def test_properties() -> None:
    some = scbf.Filter(1000, 0.01, seed=2**64 - 1)
    assert (some.seed, some.stages, some.read_only, some.keys_inserted, some.keys_removed, len(some)) == (
        2**64 - 1, 1, False, 0, 0, 0)  # fmt: skip
    assert some.fill() == 0 and not some
    some.insert(range(500))
    some.remove(range(100))
    assert (some.keys_inserted, some.keys_removed, len(some)) == (500, 100, 400) and some
    assert 0.1 < some.fill() < 0.5
    some.clear()
    assert (some.keys_inserted, some.keys_removed, some.fill()) == (0, 0, 0)
    for name in ("seed", "geometry", "growth", "backend", "stages", "nbytes", "keys_inserted", "fpr_bound", "read_only"):
        with pytest.raises(AttributeError):
            setattr(some, name, 1)
    with pytest.raises(TypeError):
        iter(some)


def test_statistics() -> None:
    some = scbf.Filter(1000, 0.01)
    some.insert(range(500))
    figures = some.statistics()
    assert figures.nbytes == some.nbytes and figures.counters == some.geometry.counters
    assert figures.fill == some.fill() == pytest.approx(figures.nonzero / figures.counters)
    assert figures.estimated_keys == pytest.approx(500, rel=0.1)
    assert 0 < figures.estimated_fpr < 0.01 and figures.keys_inserted == 500 and figures.keys_removed == 0
    assert figures.saturated == 0 and figures.ambiguous_share == 0 and figures.fpr_bound == 1
    (stage,) = figures.stages
    assert stage.geometry == some.geometry and len(stage.slice_fill) == 8 and len(stage.histogram) == 16
    assert sum(stage.histogram) == figures.counters and stage.histogram[0] == figures.counters - figures.nonzero
    assert sum(value * count for value, count in enumerate(stage.histogram)) == 500 * 8
    assert (stage.keys_inserted, stage.keys_removed, stage.saturated, stage.nonzero) == (500, 0, 0, figures.nonzero)
    assert stage.estimated_keys == figures.estimated_keys and stage.fill == figures.fill
    assert repr(figures).startswith("<scbf.Statistics: 1 stage,") and repr(stage).startswith("<scbf.StageStatistics")


def test_what_cannot_be_made_says_why() -> None:
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() != "1":  # else the system promises anything
        with pytest.raises(MemoryError, match=r"no memory for 4\d{12} bytes \(split, .*a smaller capacity"):
            scbf.Filter(10**12, 0.01)
        with pytest.raises(MemoryError, match="a smaller capacity"):
            scbf.Bank(10**12, 0.01)
    for make in (scbf.Filter, scbf.BloomFilter, scbf.Bank):
        with pytest.raises(scbf.InvalidArgument, match="pass it as growth="):
            make(scbf.Growth.tightening(1000, 0.01))  # type: ignore[arg-type]
        with pytest.raises(scbf.InvalidArgument, match="pass it as geometry="):
            make(GEOMETRY)  # type: ignore[arg-type]


def test_repr(tmp_path: Path) -> None:
    some = scbf.Filter(1000, 0.01)
    some.insert(range(10))
    assert repr(some) == "<scbf.Filter: split_block, 1 group of 90 blocks, 10 keys, fill 0.007, 5760 bytes>"
    assert str(some) == repr(some)
    some.save(tmp_path / "some")
    # Counting a mapped filter's fill would read all of it.
    assert repr(scbf.Filter.map(tmp_path / "some")) == repr(some).replace("fill 0.007, ", "")
    bits = scbf.BloomFilter.of(some)
    assert repr(bits) == "<scbf.BloomFilter: split_block, 1 group of 90 blocks of bits, 10 keys, fill 0.007, 1440 bytes>"
    assert repr(some.insert([1, None])) == "<scbf.InsertReport: 1 inserted, 1 null>"
    assert repr(some.remove([1, None])) == "<scbf.RemoveReport: 1 removed, 0 absent, 0 ambiguous, 1 null>"
    assert repr(some.geometry) == "<scbf.Geometry: split_block, 1 group of 90 blocks>"


def test_metadata() -> None:
    some = filled([1])
    assert some.metadata == ""
    for text in ("plain", '{"ü": "日本"}', "with a zero \0 inside", "", "x" * 2**20):
        some.metadata = text
        assert some.metadata == text
    with pytest.raises(scbf.InvalidArgument, match="metadata of 1048577 bytes: at most 1048576"):
        some.metadata = "x" * (2**20 + 1)
    for wrong in (5, None, b"bytes", "\ud800"):
        with pytest.raises((TypeError, ValueError)):
            some.metadata = wrong


# ---- growth -------------------------------------------------------------------------------------


def test_growth_in_stages() -> None:
    growth = scbf.Growth.tightening(first_capacity=1000, fpr=0.01)
    some = scbf.Filter(growth=growth)
    some.insert(np.arange(20_000))
    assert some.stages > 3 and some.fpr_bound <= 0.01 and some.contains(np.arange(20_000)).all()
    assert some.contains(np.arange(10**6, 10**6 + 10**5)).mean() < 0.012
    assert some.statistics().stages[-1].geometry.nbytes > some.geometry.nbytes == growth.first_geometry.nbytes
    loop = scbf.Filter(growth=growth)
    for key in range(5000):
        loop.insert(key)
    batch = scbf.Filter(growth=growth)
    batch.insert(range(5000))
    assert loop == batch
    report = batch.remove(range(5000))
    assert report.removed + report.ambiguous == 5000
    other = scbf.Filter(growth=growth)
    other.insert(range(10**6, 10**6 + 3000))
    assert (loop | other).contains([*range(5000), *range(10**6, 10**6 + 3000)]).all()
    some.clear()
    assert some.stages == 1 and some == scbf.Filter(growth=growth)


FULL = scbf.Growth.fixed(scbf.Geometry.split_block(groups=1, blocks_per_group=4), most_stages=2)


@pytest.mark.parametrize("kind", [list, tuple, iter, np.array, lambda keys: np.array(keys, object)])
def test_a_full_filter(kind: Any) -> None:
    some = scbf.Filter(growth=FULL)
    keys = list(range(10_000))
    with pytest.raises(scbf.FilterFull, match="all 2 stages are full") as raised:
        some.insert(kind(keys))
    error = raised.value
    assert error.processed == error.inserted == len(some) > 0 and error.nulls == 0
    assert some == scbf.Filter.from_bytes(some.to_bytes())
    assert some.contains(keys[: error.processed]).all()
    rest = scbf.Filter(growth=FULL)
    rest.insert(kind(keys[: error.processed]))  # just fits
    assert rest == some
    with pytest.raises(scbf.FilterFull) as raised:
        some.insert(5)
    assert (raised.value.processed, raised.value.inserted) == (0, 0)


def test_a_full_filter_counts_over_nulls_and_chunks() -> None:
    pa = pytest.importorskip("pyarrow")
    fits = scbf.Filter(growth=FULL)
    with pytest.raises(scbf.FilterFull):
        fits.insert(range(10_000))
    keys = [None, 0, 1, None, *range(2, 1000)]
    columns = [
        pa.array(keys),
        pa.chunked_array([keys[:1], keys[1:4], keys[4:10], keys[10:]], pa.int64()),
        iter(keys),
        keys,
        pa.array(keys).dictionary_encode(),
    ]
    for column in columns:
        some = scbf.Filter(growth=FULL)
        with pytest.raises(scbf.FilterFull) as raised:
            some.insert(column)
        error = raised.value
        assert (error.inserted, error.nulls, error.processed) == (len(fits), 2, len(fits) + 2)
        assert some == fits


def test_a_full_filter_over_several_pieces() -> None:
    some = scbf.Filter(growth=scbf.Growth.fixed(scbf.Geometry.split_block(1, 40_000), 2))
    with pytest.raises(scbf.FilterFull) as raised:
        some.insert(np.arange(5_000_000))
    error = raised.value
    assert error.processed == error.inserted == some.keys_inserted
    assert some.contains(np.arange(error.processed)).all()


# ---- uninitialised ------------------------------------------------------------------------------


def test_init_only_once() -> None:
    some = filled([1])
    with pytest.warns(RuntimeWarning), pytest.raises(TypeError):
        some.__init__(1000, 0.01)
    assert some == filled([1])


def test_the_batch_is_the_loop() -> None:
    keys = [5, 5, 7, -1, 5]
    assert filled(keys) == one_by_one(keys)
