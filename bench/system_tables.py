# SPDX-License-Identifier: Apache-2.0
"""The tables of stages, banks, indexes, deltas, packed files and insert_new, as functions of the results of
stages_bench, bank_bench, index_bench, sqlite_bench, travel_bench, new_keys_bench and hash_bench."""

from tables import cell, keys, label, listed, middle, number, percent, spread, with_notes

QUESTIONS = ("miss", "hit", "mix")


def stages(systems):
    rows = []
    for r in systems.pick(op="miss", batch="all"):
        of = {q: systems.one(op=q, batch="all", growth=r["growth"], stages=r["stages"], n=r["n"])
              for q in QUESTIONS}
        if r["stages"] == 1:
            rows.append([keys(r["n"]), "one filter", 1, r["bits_per_key_one"],
                         *(number(middle(of[q], "_one")) for q in QUESTIONS), "", "", "", 1])
        apart = [middle(of[q], "_apart") for q in QUESTIONS]
        rows.append([keys(r["n"]), r["growth"], r["stages"], r["bits_per_key"],
                     *(number(middle(of[q])) for q in QUESTIONS),
                     *("" if ns is None else number(ns) for ns in apart),
                     number(middle(r) / middle(r, "_one"))])
    head = ["keys", "policy", "|", "stages", "bits per key", "ns, absent", "present", "both",
            "stages apart: absent", "present", "both", "absent ÷ one filter"]
    return rows and with_notes(systems, head, rows, [
        "`tightening`: each stage twice as large as the one before and stricter; `fixed`: stages "
        "alike, half full. Rate 1 % of all together; batches of all keys, at most "
        "4 · 10<sup>6</sup>; one thread, medians; each row's forms asked in turn."])


AT_ONCE = {"alone": "alone", 1: "one by one", 8: "8 at once", 64: "64 at once"}


def few_keys(systems):
    rows = []
    for r in systems.pick(op="miss", batch="alone"):
        of = {(q, batch): systems.one(op=q, batch=batch, stages=r["stages"], n=r["n"])
              for q in ("miss", "hit") for batch in AT_ONCE}
        if r["stages"] == 1:
            rows.append([keys(r["n"]), "one filter"] + [
                value for batch in AT_ONCE
                for value in (middle(of["miss", batch], "_one"), middle(of["hit", batch], "_one"), 1)])
        rows.append([keys(r["n"]), f"{r['stages']} stage{'s' if r['stages'] > 1 else ''}"] + [
            value for batch in AT_ONCE
            for value in (middle(of["miss", batch]), middle(of["hit", batch]),
                          middle(of["miss", batch]) / middle(of["miss", batch], "_one"))])
    head = ["keys", "of", "|"] + [f"{name}: {what}" for name in AT_ONCE.values()
                                  for what in ("absent", "present", "absent ÷ one filter")]
    return rows and with_notes(systems, head, rows, [
        "`tightening`, rate 1 % of all stages together; with contains(key), each alone (begun when "
        "the last has its answer) or one by one in a loop, and in batches of 8 and of 64; one "
        "thread, medians; each row's forms asked in turn."])


ONE_MEMBER = "one member:"


def bank_lines(systems, kind):
    """The figures of the bank and of its members alone, and the limit of the ratio that is the aim for one
    stage, or None."""
    for r in systems.pick(bank=kind):
        alone = middle(r, "_alone")
        if r["op"] == "query":
            yield f"query, ns per key, batches of {keys(r['batch'])}", middle(r), alone, 20
            yield f"query as lists, batches of {keys(r['batch'])}", middle(r, "_lists"), alone, None
        elif r["op"] == "insert_all":
            yield "memory, MB", r["mb"], r["mb_alone"], 1.3
            yield "insert all, one call, ns per key", middle(r), alone, 2.5
        elif "into_each" in r:
            what, limit = (f"insert {r['into_each']} more into each", 2.5) if r["op"] == "insert" else ("remove them", 4)
            yield f"{what}, one call, ns per key", middle(r), alone, limit
        elif r["op"] == "insert":
            yield f"{ONE_MEMBER} insert {keys(r['one_member'])} keys, empty before, ns per key", middle(r), alone, 6
        elif r["op"] == "remove":
            yield f"{ONE_MEMBER} remove {keys(r['one_member'])} keys, all it has, ns per key", middle(r), alone, 6


def bank_aim(what, bank, alone, limit):
    """The aim of a line and whether it was met. Queries are to be faster than the members alone, by that
    factor; all else may take more, but not beyond it."""
    if limit is None:
        return ""
    if what.startswith("query"):
        aim, met = f"≥ {limit}", alone / bank >= limit
    else:
        aim, met = f"≤ {limit}", bank / alone <= limit
    return f"{aim}, {'met' if met else '**missed**'}"


