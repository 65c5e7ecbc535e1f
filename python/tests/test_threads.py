# SPDX-License-Identifier: Apache-2.0
"""Threads of Python: readers beside writers, no deadlock, exceptions of callbacks, and what they ask."""

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import scbf
from support import GEOMETRY, Thread, check_process, filled

KEYS = np.arange(200_000)


class Bang(Exception):
    pass


def bang(*_arguments: object) -> Any:
    raise Bang


# ---- readers and writers ------------------------------------------------------------------------


def test_readers_beside_writers() -> None:
    some = scbf.Filter(1_000_000, 0.001)
    some.insert(KEYS)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            assert some.contains(KEYS[:1000], threads=1).all()
            assert 5 in some and some.count(7) >= 1
            assert some.find(KEYS[:100]).size == 100
            assert len(some) >= 200_000
            stop.wait(0.001)

    def write(first: int) -> None:
        for i in range(10):
            part = np.arange(first + i * 10_000, first + (i + 1) * 10_000)
            some.insert(part)
            some.insert(int(part[0]))
            assert some.remove(part, most_absent=0).removed == 10_000

    readers = [Thread(read) for _ in range(2)]
    writers = [Thread(lambda: write(10**6)), Thread(lambda: write(2 * 10**6))]
    for writer in writers:
        writer.join()
    stop.set()
    for reader in readers:
        reader.join()
    assert len(some) == 200_000 + 20


