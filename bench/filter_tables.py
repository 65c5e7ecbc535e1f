# SPDX-License-Identifier: Apache-2.0
"""The tables of filters, as functions of a result of filter_bench."""

import re

from tables import (ALL, MAIN, NOTHING, footnotes, keys, label, listed, machine_name, median, number, percent, spread,
                    table, wrapped)


class Results:
    def __init__(self, document, file_name):
        if document.get("schema") != 1:
            raise SystemExit(f"{file_name}: schema {document.get('schema')}, must be 1; "
                             "make it with bench/condense.py")
        self.context = document["context"]
        self.file_name = file_name
        self.others = []  # results of other machines, newest first
        self.rows = [r for r in document["rows"] if r["op"] != "floor"]
        self.floors = [r for r in document["rows"] if r["op"] == "floor"]
        self.sizes = sorted({r["n"] for r in self.rows})

    def find(self, op, kind, n, fpr=0.01, keys_kind="u64", backend="simd", path="automatic",
             threads=1, calls="one"):
        """The one row of this configuration, or None when it was not measured. The bits of a filter
        are of kind "split_block bits"."""
        kind, _, bits = kind.partition(" ")
        for r in self.rows:
            if (r["op"], r["filter"], r["n"], r["keys"], r["threads"]) != (op, kind, n, keys_kind,
                                                                           threads):
                continue
            wanted = {"calls": calls, "fpr": fpr, "backend": backend, "path": path,
                      "cells": "bit" if bits else "counter"}
            # What a row means that does not say.
            usual = {**wanted, "calls": "one", "cells": "counter"}
            if all(r.get(field, usual[field]) == value for field, value in wanted.items()):
                return r
        return None

    def floor(self, access, where, threads=1):
        for r in self.floors:
            if (r["access"], r["where"], r["threads"]) == (access, where, threads):
                return r
        return None

    def backends(self):
        """The backends that were timed by name, in the order of the file."""
        names = [r["backend"] for r in self.rows if r["filter"] == "split_block"]
        return list(dict.fromkeys(n for n in names if n != "simd"))


def machine(results):
    c = results.context

    def of(key):
        return str(c.get(key, NOTHING))

    # The kernel puts the choice between brackets: always [madvise] never.
    pages = of("huge_pages").partition("[")[2].partition("]")[0] or of("huge_pages")
    rows = [["CPU", f"{machine_name(c)}, {of('cores')} cores"],
            ["Caches", f"L1d {of('l1d')}, L2 {of('l2')}, L3 {of('l3')}"],
            ["Memory", f"{of('memory')}, transparent huge pages: {pages}"],
            ["Software", f"{re.sub('-.*', '', of('kernel'))}; {of('compiler')}, {of('build_type')} build"],
            ["Measured", f"version {of('scbf_version')}, commit {of('commit')}, {of('date')[:10]}"],
            ["Raw results", f"`bench/results/{results.file_name}` ({c['matrix']} run)"]]
    return table(["", "", "|"], rows)


# What the two short tables show, by label.
MAIN_KINDS = ("split_block", "ranked", "split", "split_block bits", "blocked", "textbook", "libbloom")


def compared_sizes(results):
    """The sizes at which filters stand beside others."""
    return [n for n in results.sizes if results.find("insert", "textbook", n)]


def summary(results):
    """The medians of the smallest and the largest size side by side."""
    sizes = compared_sizes(results)
    sizes = list(dict.fromkeys((sizes[0], sizes[-1]) if sizes else ()))
    rows = []
    for kind in MAIN_KINDS:
        found = [results.find(op, kind, n) for n in sizes for op in MAIN]
        if some := next((r for r in found if r), None):
            rows.append([label(kind), number(some["bits_per_key"]), *(median(r) for r in found)])
    read, update = (results.floor(access, "memory") for access in ("line_read", "line_update"))
    floor = {op: median(update if op in ("insert", "remove") else read) for op in MAIN}
    rows.append(["*floor: one random line from memory*", ""] +
                [floor[op] if n == sizes[-1] else "" for n in sizes for op in MAIN])
    head = ["filter", "|", "bits/key"]
    for n in sizes:
        head += [f"{keys(n)} keys: {MAIN[0]}", *MAIN[1:]]
    return rows and table(head, rows)


