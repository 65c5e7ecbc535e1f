# SPDX-License-Identifier: Apache-2.0
"""The tables that plot.py puts into the documentation, as functions of a result file."""

MAIN = ("insert", "miss", "hit", "remove")
ALL = ("insert", "miss", "hit", "mix", "count", "remove")
NOTHING = "n/a"


def keys(n):
    """100000 → '10^5' as HTML, 50000 → '5 · 10^4'."""
    exponent = len(str(n)) - 1
    lead = n / 10**exponent
    power = f"10<sup>{exponent}</sup>"
    return power if lead == 1 else f"{lead:g} · {power}"


def label(kind):
    return {"split_block": "`split_block`", "split": "`split`", "ranked": "`ranked`",
            "split_block bits": "`split_block`, bits", "split bits": "`split`, bits",
            "ranked bits": "`ranked`, bits", "libbloom": "libbloom (plain)",
            "textbook": "textbook counting", "unordered_set": "`std::unordered_set`"}[kind]


def number(value):
    """Three significant digits without an exponent."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(value):
    return NOTHING if value is None else f"{100 * value:.3g} %"


def median(row):
    return NOTHING if row is None else number(row["ns"][1])


def spread(row):
    if row is None:
        return NOTHING
    low, middle, high = row["ns"]
    return f"{number(middle)} <sub>{number(low)}–{number(high)}</sub>"


def table(head, rows):
    """A Markdown table. Columns before the one named '|' are aligned left, the others right."""
    at = head.index("|")
    head = [h for h in head if h != "|"]
    lines = ["| " + " | ".join(head) + " |",
             "|" + "|".join("---" if i < at else "--:" for i in range(len(head))) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


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


# ---- stages, banks, indexes -----------------------------------------------------------------------

QUESTIONS = ("miss", "hit", "mix")


class Systems:
    """The rows of stages_bench, bank_bench and index_bench."""

    def __init__(self, document, file_name):
        self.context = document["context"]
        self.file_name = file_name
        self.rows = document["rows"]

    def pick(self, **wanted):
        """The rows that have all these values."""
        return [r for r in self.rows if all(r.get(k) == v for k, v in wanted.items())]

    def one(self, **wanted):
        return next(iter(self.pick(**wanted)), None)


def middle(row, form=""):
    """The median ns of a form of a row, or None if the row has no such form."""
    return row["ns" + form][1] if row and "ns" + form in row else None


def cell(value):
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e9 else number(value)


def with_notes(systems, head, rows, notes):
    c = systems.context
    notes = notes + [f"{c['cpu_model']}, {c['build_type']} build, commit {c['commit']}, "
                     f"{c['date'][:10]}; `bench/results/{systems.file_name}`"]
    return (table(head, [[cell(value) for value in row] for row in rows]) + "\n" +
            "".join(f"- {note}\n" for note in notes))


def stages(systems):
    rows = []
    for r in systems.pick(op="miss", batch="all"):
        of = {q: systems.one(op=q, batch="all", growth=r["growth"], stages=r["stages"], n=r["n"])
              for q in QUESTIONS}
        if r["stages"] == 1:
            rows.append([r["n"], "one filter", 1, r["bits_per_key_one"],
                         *(middle(of[q], "_one") for q in QUESTIONS), "", "", "", 1])
        rows.append([r["n"], r["growth"], r["stages"], r["bits_per_key"],
                     *(middle(of[q]) for q in QUESTIONS),
                     *(middle(of[q], "_apart") for q in QUESTIONS),
                     middle(r) / middle(r, "_one")])
    head = ["keys", "policy", "|", "stages", "bits per key", "ns, absent", "present", "both",
            "stages apart: absent", "present ", "both ", "absent, to one filter"]
    return rows and with_notes(systems, head, rows, [
        "`tightening`: each stage twice as large as the one before and stricter; `fixed`: stages "
        "alike, half full. Rate 1 % of all together; batches of all keys, at most "
        "4 · 10<sup>6</sup>; one thread, medians; each row's forms asked in turn."])


AT_ONCE = {"alone": "alone", 1: "one by one", 8: "8", 64: "64"}


def few_keys(systems):
    rows = []
    for r in systems.pick(op="miss", batch="alone"):
        of = {(q, batch): systems.one(op=q, batch=batch, stages=r["stages"], n=r["n"])
              for q in ("miss", "hit") for batch in AT_ONCE}
        if r["stages"] == 1:
            rows.append([r["n"], "one filter"] + [
                value for batch in AT_ONCE
                for value in (middle(of["miss", batch], "_one"), middle(of["hit", batch], "_one"), 1)])
        rows.append([r["n"], f"{r['stages']} stage{'s' if r['stages'] > 1 else ''}"] + [
            value for batch in AT_ONCE
            for value in (middle(of["miss", batch]), middle(of["hit", batch]),
                          middle(of["miss", batch]) / middle(of["miss", batch], "_one"))])
    head = ["keys", "of", "|"] + [f"{name}: {what}" for name in AT_ONCE.values()
                                  for what in ("absent", "present", "absent, to one filter")]
    return rows and with_notes(systems, head, rows, [
        "`tightening`, rate 1 % of all stages together; with contains(key), each alone (begun when "
        "the last has its answer) or one by one in a loop, and in batches of 8 and of 64; one "
        "thread, medians; each row's forms asked in turn."])


def bank_lines(systems, kind):
    """The figures of the bank and of its members alone, and the aim for one stage."""
    for r in systems.pick(bank=kind):
        alone = middle(r, "_alone")
        if r["op"] == "query":
            yield f"query, ns per key, batches of {r['batch']}", middle(r), alone, "≥ 20"
            yield f"query as lists, batches of {r['batch']}", middle(r, "_lists"), alone, ""
        elif r["op"] == "insert_all":
            yield "memory, MB", r["mb"], r["mb_alone"], "≤ 1.3"
            yield "insert all, one call, ns per key", middle(r), alone, "≤ 4"
        elif "into_each" in r:
            what = f"insert {r['into_each']} more into each" if r["op"] == "insert" else "remove them"
            yield f"{what}, one call, ns per key", middle(r), alone, "≤ 4"
        elif r["op"] == "insert":
            yield (f"insert {r['one_member']} keys into one empty member, ns per key", middle(r),
                   alone, "(≤ 4)")
        else:
            yield (f"remove {r['one_member']} keys, all of one member, ns per key", middle(r), alone,
                   "(≤ 4)")


def bank_of(systems, kind):
    rows = [[what, bank, alone, max(bank / alone, alone / bank), aim if kind == "one" else ""]
            for what, bank, alone, aim in bank_lines(systems, kind)]
    some = systems.one(bank=kind)
    return rows and with_notes(systems, ["what", "|", "bank", "members alone", "ratio", "aim"], rows, [
        f"{some['members']} members of {some['keys']} keys on average, {cell(some['most_stages'])} "
        f"stages at most, {cell(some['stages'])} in all; {some.get('variant', '')}"])


VALUES = {"nobody": "nobody's", "one_row": "one row's", "customer": "a customer's",
          "city": "a city's"}


def index_of(systems, name):
    queries = systems.pick(op="query", table=name)
    rows = [[f"{100 * r['rate']:g} %", VALUES.get(r["value"], r["value"]), r["queries"],
             r["servers_holding"], r["requests"], r["standard_error"], r["expected"], r["bound"],
             r["broadcast"], middle(r) / 1000, middle(r, "_broadcast") / 1000,
             middle(r, "_broadcast") / middle(r)] for r in queries]
    notes = []
    if load := systems.one(op="load", table=name):
        seconds = middle(load) * load["rows"] / 1e9
        notes.append(f"{cell(load['rows'])} rows in {cell(load['regions'])} regions on "
                     f"{cell(load['servers'])} servers, loaded in {number(seconds)} s by one thread "
                     f"({1e9 / middle(load):.0f} rows/s)")
        if "store_mb" in load:
            notes[-1] += (f"; {cell(load['values'])} values summed over regions, store "
                          f"{load['store_mb']:.0f} MB; one row more "
                          f"{middle(load, '_put') / 1000:.1f} µs, one row less "
                          f"{middle(load, '_remove') / 1000:.1f} µs (log not synced)")
    for r in {r["rate"]: r for r in queries}.values():
        notes.append(f"{100 * r['rate']:g} %: filters {r['filters_mb']:.1f} MB, rows of bits "
                     f"{r['bit_rows_mb']:.1f} MB, together {r['bits_per_value']:.1f} bits per value; "
                     f"all made anew from the local indexes in {r['opening_seconds']:.2f} s")
    head = ["rate of a region", "value", "|", "queries", "servers holding it", "requests, measured",
            "± standard error", "expected of these filters", "h + (S − h)·P at the bound",
            "broadcast", "µs per query", "µs broadcast", "faster"]
    return rows and with_notes(systems, head, rows, notes)


AGAINST_SQLITE = {
    "load": "load, sorted, per row",
    "found": "one row, by a unique value",
    "absent": "a value that no row has",
    "and_selective": "20 rows of a rare value, 5 of them with a popular one, too",
    "and_disjoint_limit_1": "two popular values that no row has together, limit 1",
    "and_limit_10": "10 rows with two popular values",
    "many": "20,000 rows of a popular value",
    "queue_last_tenth": "10 pending rows, after most were taken",
    "put": "put a row", "overwrite": "overwrite it", "remove": "remove it",
    "put_synced": "put a row, synced", "overwrite_synced": "overwrite it, synced",
    "remove_synced": "remove it, synced"}
SYNCS = "each waits for one sync of its log, which takes most of the time"
WHY_SLOWER = {
    "load": "each region has tables and a filter of its own, and the log of its filter",
    "found": "a cursor of RocksDB takes 3 µs to open and place, against 2 for a descent of a B-tree",
    "and_selective": "twenty rows are read, each from a block of its own, which takes most of the time; fewer of RocksDB's blocks are in the cache the more rows there are",
    "and_disjoint_limit_1": "both lists are walked, and a step of RocksDB's cursor takes 0.11 µs",
    "and_limit_10": "two counts are read and two cursors opened before the first row",
    "many": "a row of a sorted batch takes RocksDB 0.65 µs, as much as SQLite the whole query",
    "queue_last_tenth": "a cursor is opened, and ten rows are looked up in tables in memory",
    "put_synced": SYNCS, "overwrite_synced": SYNCS, "remove_synced": SYNCS}


def against_sqlite(systems):
    rows = []
    for op, what in AGAINST_SQLITE.items():
        if r := systems.one(op=op, against="sqlite"):
            ours, theirs = middle(r) / 1000, middle(r, "_sqlite") / 1000
            rows.append([what, number(ours), number(theirs), f"{theirs / ours:.2f}",
                         WHY_SLOWER.get(op, "") if ours > theirs else ""])
    some = systems.one(against="sqlite")
    head = ["operation", "|", "index, µs", "SQLite, µs", "SQLite's time to ours", "why it is behind"]
    return rows and with_notes(systems, head, rows, [
        f"{cell(some['rows'])} rows, four indexed columns, {cell(some['regions'])} regions; cache "
        "64 MiB each; one thread; queries return whole rows, each asked alone"])


def of_bytes(value):
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return f"{value:.0f} B"


def deltas(systems):
    rows = []
    for r in systems.pick(op="delta"):
        rows.append([r["layout"], f"{100 * r['changed'] / r['n']:g} %", r["changes"],
                     of_bytes(r["bytes"]), f"{100 * r['bytes'] / r['whole_bytes']:.2g} %",
                     f"{r['bytes'] / r['changed']:.2f}", f"{r['bytes'] / r['entropy_bytes']:.2f}",
                     middle(r) * r["changed"] / 1e6, middle(r, "_apply") * r["changed"] / 1e6])
    some = systems.one(op="delta")
    head = ["layout", "keys changed", "|", "bits changed", "delta", "of all bits", "bytes per key",
            "bytes to entropy", "made in, ms", "applied in, ms"]
    return rows and with_notes(systems, head, rows, [
        f"a filter of {cell(some['n'])} keys at 1 %; half of the keys that change come, half go; "
        "one thread, medians",
        "*to entropy*: that of as many changes at independent random places; those of "
        "`split_block` lie in one block for each key, and so take less"])


def packed_files(systems):
    rows = []
    for r in systems.pick(op="pack"):
        rows.append([r["layout"], r["cells"], f"{r['load'] / 10:g} %", f"{100 * r['fill']:.2g} %",
                     of_bytes(r["plain_bytes"]), of_bytes(r["bytes"]),
                     f"{100 * r['bytes'] / r['plain_bytes']:.2g} %",
                     f"{r['bytes'] / r['entropy_bytes']:.2f}",
                     number(1 / middle(r)), number(1 / middle(r, "_read"))])
    some = systems.one(op="pack")
    head = ["layout", "cells", "keys", "|", "fill", "plain", "compressed", "of plain",
            "bytes to entropy", "written, GB/s", "read, GB/s"]
    return rows and with_notes(systems, head, rows, [
        f"filters for {cell(some['n'])} keys at 1 %, which hold that share of them; entropy of "
        "cells that are independent of each other, of bits m·H(fill); bytes before packing, one "
        "thread, medians"])


def new_keys(systems):
    """insert_new, beside a lookup and an insertion of what was not found."""
    rows = []
    for r in systems.pick(op="new"):
        rows.append([r["layout"], f"{100 * r['fpr']:g} %", r["n"], r["threads"], middle(r),
                     middle(r, "_asked"), middle(r, "_again"), middle(r, "_asked_again")])
    head = ["layout", "rate", "keys", "threads", "|", "new keys", "by `contains`, `insert`", "the same again",
            "by `contains`"]
    return rows and with_notes(systems, head, rows, [
        "ns per key, medians; a batch of so many distinct keys into an empty filter for them, then the same batch "
        "once more. `contains`, `insert`: the lookup, a copy of the keys that it did not find, and their insertion. "
        "All forms in turn"])


# Each function returns an empty table if there are no rows for it.
SYSTEMS = {"stages": stages, "deltas": deltas, "packed": packed_files, "new_keys": new_keys, "few_keys": few_keys,
           "bank": lambda systems: bank_of(systems, "one"),
           "growing_bank": lambda systems: bank_of(systems, "growing"),
           "sqlite": against_sqlite,
           "index": lambda systems: index_of(systems, "generated"),
           "packages": lambda systems: index_of(systems, "packages")}
