# SPDX-License-Identifier: Apache-2.0
"""Exceptions: their classes, what they say, and that nothing is changed or swallowed."""

import inspect
import warnings
from typing import Any

import pytest
import scbf
import scbf.errors
from support import check_process, filled, in_process

BASES: dict[str, type] = {
    "Error": Exception,
    "InvalidArgument": ValueError,
    "InvalidKey": TypeError,
    "Incompatible": ValueError,
    "CorruptFile": ValueError,
    "IoError": OSError,
    "BackendUnavailable": RuntimeError,
    "NotOnHost": BufferError,
    "ReadOnly": PermissionError,
    "FilterFull": scbf.Error,
    "RemovalStopped": scbf.Error,
    "KeysAbsent": KeyError,
    "MembersFull": scbf.FilterFull,
    "DeviceError": RuntimeError,
    "DeviceLost": scbf.DeviceError,
    "OutOfDeviceMemory": MemoryError,
}


@pytest.mark.parametrize("name", BASES)
def test_classes(name: str) -> None:
    kind = getattr(scbf, name)
    assert issubclass(kind, scbf.Error) and issubclass(kind, BASES[name])
    assert kind is getattr(scbf.errors, name) and name in scbf.__all__
    assert str(kind("what happened")) == "what happened"
    assert inspect.getdoc(kind)


def test_all_classes_are_listed() -> None:
    for name, value in vars(scbf.errors).items():
        if isinstance(value, type) and name not in BASES:  # such as those that are also FileNotFoundError
            assert issubclass(value, (scbf.IoError, Warning))


RAISED: dict[str, Any] = {
    "InvalidArgument": lambda _: scbf.Filter(10, 2.0),
    "InvalidKey": lambda _: filled([1.5]),
    "Incompatible": lambda _: filled([1]).merge(scbf.Filter(10, 0.1)),
    "CorruptFile": lambda _: scbf.Filter.from_bytes(b"no filter"),
    "IoError": lambda path: scbf.Filter.load(path / "nothing"),
    "BackendUnavailable": lambda _: scbf.Filter(10, 0.1, backend="abacus"),
    "NotOnHost": lambda _: memoryview(grown()),
    "ReadOnly": lambda path: mapped(path).insert(1),
    "FilterFull": lambda _: scbf.Filter(growth=scbf.Growth.fixed(scbf.Geometry.split(1, 64), 1)).insert(range(999)),
    "KeysAbsent": lambda _: filled([1]).remove([2], most_absent=0),
    "Error": lambda _: exported(),
}


def grown() -> scbf.Filter:
    some = scbf.Filter(growth=scbf.Growth.tightening(10, 0.1))
    some.insert(range(1000))
    return some


def mapped(path: Any) -> scbf.Filter:
    filled([1]).save(path / "x")
    return scbf.Filter.map(path / "x")


def exported() -> None:
    some = filled([1])
    with memoryview(some):
        some.clear()


@pytest.mark.parametrize("name", RAISED)
def test_each_is_raised(name: str, tmp_path: Any) -> None:
    with pytest.raises(scbf.Error) as raised:
        RAISED[name](tmp_path)
    assert isinstance(raised.value, getattr(scbf, name))
    assert type(raised.value) is getattr(scbf, name) or name == "IoError"
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    assert len(str(raised.value)) > 15
    with pytest.raises(BASES[name]):
        RAISED[name](tmp_path)


def test_memory_that_is_not_there() -> None:
    check_process("""
        import resource, scbf
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        def refused(call):
            try: call()
            except MemoryError: return
            raise AssertionError(call)
        refused(lambda: scbf.Filter(capacity=10**11, fpr=0.01, layout="split"))
        refused(lambda: scbf.BloomFilter(memory_bytes=10**11, fpr=0.01))
        assert scbf.Filter(1000, 0.01).insert([1]).inserted == 1
    """)


OTHERS = """
import scbf
import duckdb
try:
    scbf.Filter(capacity=10**12, fpr=0.01, layout="split")
except MemoryError:
    pass
"""


@pytest.mark.parametrize("first", ["scbf", "duckdb"])
def test_other_extension_modules_do_not_translate_our_exceptions(first: str) -> None:
    pytest.importorskip("duckdb")
    code = OTHERS if first == "scbf" else OTHERS.replace("import scbf\nimport duckdb", "import duckdb, scbf")
    check_process(code)


# ---- objects that were never made ---------------------------------------------------------------

UNMADE = """
import sys, warnings, scbf
warnings.simplefilter("ignore")
try:
    {code}
except (TypeError, RuntimeError) as error:
    sys.exit(0 if not isinstance(error, scbf.NotOnHost) else 'it was looked at')
except scbf.NotOnHost:
    sys.exit('it was looked at')
sys.exit("not refused")
"""