def floors(results):
    titles = {"line_read": "random 64-byte line, read", "line_update": "random line, updated",
              "stream_read": "sequential read", "stream_copy": "sequential copy"}
    rows = [[titles[r["access"]], {"l2": "L2"}.get(r["where"], r["where"]), str(r["threads"]),
             spread(r), number(r["gb_per_second"]), r["variant"]] for r in results.floors]
    return table(["access", "where", "|", "threads", "ns per line", "GB/s", "fastest way"], rows)


def headline(results):
    rows = []
    for kind, fpr in (("split_block", 0.01), ("split_block", 0.001), ("ranked", 0.01), ("split", 0.01),
                      ("split_block bits", 0.01), ("split bits", 0.01)):
        for n in results.sizes:
            found = {op: results.find(op, kind, n, fpr=fpr) for op in ALL}
            some = next((r for r in found.values() if r), None)
            if some is None:
                continue
            rows.append([label(kind), keys(n), number(some["bits_per_key"]),
                         percent(some["fpr_predicted"]), percent(some["fpr_measured"])] +
                        [median(found[op]) for op in ALL])
            if "ratio_to_floor" in some:
                rows.append(["", "ratio to floor", "", "", ""] + [
                    number(found[op]["ratio_to_floor"]) if found[op] else "" for op in ALL])
    return table(["filter", "keys", "|", "bits/key", "rate, predicted", "measured", *ALL], rows)


def calls(results):
    """The same keys in one batch, in small ones, in bulk, and one a call; first and later builds."""
    kinds = ("split_block", "ranked", "split_block bits")
    columns = {"first_build": "first build", "build": "later builds", **{op: op for op in MAIN}}
    titles = {"one": "one batch", "small": "batches of 4,096", "bulk": "batches of 4,096, in bulk",
              "key": "one key a call", "view": "one key a call, `ref()`",
              "ahead": "the same, prefetched"}
    rows = []
    for kind, n in ((kind, n) for kind in kinds for n in results.sizes):
        found = {form: {op: results.find(op, kind, n, calls=form) for op in columns} for form in titles}
        if found["view"]["insert"] is None:
            continue
        for form, title in titles.items():
            if any(found[form].values()):
                rows.append([label(kind), keys(n), title] +
                            [median(found[form][op]) if found[form][op] else "" for op in columns])
    return table(["filter", "keys", "given in", "|", *columns.values()], rows)


def comparators(results):
    rows = []
    for n in results.sizes:
        ours = {op: results.find(op, "split_block", n) for op in MAIN}
        for kind in ("split_block", "ranked", "split", "split_block bits", "ranked bits", "blocked", "textbook",
                     "libbloom", "unordered_set"):
            found = {op: results.find(op, kind, n) for op in MAIN}
            some = next((r for r in found.values() if r), None)
            if some is None or n == 50_000:
                continue
            cells = []
            for op in MAIN:
                cell = median(found[op])
                if found[op] and ours[op] and kind != "split_block":
                    cell += f" ({found[op]['ns'][1] / ours[op]['ns'][1]:.2g}×)"
                cells.append(cell)
            rows.append([keys(n), label(kind), number(some["bits_per_key"]),
                         percent(some["fpr_measured"])] + cells)
    return table(["keys", "structure", "|", "bits/key", "rate, measured", *MAIN], rows)


