#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures scbf.spark on TPC-H: building, semi-joins, and what they send, against Spark's own Bloom filter.

    bench/spark_bench.py                      # SF 1 on local[2], 3 minutes; prints tables
    bench/spark_bench.py --sf 10 --out bench/results/NAME.json
    bench/spark_bench.py --only tree          # the model of the tree, from measured parts, for 10^8 to 10^11 keys

Answers are verified before anything is timed: filters have the bytes of one machine's, joins the rows of the
plain join. Times are wall-clock, of whole calls: of all jobs, and of what the driver does. Bytes are those that
Spark's stages report.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import scbf
import scbf.spark
from spark_tree import cost, measure_parts

FPR = 0.01
ORDERS_PER_SF = 1_500_000

Row = dict[str, Any]


# ---- data and session ----------------------------------------------------------------------------


def make_data(folder: Path, sf: float) -> Path:
    """orders and lineitem as Parquet, in eight parts. 0.3 GB for each SF."""
    here = folder / f"sf{sf:g}"
    if not here.exists():
        program = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([program, "parquet", "-s", f"{sf:g}", "--tables=orders,lineitem", "--parts=8",
                        f"--output-dir={here}"], check=True, stdout=subprocess.DEVNULL)
    return here


def make_session(master: str, folder: Path, driver_gib: int) -> SparkSession:
    package = Path(scbf.__file__).parent.parent
    os.environ["PYTHONPATH"] = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (SparkSession.builder.master(master).appName("scbf bench")
             .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
             .config("spark.driver.memory", f"{driver_gib}g").config("spark.local.dir", folder / "local")
             .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
             .config("spark.sql.warehouse.dir", folder / "warehouse").getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def shuffled(spark: SparkSession) -> int:
    """Bytes that all stages until now have written for shuffles."""
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    store = spark.sparkContext._jsc.sc().statusStore()  # type: ignore[union-attr]
    none = gateway.new_array(jvm.double, 0)
    empty = jvm.java.util.ArrayList()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    stages = store.stageList(empty, False, False, none, empty)
    return sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))


