# SPDX-License-Identifier: Apache-2.0
"""What type checkers read from the stubs."""

import enum
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scbf
from scbf import _scbf

GOOD = """
import numpy as np
import scbf
from numpy.typing import NDArray
from scbf.typing import ArrowArray, ArrowStream

def missing(ids: NDArray[np.int64], seen: scbf.Filter | scbf.BloomFilter | scbf.Replica) -> NDArray[np.int64]:
    return ids[~seen.contains(ids)]

def indices(ids: NDArray[np.int64], seen: scbf.Filter) -> NDArray[np.int64]:
    return seen.find(ids)

def numbers(ids: NDArray[np.int64], seen: scbf.Filter) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    return seen.count(ids), seen.contains_bits(ids)

def hashes(ready: NDArray[np.uint64], seen: scbf.Filter) -> NDArray[np.bool_]:
    return seen.contains(scbf.Hashes(ready))

def one(seen: scbf.Filter) -> tuple[bool, int]:
    return seen.contains("a"), seen.count(1)

def forget(rows: scbf.SecondaryIndex, ids: ArrowArray | ArrowStream) -> scbf.WriteReport:
    rows.get(ids)
    return rows.remove(ids)

shape = scbf.plan(capacity=10, fpr=0.01, layout="ranked").geometry
scbf.Filter(capacity=10, fpr=0.01, layout=shape.layout)
"""

BAD = {
    'scbf.Filter(capacity=10, fpr=0.01, layout="blocked")': "arg-type",
    'scbf.Bank(capacity=10, fpr=0.01, layout="blocked")': "arg-type",
    'scbf.plan(capacity=10, fpr=0.01, layout="blocked")': "arg-type",
    'scbf.Growth.tightening(10, 0.01, layout="blocked")': "arg-type",
    'text: str = scbf.Filter(10, 0.01).contains([1])': "assignment",
    'class A(scbf.Filter): pass': "misc",
    'class B(scbf.BloomFilter): pass': "misc",
    'class C(scbf.Bank): pass': "misc",
    'class D(scbf.BloomBank): pass': "misc",
    'class E(scbf.cuda.DeviceFilter): pass': "misc",
    'class F(scbf.cuda.DeviceArray): pass': "misc",
}


def test_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text("import scbf, scbf.cuda\n" + "\n".join(BAD) + "\n")
    checked = subprocess.run(
        [sys.executable, "-P", "-m", "mypy", "--strict", "--cache-dir", "cache", "good.py", "bad.py"],
        capture_output=True, text=True, cwd=tmp_path,
    )
    said = checked.stdout.splitlines()[:-1]
    assert [line.split(":")[:2] for line in said] == [["bad.py", str(i + 2)] for i in range(len(BAD))], checked
    assert [line.rsplit("[", 1)[1] for line in said] == [f"{code}]" for code in BAD.values()]


def test_no_type_in_the_stub_is_bare() -> None:
    stub = Path(scbf.__file__).with_name("_scbf.pyi").read_text()
    assert re.findall(r".*(?:PathLike(?!\[)|-> (?:list|dict)\b(?!\[)|Annotated\[NDArray, dict|numpy\.ndarray\b).*", stub) == []


def can_be_subclassed(kind: type) -> bool:
    try:
        type("Mine", (kind,), {})
    except TypeError:
        return False
    return True


def test_classes_that_cannot_be_subclassed_are_final() -> None:
    stub = Path(scbf.__file__).with_name("_scbf.pyi").read_text()
    marked = set(re.findall(r"^@final\nclass (\w+)", stub, re.MULTILINE))
    kinds = [kind for kind in vars(_scbf).values() if isinstance(kind, type) and not issubclass(kind, enum.Enum)]
    assert marked == {kind.__name__ for kind in kinds if not can_be_subclassed(kind)}
    assert "Bank" in marked and "Growth" not in marked


def objects(folder: Path) -> Iterator[object]:
    """One of each class that can be made without a GPU. (Python's enums take any attribute.)"""
    some = scbf.Filter(100, 0.01)
    bits = scbf.BloomFilter.of(some)
    whole = bits.advance(some)
    bank = scbf.Bank(100, 0.01)
    yield from (some, bits, whole, scbf.Replica(whole), bank, scbf.BloomBank(100, 0.01), bank.find([1]))
    yield from (some.geometry, some.growth, scbf.plan(capacity=10, fpr=0.1),
                scbf.Hashes(np.zeros(1, np.uint64)))
    yield from (some.bulk(), some.insert([1]), some.remove([1]), bits.estimated_keys())
    yield from (some.statistics(), some.statistics().stages[0])
    for saved in (some, bank):
        saved.save(folder / "file")
        yield scbf.read_file_info(folder / "file")
    if _scbf.has_index:
        with scbf.SecondaryIndex.create(folder / "index", key="id", columns=["a"], indexed=["a"]) as index:
            answer = index.query({"a": "x"})
            yield from (index, index.load([{"id": "1", "a": "x"}]), answer, answer.routing)


def test_attributes_cannot_be_invented(tmp_path: Path) -> None:
    """So a typing error in the name of one is noticed."""
    seen: set[type] = set()
    for each in objects(tmp_path):
        seen.add(type(each))
        with pytest.raises(AttributeError):
            each.metadate = "typed in haste"  # type: ignore[attr-defined]
    kinds = {kind for kind in vars(_scbf).values() if isinstance(kind, type)}
    assert {kind.__name__ for kind in kinds - seen} <= {"DeviceArray", "DeviceFilter", "Removal"}
