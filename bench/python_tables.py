# SPDX-License-Identifier: Apache-2.0
"""The tables of the Python package, as functions of a result of python_bench.py."""

from tables import keys, number, percent, spread, with_notes


def python(systems):
    """The package against the library, in turn."""
    rows = []
    for r in systems.pick(python="batch"):
        ours, cpp = r["ns"], r["ns_cpp"]
        rows.append([{"int64": "int64, NumPy", "string": "strings, Arrow"}[r["keys"]], r["op"], str(r["threads"]),
                     spread(r), spread({"ns": cpp}), f"{100 * cpp[1] / ours[1]:.0f} %"])
    some = systems.one(python="batch")
    head = ["keys", "operation", "threads", "|", "Python, ns", "C++, ns", "throughput, of C++"]
    return rows and with_notes(systems, head, rows, [
        f"{keys(some['n'])} keys at 1 %; the same arrays, in turn, answers into an array that is there; strings of "
        "45 bytes"])


def python_peers(systems):
    """The package against filters from PyPI."""
    rows = []
    for n in sorted({r["n"] for r in systems.pick(op="batch")}):
        ours = systems.one(op="batch", peer="scbf", n=n)
        ours_in = systems.one(op="in", peer="scbf", n=n)
        for r in systems.pick(op="batch", n=n):
            single = systems.one(op="in", peer=r["peer"], n=n) or r

            def cell_of(figures, base):
                times = figures[1] / base[1]
                return number(figures[1]) + (
                    "" if r is ours else f" ({times:,.0f}×)" if times >= 1000 else f" ({times:.3g}×)")

            rows.append([keys(n), r["peer"], percent(r["fpr_measured"]), cell_of(r["ns"], ours["ns"]),
                         cell_of(r["ns_hit"], ours["ns_hit"]), cell_of(r["ns_miss"], ours["ns_miss"]),
                         cell_of(single["ns_hit"], ours_in["ns_hit"]), cell_of(single["ns_miss"], ours_in["ns_miss"])])
            if from_list := systems.one(op="list", peer=r["peer"], n=n):
                rows.append([keys(n), f"{r['peer']}, from a list", "", cell_of(from_list["ns"], ours["ns"]), "", "", "", ""])
    head = ["keys (n)", "package", "|", "rate, measured", "insert, ns", "hits, ns", "misses, ns", "one key, hit, ns",
            "one key, miss, ns"]
    return rows and with_notes(systems, head, rows, [
        "strings of about 35 bytes at 1 %, one thread, medians; scbf takes an Arrow column in one batch, the others a list, in "
        "one call where they have one (rbloom's `update`), else key by key. In brackets: how many times as long as "
        "scbf takes. *One key*: a loop over `key in filter`, the loop included. scbf-bits is `scbf.BloomFilter`, a plain "
        "Bloom filter, as are the others but pyprobables-counting. What takes more than 1 µs a key is measured once, and "
        "asked for a tenth of the keys"])


TABLES = {"python": python, "python_peers": python_peers}