def test_writers_take_turns() -> None:
    some = filled([])
    threads = [Thread(lambda: [some.insert([1, 2, 3]) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.join()
    assert some.keys_inserted == 4 * 200 * 3


@pytest.mark.parametrize("operation", ["|=", "==", "-="])
def test_two_filters_from_two_sides(operation: str) -> None:
    a, b = filled([]), filled([])

    def change(one: scbf.Filter, other: scbf.Filter) -> None:
        for _ in range(300):
            if operation == "|=":
                one |= other
            elif operation == "-=":
                one.subtract(other)
            else:
                assert one == other

    threads = [Thread(lambda: change(a, b)), Thread(lambda: change(b, a)), Thread(lambda: change(a, a))]
    for thread in threads:
        thread.join()


def test_banks_are_copied_and_compared_from_two_sides_while_they_change() -> None:
    a, b = (scbf.Bank(geometry=GEOMETRY, seed=42) for _ in range(2))
    for bank in (a, b):
        bank.insert(bank.add_member(), range(100))

    def use(one: scbf.Bank, other: scbf.Bank) -> None:
        for i in range(100):
            one.insert(0, [i % 5])
            assert one == one and isinstance(one == other, bool)
            assert one.copy().find(77) == [0]

    threads = [Thread(lambda: use(a, b)), Thread(lambda: use(b, a))]
    for thread in threads:
        thread.join()
    assert a == b


def turns_beside(worker: Thread) -> int:
    """How often this thread gets to run until the other one has finished."""
    turns = 0
    while worker.is_alive():
        time.sleep(0.002)
        turns += 1
    worker.join()
    return turns


def test_others_run_while_a_bank_is_copied_and_compared() -> None:
    bank = scbf.Bank(geometry=scbf.Geometry.split_block(1, 500_000))
    for _ in range(4):
        bank.add_member()
    worker = Thread(lambda: [bank.copy() == bank for _ in range(4)])
    assert turns_beside(worker) > 20


def test_rings_of_merges() -> None:
    filters = [filled([]) for _ in range(4)]
    bank = scbf.Bank(geometry=GEOMETRY, seed=42)
    member = bank.add_member()

    def change(i: int) -> None:
        for _ in range(40):
            filters[i].merge(filters[(i + 1) % 4])
            bank.merge(member, filters[i])
            bank.add_member(filters[i])
            assert scbf.BloomFilter.of(filters[i]) is not None

    threads = [Thread(partial(change, i)) for i in range(4)]
    for thread in threads:
        thread.join()
    assert len(bank) == 161


def test_others_run_during_a_batch() -> None:
    """Batches let go of Python's lock."""
    some = scbf.Filter(1_000_000, 0.001)
    big = np.arange(16_000_000) % 1_000_000
    worker = Thread(lambda: some.insert(big, threads=1))
    assert turns_beside(worker) > 5


def test_others_run_while_keys_are_collected() -> None:
    import itertools

    some = filled([])
    worker = Thread(lambda: some.contains(itertools.repeat(5, 10_000_000)))
    longest, last = 0.0, time.monotonic()
    while worker.is_alive():
        time.sleep(0.001)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    worker.join()
    assert longest < 0.2


def test_a_writer_gets_its_turn() -> None:
    some = scbf.Filter(10_000, 0.001)
    big = np.arange(1_000_000)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            some.contains(big, threads=1)

    readers = [Thread(read) for _ in range(3)]
    time.sleep(0.1)
    writer = Thread(lambda: some.insert(5))
    threading.Thread.join(writer, 2)
    waits = writer.is_alive()
    stop.set()
    for thread in [*readers, writer]:
        thread.join()
    assert not waits


# ---- callbacks ----------------------------------------------------------------------------------


def test_progress_may_ask_while_it_is_asked() -> None:
    some = filled([1, 2])
    seen: list[bool] = []

    def progress(_done: int, _all: int) -> None:
        seen.append(1 in some and some.contains(3) is False and some.contains([1]).all() and len(some) == 2)
        assert memoryview(some).nbytes == some.nbytes and repr(some) and some == some.copy()

    for call in (some.contains, some.count, some.find, some.contains_bits):
        call([1, 2, 3], progress=progress)
    assert seen == [True] * 4


def test_progress_may_not_use_what_is_being_changed() -> None:
    some = filled([1, 2])
    seen: list[str] = []

    def progress(_done: int, _all: int) -> None:
        for call in (
            lambda: some.insert(3),
            lambda: some.insert([3]),
            lambda: some.contains([3]),
            lambda: 3 in some,
            lambda: some.count(3),
            lambda: len(some),
            lambda: some.clear(),
            lambda: some.close(),
            lambda: some.merge(filled([1])),
            lambda: filled([1]).merge(some),
            lambda: some.copy(),
            lambda: some == filled([1]),
            lambda: scbf.BloomFilter.of(some),
        ):
            with pytest.raises(scbf.Error, match="in use by the call that this one was made from"):
                call()
        seen.append("refused")

    some.insert([3], progress=progress)
    some.remove([3], progress=progress)
    assert seen == ["refused"] * 2 and some == filled([1, 2])


def test_progress_of_a_lookup_may_not_change() -> None:
    some = filled([1, 2])
    seen: list[str] = []

    def progress(_done: int, _all: int) -> None:
        for call in (lambda: some.insert(3), lambda: some.remove([1]), some.clear, some.close):
            with pytest.raises(scbf.Error, match="in use by the call"):
                call()
        seen.append("refused")

    some.contains([1], progress=progress)
    assert seen == ["refused"] and some == filled([1, 2])


@pytest.mark.parametrize("call", ["insert", "contains", "count", "count_present", "find", "contains_bits", "remove"])
def test_exceptions_of_progress_end_the_call(call: str) -> None:
    some = filled(range(100))
    with pytest.raises(Bang):
        getattr(some, call)(np.arange(100), progress=bang)
    assert some.contains(range(100)).all() is np.bool_(call != "remove")
    some.clear()  # nothing is held
    assert some == filled([])


def test_exceptions_of_progress_leave_what_is_done() -> None:
    some = scbf.Filter(5_000_000, 0.01)
    seen: list[int] = []

    def progress(done: int, _all: int) -> None:
        seen.append(done)
        raise Bang

    with pytest.raises(Bang):
        some.insert(np.arange(30_000_000), progress=progress)
    assert some.keys_inserted == seen[-1] < 30_000_000
    assert some.contains(np.arange(seen[-1] - 1000, seen[-1])).all()


# ---- keys that run Python -----------------------------------------------------------------------


def test_generators_ask_the_filter_that_they_fill() -> None:
    some = filled([])

    def unseen(keys: Any) -> Iterator[int]:
        for key in keys:
            if key not in some:
                yield key

    report = some.insert(unseen([*range(70_000)] * 2))
    assert report.inserted + report.nulls == len(some) and 70_000 <= report.inserted < 140_000
    assert some.insert(unseen(range(70_000))).inserted == 0

    def nested() -> Iterator[int]:
        yield from range(70_000)
        some.insert(["inner"])
        assert 5 in some and 69_999 not in some
        yield -1

    some.clear()
    some.insert(nested())
    assert some == filled(np.arange(70_000)) | filled([-1]) | filled(["inner"])


def test_generators_of_lookups_may_change_the_filter() -> None:
    some = filled([1])

    def keys() -> Iterator[int]:
        yield 1
        some.insert(2)
        yield 2

    assert some.contains(keys()).all()


def test_a_generator_that_closes_the_filter() -> None:
    some = filled([1])

    def keys() -> Iterator[int]:
        some.close()
        yield 1

    for call in (some.insert, some.contains, some.remove, some.count):
        with pytest.raises(scbf.InvalidArgument):
            call(keys())


def test_whoever_closes_last_finds_it_closed() -> None:
    some = filled([1])
    closers: list[Thread] = []

    def progress(_done: int, _all: int) -> None:
        if not closers:
            closers.extend(Thread(some.close) for _ in range(4))
            time.sleep(0.05)  # in which they come to wait

    some.insert([2], progress=progress)
    assert len(closers) == 4
    for closer in closers:
        closer.join()
    with pytest.raises(scbf.InvalidArgument, match="closed"):
        some.contains([1])


def test_exceptions_of_generators() -> None:
    some = filled([])

    def keys(good: int) -> Iterator[int]:
        yield from range(good)
        raise Bang

    for call in (some.contains, some.count, some.remove, some.find):
        with pytest.raises(Bang):
            call(keys(10))
    with pytest.raises(Bang):
        some.insert(keys(10))
    assert some == filled([])
    with pytest.raises(Bang):
        some.insert(keys(70_000))
    assert some == filled(np.arange(65_536))
    some.insert([5])  # nothing is held


def test_index_methods_ask_the_filter() -> None:
    some = filled([7])

    class Key:
        def __index__(self) -> int:
            return 7 if 7 in some else 0

    assert Key() in some and some.contains([Key()]).all() and some.count(Key()) == 1
    some.insert([Key()])
    assert some.count(7) == 2


def test_streams_of_arrow_ask_the_filter() -> None:
    pa = pytest.importorskip("pyarrow")
    some = filled([])

    def batches() -> Iterator[Any]:
        for i in range(5):
            some.insert(100 + i)
            yield pa.record_batch({"key": [key for key in range(5) if key not in some]})

    some.insert(pa.RecordBatchReader.from_batches(pa.schema({"key": pa.int64()}), batches()))
    assert some == filled(range(5)) | filled(range(100, 105))


def test_duckdb_runs_python_while_it_is_read() -> None:
    duckdb = pytest.importorskip("duckdb")
    some = filled([])
    with duckdb.connect() as database:
        database.create_function("unseen", lambda key: key if key not in some else None, ["BIGINT"], "BIGINT")
        relation = database.sql("SELECT unseen(i) FROM range(5000) t(i)")
        some.insert(relation)
    assert some.contains(range(5000)).all()


# ---- deadlocks ----------------------------------------------------------------------------------


WAITING = """
import os, signal, sys, threading, time, scbf

signal.signal(signal.SIGALRM, signal.default_int_handler)
a, b = (scbf.Filter(1000, 0.01) for _ in range(2))
both = threading.Barrier(2)
errors = []

def call(method, other):
    def progress(done, all):
        both.wait(5)
        time.sleep(0.2)  # {writers}
        try: other.contains([1])
        except scbf.Error: pass
    try: method([1], progress=progress)
    except KeyboardInterrupt: errors.append("interrupted")

threads = [threading.Thread(target=call, args=(b.{method}, a), daemon=True)]
if {writers}:
    def write(one):
        time.sleep(0.1)
        one.insert(1)
    threads += [threading.Thread(target=write, args=(one,), daemon=True) for one in (a, b)]
for thread in threads: thread.start()
signal.setitimer(signal.ITIMER_REAL, 2)
call(a.{method}, b)
signal.setitimer(signal.ITIMER_REAL, 0)
for thread in threads: thread.join(2)
print(any(thread.is_alive() for thread in threads), errors, flush=True)
os._exit(0)
"""


def test_two_whose_progress_waits_for_the_other_are_freed_by_an_interrupt() -> None:
    """Each of two threads changes a filter, and its progress asks the other's."""
    assert check_process(WAITING.format(method="insert", writers=False)) == "False ['interrupted']\n"


def test_lookups_within_lookups_do_not_wait_for_each_other() -> None:
    assert check_process(WAITING.format(method="contains", writers=True)) == "False []\n"


# ---- forks --------------------------------------------------------------------------------------

FORK = """
import os, sys, threading, time
import numpy as np, scbf

call, many = sys.argv[1], np.arange(1000)
some, other = scbf.Filter(10_000, 0.001), scbf.Filter(10_000, 0.001)
some.insert(many)
inside, go_on = threading.Event(), threading.Event()

def progress(done, all):
    inside.set()
    go_on.wait()

thread = threading.Thread(target=lambda: getattr(some, call)(many, progress=progress))
thread.start()
inside.wait()

def ends(name, work):
    try: work()
    except scbf.Error as error:
        assert "when this process was forked" in str(error), error
        return name + " fails"
    return name + " works"

child = os.fork()
if child == 0:
    other.insert(many)
    assert other.contains(many).all()
    print(ends("contains", lambda: some.contains(many)), ends("in", lambda: 1 in some),
          ends("insert", lambda: some.insert(many)), ends("one", lambda: some.insert(1)),
          ends("|=", lambda: other.merge(some)), ends("close", some.close), sep=", ", flush=True)
    os._exit(0)
for _ in range(100):
    ended, code = os.waitpid(child, os.WNOHANG)
    if ended: break
    time.sleep(0.1)
else:
    os.kill(child, 9)
    os._exit(3)
go_on.set()
thread.join()
assert code == 0
some.insert(many)
assert some.contains(many).all()
"""


@pytest.mark.parametrize(("call", "said"), [
    ("insert", "contains fails, in fails, insert fails, one fails, |= fails, close fails\n"),
    ("contains", "contains works, in works, insert fails, one fails, |= works, close fails\n"),
])
def test_a_child_that_was_forked_while_another_thread_used_the_filter(call: str, said: str) -> None:
    assert check_process(FORK, call) == said


def test_a_fork_in_a_call_and_forks_of_forks() -> None:
    said = check_process("""
        import os, scbf
        some = scbf.Filter(1000, 0.001)

        def in_child(work):
            child = os.fork()
            if child == 0:
                work()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0

        def check():
            assert some.contains([1, 2]).tolist() == [True, False]
            some.insert([3])
            some.remove([3])

        def progress(done, all):
            in_child(lambda: print(some.contains([1]), flush=True))

        some.insert([1])
        some.contains([1], progress=progress)
        check()
        in_child(lambda: (check(), in_child(check)))
        check()
    """)
    assert said == "[ True]\n"
