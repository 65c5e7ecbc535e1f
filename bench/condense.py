#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Condenses Google Benchmark's JSON into the files of bench/results/.

Google Benchmark writes 700 bytes for each repetition of a row. The result keeps the minimum, median
and maximum of the times, the median of the other figures, and the context without paths and host
names. A row that was skipped with an error is fatal, because its answers were wrong.
"""

import argparse
import json
import re
import statistics
import sys
from pathlib import Path

DROPPED_CONTEXT = ("executable", "host_name", "load_avg", "caches", "num_cpus", "mhz_per_cpu",
                   "cpu_scaling_enabled", "library_build_type")
# What Google Benchmark writes for every repetition. Everything else is a counter.
NO_COUNTERS = ("name", "family_index", "per_family_instance_index", "run_name", "run_type",
               "repetitions", "repetition_index", "threads", "iterations", "real_time", "cpu_time",
               "time_unit", "label")
TIME = re.compile(r"ns_per_[a-z]+((?:_[a-z]+)*)$")


def fail(message):
    sys.exit(f"condense.py: {message}")


def parse_name(run_name):
    """'insert/filter:split/n:1000/…/iterations:1/repeats:5/…' → {'op': 'insert', …}."""
    name = re.sub(r"/iterations:.*$", "", run_name)
    operation, *pairs = name.split("/")
    row = {"op": operation}
    for pair in pairs:
        key, value = pair.split(":", 1)  # a value may hold a colon: backend:simd:AVX2
        if re.fullmatch(r"\d+", value):
            row[key] = int(value)
        else:
            row[key] = float(value) if re.fullmatch(r"[\d.]+(e-?\d+)?", value) else value
    return row


def digits(value, significant=4):
    return value if value == int(value) else float(f"{value:.{significant}g}")


def condense(raws):
    context, rows = {}, {}
    for path, raw in raws:
        if not context:
            context = {k: v for k, v in raw["context"].items() if k not in DROPPED_CONTEXT}
        for key in ("cpu_model", "commit", "build_type", "compiler"):
            if raw["context"].get(key) != context.get(key):
                fail(f"{path}: {key} differs from the first file's; these are not one run")
        for entry in raw["benchmarks"]:
            if entry.get("error_occurred"):
                fail(f"{path}: {entry['name']}: {entry['error_message']}")
            if entry["run_type"] == "iteration":
                rows.setdefault(entry["run_name"], []).append(entry)
    if not rows:
        fail("there is no row")
    result = []
    for run_name, entries in rows.items():
        row = parse_name(run_name)
        row["repetitions"] = len(entries)
        if "label" in entries[0]:
            row["target" if "filter" in row else "variant"] = entries[0]["label"]
        for counter in [name for name in entries[0] if name not in NO_COUNTERS]:
            values = [entry[counter] for entry in entries]
            middle = digits(statistics.median(values))
            if time := TIME.match(counter):
                row["ns" + time[1]] = [digits(min(values)), middle, digits(max(values))]
            else:
                row[counter] = middle
        result.append(row)
    return context, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", nargs="+", type=Path, help="JSON files of one run")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--matrix", required=True, choices=("quick", "full", "systems", "travel", "new", "hash", "python", "command", "gpu"))
    args = parser.parse_args()
    # A program's file is empty if --benchmark_filter picked none of its rows.
    context, rows = condense([(p, json.loads(p.read_text())) for p in args.raw if p.stat().st_size])
    context["matrix"] = args.matrix
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    text = (f'{{\n"schema": 1,\n"context": {json.dumps(context, indent=1)},\n'
            f'"rows": [\n{lines}\n]\n}}\n')
    json.loads(text)
    args.output.write_text(text)
    print(f"{args.output}: {len(rows)} rows, {len(text) / 1000:.0f} KB")


if __name__ == "__main__":
    main()
