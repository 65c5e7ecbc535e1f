# SPDX-License-Identifier: Apache-2.0
"""What type checkers read from the stubs."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

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
}


def test_types(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text("import scbf\n" + "\n".join(BAD) + "\n")
    checked = subprocess.run(
        [sys.executable, "-P", "-m", "mypy", "--strict", "--cache-dir", "cache", "good.py", "bad.py"],
        capture_output=True, text=True, cwd=tmp_path,
    )
    said = checked.stdout.splitlines()[:-1]
    assert [line.split(":")[:2] for line in said] == [["bad.py", str(i + 2)] for i in range(len(BAD))], checked
    assert [line.rsplit("[", 1)[1] for line in said] == [f"{code}]" for code in BAD.values()]
