# SPDX-License-Identifier: Apache-2.0
"""The tables of filters, as functions of a result of filter_bench."""

from tables import ALL, MAIN, NOTHING, keys, label, median, number, percent, spread, table


class Results:
    def __init__(self, document, file_name):
        if document.get("schema") != 1:
            raise SystemExit(f"{file_name}: schema {document.get('schema')}, must be 1; "
                             "make it with bench/condense.py")
        self.context = document["context"]
        self.file_name = file_name
        self.elsewhere = None  # results of another machine
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
    names = (("CPU", "cpu_model"), ("Cores", "cores"), ("L1d", "l1d"), ("L2", "l2"), ("L3", "l3"),
             ("Memory", "memory"), ("Transparent huge pages", "huge_pages"), ("Kernel", "kernel"),
             ("Compiler", "compiler"), ("Build type", "build_type"), ("Commit", "commit"),
             ("Version", "scbf_version"), ("Date", "date"), ("libbloom", "libbloom"))
    rows = [[title, str(c.get(key, NOTHING))] for title, key in names]
    rows.append(["Raw results", f"`bench/results/{results.file_name}` ({c['matrix']} run)"])
    return table(["", "", "|"], rows)


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
                        [spread(found[op]) for op in ALL])
            if "ratio_to_floor" in some:
                rows.append(["", "ratio to floor", "", "", ""] + [
                    number(found[op]["ratio_to_floor"]) if found[op] else "" for op in ALL])
    return table(["filter", "keys", "|", "bits/key", "rate, predicted", "measured", *ALL], rows)


def calls(results):
    """The same keys in one batch, in small ones, in bulk, and one a call; first and later builds."""
    kinds = ("split_block", "ranked")
    columns = {"first_build": "first build", "build": "later builds", **{op: op for op in MAIN}}
    titles = {"one": "one batch", "small": "batches of 4,096", "bulk": "batches of 4,096, `bulk()`",
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
                            [spread(found[form][op]) if found[form][op] else "" for op in columns])
    return table(["filter", "keys", "given in", "|", *columns.values()], rows)


def comparators(results):
    rows = []
    for n in results.sizes:
        ours = {op: results.find(op, "split_block", n) for op in MAIN}
        for kind in ("split_block", "ranked", "split", "split_block bits", "ranked bits", "textbook", "libbloom",
                     "unordered_set"):
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
    """Every comparison that one of our layouts loses: time against a comparator, memory against
    any structure."""
    rows = []
    for n in results.sizes:
        for kind in ("split_block", "ranked", "split", "split_block bits"):
            for other in ("split_block", "ranked", "split", "textbook", "libbloom", "unordered_set"):
                if other == kind.partition(" ")[0]:
                    continue
                pairs = [(op, results.find(op, kind, n), results.find(op, other, n))
                         for op in ALL]
                pairs = [(op, a, b) for op, a, b in pairs if a and b]
                for op, a, b in pairs:
                    if other not in ("split_block", "ranked", "split") and a["ns"][1] > b["ns"][1]:
                        rows.append([keys(n), label(kind), label(other), f"{op}, ns",
                                     number(a["ns"][1]), number(b["ns"][1])])
                if pairs and pairs[0][1]["bits_per_key"] > 1.005 * pairs[0][2]["bits_per_key"]:
                    rows.append([keys(n), label(kind), label(other), "bits per key",
                                 number(pairs[0][1]["bits_per_key"]),
                                 number(pairs[0][2]["bits_per_key"])])
    return table(["keys", "filter", "loses to", "in", "|", "its figure", "the other's"], rows)


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
    """The project's aims, and what was measured, here and on another machine."""
    rows = []

    def judge(what, aim, value_of, met, show=number):
        row = [what, aim]
        for on in (results, results.elsewhere):
            value = value_of(on) if on else None
            row.append(NOTHING if value is None else f"{show(value)}, {'met' if met(value) else '**missed**'}")
        rows.append(row)

    def floor_of(op):
        return "update" if op in ("insert", "remove") else "read"

    def ratio(op, kind, path="automatic"):
        return lambda on: (on.find(op, kind, 10**8, path=path) or {}).get("ratio_to_floor")

    def in_cache(op, kind):
        return lambda on: row["ns"][1] if (row := on.find(op, kind, 10**5)) else None

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
    other = results.elsewhere.context.get("cpu_model", NOTHING) if results.elsewhere else "another machine"
    return table(["what", "|", "aim", "measured", f"on {other}"], rows)


def elsewhere(results):
    """The main rows on another machine."""
    on = results.elsewhere
    if on is None:
        return ""
    rows = []
    for kind in ("split_block", "ranked", "split", "split_block bits"):
        for n in (10**5, 10**6, 10**7, 10**8):
            found = [on.find(op, kind, n) for op in MAIN]
            some = next((r for r in found if r), None)
            if some:
                rows.append([label(kind), keys(n), number(some["bits_per_key"])] + [spread(r) for r in found])
    read, update = (on.floor(a, "memory") for a in ("line_read", "line_update"))
    rows.append(["*floor: one random line*", "", "", median(update), median(read), median(read), median(update)])
    c = on.context
    caption = (f"\n- {c.get('cpu_model', NOTHING)}, {c.get('l2', NOTHING)} L2, {c.get('l3', NOTHING)} L3; "
               f"{c.get('compiler', NOTHING)}; commit {c.get('commit', NOTHING)}, {c.get('date', NOTHING)[:10]}; "
               f"`bench/results/{on.file_name}`\n")
    return table(["filter", "keys", "|", "bits/key", "insert", "miss", "hit", "remove"], rows) + caption


def figures(results):
    """The short table of the README, with the smallest and the largest size."""
    rows = []
    sizes = [n for n in results.sizes if results.find("insert", "textbook", n)]
    for n in dict.fromkeys((sizes[0], sizes[-1]) if sizes else ()):
        for kind in ("split_block", "ranked", "split", "split_block bits", "textbook", "libbloom"):
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
    caption = (f"\n{c.get('cpu_model', NOTHING)}, {c.get('l2', NOTHING)} L2, {c.get('l3', NOTHING)} "
               f"L3; {c.get('compiler', NOTHING)}; commit {c.get('commit', NOTHING)}, "
               f"{c.get('date', NOTHING)[:10]}.\n")
    return table(["keys", "structure", "|", "bits/key", "measured rate", "insert, ns", "miss, ns",
                  "hit, ns", "remove, ns"], rows) + caption


TABLES = {f.__name__: f for f in (figures, machine, floors, aims, headline, elsewhere, calls, comparators,
                                  losses, threads, paths, targets, strings)}
