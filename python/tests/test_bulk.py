# SPDX-License-Identifier: Apache-2.0
"""Many small columns as one: bulk(), and what holds before it is finished; remove()."""

import gc
import os
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scbf
from support import Thread, check_process

KINDS = [scbf.Filter, scbf.BloomFilter]
#: Larger than a cache of the second level, so that keys are partitioned and wait.
GEOMETRY = scbf.Geometry.split_block(groups=1, blocks_per_group=1 << 17)
#: More than what goes into the filter batch by batch.
KEYS = np.arange(400_000) * 7
STEP = 50_000


def batches(keys: Any = KEYS, step: int = STEP) -> Iterator[Any]:
    return (keys[first : first + step] for first in range(0, len(keys), step))


def at_once(kind: Any, keys: Any = KEYS, **shape: Any) -> Any:
    made = kind(**(shape or {"geometry": GEOMETRY}))
    made.insert(keys)
    return made


def begun(kind: Any = scbf.Filter, **options: Any) -> tuple[Any, Any]:
    """A filter, and an insertion that has accepted KEYS."""
    some = kind(geometry=GEOMETRY)
    bulk = some.bulk(path="partitioned", **options)
    for batch in batches():
        bulk.insert(batch)
    return some, bulk


def test_keys_wait() -> None:
    """Without this, the other tests would show little."""
    some = scbf.Filter(geometry=GEOMETRY)
    counters = np.asarray(some)
    bulk = some.bulk(path="partitioned")
    for batch in batches():
        bulk.insert(batch)
    before = int((counters != 0).sum())
    bulk.finish()
    assert before < int((counters != 0).sum())


