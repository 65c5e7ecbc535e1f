# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends the longest calls within a second, and leaves the filter usable."""

import numpy as np
import pytest
import scbf
from support import check_process

# A timer of the system takes the part of Ctrl-C: a thread that sends the signal would need Python's lock.
WITH_SIGNAL = """
import collections, functools, itertools, os, signal, sys, threading, time
import numpy as np, scbf

signal.signal(signal.SIGALRM, signal.default_int_handler)

def interrupted(name, call, after=0.15, limit=1):
    begun = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        call()
    except KeyboardInterrupt:
        took = time.monotonic() - begun - after
        print(f"{name}: {took:.2f} s", flush=True)
        if took > limit: sys.exit(f"{name}: noticed after {took:.2f} s")
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    sys.exit(f"{name}: not interrupted")

# All 0, in pages that are never written and take no memory.
keys = np.zeros(1_000_000_000, np.uint32)
"""


def check(code: str) -> None:
    check_process(WITH_SIGNAL + code, seconds=40)


def test_batches() -> None:
    check("""
some = scbf.Filter(1_000_000, 0.01)
some.insert([1, 2, 3])
for name in ("contains", "contains_bits", "find", "count", "count_present", "remove", "insert"):
    interrupted(name, lambda: getattr(some, name)(keys, threads=1))
    inserted = some.keys_inserted
    some.insert([7])  # nothing is held
    assert some.keys_inserted == inserted + 1 and 7 in some
assert 0 in some and 3 < some.keys_inserted < len(keys)
bits = scbf.BloomFilter.of(some)
interrupted("bits", lambda: bits.insert(keys, threads=1))
bits.insert([7])
""")


def test_columns_that_are_converted() -> None:
    check("""
some = scbf.Filter(1_000_000, 0.01)
interrupted("narrow", lambda: some.insert(keys.view(np.uint8), threads=1))
interrupted("apart", lambda: some.contains(keys[::3], threads=1))
interrupted("text", lambda: some.contains(keys.view("U2"), threads=1))
interrupted("bytes", lambda: some.insert(keys.view("S4"), threads=1))
interrupted("swapped", lambda: some.find(keys.view(">i8"), threads=1))
some.insert([1])
""")


def test_iterators() -> None:
    check("""
some = scbf.Filter(1_000_000, 0.01)
interrupted("insert", lambda: some.insert(itertools.repeat(5, 10**10)))
assert 5 in some
interrupted("insert", lambda: some.insert(i for i in range(10**10)))
interrupted("insert", lambda: some.insert(range(10**10)))
interrupted("contains", lambda: some.contains(itertools.repeat(5, 10**8)))
interrupted("contains", lambda: some.contains(str(i) for i in range(10**8)))
interrupted("remove", lambda: some.remove(range(10**8)))
some.insert([1])
""")


def test_lists() -> None:
    check("""
some = scbf.Filter(1_000_000, 0.01)
for one in (5, "text", None):
    long = [one] * 30_000_000
    interrupted(repr(one), lambda: some.contains(long), after=0.05)
some.insert([1])
""")


def test_insertion_counts_what_it_did() -> None:
    check("""
some = scbf.Filter(20_000_000, 0.01)
different = np.arange(50_000_000, dtype=np.uint32)
interrupted("insert", lambda: some.insert(different, threads=1), after=0.3)
done = some.keys_inserted
assert 0 < done < len(different), done
assert some.contains(different[:done]).all()
assert not some.contains(different[done + 1000 :][:100]).all()
""")


def test_bank_and_replica() -> None:
    check("""
bank = scbf.Bank(1_000_000, 0.01)
member = bank.add_member()
interrupted("insert", lambda: bank.insert(member, keys, threads=1))
interrupted("remove", lambda: bank.remove(member, keys, threads=1))
interrupted("find", lambda: bank.find(keys, threads=1))
bank.insert(member, [1])
bits = scbf.BloomFilter(1_000_000, 0.01)
replica = scbf.Replica(bits.advance(bits))
interrupted("replica", lambda: replica.contains(keys, threads=1))
""")


