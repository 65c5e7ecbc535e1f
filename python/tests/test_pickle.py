# SPDX-License-Identifier: Apache-2.0
"""Pickles, within a process and to others."""

import concurrent.futures
import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest
import scbf
from scbf import _pickled
from support import GEOMETRY, ask, build, fail, filled


def copies(thing: Any, protocols: range = range(pickle.HIGHEST_PROTOCOL + 1)) -> list[Any]:
    made = [pickle.loads(pickle.dumps(thing, protocol)) for protocol in protocols]
    return [*made, copy.copy(thing), copy.deepcopy(thing)]


@pytest.mark.parametrize(
    "growth",
    [
        scbf.Growth.one(scbf.Geometry.split(3, 100)),
        scbf.Growth.one(GEOMETRY),
        scbf.Growth.one(scbf.Geometry.ranked(82, 100, 7)),
        scbf.Growth.tightening(50, 0.1, layout="ranked"),
        scbf.Growth.fixed(scbf.Geometry.split_block(1, 7), 5),
        scbf.Growth.tightening(50, 0.1),
        scbf.Growth.tightening(50, 0.1, layout="split", growth=3, tightening=0.7),
    ],
    ids=repr,
)
def test_shapes_and_filters(growth: scbf.Growth) -> None:
    for same in copies(growth):
        assert same == growth and repr(same) == repr(growth)
    for same in copies(growth.first_geometry):
        assert same == growth.first_geometry
    for kind in (scbf.Filter, scbf.BloomFilter):
        some = kind(growth=growth, seed=2**63)
        some.insert(range(90))
        some.metadata = "µ"
        for same in copies(some):
            assert type(same) is kind and same == some and same is not some
            assert (same.metadata, same.seed, len(same), same.growth) == ("µ", 2**63, 90, some.growth)
            same.insert(range(90, 200))  # is another object
            assert same != some


def test_other_things() -> None:
    for verdict in scbf.Removal:
        assert all(same is verdict for same in copies(verdict))
    bank = scbf.Bank(geometry=GEOMETRY)
    bank.insert(bank.add_member(), ["a"])
    for same in copies(bank.find(["a", "b"]), range(2, 6)):  # as all classes with slots
        assert [list(members) for members in same] == [[0], []]


class Old:
    """Is pickled as objects without a plan are, and as all were in earlier versions."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __reduce__(self) -> Any:
        return _pickled.made, (type(self.of), "from_bytes", self.of.to_bytes())


def test_old_pickles_are_loaded() -> None:
    bank = scbf.Bank(1000, 0.01)
    bank.insert(bank.add_member(), ["a"])
    some = scbf.Filter(1000, 0.01)
    some.insert([1])
    for thing in (some, scbf.BloomFilter.of(some), bank, scbf.BloomBank.of(bank)):
        same = pickle.loads(pickle.dumps(Old(thing)))
        assert type(same) is type(thing) and same == thing
        assert all(same == thing and same.to_bytes() == thing.to_bytes() for same in copies(thing))
        assert pickle.dumps(same) == pickle.dumps(Old(thing)) != pickle.dumps(thing)


def test_a_mapped_filter_becomes_an_ordinary_one(tmp_path: Any) -> None:
    filled([1]).save(tmp_path / "x")
    same = pickle.loads(pickle.dumps(scbf.Filter.map(tmp_path / "x")))
    assert same == filled([1]) and not same.read_only


def test_exceptions() -> None:
    some = scbf.Filter(growth=scbf.Growth.fixed(scbf.Geometry.split_block(1, 4), 1))
    with pytest.raises(scbf.FilterFull) as raised:
        some.insert(range(1000))
    for same in copies(raised.value):
        assert type(same) is scbf.FilterFull and str(same) == str(raised.value)
        assert (same.processed, same.inserted, same.nulls) == (len(some), len(some), 0)
    with pytest.raises(scbf.KeysAbsent) as absent:
        some.remove([-5], most_absent=0)
    for same in copies(absent.value):
        assert str(same) == str(absent.value) and same.absent == 1
    with pytest.raises(scbf.IoError) as io:
        scbf.Filter.load("/nothing")
    for same in copies(io.value):
        assert type(same) is type(io.value) and str(same) == str(io.value) and same.errno == io.value.errno


@pytest.mark.parametrize("layout", ["split", "split_block", "ranked"])
def test_the_geometry_of_bits(layout: str) -> None:
    geometry = scbf.BloomFilter(1000, 0.01, layout=layout).geometry
    assert all(same == geometry for same in copies(geometry))
    assert geometry.of_counters.of_bits == geometry.of_bits == geometry


def grown() -> scbf.Filter:
    some = scbf.Filter(growth=scbf.Growth.tightening(50, 0.1))
    some.insert(range(500))
    some.remove(range(10))
    return some


def shown(thing: Any) -> Any:
    """All attributes of a report."""
    if isinstance(thing, list):
        return [shown(each) for each in thing]
    if type(thing).__module__.split(".")[0] != "scbf" or isinstance(thing, scbf.Geometry | scbf.Growth):
        return thing
    return {name: shown(getattr(thing, name)) for name in dir(thing) if not name.startswith("_")}


REPORTS = {
    "InsertReport": lambda: filled([]).insert([1]),
    "RemoveReport": lambda: filled([1]).remove([1]),
    "Plan": lambda: scbf.plan(capacity=1000, fpr=0.01),
    "Statistics": lambda: filled(range(100)).statistics(),
    "StageStatistics": lambda: filled(range(100)).statistics().stages[0],
    "statistics of stages": lambda: grown().statistics(),
    "KeyEstimate": lambda: scbf.BloomFilter(1000, 0.01).estimated_keys(),
}


@pytest.mark.parametrize("name", REPORTS)
def test_reports(name: str) -> None:
    thing = REPORTS[name]()
    assert shown(thing) and all(repr(same) == repr(thing) and shown(same) == shown(thing) for same in copies(thing))


# ---- processes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_other_processes(method: str) -> None:
    filled(np.arange(3_000_000) % 1000, threads=2)  # so that there are threads, which a fork lacks
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        total = filled([])
        for part in pool.map(build, [0, 1000], timeout=40):
            total |= part
        assert total == filled(np.arange(2000))
        assert pool.submit(ask, total, range(3000)).result(40).sum() == 2000
        with pytest.raises(scbf.FilterFull, match="the only stage is full") as raised:
            pool.submit(fail, 0).result(40)
        assert raised.value.processed > 0
