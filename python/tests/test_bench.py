# SPDX-License-Identifier: Apache-2.0
"""bench/python_bench.py runs, with few keys, and notices wrong answers. The figures mean nothing here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import PACKAGE

BENCH = Path(__file__).parents[2] / "bench" / "python_bench.py"

#: Speaks as bench/python_reference.cpp does. The first argument: keys that it miscounts.
REFERENCE = """#!{python}
import sys, time
import numpy as np, scbf
wrong, (folder, fpr) = {wrong}, sys.argv[1:]
keys, filters = {{}}, {{}}
for name in ("present", "absent"):
    keys[name, "int64"] = np.fromfile(f"{{folder}}/{{name}}.i64", np.int64)
    text, ends = open(f"{{folder}}/{{name}}.text", "rb").read(), np.fromfile(f"{{folder}}/{{name}}.offsets", np.int32)
    keys[name, "string"] = [text[a:b] for a, b in zip(ends, ends[1:])]
for line in sys.stdin:
    if line == "context\\n":
        print("executable\\tpython_reference\\nscbf_commit\\tnone\\n", flush=True)
        continue
    operation, kind, threads = line.split()
    some = filters.setdefault(kind, scbf.Filter(len(keys["present", kind]), float(fpr)))
    present, absent, began = keys["present", kind], keys["absent", kind], time.perf_counter()
    if operation == "insert":
        some.clear()
        count = some.insert(present).inserted
    elif operation == "remove":
        count = some.remove(present).removed
    else:
        count = int(some.contains(absent if operation == "miss" else present).sum())
    print(time.perf_counter() - began, count + wrong, flush=True)
"""


def bench(folder: Path, wrong: int = 0) -> subprocess.CompletedProcess[str]:
    reference = folder / "reference"
    reference.write_text(REFERENCE.format(python=sys.executable, wrong=wrong))
    reference.chmod(0o755)
    paths = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-P", BENCH, "--reference", reference, "--out", folder / "out.json", "--keys", "500",
         "--peer-keys", "500", "--rounds", "1"],
        capture_output=True, text=True, timeout=55, env={**os.environ, "PYTHONPATH": paths})


def test_python_bench(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    done = bench(tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "out.json").read_text())
    assert {"executable", "scbf_commit", "date", "python"} <= set(results["context"])
    rows = {entry["name"]: entry for entry in results["benchmarks"]}
    for kind in ("int64", "string"):
        for operation in ("insert", "hit", "miss", "remove"):
            row = rows[f"{operation}/python:batch/keys:{kind}/n:500/threads:1"]
            assert row["ns_per_key"] > 0 and row["ns_per_key_cpp"] > 0
    for name in ("scbf", "scbf-bits"):
        assert rows[f"batch/peer:{name}/keys:string/n:500"]["fpr_measured"] < 0.05
        assert rows[f"in/peer:{name}/keys:string/n:500"]["ns_per_key_hit"] > 0


def test_python_bench_notices_another_answer(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    done = bench(tmp_path, wrong=1)
    assert done.returncode == 1 and "Python 500, C++ 501 keys" in done.stderr