@contextmanager
def settings(spark: SparkSession, **values: Any) -> Iterator[None]:
    names = {name.replace("__", "."): str(value) for name, value in values.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


def timed(spark: SparkSession, repeats: int, call: Callable[[], Any]) -> Row:
    """Minimum, median and maximum of the seconds, and bytes shuffled by one call."""
    seconds = []
    before = shuffled(spark)
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return {"s": [round(float(q), 4) for q in np.quantile(seconds, [0, 0.5, 1])], "repetitions": repeats,
            "shuffled_bytes": (shuffled(spark) - before) // repeats}


# ---- builds --------------------------------------------------------------------------------------


def read_column(folder: Path, table: str, column: str) -> Iterator[Any]:
    for path in sorted((folder / table).glob("*.parquet")):
        yield pq.read_table(path, columns=[column])


def build_rows(spark: SparkSession, folder: Path, sf: float, repeats: int) -> Iterator[Row]:
    orders = int(ORDERS_PER_SF * sf)
    for table, column, rows in (("orders", "o_orderkey", orders), ("lineitem", "l_orderkey", 4 * orders)):
        frame = spark.read.parquet(str(folder / table))
        reports: list[scbf.spark.BuildReport] = []
        for kind, bits in (("counters", False), ("bits", True)):
            geometry = scbf.plan(capacity=orders, fpr=FPR).geometry
            alone = (scbf.BloomFilter if bits else scbf.Filter)(geometry=geometry)
            begin = time.perf_counter()
            for part in read_column(folder, table, column):
                alone.insert(part, threads=1)
            one_thread = time.perf_counter() - begin

            def build(**given: Any) -> Any:
                return scbf.spark.build(frame, column, fpr=FPR, bits=bits, report=reports.append, **given)  # noqa: B023

            if build(capacity=orders).to_bytes() != alone.to_bytes():
                raise SystemExit(f"spark_bench.py: {table}, {kind}: bytes differ from one machine's")
            common = {"op": "build", "sf": sf, "table": table, "keys": rows, "distinct": orders,
                      "bytes": alone.nbytes, "pyarrow_one_thread_s": round(one_thread, 3)}
            for name, given in (("given", {"capacity": orders}), ("counted", {})):
                row = timed(spark, repeats, lambda: build(**given))  # noqa: B023
                last = reports[-1]
                yield {**common, "tool": f"scbf, {kind}", "capacity": name, **row, "sent_bytes": last.sent_bytes,
                       "result_bytes": last.result_bytes, "partitions": last.partitions}
        # Spark's own: BloomFilterAggregate, as DataFrameStatFunctions calls it. Only the JVM can ask the result.
        jvm_frame = frame._jdf.stat()
        own = jvm_frame.bloomFilter(column, orders, FPR)
        some = next(read_column(folder, table, column))[column][:1000].to_pylist()
        if not all(own.mightContainLong(key) for key in some):
            raise SystemExit("spark_bench.py: a key is not in Spark's filter")
        row = timed(spark, repeats, lambda: jvm_frame.bloomFilter(column, orders, FPR))  # noqa: B023
        yield {"op": "build", "sf": sf, "table": table, "keys": rows, "distinct": orders, "tool": "Spark, bloomFilter",
               "capacity": "given", "bytes": own.bitSize() // 8, **row}
        row = timed(spark, repeats, lambda: frame.agg(F.count(column)).collect())  # noqa: B023
        yield {"op": "build", "sf": sf, "table": table, "keys": rows, "distinct": orders, "tool": "Spark, count only",
               **row}


def partition_rows(spark: SparkSession, sf: float, repeats: int) -> Iterator[Row]:
    """The same keys in more and more partitions."""
    n = int(ORDERS_PER_SF * sf)
    alone = scbf.Filter(capacity=n, fpr=FPR)
    alone.insert(np.arange(n), threads=1)
    expected = alone.to_bytes()
    for partitions in (2, 8, 32, 128, 512):
        frame = spark.range(n, numPartitions=partitions)
        reports: list[scbf.spark.BuildReport] = []

        def build() -> Any:
            return scbf.spark.build(frame, "id", capacity=n, fpr=FPR, report=reports.append)  # noqa: B023

        if build().to_bytes() != expected:
            raise SystemExit(f"spark_bench.py: {partitions} partitions: bytes differ from one machine's")
        yield {"op": "partitions", "keys": n, "partitions": partitions, **timed(spark, repeats, build),
               "sent_bytes": reports[-1].sent_bytes, "bytes": alone.nbytes}


# ---- semi-joins ----------------------------------------------------------------------------------

# A plain join by shuffles: the small side is too large for a broadcast, as it is on a cluster.
PLAIN = {"spark__sql__autoBroadcastJoinThreshold": -1, "spark__sql__adaptive__autoBroadcastJoinThreshold": -1,
         "spark__sql__optimizer__runtime__bloomFilter__enabled": "false"}
RUNTIME = {**PLAIN, "spark__sql__optimizer__runtime__bloomFilter__enabled": "true",
           "spark__sql__optimizer__runtime__bloomFilter__applicationSideScanSizeThreshold": 1,
           "spark__sql__optimizer__runtime__bloomFilter__creationSideThreshold": "1g"}


def join_rows(spark: SparkSession, folder: Path, sf: float, repeats: int) -> Iterator[Row]:
    """Line items of the orders of a month, and of a year: 1 and 15 percent of all."""
    lineitem = spark.read.parquet(str(folder / "lineitem")).withColumnRenamed("l_orderkey", "orderkey")
    orders = spark.read.parquet(str(folder / "orders")).withColumnRenamed("o_orderkey", "orderkey")
    for period, days in (("month", 31), ("year", 365)):
        since = F.lit("1995-01-01").cast("date")
        small = orders.where((F.col("o_orderdate") >= since) & (F.col("o_orderdate") < F.date_add(since, days)))
        small = small.select("orderkey")
        keys = small.count()

        def answer(joined: DataFrame) -> tuple[Any, ...]:
            row = joined.agg(F.count("*"), F.sum("l_extendedprice"), F.max("l_comment"), F.sum("l_tax")).first()
            return tuple(row or ())

        def plain() -> tuple[Any, ...]:
            return answer(lineitem.join(small, "orderkey", "left_semi"))  # noqa: B023

        def filtered(**given: Any) -> tuple[Any, ...]:
            return answer(scbf.spark.semi_join(lineitem, small, on="orderkey", fpr=FPR, **given))  # noqa: B023

        ways: list[tuple[str, dict[str, Any], Callable[[], Any]]] = [
            ("plain join", PLAIN, plain),
            ("Spark, runtime filter", RUNTIME, plain),
            ("scbf, capacity given", PLAIN, lambda: filtered(capacity=keys)),  # noqa: B023
            ("scbf, counted", PLAIN, filtered),
            ("Spark, broadcast join", {"spark__sql__autoBroadcastJoinThreshold": "1g"}, plain)]
        expected = None
        for name, conf, call in ways:
            with settings(spark, **conf):
                if name == "Spark, runtime filter":
                    plan = lineitem.join(small, "orderkey", "left_semi")._jdf.queryExecution().optimizedPlan()
                    if "might_contain" not in plan.toString():
                        yield {"op": "semi_join", "sf": sf, "small": period, "tool": name, "note": "not applied"}
                        continue
                found = call()
                expected = expected or found
                if found != expected:
                    raise SystemExit(f"spark_bench.py: {name}: {found} instead of {expected}")
                yield {"op": "semi_join", "sf": sf, "small": period, "small_keys": keys, "rows": found[0], "tool": name,
                       **timed(spark, repeats, call), "broadcast_bytes": broadcast_bytes(name, keys)}


def broadcast_bytes(name: str, keys: int) -> int | None:
    """Bytes of the filter that each executor gets."""
    if name.startswith("scbf"):
        return scbf.plan(capacity=keys, fpr=FPR).nbytes // 4
    if name == "Spark, runtime filter":
        return 8388608 // 8  # spark.sql.optimizer.runtime.bloomFilter.numBits
    return None


# ---- the tree, from its parts --------------------------------------------------------------------


def tree_rows(spark: SparkSession, sf: float, partition_rows_: list[Row]) -> Iterator[Row]:
    """What the parts cost here, the model of them against measured builds, and for more keys and machines."""
    parts = measure_parts(spark)
    yield {"op": "parts", **parts.__dict__}
    for row in partition_rows_:
        modelled = cost(parts, row["keys"], row["partitions"], cores=2, fan_in=8, network_bytes_per_s=None)
        yield {"op": "model", "keys": row["keys"], "partitions": row["partitions"], "measured_s": row["s"][1],
               "modelled_s": round(modelled.seconds, 3), "measured_sent_bytes": row["sent_bytes"],
               "modelled_sent_bytes": round(modelled.sent_bytes)}
    for exponent in (8, 9, 10, 11):
        n = 10**exponent
        for kind in ("counters", "bits"):
            plan = cost(parts, n, max(1000, n // 10**7), cores=1000, fan_in=8, network_bytes_per_s=1.25e9,
                        bits=kind == "bits")
            yield {"op": "plan", "keys": n, "kind": kind, "shards": 1, **plan.__dict__}


# ---- output --------------------------------------------------------------------------------------

COLUMNS = {
    "build": ["sf", "table", "tool", "capacity", "keys", "bytes", "s", "shuffled_bytes", "sent_bytes", "result_bytes",
              "pyarrow_one_thread_s"],
    "partitions": ["keys", "partitions", "s", "sent_bytes", "shuffled_bytes"],
    "semi_join": ["sf", "small", "small_keys", "rows", "tool", "s", "shuffled_bytes", "broadcast_bytes", "note"],
    "model": ["keys", "partitions", "measured_s", "modelled_s", "measured_sent_bytes", "modelled_sent_bytes"],
    "plan": ["keys", "kind", "filter_bytes", "partitions", "widths", "sent_bytes", "task_bytes", "driver_bytes",
             "seconds"],
}


def shown(value: Any) -> str:
    if isinstance(value, list) and len(value) == 3 and all(isinstance(each, float) for each in value):
        value = value[1]
    if isinstance(value, (list, tuple)):
        return " → ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def print_tables(rows: list[Row]) -> None:
    for op, columns in COLUMNS.items():
        chosen = [row for row in rows if row["op"] == op]
        if chosen:
            print(f"\n### {op}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
            for row in chosen:
                print(f"| {' | '.join(shown(row.get(column)) for column in columns)} |")
    for row in rows:
        if row["op"] == "parts":
            print("\n### parts\n")
            print("\n".join(f"- {name}: {shown(value)}" for name, value in row.items() if name != "op"))


def context(spark: SparkSession, master: str) -> dict[str, Any]:
    commit = subprocess.run(["git", "-C", Path(__file__).parent, "describe", "--always", "--dirty"],
                            capture_output=True, text=True).stdout.strip()
    models = [line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")]
    return {"date": datetime.now(timezone.utc).isoformat(timespec="seconds"), "commit": commit, "master": master,
            "cpu_model": models[0] if models else platform.machine(), "cores": len(models), "spark": spark.version,
            "python": platform.python_version(), "scbf_version": scbf.__version__, "matrix": "spark"}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sf", type=float, nargs="+", default=[1.0], help="scale factors of TPC-H")
    arguments.add_argument("--only", nargs="+", choices=["build", "partitions", "semi_join", "tree"],
                           default=["build", "partitions", "semi_join", "tree"])
    arguments.add_argument("--master", default="local[2]")
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--driver-gib", type=int, default=4)
    arguments.add_argument("--data", type=Path, help="folder for the data, to keep it; default: a temporary one")
    arguments.add_argument("--out", type=Path, help="JSON to write")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="scbf-spark-bench-") as temporary:
        folder = Path(temporary)
        data = given.data or folder
        spark = make_session(given.master, folder, given.driver_gib)
        rows: list[Row] = []
        for sf in given.sf:
            if {"build", "semi_join"} & set(given.only):
                here = make_data(data, sf)
            if "build" in given.only:
                rows += build_rows(spark, here, sf, given.repeats)
            if "semi_join" in given.only:
                rows += join_rows(spark, here, sf, given.repeats)
        measured: list[Row] = []
        if "partitions" in given.only or "tree" in given.only:
            measured = list(partition_rows(spark, min(given.sf), given.repeats))
            rows += measured
        if "tree" in given.only:
            rows += tree_rows(spark, min(given.sf), measured)
        print_tables(rows)
        if given.out:
            document = {"schema": 1, "context": context(spark, given.master), "rows": rows}
            given.out.write_text(json.dumps(document, indent=1, default=str) + "\n")
        spark.stop()


if __name__ == "__main__":
    main()