@pytest.mark.parametrize("name", ["Filter", "BloomFilter", "Bank", "BloomBank", "Replica", "Delta"])
def test_methods_of_objects_without_init(name: str) -> None:
    attribute = "epoch" if name in ("Replica", "Delta") else "seed"
    check_process(UNMADE.format(code=f"scbf.{name}.__new__(scbf.{name}).{attribute}"))


SLOTS = {
    "in a Filter": "1 in scbf.Filter.__new__(scbf.Filter)",
    "in a BloomFilter": "1 in scbf.BloomFilter.__new__(scbf.BloomFilter)",
    "in a Replica": "1 in scbf.Replica.__new__(scbf.Replica)",
    "buffer": "memoryview(scbf.Filter.__new__(scbf.Filter))",
    "keys": "scbf.Filter(1000, 0.01).contains(scbf.Filter.__new__(scbf.Filter))",
}


@pytest.mark.parametrize("name", SLOTS)
def test_slots_of_objects_without_init(name: str) -> None:
    check_process(UNMADE.replace("(TypeError, RuntimeError)", "TypeError").format(code=SLOTS[name]))


# ---- nothing is said that was not asked for -------------------------------------------------------


def test_an_import_is_silent_and_ends_clean() -> None:
    done = in_process("""
        import numpy as np, scbf
        some = scbf.Filter(1000, 0.01)
        some.insert(np.arange(1000))
        view = memoryview(some)
        bank = scbf.Bank(1000, 0.01); bank.add_member(some)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        some = filled([1, 2])
        repr(some), some.statistics(), some.contains([1])


NUMBERS: list[tuple[Any, int, str]] = [
    (lambda n: scbf.Geometry.split(n, 64), -1, "probes -1: must be 1 to 64"),
    (lambda n: scbf.Geometry.split(n, 64), 2**40, "probes 1099511627776: must be 1 to 64"),
    (lambda n: scbf.Geometry.split(2, n), 2**70, "counters per slice of more than 64 bits: must be 1 to 1099511627776"),
    (lambda n: scbf.Geometry.split_block(n, 2), 9, "groups 9: must be 1 to 8"),
    (lambda n: scbf.Geometry.split_block(1, n), -(2**70),
     "blocks per group of more than 64 bits: must be 1 to 4294967295"),
    (lambda n: scbf.Geometry.ranked(n, 9, 3), 64, "positions 64: must be 65 to 112"),
    (lambda n: scbf.Geometry.ranked(72, 9, n), -3, "spill slots -3: must be 0 to 4294967295"),
    (lambda n: scbf.Growth.fixed(scbf.Geometry.split(2, 64), n), 257, "stages 257: must be 1 to 256"),
    (lambda n: scbf.Growth.tightening(n, 0.01), -1, r"first_capacity -1: must be a whole number from 1 to 2\*\*64 - 1"),
    (lambda n: scbf.plan(100, 0.01, groups=n), 2**32 + 1, "groups 4294967297: must be 1 to 8"),
    (lambda n: scbf.Bank(100, 0.01, members=n), -1, "members -1: must be 0 to 1048576"),
    (lambda n: scbf.Bank(100, 0.01).reserve(n), 2**20 + 1, "members 1048577: must be 0 to 1048576"),
]


@pytest.mark.parametrize(("call", "number", "message"), NUMBERS)
def test_numbers_out_of_range_are_named_with_their_limits(call: Any, number: int, message: str) -> None:
    with pytest.raises(scbf.InvalidArgument, match=f"^{message}$"):
        call(number)
    with pytest.raises((TypeError, scbf.InvalidArgument)):
        call("7")


@pytest.mark.parametrize("keys", [1_000, 3_000_000])
def test_ends_while_threads_are_at_work(keys: int) -> None:
    done = in_process(f"""
        import threading, time, numpy as np, scbf
        some = scbf.Filter(3_000_000, 0.01)
        keys = np.arange({keys})
        for call in (some.insert, some.contains, some.insert, some.contains):
            def work(call=call):
                while True:
                    call(keys, threads=1)
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.2)
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_children_end_whatever_threads_were_at_work() -> None:
    done = in_process("""
        import os, sys, threading, warnings, numpy as np, scbf
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, for a fork of several threads
        some = scbf.Filter(1_000_000, 0.01)
        other, keys = some.copy(), np.arange(100)
        def work():
            while True:
                other.contains(keys, threads=1)
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        for _ in range(200):
            child = os.fork()
            if child == 0:
                sys.exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    """, seconds=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_filters_can_be_used_at_the_end() -> None:
    done = in_process("""
        import atexit
        def last():
            some.insert(np.arange(1_000_000))
            print(some.contains(np.arange(10)).all())
        atexit.register(last)  # before scbf's own, so that it runs after
        import numpy as np, scbf
        some = scbf.Filter(1_000_000, 0.01)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
