# SPDX-License-Identifier: Apache-2.0
"""Rows that need not travel: a filter in front of a join, on TPC-H.

TPC-H's lineitem has thirty rows for each part. A query that wants the lines of *some* parts, say the small ones,
reads lineitem, joins it with those parts and throws nearly all of its rows away. A semi-join turns that round: the
keys of the wanted parts go to where lineitem is read, and only rows that match go on to the join. As a filter, those
keys take a byte and a half each, whatever their type. What the filter lets through by mistake, about one row in a
hundred, the join removes, so the answer is exact.

This page asks one question, "all lines of parts up to this size", of pyarrow, Polars and DuckDB, which read local
Parquet files, and of an Arrow Flight server, which has lineitem and sends it: with a plain join, with the exact set
of keys in front, and with the filter in front. It checks that all answers have the same rows, and prints rows,
bytes and seconds. Be prepared for losses: where lineitem is a local file, reading it takes nearly all of the time,
and the join is fast. The filter pays where rows travel.

    python semi_join.py --scale 1 --plot semi_join.svg

needs: scbf (`pip install .` in a checkout); pip install pyarrow polars duckdb tpchgen-cli matplotlib
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")  # pyarrow's joins warn of what Flight delivers

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.flight as flight
import pyarrow.parquet as pq

import scbf
import scbf.duckdb
import scbf.polars


def generate(folder: Path, scale: float) -> None:
    """lineitem.parquet and part.parquet, by tpchgen-cli from PyPI."""
    beside_python = str(Path(sys.executable).parent)
    command = shutil.which("tpchgen-cli", path=os.pathsep.join([beside_python, os.environ.get("PATH", "")]))
    if command is None:
        sys.exit("semi_join.py needs TPC-H's generator: pip install tpchgen-cli")
    subprocess.run([command, "parquet", "--scale-factor", str(scale), "--tables", "lineitem,part", "--output-dir",
                    folder, "--quiet"], check=True)


def dataset(file: Path) -> ds.Dataset:
    """A Parquet file, its strings as plain ones, because pyarrow cannot filter views of strings."""
    fields = [(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in pq.read_schema(file)]
    return ds.dataset(file, schema=pa.schema(fields))


class Server(flight.FlightServerBase):
    """Has lineitem, and sends all of it, or the rows with certain keys, or those that a filter lets through."""

    def __init__(self, file: Path) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.lines = dataset(file)

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        kind, message = ticket.ticket[:1], ticket.ticket[1:]
        batches = self.lines.to_batches()
        if kind == b"k":
            keys = pa.Array.from_buffers(pa.int64(), len(message) // 8, [None, pa.py_buffer(message)])
            batches = (batch.filter(pc.is_in(batch["l_partkey"], value_set=keys)) for batch in batches)
        elif kind == b"f":
            seen = scbf.BloomFilter.from_bytes(message)
            batches = (batch.filter(seen.contains(batch["l_partkey"])) for batch in batches)
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(self.lines.schema, batches))


class Question:
    """All lines of parts of at most this size. Each method answers it anew, from the two files on."""

    def __init__(self, folder: Path, server: Server, size: int, fpr: float) -> None:
        self.lineitem, self.part = folder / "lineitem.parquet", folder / "part.parquet"
        self.lines = dataset(self.lineitem)
        self.schema = self.lines.schema
        self.server, self.size, self.fpr = server, size, fpr

    def parts(self) -> pa.Table:
        return pq.read_table(self.part, columns=["p_partkey", "p_size"], filters=pc.field("p_size") <= self.size)

    def filter(self) -> scbf.BloomFilter:
        """The keys of the wanted parts. Nobody removes any, so bits will do."""
        keys = self.parts()["p_partkey"]
        seen = scbf.BloomFilter(capacity=max(1, len(keys)), fpr=self.fpr)
        seen.insert(keys)
        return seen

    # ---- pyarrow

    def pyarrow_join(self) -> pa.Table:
        return self.lines.to_table().join(self.parts(), "l_partkey", "p_partkey", join_type="inner")

    def pyarrow_exact(self) -> pa.Table:
        parts = self.parts()
        kept = (batch.filter(pc.is_in(batch["l_partkey"], value_set=parts["p_partkey"]))
                for batch in self.lines.to_batches())
        return pa.Table.from_batches(kept, self.schema).join(parts, "l_partkey", "p_partkey", join_type="inner")

    def pyarrow_batches(self) -> Iterator[pa.RecordBatch]:
        """lineitem while it is scanned, batch by batch, without the rows that cannot match."""
        seen = self.filter()
        for batch in self.lines.to_batches():
            yield batch.filter(seen.contains(batch["l_partkey"]))

    def pyarrow_filter(self) -> pa.Table:
        kept = pa.Table.from_batches(self.pyarrow_batches(), self.schema)
        return kept.join(self.parts(), "l_partkey", "p_partkey", join_type="inner")

    # ---- Polars

    def polars(self, condition: pl.Expr | bool = True) -> pa.Table:
        parts = pl.scan_parquet(self.part).filter(pl.col("p_size") <= self.size).select("p_partkey", "p_size")
        lines = pl.scan_parquet(self.lineitem).filter(condition)
        return lines.join(parts, left_on="l_partkey", right_on="p_partkey").collect(engine="streaming").to_arrow()

    def polars_exact(self) -> pa.Table:
        return self.polars(pl.col("l_partkey").is_in(pl.Series(self.parts()["p_partkey"]).implode()))

    def polars_map_batches(self) -> pa.Table:
        seen = self.filter()
        return self.polars(pl.col("l_partkey").map_batches(
            lambda keys: pl.Series(seen.contains(keys)), return_dtype=pl.Boolean, is_elementwise=True))

    def polars_namespace(self) -> pa.Table:
        return self.polars(pl.col("l_partkey").scbf.contains(self.filter()))

    # ---- DuckDB

    def duckdb(self, lines: str, condition: str = "true", **views: object) -> pa.Table:
        with duckdb.connect() as connection:
            for name, view in views.items():
                connection.register(name, view)
            scbf.duckdb.register(connection, "seen", self.filter())
            query = f"""SELECT l.*, p_size FROM {lines} l JOIN '{self.part}' ON l_partkey = p_partkey
                        WHERE p_size <= {self.size} AND {condition}"""
            return connection.sql(query).to_arrow_table()

    def duckdb_join(self) -> pa.Table:
        return self.duckdb(f"'{self.lineitem}'")

    def duckdb_function(self) -> pa.Table:
        return self.duckdb(f"'{self.lineitem}'", "seen(l_partkey)")

    def duckdb_stream(self) -> pa.Table:
        kept = pa.RecordBatchReader.from_batches(self.schema, self.pyarrow_batches())
        return self.duckdb("kept", kept=kept)

    # ---- Arrow Flight

    def flight(self, ticket: bytes) -> pa.Table:
        with flight.connect(f"grpc://127.0.0.1:{self.server.port}") as client:
            lines = client.do_get(flight.Ticket(ticket)).read_all()
        return lines.join(self.parts(), "l_partkey", "p_partkey", join_type="inner")

    def flight_join(self) -> pa.Table:
        return self.flight(b"a")

    def flight_exact(self) -> pa.Table:
        return self.flight(b"k" + self.parts()["p_partkey"].to_numpy().tobytes())

    def flight_filter(self) -> pa.Table:
        return self.flight(b"f" + self.filter().to_bytes())


METHODS: list[tuple[str, str, Callable[[Question], pa.Table]]] = [
    ("pyarrow", "join", Question.pyarrow_join),
    ("pyarrow", "exact set, join", Question.pyarrow_exact),
    ("pyarrow", "filter, join", Question.pyarrow_filter),
    ("Polars", "join", Question.polars),
    ("Polars", "exact set, join", Question.polars_exact),
    ("Polars", "filter by map_batches, join", Question.polars_map_batches),
    ("Polars", "filter, join", Question.polars_namespace),
    ("DuckDB", "join", Question.duckdb_join),
    ("DuckDB", "filter as a function, join", Question.duckdb_function),
    ("DuckDB", "filter, stream, join", Question.duckdb_stream),
    ("Flight", "join", Question.flight_join),
    ("Flight", "exact set, join", Question.flight_exact),
    ("Flight", "filter, join", Question.flight_filter),
]


def canonical(answer: pa.Table) -> pa.Table:
    """The rows of an answer, in one order, to compare."""
    columns = ["l_orderkey", "l_linenumber", "l_partkey", "l_extendedprice", "l_shipdate", "l_comment", "p_size"]
    types = [pa.int64(), pa.int32(), pa.int64(), pa.decimal128(15, 2), pa.date32(), pa.string(), pa.int32()]
    chosen = answer.select(columns).cast(pa.schema(list(zip(columns, types, strict=True))))
    # An order has at most seven lines.
    place = pc.add(pc.multiply(chosen["l_orderkey"], 8), pc.cast(chosen["l_linenumber"], pa.int64()))
    return chosen.take(pc.sort_indices(place)).combine_chunks()


def measure(question: Question, repeat: int) -> list[float]:
    """Seconds of each method, the best of several runs, in turn. All answers must have the same rows."""
    seconds = [float("inf")] * len(METHODS)
    expected = canonical(question.pyarrow_join())
    assert len(expected) > 0
    for run in range(repeat):
        for number, (engine, name, method) in enumerate(METHODS):
            began = time.perf_counter()
            answer = method(question)
            seconds[number] = min(seconds[number], time.perf_counter() - began)
            if run == 0:
                assert canonical(answer).equals(expected), f"{engine}, {name}: not the rows of pyarrow's join"
    return seconds


def rows_kept(question: Question) -> tuple[int, int]:
    """Rows of lineitem that the filter lets through, and their Arrow bytes; the same in every engine."""
    kept = pa.Table.from_batches(question.pyarrow_batches(), question.schema)
    seen = question.filter()
    asked = pl.scan_parquet(question.lineitem).filter(pl.col("l_partkey").scbf.contains(seen))
    assert asked.select(pl.len()).collect().item() == kept.num_rows
    with duckdb.connect() as connection:
        scbf.duckdb.register(connection, "seen", seen)
        query = f"SELECT count(*) FROM '{question.lineitem}' WHERE seen(l_partkey)"
        assert connection.execute(query).fetchall() == [(kept.num_rows,)]
    return kept.num_rows, kept.nbytes


def report(question: Question, repeat: int) -> None:
    lines = question.lines.to_table()
    parts, seen = question.parts(), question.filter()
    keys = parts["p_partkey"]
    matching = pc.sum(pc.is_in(lines["l_partkey"], value_set=keys)).as_py()
    kept, kept_bytes = rows_kept(question)
    wrong = kept - matching
    rate = wrong / (len(lines) - matching)
    print(f"{len(lines):,} lines; wanted are those of {len(keys):,} parts of size {question.size} or less")
    print(f"the filter: {seen.nbytes:,} bytes; the keys as int64: {keys.nbytes:,} bytes\n")
    print(f"rows of lineitem        {len(lines):>12,}  {lines.nbytes / 1e6:8.1f} MB")
    print(f"rows after the filter   {kept:>12,}  {kept_bytes / 1e6:8.1f} MB")
    print(f"rows of the answer      {matching:>12,}")
    print(f"passed by mistake       {wrong:>12,}  {rate:8.2%} of those that do not match\n")
    # A part that passes by mistake brings all of its thirty lines, so few parts decide, and the rate scatters.
    absent_parts = pq.read_metadata(question.part).num_rows - len(keys)
    spread = 5 * (question.fpr / absent_parts) ** 0.5
    assert abs(rate - seen.geometry.predicted_fpr(len(keys))) < spread + 0.1 * question.fpr

    print(f"{'engine':<8} {'method':<28} {'seconds':>8}  {'saved':>6}")
    plain = 0.0
    for (engine, name, _), seconds in zip(METHODS, measure(question, repeat), strict=True):
        plain = seconds if name == "join" else plain
        print(f"{engine:<8} {name:<28} {seconds:8.3f}  " + ("" if name == "join" else f"{1 - seconds / plain:+6.0%}"))
    print("\nall answers have the same rows")


def plot(questions: list[Question], repeat: int, file: Path) -> None:
    """Seconds against the share of parts that are wanted, for each engine."""
    import matplotlib.pyplot as plt

    shares = [2 * question.size for question in questions]  # of 50 sizes, in percent
    seconds = [measure(question, repeat) for question in questions]
    figure, panels = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained", sharey=True)
    for panel, engine in zip(panels, ("pyarrow", "Polars", "DuckDB", "Flight"), strict=True):
        for number, (owner, name, _) in enumerate(METHODS):
            if owner == engine:
                panel.plot(shares, [row[number] for row in seconds], "o-", markersize=3, label=name)
        panel.set(title=engine, xscale="log", xlabel="parts that are wanted (%)")
        panel.set_xticks(shares, map(str, shares))
        panel.minorticks_off()
        panel.legend(fontsize="small")
    panels[0].set(ylabel="time (s)", ylim=(0, 1.1 * max(map(max, seconds))))
    figure.savefig(file)


def main() -> None:
    options = argparse.ArgumentParser(description="a filter in front of a join, on TPC-H")
    options.add_argument("--scale", type=float, default=0.1, help="TPC-H's scale factor; 1 is 6,000,000 lines")
    options.add_argument("--size", type=int, default=2, help="the largest part wanted, of 50 sizes")
    options.add_argument("--fpr", type=float, default=0.01, help="the filter's false-positive rate")
    options.add_argument("--repeat", type=int, default=3, help="the best of so many runs")
    options.add_argument("--plot", type=Path, metavar="FILE", help="also measure and plot other shares of the parts")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder, args.scale)
        with Server(folder / "lineitem.parquet") as server:
            report(Question(folder, server, args.size, args.fpr), args.repeat)
            if args.plot:
                plot([Question(folder, server, size, args.fpr) for size in (1, 5, 15, 50)], args.repeat, args.plot)


if __name__ == "__main__":
    main()
