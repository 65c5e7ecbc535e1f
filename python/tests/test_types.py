# SPDX-License-Identifier: Apache-2.0
"""What type checkers read from the stubs."""

import enum
import re
import subprocess
import sys
from pathlib import Path

import pytest
import scbf
from scbf import _scbf

GOOD = """
import numpy as np
import scbf
from numpy.typing import NDArray

def missing(ids: NDArray[np.int64], seen: scbf.Filter | scbf.BloomFilter | scbf.Replica) -> NDArray[np.int64]:
    return ids[~seen.contains(ids)]

def indices(ids: NDArray[np.int64], seen: scbf.Filter) -> NDArray[np.int64]:
    return seen.find(ids)

def numbers(ids: NDArray[np.int64], seen: scbf.Filter) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    return seen.count(ids), seen.contains_bits(ids)

def one(seen: scbf.Filter) -> tuple[bool, int]:
    return seen.contains("a"), seen.count(1)

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
