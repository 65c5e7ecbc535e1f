# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests: filters to compare, columns to check, other processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import scbf

Key = int | str | bytes | None

PACKAGE = Path(scbf.__file__).parent.parent
#: The scbf command, or None.
COMMAND = os.environ.get("SCBF_COMMAND")
GOLDEN = Path(__file__).parents[2] / "tests" / "golden"

#: 16 probes for a key, and room for far more keys than a test inserts: no false positives.
GEOMETRY = scbf.Geometry.split_block(groups=2, blocks_per_group=4096)


def block_of_page(page: str, after: str) -> str:
    """The first block of Python of a page in docs/ after some words."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```$", text[text.index(after):], re.DOTALL | re.MULTILINE)
    assert block, f"{page}: no block of Python after {after!r}"
    return block[1]


def keys_of_several_columns() -> tuple[str, dict[str, str]]:
    """What docs/python.md shows: statements for NumPy, and for other libraries an expression each."""
    statements, expressions = block_of_page("python.md", "**A key of several columns**").split("\n\n")
    by_library = {}
    for line in expressions.splitlines():
        code, _, comment = line.partition("  #")
        by_library[re.split(r"\W", comment.strip())[0]] = code.strip()
    return statements, by_library


def filled(keys: Any, **options: Any) -> scbf.Filter:
    """A filter with these keys. Equal filters have equal counters, so equal keys."""
    made = scbf.Filter(geometry=GEOMETRY, seed=42)
    made.insert(keys, **options)
    return made


def one_by_one(keys: Iterable[Key]) -> scbf.Filter:
    """The same, by a call for each key that is not null."""
    made = scbf.Filter(geometry=GEOMETRY, seed=42)
    for key in keys:
        if key is not None:
            made.insert(key)
    return made


def check_column(make: Callable[[], Any], keys: Sequence[Key]) -> None:
    """The column that ``make`` makes has these keys, in this order, for every batch call."""
    nulls = sum(key is None for key in keys)
    made = scbf.Filter(geometry=GEOMETRY, seed=42)
    report = made.insert(make())
    assert (report.inserted, report.nulls) == (len(keys) - nulls, nulls)
    assert made == one_by_one(keys)

    # Only some of the keys, so that their order shows.
    some = one_by_one(keys[::3])
    present = [key is not None and key in some for key in keys]
    assert some.contains(make()).tolist() == present
    bits = np.unpackbits(some.contains_bits(make()), bitorder="little")
    assert bits[: len(keys)].tolist() == present
    assert not bits[len(keys) :].any()
    assert some.find(make()).tolist() == [i for i, there in enumerate(present) if there]
    assert some.count(make()).tolist() == [0 if key is None else some.count(key) for key in keys]

    verdicts = np.full(len(keys), 255, np.uint8)
    removed = made.remove(make(), out=verdicts)
    assert (removed.removed, removed.absent, removed.nulls) == (len(keys) - nulls, 0, nulls)
    assert verdicts.tolist() == [int(key is not None) for key in keys]
    if max(Counter(keys).values(), default=0) < 15:  # else counters stay at 15
        assert made == one_by_one([])


def in_process(code: str, *arguments: str, seconds: float = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a process of its own, so that it may crash, hang or be interrupted."""
    paths = os.pathsep.join(filter(None, [str(PACKAGE), str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )


def check_process(code: str, *arguments: str, **options: Any) -> str:
    """The same, for code that must end well; returns what it printed."""
    done = in_process(code, *arguments, **options)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout


class Thread(threading.Thread):
    """A thread whose exception join() raises."""

    def __init__(self, run: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = run
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def join(self, timeout: float | None = 30) -> None:
        super().join(timeout)
        assert not self.is_alive(), "the thread did not end"
        if self._error is not None:
            raise self._error


# ---- what test_pickle.py runs in other processes, which import this module by name ------------------


def ask(some: scbf.Filter, keys: Any) -> np.ndarray:
    return some.contains(keys)


def build(first: int) -> scbf.Filter:
    return filled(np.arange(first, first + 1000))


def fail(_: int) -> None:
    scbf.Filter(growth=scbf.Growth.fixed(scbf.Geometry.split_block(1, 4), 1)).insert(range(1000))