def test_bytes() -> None:
    check("""
some = scbf.Filter(geometry=scbf.Geometry.split_block(1, 1 << 21))
some.insert(np.random.default_rng(1).integers(0, 2**63, 2_000_000))
# Python itself looks for signals between its instructions, but not in these loops.
made = []
pack = functools.partial(scbf.Filter.to_bytes, compress=True)
interrupted("to_bytes", lambda: made.extend(map(pack, itertools.repeat(some, 20))), after=0.05)
assert made == []  # within the first call
some.insert([7])  # nothing is held
for small in (scbf.Filter(100, 0.01), scbf.BloomFilter(100, 0.01), scbf.Bank(100, 0.01), scbf.BloomBank(100, 0.01)):
    message = small.to_bytes()
    for call, argument in ((type(small).from_bytes, message), (type(small).to_bytes, small)):
        interrupted(call, lambda: collections.deque(map(call, itertools.repeat(argument)), 0), after=0.02)
bits = scbf.BloomFilter(100, 0.01)
message = bits.advance(bits).to_bytes()
interrupted("delta", lambda: collections.deque(map(scbf.Delta.from_bytes, itertools.repeat(message)), 0), after=0.02)
""")


def test_a_bank_is_asked_for_few_keys_at_first() -> None:
    """A key may take microseconds there."""
    bank = scbf.Bank(1000, 0.01)
    done: list[int] = []
    bank.find(np.arange(1 << 17), progress=lambda keys, _: done.append(keys))
    assert done[0] == 1 << 16 and done[-1] == 1 << 17


def test_waiting_for_another_thread() -> None:
    check("""
some = scbf.Filter(1000, 0.01)
goes_on, begun = threading.Event(), threading.Event()
def progress(done, all):
    begun.set()
    goes_on.wait()
worker = threading.Thread(target=lambda: some.insert([1], progress=progress))
worker.start()
begun.wait()
other = scbf.Filter(1000, 0.01)
threading.Timer(2.5, goes_on.set).start()  # ends it where it is not interrupted
for name, call in {
    "contains": lambda: some.contains([1]),
    "one": lambda: some.contains(1),
    "in": lambda: 1 in some,
    "insert": lambda: some.insert([1]),
    "insert one": lambda: some.insert(1),
    "merge": lambda: some.merge(other),
    "merge into": lambda: other.merge(some),
    "==": lambda: other == some,
    "len": lambda: len(some),
    "repr": lambda: repr(some),
    "buffer": lambda: memoryview(some),
    "close": lambda: some.close(),
}.items():
    interrupted(name, call, after=0.03)
other.insert([1])
goes_on.set()
worker.join()
some.insert([1])
os._exit(0)
""")


def test_all_or_nothing_while_keys_are_hashed() -> None:
    check("""
some = scbf.Filter(20_000_000, 0.01)
some.insert([1])
interrupted("remove", lambda: some.remove(itertools.repeat(0, 10**9), most_absent=0, threads=1))
assert some.keys_removed == 0 and 1 in some
""")



def test_python_code_that_is_interrupted() -> None:
    """The signal reaches callbacks and generators of the keys."""
    check("""
some = scbf.Filter(1_000_000, 0.01)
def forever():
    while True: yield time.sleep(0.01)
interrupted("generator", lambda: some.insert(forever()))
interrupted("progress", lambda: some.insert([1], progress=lambda *_: time.sleep(10)))
some.insert([1])
""")


def test_python_code_behind_a_reader_of_arrow() -> None:
    pytest.importorskip("pyarrow")
    check("""
import pyarrow as pa
def batches(error=None):
    for i in range(100):
        if error: raise error
        time.sleep(0.02)
        yield pa.record_batch({"a": [i]})
schema = pa.schema({"a": pa.int64()})
pa.record_batch({"a": [0]})  # imports pandas, which may lose an interrupt
some = scbf.Filter(1_000_000, 0.01)
for name in ("insert", "contains", "remove"):
    interrupted(name, lambda: getattr(some, name)(pa.RecordBatchReader.from_batches(schema, batches())))
assert 0 < some.keys_inserted < 100
for error in (KeyboardInterrupt(), KeyboardInterrupt("now or later")):
    try: some.insert(pa.RecordBatchReader.from_batches(schema, batches(error)))
    except KeyboardInterrupt: continue
    sys.exit("not interrupted")
for error in (RuntimeError("KeyboardInterrupt"), RuntimeError("Detail: Python exception: KeyboardInterrupt")):
    try: some.insert(pa.RecordBatchReader.from_batches(schema, batches(error)))
    except scbf.IoError: continue
    sys.exit("interrupted")
""")
