#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the Python package: against the C++ library on the same keys, in turn, and against filters from
PyPI (rbloom, pybloom-live, pyprobables), where they are installed. Answers are verified first.

scripts/bench --python runs it, and condenses what it writes, which has the shape of Google Benchmark's JSON.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import scbf

FPR = 0.01
KINDS = ("int64", "string")


class Reference:
    """The C++ program: runs one operation at a time."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.process = subprocess.Popen([program, folder, str(FPR)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ask(self, line: str) -> str:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("python_bench.py: the C++ program ended")
        return answer.rstrip("\n")

    def run(self, operation: str, kind: str, threads: int) -> tuple[float, int]:
        seconds, keys = self.ask(f"{operation} {kind} {threads}").split()
        return float(seconds), int(keys)

    def context(self) -> dict[str, str]:
        pairs, line = {}, self.ask("context")
        while line:
            name, value = line.split("\t", 1)
            pairs[name] = value
            assert self.process.stdout
            line = self.process.stdout.readline().rstrip("\n")
        return pairs


def make_keys(n: int, folder: Path) -> dict[tuple[str, str], Any]:
    """Distinct uniform numbers, and addresses of pages, present and absent; also as files."""
    random = np.random.default_rng(1)
    numbers = np.unique(random.integers(-(2**63), 2**63 - 1, 2 * n + 1000))
    random.shuffle(numbers)
    keys: dict[tuple[str, str], Any] = {}
    for i, name in enumerate(("present", "absent")):
        some = np.ascontiguousarray(numbers[i * n : (i + 1) * n])
        some.tofile(folder / f"{name}.i64")
        keys[name, "int64"] = some
        text = pa.array([f"https://example.org/{x & 0xFFFFFFFFFFFF:x}/{name}/{j}" for j, x in enumerate(some.tolist())])
        keys[name, "string"] = text
        offsets, data = text.buffers()[1:]
        (folder / f"{name}.offsets").write_bytes(memoryview(offsets)[: 4 * (n + 1)])
        end = int(np.frombuffer(offsets, np.int32, n + 1)[-1])
        (folder / f"{name}.text").write_bytes(memoryview(data)[:end])
    return keys


class Results:
    """Rows in the shape of Google Benchmark's JSON, an entry for each repetition."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def add(self, name: str, **counters: float) -> None:
        self.entries.append({"name": name, "run_name": name, "run_type": "iteration", **counters})

    def median(self, name: str, counter: str) -> float:
        return float(np.median([e[counter] for e in self.entries if e["run_name"] == name]))


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def against_cpp(results: Results, reference: Reference, keys: dict[tuple[str, str], Any], n: int, rounds: int) -> None:
    """Each operation, one round in C++ and one in Python, in turn."""
    for kind in KINDS:
        filter = scbf.Filter(n, FPR)
        out = np.zeros(n, bool)
        present, absent = keys["present", kind], keys["absent", kind]

        def python(operation: str, threads: int) -> tuple[float, int]:
            if operation == "insert":
                filter.clear()
                seconds, report = timed(lambda: filter.insert(present, threads=threads))
                return seconds, report.inserted
            if operation == "remove":
                seconds, report = timed(lambda: filter.remove(present, threads=threads))
                return seconds, report.removed
            asked = absent if operation == "miss" else present
            seconds, _ = timed(lambda: filter.contains(asked, out, threads=threads))
            return seconds, int(out.sum())

        for threads in sorted({1, os.cpu_count() or 1}):
            for round_ in range(-2, rounds):  # two to warm up
                for operation in ("insert", "hit", "miss", "remove"):
                    cpp_seconds, cpp_keys = reference.run(operation, kind, threads)
                    seconds, count = python(operation, threads)
                    if count != cpp_keys:
                        raise SystemExit(f"{operation} of {kind}: Python {count}, C++ {cpp_keys} keys")
                    if operation in ("insert", "hit", "remove") and count != n:
                        raise SystemExit(f"{operation} of {kind}: {count} of {n} keys")
                    if round_ >= 0:
                        results.add(f"{operation}/python:batch/keys:{kind}/n:{n}/threads:{threads}",
                                    ns_per_key=1e9 * seconds / n, ns_per_key_cpp=1e9 * cpp_seconds / n)


def peers(n: int) -> dict[str, Callable[[], tuple[Any, Callable[[list[str]], Any], Callable[[str], Any]]]]:
    """Name: makes (filter, insert of a list, test of one key)."""
    made: dict[str, Any] = {}
    if importlib.util.find_spec("rbloom"):
        import rbloom

        def make_rbloom() -> Any:
            bloom = rbloom.Bloom(n, FPR)
            return bloom, bloom.update, bloom.__contains__
        made["rbloom"] = make_rbloom
    if importlib.util.find_spec("pybloom_live"):
        import pybloom_live

        def make_pybloom() -> Any:
            bloom = pybloom_live.BloomFilter(n, FPR)

            def insert(keys: list[str]) -> None:
                for key in keys:
                    bloom.add(key)
            return bloom, insert, bloom.__contains__
        made["pybloom-live"] = make_pybloom
    if importlib.util.find_spec("probables"):
        import probables

        def make_probables(kind: str) -> Any:
            bloom = getattr(probables, kind)(est_elements=n, false_positive_rate=FPR)

            def insert(keys: list[str]) -> None:
                for key in keys:
                    bloom.add(key)
            return bloom, insert, bloom.check
        made["pyprobables"] = lambda: make_probables("BloomFilter")
        made["pyprobables-counting"] = lambda: make_probables("CountingBloomFilter")
    return made


