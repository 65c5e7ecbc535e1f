# SPDX-License-Identifier: Apache-2.0
"""The table of the command, as a function of a result of command_bench."""

from tables import NOTHING, keys, middle, number, spread, with_notes

VERBS = {"build": "`build`", "query": "`query --count`", "print": "`query`", "count": "`count --json`",
         "remove": "`remove`"}
KINDS = {"u64": "64-bit integers", "lines": "lines", "column": "a column of CSV"}
# At most so many random lines per key, by one thread; a build includes its file. Lines: ns per key.
MOST_FLOORS = {"build": 1.4, "query": 1.0, "count": 1.0, "remove": 1.0}
MOST_NS_OF_LINES = 1e9 / 30e6
LEAST_FASTER = 1.7


def judged(value, text, met):
    """A figure and what it should be."""
    return f"{value} ({text}: {'met' if met else '**missed**'})"


def command(systems):
    """Whole processes beside what memory can do."""
    rows = []
    for r in systems.pick(op="command", threads=1):
        ns, floor = middle(r), middle(r, "_floor")
        two = systems.one(op="command", verb=r["verb"], keys=r["keys"], n=r["n"], threads=2)
        times = number(ns / floor) if floor else NOTHING
        most = MOST_FLOORS.get(r["verb"])
        if r["keys"] == "lines" and r["verb"] == "build":
            met = judged(times, f"≤ {MOST_NS_OF_LINES:.0f} ns", ns <= MOST_NS_OF_LINES)
        elif r["keys"] == "u64" and r["n"] >= 100_000_000 and most and floor:
            met = judged(times, f"≤ {most}", ns <= most * floor)
        else:
            met = times
        faster = ns / middle(two) if two else None
        aims = two and r["keys"] == "u64" and r["n"] >= 100_000_000 and r["verb"] == "build"
        rows.append([KINDS[r["keys"]], keys(r["n"]), VERBS[r["verb"]], spread(r), number(floor), met,
                     number(middle(two)) if two else "",
                     judged(number(faster), f"≥ {LEAST_FASTER}", faster >= LEAST_FASTER) if aims
                     else number(faster) if two else ""])
    head = ["keys", "n", "command", "|", "one thread, ns per key", "a random line, ns", "times that",
            "two threads, ns per key", "times faster"]
    return rows and with_notes(systems, head, rows, [
        "Whole processes, from their start to the closed file, with files in memory; a filter at 1 %. `build` and "
        "`remove` write one, `query` and `count` are asked for present and absent keys by the toss of a coin, and "
        "`query` prints those that it finds to /dev/null. Lines are addresses of 50 bytes; the table of CSV has them "
        "as the second of three columns",
        "*A random line*: of 1 GiB, read by one thread, for `build` and `remove` updated, measured after each process. "
        "In brackets: the aims for 10<sup>8</sup> integers, and for a build from lines 30 million a second"])


TABLES = {"command": command}
