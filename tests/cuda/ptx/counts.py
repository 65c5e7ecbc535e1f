#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the table of instructions per key in docs/performance_notes.md with what the program
cuda_ptx_counts prints: `counts.py PROGRAM`. Exits with 1 where a number differs by more than 2 % or a row
is missing. `counts.py PROGRAM --write` writes the table."""

import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "performance_notes.md"
TABLE = re.compile(r"(<!-- instructions -->\n)(.*?)(<!-- /instructions -->)", re.DOTALL)
MOST_DIFFERENCE = 0.02
LEAST = 0.5  # instructions per key that are no news


def rows(table):
    """Numbers by operation and kernel. Columns without a number are None."""
    found, operation = {}, ""
    for line in table.splitlines()[2:]:
        name, kernel, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        operation = name or operation
        found[operation, kernel] = [None if cell == "n/a" else float(cell) for cell in cells]
    return found


def differs(old, new):
    if old is None or new is None:
        return old is not new
    return abs(new - old) > max(MOST_DIFFERENCE * old, LEAST)


def differences(page, now):
    """What to say of two tables."""
    old, new = rows(page), rows(now)
    for key in [*old, *(key for key in new if key not in old)]:
        if key not in old or key not in new:
            yield f"{', '.join(key)}: {'is new' if key in new else 'is gone'}"
        elif len(old[key]) != len(new[key]) or any(map(differs, old[key], new[key])):
            yield f"{', '.join(key)}: {old[key]} on the page, {new[key]} now"


def self_test():
    """The comparison must be able to fail."""
    table = "| operation | kernel | a | b |\n|---|---|--:|--:|\n| insert | all | {} | {} |\n|  | `X` | 5.0 | n/a |\n"
    same = table.format(100.0, 200.0)
    assert not list(differences(same, table.format(101.0, 199.0))), "a small difference is refused"
    assert list(differences(same, table.format(103.0, 200.0))), "more instructions pass"
    assert list(differences(same, table.format(100.0, 190.0))), "fewer instructions pass"
    assert list(differences(same, table.format(100.0, "n/a"))), "a number that is gone passes"
    assert list(differences(same, same.rsplit("|  |", 1)[0])), "a row that is gone passes"
    assert list(differences(same.rsplit("|  |", 1)[0], same)), "a new row passes"


def main():
    self_test()
    now = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout
    text = PAGE.read_text(encoding="utf-8")
    match = TABLE.search(text)
    if not match:
        sys.exit(f"{PAGE}: holds no '<!-- instructions -->'")
    if "--write" in sys.argv[2:]:
        PAGE.write_text(TABLE.sub(lambda m: m[1] + now + m[3], text), encoding="utf-8")
        return
    wrong = list(differences(match[2], now))
    if wrong:
        sys.exit("\n".join([*wrong, "instructions per key are not those of docs/performance_notes.md; if that is meant: "
                                    "counts.py PROGRAM --write"]))
    print(f"{len(rows(now))} rows are those of docs/performance_notes.md")


if __name__ == "__main__":
    main()