def losses(results):
    """Every comparison that one of our layouts loses, the sizes at which it does in one row: time against
    a comparator, memory against a comparator or a layout of the same kind of cells."""
    layouts, comparators = ("split_block", "ranked", "split"), ("blocked", "textbook", "libbloom", "unordered_set")
    sizes = compared_sizes(results)
    rows = []

    def add(kind, other, what, lost):
        if not lost:
            return
        figures = ["–".join(dict.fromkeys(number(of(values)) for of in (min, max)))
                   for values in list(zip(*lost))[1:]]
        at = [n for n, *_ in lost]
        rows.append([label(kind), label(other), what, *figures,
                     "all sizes" if at == sizes else listed([keys(n) for n in at])])

    for bits in ("", " bits"):
        ours = [layout + bits for layout in layouts]
        for kind in ours:
            for other in (*ours, *comparators):
                pairs = [(n, op, a, b) for n in results.sizes for op in ALL
                         if other != kind and (a := results.find(op, kind, n)) and (b := results.find(op, other, n))]
                for op in ALL if other in comparators else ():
                    add(kind, other, f"{op}, ns", [(n, a["ns"][1], b["ns"][1]) for n, of, a, b in pairs
                                                   if of == op and a["ns"][1] > b["ns"][1]])
                memory = {n: (a["bits_per_key"], b["bits_per_key"]) for n, _, a, b in pairs}
                # The same formula, rounded, is no loss.
                add(kind, other, "bits per key", [(n, a, b) for n, (a, b) in memory.items() if a > 1.005 * b])
    notes = [] if any("ns" in row[2] for row in rows) else ["No comparison is lost by time"]
    return table(["filter", "loses to", "in", "|", "its figure", "the other's", "|", "at"], rows) + (
        footnotes(notes) if notes else "")


def threads(results):
    rows = []
    for kind in ("split_block", "ranked", "split"):
        for n in results.sizes:
            for op in MAIN:
                one, two = (results.find(op, kind, n, threads=t) for t in (1, 2))
                if one and two:
                    rows.append([label(kind), keys(n), op, spread(one), spread(two),
                                 f"{one['ns'][1] / two['ns'][1]:.2f}×"])
    for access in ("line_read", "line_update"):
        one, two = (results.floor(access, "memory", t) for t in (1, 2))
        if one and two:
            rows.append(["floor", "memory", access.replace("_", " "), spread(one), spread(two),
                         f"{one['ns'][1] / two['ns'][1]:.2f}×"])
    return table(["filter", "keys", "operation", "|", "1 thread, ns", "2 threads, ns", "gain"],
                 rows)


def paths(results):
    rows = []
    for kind in ("split_block", "ranked", "split"):
        for n in results.sizes:
            for op in MAIN:
                found = [results.find(op, kind, n, path=p)
                         for p in ("direct", "partitioned", "automatic")]
                if found[0] and found[1]:
                    rows.append([label(kind), keys(n), op] + [spread(r) for r in found])
    return table(["filter", "keys", "operation", "|", "direct, ns", "partitioned, ns",
                  "automatic, ns"], rows)


def targets(results):
    rows = []
    for kind in ("split_block", "ranked", "split"):
        for n in results.sizes:
            for backend in (*results.backends(), "simd"):
                found = [results.find(op, kind, n, backend=backend) for op in MAIN]
                named = [results.find("insert", kind, n, backend=b) for b in results.backends()]
                if any(found) and any(named):
                    target = next(r["target"] for r in found if r)
                    rows.append([label(kind), keys(n), f"`{backend}`", target] +
                                [spread(r) for r in found])
    return table(["filter", "keys", "backend", "target", "|", *MAIN], rows)


def strings(results):
    rows = []
    for n in results.sizes:
        for backend in ("scalar", "simd"):
            for kind, title in (("u64", "u64"), ("bytes16", "16-byte strings")):
                found = [results.find(op, "split_block", n, backend=backend, keys_kind=kind)
                         for op in MAIN]
                if any(found) and results.find("insert", "split_block", n, keys_kind="bytes16"):
                    rows.append([keys(n), f"`{backend}`", title] + [spread(r) for r in found])
    return table(["keys", "backend", "kind of key", "|", *MAIN], rows)


