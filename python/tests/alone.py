# SPDX-License-Identifier: Apache-2.0
"""What scripts/wheel_alone.py runs where there is nothing but Python and the installed wheel: every library that the
package and its command bring along is loaded and used."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scbf


def filters(folder: Path) -> None:
    seen = scbf.Filter(capacity=200_000, fpr=0.01)
    seen.insert(np.arange(100_000))
    seen.insert(["text", "über"])
    assert seen.contains(np.arange(100_000)).all() and "über" in seen
    assert seen.contains(np.arange(1_000_000, 1_100_000)).mean() < 0.01
    assert seen.remove(np.arange(50_000)).removed == 50_000
    seen.save(folder / "seen.scbf")
    scbf.BloomFilter.of(seen).save(folder / "bits.scbf", compress=True)
    assert "text" in scbf.BloomFilter.load(folder / "bits.scbf")


def an_index(folder: Path) -> None:
    with scbf.SecondaryIndex.create(folder / "index", key="id", columns=["city", "note"], indexed=["city"]) as index:
        index.load({"id": f"{i:06}", "city": f"c{i % 10}", "note": "n" * 100} for i in range(20_000))
    with scbf.SecondaryIndex.open(folder / "index", read_only=True) as reader:
        assert len(reader.query({"city": "c3"})) == 2_000 and reader.check() == []


def the_command(folder: Path) -> None:
    for command in ([Path(sys.executable).with_name("scbf")], [sys.executable, "-m", "scbf"]):
        asked = subprocess.run([*command, "query", folder / "seen.scbf", "-"], input=b"text\nnever\n",
                               capture_output=True, check=False)
        assert b"text" in asked.stdout, asked
    for arguments in (["info", folder / "bits.scbf"], ["index", "stats", folder / "index"], ["--version"]):
        subprocess.run([Path(sys.executable).with_name("scbf"), *arguments], capture_output=True, check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        filters(Path(made))
        an_index(Path(made))
        the_command(Path(made))
