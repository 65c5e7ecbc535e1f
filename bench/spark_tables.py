# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/spark.md, as functions of a result of spark_bench.py."""

import math

from tables import footnotes, keys, machine_name, table


def size(value):
    """Bytes with three digits: 5.04 MB."""
    if value is None:
        return ""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 1000:
            break
        value /= 1000
    return f"{value:.3g} {unit}"


def seconds(row):
    if "s" not in row:
        return row.get("note", "")
    low, middle, high = row["s"]
    return f"{middle:.3g} <sub>{low:.3g}–{high:.3g}</sub>"


def with_notes(spark, head, rows, notes):
    """A table and its notes. Empty without rows."""
    if not rows:
        return ""
    c = spark.context
    notes = [*notes, f"{machine_name(c)}, {c['cores']} cores, Spark {c['spark']} on `{c['master']}`, commit {c['commit']}, "
                     f"{c['date'][:10]}; `bench/results/{spark.file_name}`"]
    return table(head, [[str(cell) for cell in row] for row in rows]) + footnotes(notes)


def capped(spark):
    """A note on Spark's own filters that were made smaller than they should be, with their rate, computed."""
    for r in spark.pick(op="build", tool="Spark, bloomFilter"):
        if 8 * r["bytes"] == 67_108_864:
            bits = 8 * r["bytes"] / r["distinct"]
            hashes = max(1, round(bits * math.log(2)))
            rate = (1 - math.exp(-hashes / bits)) ** hashes
            yield (f"At SF {r['sf']:g} Spark caps its filter at 2<sup>26</sup> bits "
                   "(`spark.sql.optimizer.runtime.bloomFilter.maxNumBits`), "
                   f"{bits:.1f} per key: a rate of {100 * rate:.0f} %, computed")
            return


def build(spark):
    rows = [[f"{r['sf']:g}", f"{r['table']}, {r['keys']:,}", r["tool"], r.get("capacity", ""), seconds(r), size(r.get("bytes")),
             size(r.get("sent_bytes")), size(r["shuffled_bytes"])] for r in spark.pick(op="build")]
    alone = [f"{r['table']} at SF {r['sf']:g} {r['pyarrow_one_thread_s']:.3g} s" for r in spark.pick(op="build", capacity="given")
             if r.get("tool") == "scbf, counters"]
    return with_notes(spark, ["SF", "table, keys", "tool", "capacity", "|", "s", "filter", "sent by partitions", "shuffled"], rows, [
        "TPC-H, order keys, at 1 %: median, smallest and largest of 3; bytes of the filters are those of a build on one "
        "machine. *Counted*: `capacity=None`. Spark's `bloomFilter` makes bits that only the JVM can ask",
        "The same on one machine, one thread, with PyArrow and without Spark: " + ", ".join(alone), *capped(spark)])


def semi_join(spark):
    rows = [[f"{r['sf']:g}", r["small"], f"{r['small_keys']:,}" if "small_keys" in r else "", r["tool"], seconds(r),
             size(r.get("shuffled_bytes")), size(r.get("broadcast_bytes"))] for r in spark.pick(op="semi_join")]
    return with_notes(spark, ["SF", "orders of a", "keys of these", "tool", "|", "s", "shuffled", "filter sent to each executor"], rows, [
        "Line items of the orders of a month and of a year, 1 and 15 % of all, with sums over four columns; answers are "
        "equal. *Plain join*: both sides are shuffled, as where the smaller is too large to be broadcast"])


def partitions(spark):
    rows = [[keys(r["keys"]), r["partitions"], seconds(r), size(r["sent_bytes"]), size(r["shuffled_bytes"]), size(r["bytes"])]
            for r in spark.pick(op="partitions")]
    return with_notes(spark, ["keys", "|", "partitions", "s", "sent by partitions", "shuffled", "filter"], rows, [
        "The same keys, `spark.range`, in more and more partitions; the bytes of the filter are the same"])


def tree(spark):
    rows = [[keys(r["keys"]), r["kind"], size(r["filter_bytes"]), f"{r['partitions']:,}",
             " → ".join(str(w) for w in r["widths"]), size(r["sent_bytes"]), size(r["task_bytes"]), size(r["driver_bytes"]),
             f"{r['seconds']:,.0f}"] for r in spark.pick(op="plan")]
    models = [f"{r['partitions']} partitions {r['measured_s']:.3g} s, modelled {r['modelled_s']:.3g}" for r in spark.pick(op="model")]
    return with_notes(spark, ["keys", "of", "filter", "|", "partitions", "tasks of the levels", "sent", "memory of a task",
                         "memory of the driver", "s"], rows, [
        "Computed from the parts that were measured here, for 1000 cores", "The model here: " + "; ".join(models)])


TABLES = {"spark_build": build, "spark_semi_join": semi_join, "spark_partitions": partitions, "spark_tree": tree}
