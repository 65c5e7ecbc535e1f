# SPDX-License-Identifier: Apache-2.0
"""Ten lines of Python on a filter that the command has built, and a semi-join by a filter.

scripts/demo runs it on its own keys:

    python first_steps.py words.scbf keys.txt absent.txt

needs: scbf (`pip install .` in a checkout)
"""

import sys
import time
from pathlib import Path

import numpy as np

import scbf


def ten_lines(filter_file: str, keys_file: str, absent_file: str) -> None:
    """A filter of words, mapped from its file, asked for words that are in it and for others."""
    present = Path(keys_file).read_bytes().split(b"\n")[:-1]
    absent = Path(absent_file).read_bytes().split(b"\n")[:-1]
    words = scbf.Filter.map(filter_file)                   # at once, whatever its size
    print(f"    {words}")
    assert words.contains(present).all()                   # no word is missed
    print(f"    false positives: {100 * words.contains(absent).mean():.4f} %, computed: "
          f"{100 * words.statistics().estimated_fpr:.4f} %")
    mine = scbf.Filter(capacity=len(present), fpr=0.01)    # another filter, of the same words
    mine.insert(present)
    mine.remove(present[::2])                              # and half of them taken out again
    assert mine.contains(present[1::2]).all()
    print(f"    after removal: {len(mine):,} words, "
          f"{100 * mine.contains(present[::2]).mean():.4f} % of the removed look present")
    bits = scbf.BloomFilter.of(mine)                       # for those who only ask: a quarter of the memory
    print(f"    {bits.nbytes / 2**20:.1f} MiB of bits instead of {mine.nbytes / 2**20:.1f} MiB of counters")


def semi_join(rows: int = 5_000_000, wanted: int = 50_000) -> None:
    """Rows of a large table whose key is in a small one: first those that may be, by the filter, then the join."""
    random = np.random.default_rng(1)
    spread = np.uint64(0x9E3779B97F4A7C15)  # numbers of any size, as keys of tables often are
    small = random.choice(rows * 2, wanted, replace=False).astype(np.uint64) * spread
    large = random.integers(0, rows * 2, rows, dtype=np.uint64) * spread

    began = time.perf_counter()
    plain = np.isin(large, small)
    plain_seconds = time.perf_counter() - began

    began = time.perf_counter()
    keys = scbf.BloomFilter(wanted, 0.001)
    keys.insert(small)
    candidates = keys.find(large)
    joined = candidates[np.isin(large[candidates], small)]
    seconds = time.perf_counter() - began

    assert np.array_equal(joined, np.flatnonzero(plain))
    print(f"    {len(joined):,} of {rows:,} rows: the filter left {len(candidates):,} for the join to look at")
    print(f"    {seconds * 1e3:.0f} ms with the filter, {plain_seconds * 1e3:.0f} ms without, the same rows")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print("Ten lines on the words:")
    ten_lines(*sys.argv[1:])
    print("A semi-join:")
    semi_join()