def aims(results):
    """The project's aims, and what was measured, here and on other machines."""
    rows = []

    def judge(what, aim, value_of, met, show=number):
        row = [what, aim]
        for on in (results, *results.others):
            value = value_of(on)
            row.append(NOTHING if value is None else f"{show(value)}, {'met' if met(value) else '**missed**'}")
        rows.append(row)

    def floor_of(op):
        return "update" if op in ("insert", "remove") else "read"

    def ratio(op, kind, path="automatic", calls="one"):
        """To the floor measured with the row; to that of the whole run where a last cache so large made
        filter_bench leave it out."""
        def value(on):
            row, floor = on.find(op, kind, 10**8, path=path, calls=calls), on.floor(f"line_{floor_of(op)}", "memory")
            if row is None or "ratio_to_floor" in row:
                return row and row["ratio_to_floor"]
            return row["ns"][1] / floor["ns"][1] if floor else None
        return value

    def in_cache(op, kind, calls="one"):
        return lambda on: row["ns"][1] if (row := on.find(op, kind, 10**5, calls=calls)) else None

    def of_seven(op, path):  # at 1 %, a key of `split` has a line in each of seven slices
        return lambda on: v / 7 if (v := ratio(op, "split", path)(on)) else None

    def worst_choice(kind, n):
        """What `automatic` took, of the better path, in the operation where that is most."""
        def value(on):
            shares = []
            for op in MAIN:
                of = {path: on.find(op, kind, n, path=path) for path in ("automatic", "direct", "partitioned")}
                if all(of.values()):
                    ns = {path: row["ns"][1] for path, row in of.items()}
                    shares.append(ns["automatic"] / min(ns["direct"], ns["partitioned"]))
            return max(shares, default=None)
        return value

    def quotient(*of):  # of the medians of two rows
        def value(on):
            one, two = (on.find(**which) for which in of)
            return one["ns"][1] / two["ns"][1] if one and two else None
        return value

    def of_line(op, kind, n):
        def value(on):
            row, floor = on.find(op, kind, n), on.floor("line_read", "memory")
            return row["ns"][1] / floor["ns"][1] if row and floor else None
        return value

    for op, limit in (("insert", 0.75), ("miss", 0.65), ("hit", 0.65), ("remove", 0.85)):
        judge(f"`split_block`, {keys(10**8)}: {op}, ratio to the {floor_of(op)} floor", f"≤ {limit}",
              ratio(op, "split_block"), lambda v, limit=limit: v <= limit)
    for op, limit in (("insert", 1.4), ("miss", 1), ("hit", 1), ("remove", 1.9)):
        judge(f"`split_block`, {keys(10**5)}: {op}, ns", f"≤ {limit}",
              in_cache(op, "split_block"), lambda v, limit=limit: v <= limit)
    for op, limit in (("insert", 6), ("miss", 3), ("hit", 3), ("remove", 8)):
        judge(f"`split_block`, {keys(10**5)}, one key a call, by a view: {op}, ns", f"≤ {limit}",
              in_cache(op, "split_block", calls="view"), lambda v, limit=limit: v <= limit)
    for op in MAIN:
        judge(f"`split_block`, {keys(10**8)}, one key a call, by a view: {op}, ratio to the {floor_of(op)} floor", "≤ 2",
              ratio(op, "split_block", calls="view"), lambda v: v <= 2)
    for op in MAIN:
        judge(f"`split_block`, {keys(10**8)}, batches of 4,096: {op}, ratio to the {floor_of(op)} floor", "≤ 1",
              ratio(op, "split_block", calls="small"), lambda v: v <= 1)
    for kind in ("split_block", "ranked", "split", "split_block bits", "ranked bits", "split bits"):
        for n in results.sizes:
            if worst_choice(kind, n)(results):
                judge(f"{label(kind)}, {keys(n)}: `automatic`, of the better path's time, worst operation", "≤ 1.1",
                      worst_choice(kind, n), lambda v: v <= 1.1)
    for path, limit in (("automatic", 1), ("partitioned", 0.6)):
        for op in MAIN:
            if of_seven(op, path)(results):
                judge(f"`split`, {keys(10**8)}, {path}: {op}, in seven random lines", f"≤ {limit}",
                      of_seven(op, path), lambda v, limit=limit: v <= limit)
    for op in ("miss", "hit"):
        judge(f"`split_block`, bits, {keys(10**5)}: {op}, ns", "≤ 1",
              in_cache(op, "split_block bits"), lambda v: v <= 1)
    for op, limits in (("first_build", {10**7: 0.25, 10**8: 0.55}), ("miss", {10**7: 0.25, 10**8: 0.6}),
                       ("hit", {10**7: 0.25, 10**8: 0.6})):
        for n, limit in limits.items():
            judge(f"`split_block`, bits, {keys(n)}: {op.replace('_', ' ')}, in random lines of memory", f"≤ {limit}",
                  of_line(op, "split_block bits", n), lambda v, limit=limit: v <= limit)
    for path, aims_of in (("partitioned", {"insert": 0.8, "miss": 0.6, "hit": 0.6, "remove": 0.8}),
                          ("direct", {"insert": 1.2, "miss": 1.05, "hit": 1.05, "remove": 1.2})):
        for op, limit in aims_of.items():
            judge(f"`ranked`, {keys(10**8)}, {path}: {op}, ratio to the {floor_of(op)} floor", f"≤ {limit}",
                  ratio(op, "ranked", path), lambda v, limit=limit: v <= limit)
    judge(f"`ranked`, {keys(10**8)}: first build, in random lines of memory", "≤ 0.8",
          of_line("first_build", "ranked", 10**8), lambda v: v <= 0.8)
    for op, limit in (("insert", 5), ("miss", 1.5), ("hit", 1.5), ("remove", 5)):
        judge(f"`ranked`, {keys(10**5)}: {op}, ns", f"≤ {limit}",
              in_cache(op, "ranked"), lambda v, limit=limit: v <= limit)
    for op in MAIN:
        judge(f"`split`, {keys(10**8)}: {op}, of the textbook filter's time", "≤ 0.5",
              quotient(*({"op": op, "kind": k, "n": 10**8} for k in ("split", "textbook"))),
              lambda v: v <= 0.5)
    for kind in ("split_block", "split"):
        for op in MAIN:
            judge(f"{label(kind)}, {keys(10**8)}: {op}, two threads over one", "≥ 1.8×",
                  quotient(*({"op": op, "kind": kind, "n": 10**8, "threads": t} for t in (1, 2))),
                  lambda v: v >= 1.8, lambda v: f"{v:.2f}×")
    on = [f"on {machine_name(of.context)}" for of in (results, *results.others)]
    return table(["what", "|", "aim", *on], rows)


