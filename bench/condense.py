#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Condenses Google Benchmark's JSON into the files of bench/results/.

Google Benchmark writes five aggregates of 700 bytes for each row; kept are minimum, median and
maximum of the times, the median of the rest, and the context. Paths and host names are dropped.
Fails when a row was skipped with an error, because then answers were wrong.
"""

import argparse
import json
import re
import sys
from pathlib import Path

NUMBERS = ("n", "fpr", "threads")
DROPPED_CONTEXT = ("executable", "host_name", "load_avg", "caches", "num_cpus", "mhz_per_cpu",
                   "cpu_scaling_enabled", "library_build_type")


def fail(message):
    sys.exit(f"condense.py: {message}")


def parse_name(run_name):
    """'insert/filter:split/n:1000/…/iterations:1/repeats:5/…' → {'op': 'insert', …}."""
    name = re.sub(r"/iterations:.*$", "", run_name)
    operation, *pairs = name.split("/")
    row = {"op": operation}
    for pair in pairs:
        key, value = pair.split(":", 1)  # a value may hold a colon: backend:simd:AVX2
        row[key] = float(value) if key in NUMBERS else value
        if key in ("n", "threads"):
            row[key] = int(value)
    return row


def digits(value, significant=4):
    return float(f"{value:.{significant}g}")


def condense(raws):
    context, rows = None, {}
    for path, raw in raws:
        if context is None:
            context = {k: v for k, v in raw["context"].items() if k not in DROPPED_CONTEXT}
        for key in ("cpu_model", "commit", "build_type", "compiler"):
            if raw["context"].get(key) != context.get(key):
                fail(f"{path}: {key} differs from the first file's; these are not one run")
        for entry in raw["benchmarks"]:
            if entry.get("error_occurred"):
                fail(f"{path}: {entry['name']}: {entry['error_message']}")
            aggregate = entry.get("aggregate_name")
            if aggregate not in ("min", "median", "max"):
                continue
            rows.setdefault(entry["run_name"], {})[aggregate] = entry
    if not rows:
        fail("no row with repetitions found")
    result = []
    for run_name, by_aggregate in rows.items():
        row = parse_name(run_name)
        middle = by_aggregate["median"]
        time = "ns_per_line" if row["op"] == "floor" else "ns_per_key"
        row["ns"] = [digits(by_aggregate[a][time]) for a in ("min", "median", "max")]
        row["repetitions"] = middle["repetitions"]
        row["variant" if row["op"] == "floor" else "target"] = middle.get("label", "")
        for counter in ("fpr_measured", "fpr_predicted", "bits_per_key", "floor_ns",
                        "ratio_to_floor", "gb_per_second"):
            if counter in middle:
                row[counter] = digits(middle[counter])
        result.append(row)
    return context, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", nargs="+", type=Path, help="JSON files of filter_bench, of one run")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--matrix", required=True, choices=("quick", "full"))
    args = parser.parse_args()
    context, rows = condense([(p, json.loads(p.read_text())) for p in args.raw])
    context["matrix"] = args.matrix
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    text = (f'{{\n"schema": 1,\n"context": {json.dumps(context, indent=1)},\n'
            f'"rows": [\n{lines}\n]\n}}\n')
    json.loads(text)
    args.output.write_text(text)
    print(f"{args.output}: {len(rows)} rows, {len(text) / 1000:.0f} KB")


if __name__ == "__main__":
    main()