def bank_of(systems, kind):
    lines = list(bank_lines(systems, kind))
    with_aims = kind == "one"
    rows = [[what, bank, alone, number(max(bank / alone, alone / bank)),
             *([bank_aim(what, bank, alone, limit)] if with_aims else [])] for what, bank, alone, limit in lines]
    if not rows:
        return ""
    some = systems.one(bank=kind)
    most = int(some["most_stages"])
    stages = ("one stage per member" if most == 1 else
              f"up to {most} stages per member, {cell(some['stages'])} in all")
    notes = [f"{some['members']:,} members of {keys(some['keys'])} keys on average, {stages}; "
             f"{some.get('variant', '').removeprefix('one: ')}"]
    if with_aims:
        notes.append("What stands in the way of one large member's aim: its counters are in cache, while each line of "
                     "its bit rows comes from memory")
    head = ["what", "|", "bank", "members alone", "ratio", *(["aim"] if with_aims else [])]
    return with_notes(systems, head, rows, notes)


def bank_readers(systems):
    """How soon a process that opens a bank has its first answers."""
    titles = {"one": "of one stage", "growing": "that grow"}
    rows = [[f"members {titles[kind]}", r["batch"],
             *(r["batch"] * middle(r, form) / 1e6 for form in ("", "_loaded", "_of_counters"))]
            for kind in titles for r in systems.pick(op="first_answers", bank=kind)]
    notes = ["Opening the file, which the system has in its cache, and one batch"]
    for kind, title in titles.items():
        for r in systems.pick(op="apply_delta", bank=kind):
            notes.append(f"Members {title}: a delta takes {number(middle(r))} ns for each bit that changes, applied to "
                         f"the bank; {number(middle(r, '_replaced'))} applied to a filter beside it, which then replaces "
                         "the member")
    head = ["bank", "|", "keys", "bits, mapped", "bits, loaded", "counters, loaded as bits"]
    return rows and with_notes(systems, head, rows, notes)


VALUES = {"nobody": "in no row", "one_row": "in one row", "customer": "a customer, in about 20 rows",
          "city": "a city, in every region"}


def index_of(systems, name):
    queries = systems.pick(op="query", table=name)
    rows = [[f"{100 * r['rate']:g} %", VALUES.get(r["value"], r["value"]), r["queries"],
             r["servers_holding"], r["requests"], r["standard_error"], r["expected"], r["bound"],
             r["broadcast"], middle(r) / 1000, middle(r, "_broadcast") / 1000,
             number(middle(r, "_broadcast") / middle(r))] for r in queries]
    notes = []
    if load := systems.one(op="load", table=name):
        seconds = middle(load) * load["rows"] / 1e9
        of_a_server = load["regions"] / load["servers"]
        rates = [f"{number(100 * (1 - (1 - rate) ** of_a_server))} %"
                 for rate in dict.fromkeys(r["rate"] for r in queries)]
        notes.append("*bound*: h + (S − h) · P<sub>s</sub>, which the paper allows for a value that h of S servers "
                     f"hold. P<sub>s</sub> is the rate of a server. Each has {cell(of_a_server)} regions here, so "
                     f"that it is 1 − (1 − rate of a region)<sup>{cell(of_a_server)}</sup>: {listed(rates)}. "
                     "*Expected*: from the counters of these filters")
        notes.append(f"{keys(load['rows'])} rows in {cell(load['regions'])} regions on "
                     f"{cell(load['servers'])} servers, loaded in {number(seconds)} s by one thread "
                     f"({1e9 / middle(load):,.0f} rows/s)")
        if "store_mb" in load:
            notes[-1] += (f"; {keys(load['values'])} values summed over regions, store "
                          f"{load['store_mb']:,.0f} MB; inserting a row takes "
                          f"{middle(load, '_put') / 1000:.1f} µs, removing one "
                          f"{middle(load, '_remove') / 1000:.1f} µs (log not synced)")
    for r in {r["rate"]: r for r in queries}.values():
        notes.append(f"{100 * r['rate']:g} %: filters {r['filters_mb']:.1f} MB, rows of bits "
                     f"{r['bit_rows_mb']:.1f} MB, together {r['bits_per_value']:.1f} bits per value; "
                     f"all rebuilt from the local indexes in {r['opening_seconds']:.2f} s")
    head = ["rate of a region", "value", "|", "queries", "servers holding it (h)", "requests, measured",
            "± standard error", "expected", "bound", "broadcast (S)", "µs, routed", "µs, broadcast",
            "broadcast ÷ routed"]
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
    head = ["operation", "|", "index, µs", "SQLite, µs", "SQLite ÷ index (above 1: the index is faster)", "|",
            "why the index is slower"]
    return rows and with_notes(systems, head, rows, [
        f"{keys(some['rows'])} rows, four indexed columns, {cell(some['regions'])} regions; cache "
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
                     of_bytes(r["bytes"]), percent(r["bytes"] / r["whole_bytes"], 2),
                     f"{r['bytes'] / r['changed']:.2f}", f"{r['bytes'] / r['entropy_bytes']:.2f}",
                     middle(r) * r["changed"] / 1e6, middle(r, "_apply") * r["changed"] / 1e6])
    some = systems.one(op="delta")
    head = ["layout", "keys changed", "|", "bits changed", "delta", "of all bits", "bytes per key",
            "bytes to entropy", "made in, ms", "applied in, ms"]
    return rows and with_notes(systems, head, rows, [
        f"a filter of {keys(some['n'])} keys at 1 %; half of the keys that change come, half go; "
        "one thread, medians",
        "*to entropy*: that of as many changes at independent random places; those of "
        "`split_block` lie in one block for each key, and so take less"])