def elsewhere(results):
    """The main rows on other machines."""
    return "\n".join(f"On {machine_name(on.context)}:\n\n{main_rows(on)}" for on in results.others)


def main_rows(on):
    rows = []
    for kind in ("split_block", "ranked", "split", "split_block bits", "blocked"):
        for n in (10**5, 10**6, 10**7, 10**8):
            found = [on.find(op, kind, n) for op in MAIN]
            some = next((r for r in found if r), None)
            if some:
                rows.append([label(kind), keys(n), number(some["bits_per_key"])] + [median(r) for r in found])
    read, update = (on.floor(a, "memory") for a in ("line_read", "line_update"))
    rows.append(["*floor: one random line*", "", "", median(update), median(read), median(read), median(update)])
    return table(["filter", "keys", "|", "bits/key", *MAIN], rows) + source_of(on)


def one_key(results):
    """One key a call, beside other structures."""
    rows = []
    for n in (10**5, 10**6, 10**7, 10**8):
        for kind, form, of in (("split_block", "key", ", its functions"), ("split_block", "view", ", `ref()`"),
                               ("ranked", "key", ", its functions"), ("ranked", "view", ", `ref()`"),
                               ("split_block bits", "key", ", its functions"),
                               ("split_block bits", "view", ", `ref()`"), ("blocked", "key", ""),
                               ("textbook", "one", ""), ("libbloom", "one", ""), ("unordered_set", "one", "")):
            found = [results.find(op, kind, n, calls=form) for op in MAIN]
            if any(found):
                some = next(r for r in found if r)
                rows.append([keys(n), label(kind) + of, number(some["bits_per_key"])] + [spread(r) for r in found])
    return rows and table(["keys", "structure", "|", "bits/key", *MAIN], rows)


