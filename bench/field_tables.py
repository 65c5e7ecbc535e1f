# SPDX-License-Identifier: Apache-2.0
"""The tables of the structures of the literature, as functions of a result of field_bench."""

from tables import MAIN, keys, listed, median, number, percent, table, with_notes

TAKES_ALL = "takes all keys, the rate rises"
NO_REMOVAL = "cannot remove"


def takes_with_it(others):
    return f"refused, unless it looks present: then it takes {others} with it"


# The structure as a row names it, and its name here; what happens when it is too full, and when an
# absent key is removed (None: as in the row before). tests/bench/field_test.cpp holds the figures.
FIELD = (
    ({"filter": "split_block"}, "`split_block`, in batches", TAKES_ALL, takes_with_it("4 others")),
    ({"filter": "split_block", "calls": "view"}, "`split_block`, one key a call", None, None),
    ({"filter": "ranked", "backend": "simd"}, "`ranked`, in batches",
     "takes all keys, the rate rises; keys of blocks that are stuck stay", takes_with_it("3 others")),
    ({"filter": "ranked", "backend": "simd", "calls": "view"}, "`ranked`, one key a call", None, None),
    ({"filter": "split_block", "cells": "bit"}, "`split_block`, bits, in batches", TAKES_ALL,
     NO_REMOVAL),
    ({"filter": "split_block", "cells": "bit", "calls": "view"}, "`split_block`, bits, one key a call", None, None),
    ({"filter": "textbook"}, "textbook counting", TAKES_ALL, takes_with_it("5 others")),
    ({"filter": "spectral"}, "spectral (minimum increase)", TAKES_ALL,
     "cannot remove: minimum increase would lose other keys"),
    ({"filter": "dynamic_count"}, "dynamic count filter",
     "takes all keys, the rate rises; overflow counters are rebuilt, wider",
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
    ({"filter": "blocked"}, "blocked Bloom (plain), in batches", TAKES_ALL, NO_REMOVAL),
    ({"filter": "blocked", "calls": "key"}, "blocked Bloom (plain), one key a call", None, None),
    ({"filter": "libbloom"}, "libbloom (plain bits)", TAKES_ALL, NO_REMOVAL),
)


OURS = [name for _, name, *_ in FIELD if name.startswith("`")]
BATCHES = [name for name in OURS if name.endswith("in batches")]


def field_sizes(systems):
    return sorted({r["n"] for r in systems.rows if r.get("filter") == "cuckoo"})


def field_rows(systems, n):
    """[name, rows by operation, words] of every structure that was measured with n keys."""
    for of, name, *words in FIELD:
        # A row that does not say has counters, given in one batch.
        found = {r["op"]: r for r in systems.pick(n=n, filter=of["filter"])
                 if all(r.get(key) == of.get(key) for key in {*of, "calls", "cells"})}
        if found:
            yield name, found, words


def field_losses(measured):
    """What is smaller or faster than our filters, of (n, name, rows by operation). With one key a call, nothing is
    compared with what takes batches."""
    lost, sizes = {}, {}
    for n, ours, ours_found in measured:
        sizes.setdefault(ours, []).append(n)
        if ours not in OURS:
            continue
        for other_n, other, found in measured:
            if other_n != n or other.startswith("`") or (ours not in BATCHES and other.endswith("in batches")):
                continue
            for op in MAIN:
                if op in found and op in ours_found and found[op]["ns"][1] < ours_found[op]["ns"][1]:
                    lost.setdefault((ours, op), {}).setdefault(other, []).append(n)
            if ours in BATCHES and (next(iter(found.values()))["bits_per_key"] <
                                        next(iter(ours_found.values()))["bits_per_key"]):
                lost.setdefault((ours, "bits"), {}).setdefault(other, []).append(n)

    def others(ours, what):
        """Who wins, and at which sizes, unless at all."""
        return [other if at == sizes[other] else f"{other} at {listed([keys(n) for n in at])}"
                for other, at in lost.get((ours, what), {}).items()]

    for ours in (ours for ours in BATCHES if ours in sizes):
        yield f"Fewer bits than {ours.removesuffix(', in batches')}: " + (", ".join(others(ours, "bits")) or "none")
    for ours in (ours for ours in OURS if ours in sizes):
        faster = [f"{op}: {', '.join(others(ours, op))}" for op in MAIN if (ours, op) in lost]
        yield f"Faster than {ours}: " + ("; ".join(faster) or "none")


def field(systems):
    rows, measured = [], []
    for n in field_sizes(systems):
        for name, found, _ in field_rows(systems, n):
            some = next(iter(found.values()))
            measured.append((n, name, found))
            rows.append([keys(n), name, number(some["bits_per_key"]), percent(some["fpr_measured"]),
                         *(median(found.get(op)) for op in MAIN)])
    head = ["keys (n)", "structure", "|", "bits/key", "rate, measured", *(f"{op}, ns" for op in MAIN)]
    return rows and with_notes(systems, head, rows, [
        *field_losses(measured),
        "All are made for n keys at a rate of at most 1 %, with the memory that their papers give "
        "them for it; fingerprints have whole bits, so some rates are lower. One thread, 64-bit keys, medians",
        "Only rows marked *in batches* take keys in batches; all others take one key at a time. Comparators are timed "
        "on at most 4 · 10<sup>6</sup> keys: insert and remove on the last ones of the full structure. Insertions into "
        "a cuckoo filter are timed as first ones: keys that were just removed would find their slots free"])


def field_edges(systems):
    """What each structure does that holds too many keys, or is to remove one that it does not hold."""
    rows = {}
    for n in field_sizes(systems):
        for name, _, words in field_rows(systems, n):
            if None not in words:
                rows[name] = [name.removesuffix(", in batches"), *words]
    return rows and table(["structure", "when too full", "removal of an absent key", "|"], rows.values())


TABLES = {"field": field, "field_edges": field_edges}