def packed_files(systems):
    rows = []
    for r in systems.pick(op="pack"):
        rows.append([r["layout"], r["cells"], f"{r['load'] / 10:g} %", percent(r["fill"], 2),
                     of_bytes(r["plain_bytes"]), of_bytes(r["bytes"]),
                     percent(r["bytes"] / r["plain_bytes"], 2),
                     f"{r['bytes'] / r['entropy_bytes']:.2f}",
                     number(1 / middle(r)), number(1 / middle(r, "_read"))])
    some = systems.one(op="pack")
    head = ["layout", "cells", "keys", "|", "fill", "plain", "compressed", "of plain",
            "bytes to entropy", "written, GB/s", "read, GB/s"]
    return rows and with_notes(systems, head, rows, [
        f"filters for {keys(some['n'])} keys at 1 %, which hold that share of them; entropy of "
        "cells that are independent of each other, of bits m·H(fill); bytes before packing, one "
        "thread, medians"])


def new_keys(systems):
    """insert_new, beside a lookup and an insertion of what was not found."""
    rows = []
    for r in systems.pick(op="new"):
        rows.append([label(r["layout"]), f"{100 * r['fpr']:g} %", keys(r["n"]), r["threads"],
                     *(number(middle(r, form)) for form in ("", "_asked", "_again", "_asked_again"))])
    head = ["layout", "rate", "keys", "threads", "|", "new keys, `insert_new`", "new keys, `contains` and `insert`",
            "same batch again, `insert_new`", "same batch again, `contains`"]
    return rows and with_notes(systems, head, rows, [
        "ns per key, medians; a batch of this many distinct keys into an empty filter for them, then the same batch "
        "again. `contains` and `insert`: the lookup, a copy of the keys that it did not find, and their insertion. "
        "All forms in turn"])


def hashing(systems):
    """Byte strings hashed in batches, and one after another."""
    forms = {"fixed": "a column of one width", "column": "a column with offsets", "views": "`string_view`s of these",
             "strings": "`string`s in another order"}
    rows = []
    for first in systems.pick(op="hash", form="column"):
        least, most, n = first["least"], first["most"], first["n"]
        for form, title in forms.items():
            r = systems.one(op="hash", form=form, least=least, most=most, n=n)
            if r is None:
                continue
            rows.append([str(least) if least == most else f"{least}–{most}", keys(n), title, spread(r),
                         number(middle(r, "_loop")), number(middle(r, "_loop") / middle(r))])
    head = ["bytes", "keys", "form", "|", "a batch, ns per key", "a loop, ns per key", "times faster"]
    return rows and with_notes(systems, head, rows, [
        "A batch: `KeyBatch::hashes`, as every call on a batch hashes its keys. A loop: `hash_of` for one key after "
        "another, which is xxHash. Both give the same hashes. Lengths are equally likely"])


# Each function returns an empty table if there are no rows for it.
TABLES = {"stages": stages, "deltas": deltas, "packed": packed_files, "new_keys": new_keys, "hashing": hashing, "few_keys": few_keys,
          "bank": lambda systems: bank_of(systems, "one"),
          "growing_bank": lambda systems: bank_of(systems, "growing"),
          "bank_readers": bank_readers,
          "sqlite": against_sqlite,
          "index": lambda systems: index_of(systems, "generated"),
          "packages": lambda systems: index_of(systems, "packages")}