def source_of(on):
    """A footnote: the machine of a run, and its file."""
    c = on.context
    return footnotes([f"{machine_name(c)}, {c.get('l2', NOTHING)} L2, {c.get('l3', NOTHING)} L3; "
                      f"{c.get('compiler', NOTHING)}; commit {c.get('commit', NOTHING)}, "
                      f"{c.get('date', NOTHING)[:10]}; `bench/results/{on.file_name}`"])


def figures(results):
    """The short table of the README, with the smallest and the largest size."""
    rows = []
    sizes = compared_sizes(results)
    for n in dict.fromkeys((sizes[0], sizes[-1]) if sizes else ()):
        for kind in MAIN_KINDS:
            found = [results.find(op, kind, n) for op in MAIN]
            some = next((r for r in found if r), None)
            if some:
                rows.append([keys(n), label(kind), number(some["bits_per_key"]),
                             percent(some["fpr_measured"])] + [median(r) for r in found])
        if any("ratio_to_floor" in r for r in results.rows if r["n"] == n):
            read, update = (results.floor(a, "memory") for a in ("line_read", "line_update"))
            rows.append([keys(n), "*floor: one random line*", "", "", median(update), median(read),
                         median(read), median(update)])
    c = results.context
    caption = "\n" + wrapped(f"{machine_name(c)}, {c.get('l2', NOTHING)} L2, {c.get('l3', NOTHING)} L3; "
                             f"{c.get('compiler', NOTHING)}; commit {c.get('commit', NOTHING)}, "
                             f"{c.get('date', NOTHING)[:10]}.")
    return table(["keys", "structure", "|", "bits/key", "measured rate", "insert, ns", "miss, ns",
                  "hit, ns", "remove, ns"], rows) + caption


def glance(results):
    """The first table of the README: 10^8 keys, one row for each structure."""
    rows = []
    for kind, name in (("split_block", "`split_block`, the default"), ("ranked", "`ranked`, for distinct keys"),
                       ("blocked", "blocked Bloom (plain bits)"), ("textbook", "textbook counting filter"),
                       ("libbloom", "libbloom (plain bits)")):
        found = {op: results.find(op, kind, 10**8) for op in MAIN}
        if not all(found[op] for op in ("insert", "miss", "hit")):
            continue
        lookups = sorted((found["miss"]["ns"][1], found["hit"]["ns"][1]), key=float)
        both = list(dict.fromkeys(two_digits(ns) for ns in lookups))
        removal = found["remove"] and number_of(found["remove"])
        rows.append([name, number_of(found["insert"]), "–".join(both) + " ns", removal or NOTHING,
                     number(found["insert"]["bits_per_key"])])
    batches = "scbf and the blocked filter take" if results.find("hit", "blocked", 10**8) else "scbf takes"
    caption = f"{machine_name(results.context)}. {batches} the keys in batches, the other two one at a time."
    return table(["10<sup>8</sup> keys, 1 % false positives, one core", "|", "insert", "lookup", "remove",
                  "bits/key"], rows) + "\n" + wrapped(caption)


def number_of(row):
    """Its median, in two digits."""
    return f"{two_digits(row['ns'][1])} ns"


def two_digits(ns):
    return f"{ns:.2g}" if ns < 99.5 else f"{ns:.0f}"  # never 1e+02


TABLES = {f.__name__: f for f in (glance, figures, machine, summary, floors, aims, headline, elsewhere, calls, one_key,
                                  comparators, losses, threads, paths, targets, strings)}