def one_by_one(filter: Any, keys: list[str], contains: Callable[[str], Any]) -> float:
    """Seconds for a loop that asks for one key after another, by `in` where the filter has it."""
    if hasattr(type(filter), "__contains__"):
        return timed(lambda: sum(1 for key in keys if key in filter))[0]
    return timed(lambda: sum(1 for key in keys if contains(key)))[0]


def against_peers(results: Results, n: int, rounds: int) -> None:
    """Strings in a list, which is what these take: a batch where they have one, and one key a call."""
    present = [f"https://example.org/{i * 2654435761 % 2**32:x}/{i}" for i in range(n)]
    absent = [f"https://example.net/{i * 2654435761 % 2**32:x}/{i}" for i in range(n)]
    column = pa.array(present), pa.array(absent)
    slow: set[str] = set()

    def measure_ours(name: str, ours: scbf.Filter | scbf.BloomFilter) -> None:
        seconds = {
            "insert": timed(lambda: ours.insert(column[0], threads=1))[0],
            "hit": timed(lambda: ours.contains(column[0], threads=1))[0],
            "miss": timed(lambda: ours.contains(column[1], threads=1))[0],
            "insert_list": timed(lambda: ours.copy().insert(present, threads=1))[0],
            "key_hit": one_by_one(ours, present, ours.contains),
            "key_miss": one_by_one(ours, absent, ours.contains),
        }
        rate = float(ours.contains(column[1]).mean())
        row = f"peer:{name}/keys:string/n:{n}"
        results.add(f"batch/{row}", ns_per_key=1e9 * seconds["insert"] / n, ns_per_key_hit=1e9 * seconds["hit"] / n,
                    ns_per_key_miss=1e9 * seconds["miss"] / n, fpr_measured=rate, bits_per_key=8 * ours.nbytes / n)
        results.add(f"list/{row}", ns_per_key=1e9 * seconds["insert_list"] / n)
        results.add(f"in/{row}", ns_per_key_hit=1e9 * seconds["key_hit"] / n,
                    ns_per_key_miss=1e9 * seconds["key_miss"] / n)

    for round_ in range(rounds):
        measure_ours("scbf", scbf.Filter(n, FPR))
        measure_ours("scbf-bits", scbf.BloomFilter(n, FPR))
        for name, make in peers(n).items():
            if name in slow:
                continue
            filter, insert, contains = make()
            inserted, _ = timed(lambda: insert(present))
            if not all(contains(key) for key in present[:1000]):
                raise SystemExit(f"{name} does not find its keys")
            if inserted / n > 1e-6:  # seen once, with fewer questions, it has taken long enough
                slow.add(name)
            asked = n // 10 if name in slow else n
            hit = one_by_one(filter, present[:asked], contains)
            miss = one_by_one(filter, absent[:asked], contains)
            rate = sum(1 for key in absent[:asked] if contains(key)) / asked
            row = f"peer:{name}/keys:string/n:{n}"
            results.add(f"batch/{row}", ns_per_key=1e9 * inserted / n, ns_per_key_hit=1e9 * hit / asked,
                        ns_per_key_miss=1e9 * miss / asked, fpr_measured=rate)
        print(f"peers, round {round_ + 1} of {rounds}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=Path, required=True, help="the C++ program, python_reference")
    parser.add_argument("--out", type=Path, required=True, help="where the results go, as JSON")
    parser.add_argument("--keys", type=lambda text: int(float(text)), default=10**7)
    parser.add_argument("--peer-keys", type=lambda text: int(float(text)), default=10**6)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()

    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        keys = make_keys(args.keys, Path(folder))
        reference = Reference(args.reference, Path(folder))
        context: dict[str, Any] = dict(reference.context())
        against_cpp(results, reference, keys, args.keys, args.rounds)
    against_peers(results, args.peer_keys, min(args.rounds, 3))
    context["date"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    context["python"] = sys.version.split()[0]
    args.out.write_text(json.dumps({"context": context, "benchmarks": results.entries}))
    for name in dict.fromkeys(entry["run_name"] for entry in results.entries):
        of_name = [entry for entry in results.entries if entry["run_name"] == name][0]
        print(name, {c: round(results.median(name, c), 3) for c in of_name
                     if c not in ("name", "run_name", "run_type")})


if __name__ == "__main__":
    main()