SHAPES: dict[str, dict[str, Any]] = {
    "split_block": {"geometry": GEOMETRY},
    "small": {"geometry": scbf.Geometry.split_block(groups=2, blocks_per_group=64)},
    "split": {"capacity": 500_000, "fpr": 0.01, "layout": "split"},
    "ranked": {"capacity": 500_000, "fpr": 0.01, "layout": "ranked"},
    "grows": {"growth": scbf.Growth.tightening(30_000, 0.01)},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step", [1000, 100_000])
def test_the_bytes_are_those_of_one_insertion(kind: Any, shape: str, step: int) -> None:
    some = kind(**SHAPES[shape])
    with some.bulk(threads=1, path="automatic" if shape == "small" else "partitioned") as bulk:
        reports = [bulk.insert(batch) for batch in batches(step=step)]
    assert [report.inserted for report in reports] == [step] * (len(KEYS) // step)
    assert bulk.so_far.inserted == bulk.finish().inserted == len(KEYS)
    assert some.to_bytes() == at_once(kind, **SHAPES[shape]).to_bytes()


def test_columns_of_all_kinds() -> None:
    some = scbf.Filter(geometry=GEOMETRY)
    with some.bulk() as bulk:
        assert bulk.insert(["a", None, "b"]).nulls == 1
        bulk.insert(iter(range(300_000)))
        bulk.insert(np.arange(5))
        bulk.insert([])
        for wrong in ("a", 5, 1.5, [1.5], some):
            with pytest.raises(scbf.InvalidKey):
                bulk.insert(wrong)
    assert repr(bulk) == "<scbf.BulkInserter: 300007 inserted, 1 null>"
    expected = scbf.Filter(geometry=GEOMETRY)
    for keys in (["a", "b"], range(300_000), range(5)):
        expected.insert(keys)
    assert some == expected


# ---- before it is finished ----------------------------------------------------------------------


def shows(some: Any) -> bool:
    return bool(some.contains(KEYS).all())


USES: dict[str, Callable[[Any, Path], Any]] = {
    "contains": lambda some, _: shows(some),
    "one": lambda some, _: some.contains(int(KEYS[-1])),
    "in": lambda some, _: int(KEYS[-1]) in some,
    "find": lambda some, _: len(some.find(KEYS)) == len(KEYS),
    "insert": lambda some, _: some.insert([1]) and shows(some),
    "insert one": lambda some, _: some.insert(1) is None and shows(some),
    "insert_new": lambda some, _: not some.insert_new(KEYS).any(),
    "another bulk": lambda some, _: some.bulk().insert([1]) and shows(some),
    "==": lambda some, _: some == at_once(type(some)),
    "copy": lambda some, _: shows(some.copy()),
    "merge": lambda some, _: some.merge(at_once(type(some), [1])) is None and shows(some),
    "merge into": lambda some, _: shows(at_once(type(some), [1]) | some),
    "to_bytes": lambda some, _: some.to_bytes() == at_once(type(some)).to_bytes(),
    "save": lambda some, folder: some.save(folder / "a") is None and shows(type(some).load(folder / "a")),
    "pickle": lambda some, _: shows(pickle.loads(pickle.dumps(some))),
    "fill": lambda some, _: some.fill() == at_once(type(some)).fill(),
    "statistics": lambda some, _: some.statistics().nonzero == at_once(type(some)).statistics().nonzero,
    "buffer": lambda some, _: (np.asarray(some) == np.asarray(at_once(type(some)))).all(),
    "repr": lambda some, _: repr(some) == repr(at_once(type(some))),
    "to": lambda some, _: shows(some.to("scalar")),
    "len": lambda some, _: len(some) == len(KEYS) == some.keys_inserted,
}
COUNTS: dict[str, Callable[[Any, Path], Any]] = {
    "count": lambda some, _: some.count(KEYS).all(),
    "remove": lambda some, _: some.remove(KEYS).absent == 0,
    "subtract": lambda some, _: some.subtract(at_once(scbf.Filter)) == 0,
    "bits": lambda some, _: scbf.BloomFilter.of(some) == at_once(scbf.BloomFilter),
}


@pytest.mark.parametrize("kind, use", [
    *((kind, use) for kind in KINDS for use in USES), *((scbf.Filter, use) for use in COUNTS)])
def test_whoever_uses_the_filter_sees_all_accepted_keys(kind: Any, use: str, tmp_path: Path) -> None:
    some, bulk = begun(kind)
    assert {**USES, **COUNTS}[use](some, tmp_path)
    bulk.insert([3])  # it goes on
    assert bulk.finish().inserted == len(KEYS) + 1
    assert 3 in some


def test_a_bank_sees_them() -> None:
    some, _bulk = begun()
    bank = scbf.Bank(geometry=GEOMETRY)
    bank.add_members([some])
    assert all(len(members) == 1 for members in bank.find(KEYS[::1000]))


def test_clear_and_close() -> None:
    some, bulk = begun()
    some.clear()
    assert some == scbf.Filter(geometry=GEOMETRY)
    bulk.insert([1])
    bulk.finish()
    assert some == at_once(scbf.Filter, [1])
    some, bulk = begun()
    with bulk:
        some.close()
        with pytest.raises(scbf.InvalidArgument, match="closed"):
            bulk.insert([1])
    with pytest.raises(scbf.InvalidArgument, match="closed"):
        bulk.finish()
    assert bulk.so_far.inserted == len(KEYS)
    assert "400000 inserted" in repr(bulk)


def test_never_finished() -> None:
    some, bulk = begun()
    counters = np.asarray(some)  # adds what was accepted
    del bulk
    bulk = some.bulk(path="partitioned")
    for batch in batches():
        bulk.insert(batch)
    ones = int(counters.view(np.uint8).sum())
    del bulk
    gc.collect()
    assert int(counters.view(np.uint8).sum()) > ones  # at once
    assert shows(some) and some.count(KEYS).min() == 2


def test_the_filter_lives_as_long_as_its_insertion() -> None:
    some, bulk = begun()
    del some
    gc.collect()
    bulk.insert([1])
    assert bulk.finish().inserted == len(KEYS) + 1
    _, abandoned = begun()
    del _, abandoned


def test_two_at_once() -> None:
    some = scbf.Filter(geometry=GEOMETRY)
    one, other = some.bulk(threads=1), some.bulk(path="partitioned")
    for i, batch in enumerate(batches()):
        (one, other)[i // 3 % 2].insert(batch)
    assert one.finish().inserted + other.finish().inserted == len(KEYS)
    assert some == at_once(scbf.Filter)


# ---- exceptions ---------------------------------------------------------------------------------


class Bang(Exception):
    pass


def test_an_exception_in_the_block() -> None:
    some = scbf.Filter(geometry=GEOMETRY)
    with pytest.raises(Bang), some.bulk() as bulk:
        for batch in batches():
            bulk.insert(batch)
        raise Bang
    assert bulk.so_far.inserted == len(KEYS)
    assert some == at_once(scbf.Filter)
    with pytest.raises(Bang), some.bulk() as bulk:
        some.close()
        raise Bang


def test_exceptions_of_what_yields_keys() -> None:
    def keys() -> Iterator[int]:
        yield from range(400_000)
        raise Bang

    some = scbf.Filter(geometry=GEOMETRY)
    with some.bulk() as bulk:
        with pytest.raises(Bang):
            bulk.insert(keys())
        done = bulk.so_far.inserted
        assert 0 < done < 400_000
        assert some.contains(range(done)).all()
        with pytest.raises(scbf.InvalidKey):
            bulk.insert([1, 2, 1.5])
        assert bulk.so_far.inserted == done
    with pytest.raises(Bang):
        some.insert(keys())
    assert some.count(range(done)).min() >= 2


def test_a_full_filter() -> None:
    growth = scbf.Growth.fixed(scbf.Geometry.split_block(1, 1 << 13), 2)
    expected = scbf.Filter(growth=growth)
    with pytest.raises(scbf.FilterFull) as at_once_full:
        expected.insert(KEYS)
    some = scbf.Filter(growth=growth)
    with some.bulk() as bulk:
        for first in range(0, len(KEYS), STEP):
            try:
                bulk.insert(KEYS[first : first + STEP])
            except scbf.FilterFull as full:
                processed = full.processed
                break
        else:
            pytest.fail("not full")
        assert bulk.so_far.inserted == first + processed == at_once_full.value.processed
        with pytest.raises(scbf.FilterFull):
            bulk.insert([-1])
        with pytest.raises(scbf.FilterFull) as of_an_iterator:
            bulk.insert(iter([-1]))
        assert of_an_iterator.value.processed == 0
    assert some == expected and bulk.so_far.inserted == expected.keys_inserted


def test_a_filter_that_is_mapped(tmp_path: Path) -> None:
    scbf.Filter(10, 0.1).save(tmp_path / "a")
    with pytest.raises(scbf.ReadOnly):
        scbf.Filter.map(tmp_path / "a").bulk()


def test_wrong_arguments() -> None:
    some = scbf.Filter(10, 0.1)
    with pytest.raises(scbf.InvalidArgument, match="threads"):
        some.bulk(threads=-1)
    with pytest.raises(scbf.InvalidArgument):
        some.bulk(path="sideways")
    with pytest.raises(TypeError):
        some.bulk().insert([1], progress=5)
    with pytest.raises(TypeError):
        scbf.BulkInserter()


def test_it_warns_of_too_many_keys_once_it_is_finished() -> None:
    some = scbf.Filter(1000, 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bulk = some.bulk()
        bulk.insert(range(2000))
    with pytest.warns(scbf.OverfullWarning):
        bulk.finish()
    other = scbf.Filter(1000, 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Bang), other.bulk() as bulk:
            bulk.insert(range(2000))
            raise Bang  # not replaced
        with pytest.raises(scbf.OverfullWarning):
            other.insert([1])


def test_it_notes_the_kind_of_keys() -> None:
    some = scbf.Filter(1000, 0.01)
    with some.bulk() as bulk:
        bulk.insert([1, 2])
    with pytest.warns(scbf.KeyKindWarning):
        some.contains(["1"])


# ---- threads, progress, forks, interrupts -------------------------------------------------------


def test_other_threads_ask_and_insert_meanwhile() -> None:
    some = scbf.Filter(geometry=GEOMETRY)
    bulk = some.bulk(threads=1, path="partitioned")
    accepted = 0
    ends = threading.Event()

    def ask() -> None:
        while not ends.is_set():
            known = accepted
            assert some.contains(KEYS[:known], threads=1).all()
            assert known == 0 or int(KEYS[known - 1]) in some
            ends.wait(0.002)

    def insert_more() -> None:
        for batch in batches(KEYS + 1, 10_000):
            some.insert(batch, threads=1)

    def same_bulk() -> None:
        for batch in batches(KEYS + 2, 10_000):
            bulk.insert(batch)

    askers = [Thread(ask) for _ in range(2)]
    inserters = [Thread(insert_more), Thread(same_bulk)]
    for batch in batches(step=2000):
        bulk.insert(batch)
        accepted += len(batch)
    for thread in inserters:
        thread.join()
    ends.set()
    for thread in askers:
        thread.join()
    assert bulk.finish().inserted == 2 * len(KEYS)
    expected = at_once(scbf.Filter)
    expected.insert(KEYS + 1)
    expected.insert(KEYS + 2)
    assert some == expected


def test_progress_and_what_it_may_use() -> None:
    some, bulk = begun()
    seen: list[object] = []

    def progress(done: int, of: int | None) -> None:
        seen.append((done, of))
        for use in (lambda: bulk.insert([1]), lambda: bulk.finish(), lambda: bulk.so_far, lambda: some.contains(1)):
            with pytest.raises(scbf.Error, match="in use by the call"):
                use()

    bulk.insert([1, 2, 3], progress=progress)
    assert seen == [(3, 3)]
    asked: list[object] = []
    some.contains([1], progress=lambda *_: asked.append(bulk.so_far.inserted))
    assert asked == [len(KEYS) + 3]


def test_a_generator_that_asks_sees_the_blocks_before() -> None:
    block = 65_536
    for insert in ("insert", "bulk"):
        some = scbf.Filter(geometry=GEOMETRY)
        unseen: list[int] = []

        def keys() -> Iterator[int]:
            for key in range(8 * block):
                yield key
                if key % block == block - 1 and key >= 6 * block:  # after many blocks without a question
                    unseen.extend(k for k in range(key - 2 * block, key - block) if k not in some)

        some.insert(keys()) if insert == "insert" else some.bulk().insert(keys())
        assert unseen == []
        assert some == at_once(scbf.Filter, np.arange(8 * block))


def test_fork() -> None:
    check_process("""
import os
import numpy as np, scbf
some = scbf.Filter(geometry=scbf.Geometry.split_block(1, 1 << 17))
bulk = some.bulk(threads=1, path="partitioned")
keys = np.arange(400_000)
for first in range(0, len(keys), 50_000): bulk.insert(keys[first:][:50_000])
child = os.fork()
more = np.arange(400_000, 500_000) + (child == 0)
bulk.insert(more)
assert some.contains(keys, threads=1).all() and some.contains(more, threads=1).all()
assert bulk.finish().inserted == 500_000
if child == 0: os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""")


def test_ctrl_c() -> None:
    check_process("""
import signal, sys, time
import numpy as np, scbf
signal.signal(signal.SIGALRM, signal.default_int_handler)
some = scbf.Filter(geometry=scbf.Geometry.split_block(1, 1 << 17))
keys = np.zeros(1_000_000_000, np.uint32)
begun = time.monotonic()
try:
    with some.bulk(threads=1) as bulk:
        signal.setitimer(signal.ITIMER_REAL, 0.15)
        bulk.insert(keys)
except KeyboardInterrupt:
    pass
else:
    sys.exit("not interrupted")
assert time.monotonic() - begun < 1.5
assert 0 < bulk.so_far.inserted == some.keys_inserted < len(keys) and 0 in some
""")


def test_the_end_of_the_interpreter() -> None:
    """Neither an unfinished insertion nor a thread in one disturbs it."""
    for last in ("", "threading.Thread(target=lambda: bulk.insert(np.zeros(10**9, np.uint32)), daemon=True).start(); "
                     "time.sleep(0.1)"):
        check_process(f"""
import threading, time
import numpy as np, scbf
some = scbf.Filter(geometry=scbf.Geometry.split_block(1, 1 << 17))
bulk = some.bulk(threads=1, path="partitioned")
bulk.insert(np.arange(400_000))
{last}
""")


@pytest.mark.parametrize(("keys", "before", "times", "most"), [
    ([1], 200, 4000, 400_000),
    (KEYS, 5, 30, 20 * KEYS.nbytes),  # those wait in partitions, which are as large as they are
], ids=["one key", "partitions"])
def test_nothing_is_kept(keys: Any, before: int, times: int, most: int) -> None:
    some = scbf.Filter(geometry=GEOMETRY)
    def rss() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    def insert(times: int) -> None:
        for _ in range(times):
            some.bulk(threads=1, path="partitioned").insert(keys)
    insert(before)
    held = rss()
    insert(times)
    assert rss() - held < most


# ---- removal ------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["split_block", "split", "ranked"])
def test_removal_of_many_small_columns_is_that_of_one(layout: Any) -> None:
    gone = np.concatenate([KEYS[:250_000], KEYS[:1000], KEYS[:50_000] + 1])
    want = at_once(scbf.Filter, capacity=len(KEYS), fpr=0.01, layout=layout)
    some = want.copy()
    of_one = want.remove(gone)
    told: list[int] = []
    columns = pa.chunked_array([*batches(gone, 5000), pa.nulls(3, pa.int64())])
    report = some.remove(columns, progress=lambda done, _: told.append(done))
    assert some == want and some.keys_removed == want.keys_removed
    assert (report.removed, report.absent, report.nulls) == (of_one.removed, of_one.absent, 3)
    assert report.absent > 50_000 - 2000 and told[-1] == len(columns)


def test_interrupted_removal_leaves_no_key_without_its_turn() -> None:
    some = at_once(scbf.Filter)
    done = 0

    def stop(so_far: int, _: int | None) -> None:
        nonlocal done
        done = so_far
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        some.remove(pa.chunked_array(batches()), path="partitioned", progress=stop)
    assert 0 < done <= some.keys_removed < len(KEYS)
    want = at_once(scbf.Filter)
    want.remove(KEYS[: some.keys_removed])
    assert some == want
