# SPDX-License-Identifier: Apache-2.0
"""The table of the structures of the literature, as a function of a result of field_bench."""

from tables import MAIN, keys, number, percent, spread, with_notes

TAKES_ALL = "takes all keys, the rate rises"
NO_REMOVAL = "cannot remove"


def takes_with_it(others):
    return f"refused, unless it looks present: then it takes {others} with it"


# The structure as a row names it, and its name here; what happens when it is too full, and when an
# absent key is removed. tests/bench/field_test.cpp holds the figures.
FIELD = (
    ({"filter": "split_block"}, "`split_block`, in batches", TAKES_ALL, takes_with_it("4 others")),
    ({"filter": "split_block", "calls": "view"}, "`split_block`, one key a call", "as above",
     "as above"),
    ({"filter": "ranked", "backend": "simd"}, "`ranked`, in batches",
     "takes all keys, the rate rises; keys of blocks that are stuck stay", takes_with_it("3 others")),
    ({"filter": "ranked", "backend": "simd", "calls": "view"}, "`ranked`, one key a call", "as above",
     "as above"),
    ({"filter": "split_block", "cells": "bit"}, "`split_block`, bits, in batches", TAKES_ALL,
     NO_REMOVAL),
    ({"filter": "textbook"}, "textbook counting", TAKES_ALL, takes_with_it("5 others")),
    ({"filter": "spectral"}, "spectral, minimum increase", TAKES_ALL,
     "cannot remove: minimum increase would lose other keys"),
    ({"filter": "dynamic_count"}, "dynamic count filter",
     "takes all keys, the rate rises; overflow counters are made anew, wider",
     takes_with_it("5 others")),
    ({"filter": "accurate"}, "accurate counting",
     "refuses a key one of whose groups is full, from about 1.3 n on", takes_with_it("3 others")),
    ({"filter": "d_left"}, "d-left counting",
     "refuses a key whose four buckets are full, from about 1.2 n on", takes_with_it("1 other")),
    # As the benchmark had it before it became a layout: in results of that time.
    ({"filter": "ranked", "backend": None}, "bitmaps and ranked unary counts",
     "refuses when too many blocks spill, from 1.03 to 1.18 n on", takes_with_it("3 others")),
    ({"filter": "quotient"}, "quotient filter", "refuses from 1.2 n on, at 90 % of its slots",
     takes_with_it("1 other")),
    ({"filter": "cuckoo"}, "cuckoo filter",
     "refuses from 1.00 to 1.02 n on, and the tenth copy of a key", takes_with_it("1 other")),
    ({"filter": "libbloom"}, "libbloom (plain bits)", TAKES_ALL, NO_REMOVAL),
)


# Those with counters.
OURS = [name for of, name, *_ in FIELD if name.startswith("`") and "cells" not in of]
BATCHES = [name for name in OURS if name.endswith("in batches")]


def field_rows(systems, n):
    """[name, rows by operation, words] of every structure that was measured with n keys."""
    for of, name, *words in FIELD:
        # A row that does not say has counters, given in one batch.
        found = {r["op"]: r for r in systems.pick(n=n, filter=of["filter"])
                 if all(r.get(key) == of.get(key) for key in {*of, "calls", "cells"})}
        if found:
            yield name, found, words


def field_losses(measured):
    """What is smaller or faster than our counters, of (n, name, rows by operation)."""
    lost = {}
    for n, ours, ours_found in measured:
        if ours not in OURS:
            continue
        for other_n, other, found in measured:
            if other_n != n or other.startswith("`"):
                continue
            for op in MAIN:
                if op in found and found[op]["ns"][1] < ours_found[op]["ns"][1]:
                    lost.setdefault((ours, op), []).append(f"{other} at {keys(n)}")
            if ours in BATCHES and (next(iter(found.values()))["bits_per_key"] <
                                        next(iter(ours_found.values()))["bits_per_key"]):
                lost.setdefault((ours, "bits"), []).append(other)
    for ours in BATCHES:
        fewer = ", ".join(dict.fromkeys(lost.get((ours, "bits"), []))) or "none"
        yield f"Fewer bits than {ours.partition(',')[0]}: {fewer}"
    for ours in OURS:
        faster = [f"{op}: {', '.join(lost[ours, op])}" for op in MAIN if (ours, op) in lost]
        yield f"Faster than {ours}: " + ("; ".join(faster) or "none")


def field(systems):
    rows, measured = [], []
    for n in sorted({r["n"] for r in systems.rows if r.get("filter") == "cuckoo"}):
        for name, found, words in field_rows(systems, n):
            some = next(iter(found.values()))
            measured.append((n, name, found))
            rows.append([keys(n), name, number(some["bits_per_key"]), percent(some["fpr_measured"]),
                         *(spread(found.get(op)) for op in MAIN),
                         *(words if n == measured[0][0] else ("", ""))])
    head = ["keys (n)", "structure", "|", "bits/key", "rate, measured", *(f"{op}, ns" for op in MAIN),
            "when too full", "removal of an absent key"]
    return rows and with_notes(systems, head, rows, [
        *field_losses(measured),
        "All are made for n keys at a rate of at most 1 %, with the memory that their papers give "
        "them for it; fingerprints have whole bits, so some rates are lower. One thread, 64-bit keys; "
        "median, smallest and largest. The words hold for all n",
        "All but ours in batches work on one key at a time. Comparators are timed on at most 4 · "
        "10<sup>6</sup> keys: insert and remove on the last ones of the full structure. Insertions into "
        "a cuckoo filter are timed as first ones: keys that were just removed would find their slots free"])


TABLES = {"field": field}
