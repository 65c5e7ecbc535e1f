# SPDX-License-Identifier: Apache-2.0
"""The secondary index, against a dict of rows. tests/index has its guarantees; here it is what Python sees."""

import copy
import ctypes
import datetime
import pickle
import random
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import scbf
from arrow_structs import OneArray, OneStream, array, schema

if not hasattr(scbf, "SecondaryIndex"):
    pytest.skip("this build has no secondary index", allow_module_level=True)

COLUMNS = ["city", "note", "tags"]
SETTINGS: dict[str, Any] = {"key": "id", "columns": COLUMNS, "indexed": {"city": None, "tags": ","}}
Row = dict[str, str]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[scbf.SecondaryIndex]:
    with scbf.SecondaryIndex.create(tmp_path / "index", **SETTINGS, region_values=50, servers=3) as made:
        yield made


def test_layouts(tmp_path: Path) -> None:
    bytes_of = {}
    for layout in ("split_block", "split", "ranked"):
        with scbf.SecondaryIndex.create(tmp_path / layout, **SETTINGS, layout=layout) as made:
            made.load(row_of(key, random.Random(key)) for key in range(100))
            assert [row["id"] for row in made.query({"city": "c3"})] == [
                f"{key:04}" for key in range(100) if row_of(key, random.Random(key))["city"] == "c3"]
            bytes_of[layout] = made.statistics()["filter_bytes"]
    assert bytes_of["ranked"] < 0.6 * bytes_of["split"] < bytes_of["split_block"]
    with pytest.raises(scbf.errors.InvalidArgument, match="'rankd'"):
        scbf.SecondaryIndex.create(tmp_path / "new", **SETTINGS, layout="rankd")
    assert not (tmp_path / "new").exists()


def test_several_values_of_one_column(tmp_path: Path) -> None:
    with scbf.SecondaryIndex.create(tmp_path / "i", key="id", columns=["tags", "town"],
                                    indexed={"tags": ",", "town": None}) as index:
        index.load({"id": str(i), "tags": tags} for i, tags in enumerate(["a,b", "a", "b,c", "a,c,b"]))
        for both in (["a", "b"], ("b", b"a")):
            assert index.query({"tags": both}, keys_only=True).rows == ["0", "3"]
            assert list(index.query_rows({"tags": both}, keys_only=True)) == ["0", "3"]
        assert [answer.rows for answer in index.query([{"tags": ["a", "c"]}, {"tags": "c"}], keys_only=True)] == [
            ["3"], ["2", "3"]]
        for value, kind in ((["a", 5], "int"), (5, "int"), (bytearray(b"a"), "bytearray"), ({"a": 1}, "dict")):
            for ask in (index.query, index.query_rows):
                with pytest.raises(scbf.InvalidArgument, match=f"a value: must be str or bytes, is {kind}"):
                    ask({"tags": value})
        for values in ({"tags": []}, {"tags": (), "town": "Rome"}):
            with pytest.raises(scbf.InvalidArgument, match="column 'tags': an empty list of values"):
                index.query(values)


@pytest.mark.parametrize(("name", "number", "limits"), [
    ("servers", 0, "1 to 65536"), ("servers", 2**32 + 1, "1 to 65536"),
    ("region_values", 0, r"1 to 2\*\*64 - 1"), ("seed", -1, r"0 to 2\*\*64 - 1")])
def test_numbers_out_of_range_are_named_with_their_limits(
        name: str, number: int, limits: str, tmp_path: Path, index: scbf.SecondaryIndex) -> None:
    with pytest.raises(scbf.InvalidArgument, match=f"^{name} {number}: must be {limits}$"):
        scbf.SecondaryIndex.create(tmp_path / "new", **SETTINGS, **{name: number})
    assert not (tmp_path / "new").exists()
    with pytest.raises(scbf.InvalidArgument, match=r"^limit -1: must be 0 to 2\*\*64 - 1$"):
        index.query({"city": "Oslo"}, limit=-1)
    with pytest.raises(scbf.InvalidArgument, match="^region_values -1: must be 1 to"):
        index.forecast(region_values=-1)


def row_of(key: int, chance: random.Random) -> Row:
    tags = ",".join(f"t{chance.randrange(6)}" for _ in range(chance.randrange(4)))
    return {"id": f"{key:04}", "city": chance.choice(["", "Ürümqi", "Oslo", f"c{key % 7}"]), "note": "n" * key,
            "tags": tags}


def has(row: Row, column: str, value: str) -> bool:
    return value in row[column].split(",") if column == "tags" else row[column] == value


def check_equal(index: scbf.SecondaryIndex, rows: dict[str, Row]) -> None:
    assert index.check() == []
    assert index.statistics()["rows"] == len(rows)
    for key in {*rows, "9999"}:
        assert index.get(key) == rows.get(key)
    for values in ({"city": "Oslo"}, {"city": "c3"}, {"tags": "t1"}, {"tags": "t1", "city": "Oslo"}, {"city": "none"}):
        want = [rows[key] for key in sorted(rows) if all(has(rows[key], c, v) for c, v in values.items())]
        assert index.query(values).rows == want == index.query(values, broadcast=True).rows
        assert index.query(values, keys_only=True).rows == [row["id"] for row in want]
        assert index.query(values, from_key="0010", to_key="0060").rows == [
            row for row in want if "0010" <= row["id"] < "0060"]
        pages: list[Row] = []
        while page := index.query(values, limit=7, after=pages[-1]["id"] if pages else None).rows:
            pages += page
        assert pages == want


def test_is_a_table_with_queries(index: scbf.SecondaryIndex, tmp_path: Path) -> None:
    chance = random.Random(1)
    rows: dict[str, Row] = {}
    for step in range(30):
        some = [row_of(chance.randrange(120), chance) for _ in range(chance.randrange(1, 15))]
        if step % 3 == 0:
            report = index.load(iter(some))
            assert report.put + report.replaced == len(some)
            rows.update((row["id"], row) for row in some)
        elif step % 3 == 1:
            index.put(some[0])
            rows[some[0]["id"]] = some[0]
        else:
            keys = [row["id"] for row in some]
            gone = {key for key in keys if rows.pop(key, None)}
            assert index.remove(keys).removed == len(gone)
    check_equal(index, rows)
    index.checkpoint()
    with scbf.SecondaryIndex.open(tmp_path / "index", read_only=True) as reader:
        check_equal(reader, rows)
    index.close()
    with scbf.SecondaryIndex.open(tmp_path / "index") as again:
        check_equal(again, rows)


def test_fields_are_text_or_bytes(index: scbf.SecondaryIndex) -> None:
    index.put({"id": b"\xff\0", "city": b"\xfe", "note": None, "tags": "a, b,,c"})
    row = {"id": "\udcff\0", "city": "\udcfe", "note": "", "tags": "a, b,,c"}
    assert index.get(b"\xff\0") == row
    for values in ({"city": b"\xfe"}, {"tags": "b"}, {"tags": b"c"}):
        assert index.query(values).rows == [row]  # type: ignore[arg-type]


def test_reports(index: scbf.SecondaryIndex) -> None:
    assert index.load([]).put == 0
    report = index.load([{"id": "1", "city": "Oslo"}, {"id": "2"}])
    assert (report.put, report.replaced, report.removed, report.absent) == (2, 0, 0, 0)
    assert index.remove(["1", "3"]).absent == 1
    answer = index.query({"city": "Oslo"})
    assert len(answer) == 0 and answer.routing.servers == 1
    assert index.query(types.MappingProxyType({"city": "Oslo"})).rows == []


def test_missing_fields_of_data_frames(index: scbf.SecondaryIndex) -> None:
    pd = pytest.importorskip("pandas")
    rows = [{"id": "1", "city": "Oslo", "tags": None}, {"id": "2", "city": None, "tags": "a"}]
    want = [{"id": "1", "city": "Oslo", "note": "", "tags": ""}, {"id": "2", "city": "", "note": "", "tags": "a"}]
    for frame in (pd.DataFrame(rows), pd.DataFrame(rows, dtype=object), pd.DataFrame(rows, dtype="string"),
                  pd.DataFrame(rows).astype("category")):
        index.load(frame.to_dict("records"))
        assert [index.get("1"), index.get("2")] == want
        index.remove(["1", "2"])
    index.put({"id": "3", "city": float("nan"), "note": pd.NA, "tags": None})
    assert index.get("3") == {"id": "3", "city": "", "note": "", "tags": ""}


def test_a_row_that_is_refused_is_named(index: scbf.SecondaryIndex) -> None:
    good = [{"id": f"{i:04}", "city": "Oslo"} for i in range(600)]
    for bad, message in (({"id": "7", "city": 5}, "the row of '7': city: must be str or bytes, is int"),
                         ({"city": 5, "id": b"7\xff"}, r"the row of b'7\\xff': city: must be"),
                         ({"id": "7", "city": 1.5}, "the row of '7': city: must be str or bytes, is float"),
                         ({"id": "7", "state": "x"}, "the row of '7': .*state"),
                         ({"id": None, "city": "x"}, "the row has no 'id', which is the table's key"),
                         ({"id": float("nan")}, "the row has no 'id'"),
                         ({"id": 7}, "id: must be str or bytes, is int")):
        with pytest.raises(scbf.InvalidArgument, match=f"^{message}"):
            index.put(bad)
        with pytest.raises(scbf.InvalidArgument, match=f"^{message}"):
            index.load([*good, bad])
    check_equal(index, {})  # they were fewer than a batch


def test_reports_can_be_pickled(index: scbf.SecondaryIndex) -> None:
    report = index.load([{"id": str(i), "city": "Oslo"} for i in range(70)])
    answer = index.query({"city": "Oslo"}, limit=3)
    for same in (pickle.loads(pickle.dumps(report)), copy.copy(report)):
        assert type(same) is scbf.WriteReport and (same.put, same.replaced, same.removed, same.absent) == (70, 0, 0, 0)
    for same in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert same.rows == answer.rows and len(same.rows) == 3 and repr(same) == repr(answer)
        for name in ("regions", "servers", "requests", "servers_holding", "false_requests", "expected_requests"):
            assert getattr(same.routing, name) == getattr(answer.routing, name)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.query({"note": "x"}), "'note' is not indexed"),
        (lambda index: index.query({"nobody": "x"}), "'nobody': no such column"),
        (lambda index: index.query({}), "at least one condition"),
        (lambda index: index.query({"city": ""}), "empty values are not indexed"),
        (lambda index: index.get(""), "key"),
        (lambda index: index.put({"city": "x"}), "id"),
        (lambda index: index.put({"id": "1", "state": "x"}), "state"),
        (lambda index: index.put({"id": "x" * 70_000}), "65,?535"),
        (lambda index: index.put(["1"]), "a row: must map columns to their fields, and is of type list"),
        (lambda index: index.load({"id": ["1"]}), r"a row: must map .* is of type str; .*to_dict\('records'\)"),
        (lambda index: index.query(["city"]), "values: must map columns"),
    ],
)
def test_what_is_refused(index: scbf.SecondaryIndex, call: Any, message: str) -> None:
    with pytest.raises(scbf.InvalidArgument, match=message):
        call(index)
    check_equal(index, {})


def test_errors_of_the_system(index: scbf.SecondaryIndex, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no index"):
        scbf.SecondaryIndex.open(tmp_path / "nothing")
    with pytest.raises(scbf.IoError, match="this process has it open"):
        scbf.SecondaryIndex.open(tmp_path / "index")
    with pytest.raises(scbf.IoError, match="not empty") as raised:
        scbf.SecondaryIndex.create(tmp_path / "index", **SETTINGS)
    assert raised.value.filename == str(tmp_path / "index")
    with pytest.raises(scbf.InvalidArgument, match="indexed: must be a list of columns, not one text"):
        scbf.SecondaryIndex.create(tmp_path / "named", key="id", columns=["a"], indexed="a")
    for name in ("a\0b", "\ufeffa"):
        with pytest.raises(scbf.InvalidArgument, match="name"):
            scbf.SecondaryIndex.create(tmp_path / "named", key=name, columns=[], indexed=[])


def test_a_reader_sees_what_was_written_when_it_is_refreshed(index: scbf.SecondaryIndex, tmp_path: Path) -> None:
    index.put({"id": "1", "city": "Oslo"})
    with scbf.SecondaryIndex.open(tmp_path / "index", read_only=True) as reader:
        assert reader.read_only and not index.read_only
        index.put({"id": "2", "city": "Oslo"})
        assert reader.query({"city": "Oslo"}, keys_only=True).rows == ["1"]
        assert reader.refresh() and not reader.refresh()
        assert reader.query({"city": "Oslo"}, keys_only=True).rows == ["1", "2"]
        assert reader.statistics()["queries"] == 2
        with pytest.raises(scbf.ReadOnly):
            reader.put({"id": "3"})


def test_a_closed_index_says_so(index: scbf.SecondaryIndex) -> None:
    assert (index.key, index.columns) == ("id", {"city": True, "note": False, "tags": True})
    assert repr(index) == "<scbf.SecondaryIndex: key 'id', 3 columns>"
    index.close()
    index.close()
    assert repr(index) == "<scbf.SecondaryIndex: closed>"
    for call in (lambda: index.key, lambda: index.columns, lambda: index.read_only, lambda: index.get("1"),
                 lambda: index.query({"city": "x"}), lambda: index.put({"id": "1"}), index.check, index.statistics):
        with pytest.raises(scbf.InvalidArgument, match="it has been closed"):
            call()


def test_threads_ask_while_one_refreshes(tmp_path: Path) -> None:
    names = [f"column {i}" for i in range(50)]
    writer = scbf.SecondaryIndex.create(tmp_path / "index", key="k", columns=names, indexed=names)
    reader = scbf.SecondaryIndex.open(tmp_path / "index", read_only=True)
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            assert list(reader.columns) == names and reader.key == "k" and reader.read_only
            assert len(reader.query({"column 7": "x"})) in range(31)

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        try:
            for i in range(30):
                writer.put({"k": str(i), **dict.fromkeys(names, "x")})
                reader.refresh()
        finally:
            ended.set()
        for each in asking:
            each.result()
    assert len(reader.query({"column 7": "x"})) == 30


# ---- many at once, columns of Arrow, and rows one by one ------------------------------------------

def cities(n: int = 5_000) -> list[Row]:
    return [{"id": f"{i:05}", "city": f"c{i % 9}", "note": "", "tags": ""} for i in range(n)]


def test_many_queries_at_once(index: scbf.SecondaryIndex) -> None:
    index.load(cities(90))
    asked = [{"city": f"c{i % 12}"} for i in range(2_500)]  # the index takes 1,024 of them together
    for options in ({}, {"keys_only": True}, {"limit": 3, "after": "00010"}, {"from_key": "00010", "to_key": "00050"},
                    {"broadcast": True}):
        alone = [index.query(values, **options).rows for values in asked[:12]]
        together = index.query(iter(asked), **options)
        assert [answer.rows for answer in together] == [alone[i % 12] for i in range(2_500)]
        assert all(isinstance(answer, scbf.QueryAnswer) and answer.routing.servers == 1 for answer in together)
    assert index.query([]) == []
    for values, message in (([{"city": "c1"}, {"note": "x"}], "'note' is not indexed"),
                            ([{"city": "c1"}, "c2"], "values: must map columns to their fields, and is of type str"),
                            ("c1", "values: must map columns"), (5, "values: must map columns")):
        with pytest.raises(scbf.InvalidArgument, match=message):
            index.query(values)  # type: ignore[arg-type]


def test_many_rows_by_their_keys(index: scbf.SecondaryIndex) -> None:
    rows = cities()
    index.load(rows)
    keys = [f"{i * 7 % 6_000:05}" for i in range(10_000)]
    want = [rows[int(key)] if int(key) < 5_000 else None for key in keys]
    assert index.get(keys) == index.get(key.encode() for key in keys) == want
    assert index.get([]) == [] and index.get(["00001"]) == [index.get("00001")]
    for bad, message in ((["1", 5], "a key: must be str or bytes, is int"), (5, "a key: must be str or bytes, is int"),
                         (["1", ""], "key")):
        with pytest.raises(scbf.InvalidArgument, match=message):
            index.get(bad)  # type: ignore[arg-type]


def test_tables_of_arrow(index: scbf.SecondaryIndex) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = [{"id": f"{i:04}", "city": "" if i % 5 == 0 else f"Ürümqi {i % 11}", "note": "n" * (i % 40), "tags": ""}
            for i in range(3_000)]
    columns = {name: [row[name] or None for row in rows] for name in ("note", "id", "city")}
    table = pa.table({name: pa.chunked_array([values[:700], values[700:]]) for name, values in columns.items()})
    types = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view(),
             pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint16(), pa.large_string())]
    tables = [table.set_column(2, "city", table["city"].cast(pa.string()).dictionary_encode().cast(type)
                               if pa.types.is_dictionary(type) else table["city"].cast(type)) for type in types]
    sliced = pa.concat_tables([table.slice(0, 10), table]).slice(10)
    for given in (*tables, sliced, table.combine_chunks().to_batches()[0], table.to_reader(max_chunksize=100)):
        assert index.load(given).put == len(rows)
        assert index.get(table["id"]) == rows
        assert index.query({"city": "Ürümqi 3"}).rows == [row for row in rows if row["city"] == "Ürümqi 3"]
        assert index.remove(table["id"]).removed == len(rows)
    assert index.load(table.slice(0, 0)).put == 0
    fixed = pa.table({"id": pa.array([b"ab", b"cd"], pa.binary(2)), "note": pa.nulls(2)})
    assert index.load(fixed).put == 2 and index.get("ab") == {"id": "ab", "city": "", "note": "", "tags": ""}


def test_what_arrow_has_that_is_refused(index: scbf.SecondaryIndex) -> None:
    pa = pytest.importorskip("pyarrow")
    for columns, message in (
            ({"id": [1, 2]}, "id: is of type int64, and fields are text or bytes: cast it to a string"),
            ({"id": ["1"], "city": pa.array([1.5])}, "city: is of type float64"),
            ({"id": ["1"], "city": pa.array([1]).dictionary_encode()}, "city: is of type int64"),
            ({"id": ["1"], "city": pa.array([None], pa.timestamp("us"))}, "city: is of type timestamp"),
            ({"id": ["1"], "tags": [["a"]]}, "tags: is of type list"),
            ({"id": pa.array([b"0" * 16], pa.uuid())}, "id: is of type arrow.uuid"),
            ({"id": ["1"], "state": ["x"]}, "'state': no such column"),
            ({"city": ["x"]}, "the rows have no column 'id', which is the table's key"),
            ({"id": ["1", "2", None]}, "row 2 has no 'id', which is the table's key")):
        with pytest.raises(scbf.InvalidArgument, match=message):
            index.load(pa.table(columns))
    with pytest.raises(scbf.InvalidArgument, match="the rows have two columns 'id'"):
        index.load(pa.Table.from_arrays([pa.array(["1"])] * 2, ["id", "id"]))
    with pytest.raises(scbf.InvalidArgument, match="a key: number 1 is null"):
        index.get(pa.array(["1", None]))
    with pytest.raises(scbf.InvalidArgument, match="a key: give one column, not 2"):
        index.remove(pa.table({"id": ["1"], "city": ["x"]}))
    broken = pa.DictionaryArray.from_arrays(pa.array([0, 5], pa.int32()), pa.array(["a"]), safe=False)
    with pytest.raises(scbf.InvalidArgument, match="index 1 is 5, and the dictionary has 1 values"):
        index.load(pa.table({"id": ["1", "2"], "city": broken}))
    check_equal(index, {})


ID, CITY = schema(b"u", name=b"id"), schema(b"u", name=b"city")


def text(length: int = 2, offsets: tuple[int, ...] = (0, 1, 2), data: bytes | None = b"ab", **change: Any) -> Any:
    return array(length, [None, (ctypes.c_int32 * len(offsets))(*offsets), data], **change)


def rows_of(*columns: Any, length: int = 2, **change: Any) -> Any:
    return array(length, change.pop("buffers", [None]), children=columns, **change)


WRONG_ROWS: dict[str, tuple[Callable[[], tuple[Any, Any]], str]] = {
    "length": (lambda: (schema(b"+s", [ID]), rows_of(text(), length=-1)), "its length is -1"),
    "offset": (lambda: (schema(b"+s", [ID]), rows_of(text(), offset=-2)), "its offset -2"),
    "more rows than fields": (lambda: (schema(b"+s", [ID]), rows_of(text(), length=5)),
                             "a child has 2 values, and its parent has them from 0 to 5"),
    "rows behind the fields": (lambda: (schema(b"+s", [ID]), rows_of(text(), offset=1)),
                               "a child has 2 values, and its parent has them from 1 to 3"),
    "a null row": (
        lambda: (schema(b"+s", [ID]), rows_of(text(), null_count=1, buffers=[(ctypes.c_uint8 * 1)(1)])),
        "row 1 of the struct is null as a whole"),
    "fewer columns": (lambda: (schema(b"+s", [ID, CITY]), rows_of(text())), "it has other columns than its schema"),
    "more columns": (lambda: (schema(b"+s", [ID]), rows_of(text(), text())), "it has other columns than its schema"),
    "offsets that fall": (
        lambda: (schema(b"+s", [ID]), rows_of(text(offsets=(0, 2, 1)))), "offset 2 is 1: must be at least offset 1, 2"),
    "a negative offset of text": (lambda: (schema(b"+s", [ID]), rows_of(text(offsets=(-1, 1, 2)))), "offset 0 is -1"),
    "no text": (lambda: (schema(b"+s", [ID]), rows_of(text(data=None))), "the buffer of the bytes is missing"),
    "integers under a schema of text": (
        lambda: (schema(b"+s", [ID]), rows_of(array(2, [None, (ctypes.c_int64 * 2)()]))),
        "format 'u' has 3 buffers, and this array 2"),
    "no format": (lambda: (schema(b"+s", [schema(None, name=b"id")]), rows_of(text())), "its schema has no format"),
    "no name": (lambda: (schema(b"+s", [schema(b"u")]), rows_of(text())), "column '': no such column"),
    "no dictionary": (
        lambda: (schema(b"+s", [schema(b"i", name=b"id", dictionary=schema(b"u"))]),
                 rows_of(array(2, [None, (ctypes.c_int32 * 2)()]))),
        "the dictionary of the values is missing"),
    "an index of -1": (
        lambda: (schema(b"+s", [schema(b"i", name=b"id", dictionary=schema(b"u"))]),
                 rows_of(array(2, [None, (ctypes.c_int32 * 2)(0, -1)], dictionary=text()))),
        "index 1 is -1, and the dictionary has 2 values"),
    "text as indices": (
        lambda: (schema(b"+s", [schema(b"u", name=b"id", dictionary=schema(b"u"))]), rows_of(text(dictionary=text()))),
        "format 'u' for the indices of a dictionary"),
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_rows_of_arrow_that_are_wrong(index: scbf.SecondaryIndex, name: str) -> None:
    make, message = WRONG_ROWS[name]
    for given in (lambda: OneArray(*make()), lambda: OneStream(lambda: make()[0], iter([make()[1]]).__next__)):
        with pytest.raises(scbf.InvalidArgument, match=message):
            index.load(given())
        check_equal(index, {})


def test_data_frames(index: scbf.SecondaryIndex) -> None:
    rows = cities()
    pl, pd, duckdb = (pytest.importorskip(name) for name in ("polars", "pandas", "duckdb"))
    frame = pd.DataFrame(rows)
    shuffled = frame.sample(frac=1, random_state=1)  # its index is no column
    for given in (pl.DataFrame(rows), pl.DataFrame(rows).with_columns(pl.col("city").cast(pl.Categorical)), frame,
                  shuffled, frame.astype("category"), duckdb.from_df(frame)):
        assert index.load(given).put == len(rows)
        assert index.get(pl.Series([row["id"] for row in rows])) == rows
        assert index.remove(frame["id"]).removed == len(rows)


def test_rows_one_by_one(index: scbf.SecondaryIndex) -> None:
    rows = cities()
    index.load(rows)
    assert list(index.scan()) == rows
    assert list(index.scan(from_key="01000", to_key=b"03000")) == rows[1_000:3_000]
    assert list(index.scan(from_key="9")) == [] == list(index.scan(to_key="0"))
    mine = {"city": "c4"}
    for options, want in (({}, rows), ({"from_key": "00100", "to_key": "04000"}, rows[100:4_000]),
                          ({"after": "00100"}, rows[101:]), ({"broadcast": True, "after": "04990"}, rows[4_991:])):
        found = [row for row in want if row["city"] == "c4"]
        one_by_one = index.query_rows(mine, **options)
        mine["city"] = "c5"  # too late
        assert list(one_by_one) == found
        mine["city"] = "c4"
        assert list(index.query_rows(mine, keys_only=True, **options)) == [
            row["id"] for row in found]
    for row in index.scan(from_key="04000"):  # whoever changes the rows that he has does not change the order
        row["id"] = "x"
    with pytest.raises(scbf.InvalidArgument, match="'note' is not indexed"):
        index.query_rows({"note": "x"})
    with pytest.raises(scbf.InvalidArgument, match="values: must map columns"):
        index.query_rows(["city"])  # type: ignore[arg-type]
    rest = index.scan()
    next(rest)
    index.close()
    with pytest.raises(scbf.InvalidArgument, match="it has been closed"):
        list(rest)
    with pytest.raises(scbf.InvalidArgument, match="it has been closed"):
        index.scan()


def test_rows_that_are_written_while_others_are_read(index: scbf.SecondaryIndex) -> None:
    index.load(cities())
    seen = []
    for row in index.scan():
        seen.append(row["id"])
        if len(seen) == 10:
            index.remove(f"{i:05}" for i in range(3_000, 4_000))
            index.put({"id": "00000x"})  # behind
            index.put({"id": "99999"})   # ahead
    assert seen == [f"{i:05}" for i in range(5_000) if not 3_000 <= i < 4_000] + ["99999"]


# ---- the whole index ------------------------------------------------------------------------------

def test_a_backup_is_an_index(index: scbf.SecondaryIndex, tmp_path: Path) -> None:
    began = datetime.datetime.now(datetime.timezone.utc)
    index.load(cities(500))
    moment = index.backup(tmp_path / "backup")
    assert began < moment <= datetime.datetime.now(datetime.timezone.utc)
    index.remove("00000")
    with scbf.SecondaryIndex.open(tmp_path / "backup", read_only=True) as restored:
        assert list(restored.scan()) == cities(500) and restored.check() == []
        assert restored.backup(tmp_path / "second") == restored.backup(tmp_path / "third")
    with pytest.raises(scbf.IoError, match="backup"):
        index.backup(tmp_path / "backup")
    with pytest.raises(scbf.InvalidArgument):
        index.backup(tmp_path / "index" / "within")


def test_metrics(index: scbf.SecondaryIndex, tmp_path: Path) -> None:
    index.load(cities(500))
    for _ in range(3):
        index.query({"city": "c1"})
    lines = index.metrics().splitlines()
    label = f'{{index="{tmp_path}/index"}}'
    assert f"scbf_index_rows{label} 500" in lines and f"scbf_index_queries_total{label} 3" in lines
    assert "region_rows" not in index.metrics()
    assert f'scbf_index_region_rows{{index="{tmp_path}/index",region="' in index.metrics(each_region=True)


def test_the_definition_can_change(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index = scbf.SecondaryIndex.create(folder, key="id", columns=["city", "tags"], indexed=["city"])
    index.load({"id": f"{i:05}", "city": f"c{i % 9}", "tags": f"t{i % 5}, even" if i % 2 == 0 else ""}
               for i in range(10_000))
    assert index.plan == {"fpr": 0.01, "region_values": 16_384, "servers": 1, "layout": "split_block", "seed": 0}
    plan = index.plan_for(fpr=0.001)
    assert plan["fpr"] == 0.001 and plan["region_values"] < 100  # there are nine values
    now, then = index.forecast(), index.forecast(fpr=plan["fpr"], region_values=plan["region_values"])
    assert now["filter_bytes"] == index.statistics()["filter_bytes"] > then["filter_bytes"]
    assert 0 <= then["mean_fpr"] <= then["highest_fpr"] <= 0.001
    assert index.forecast(layout="ranked")["filter_bytes"] < now["filter_bytes"]
    for call in (lambda: index.plan_for(fpr=2), lambda: index.forecast(fpr=-1.0), lambda: index.forecast(layout="x")):
        with pytest.raises(scbf.InvalidArgument):
            call()
    for change in (lambda: scbf.SecondaryIndex.replan(folder, fpr=0.1, region_values=10),
                   lambda: scbf.SecondaryIndex.add_columns(folder, ["tags"]),
                   lambda: scbf.SecondaryIndex.drop_columns(folder, ["city"])):
        with pytest.raises(scbf.IoError, match="open"):
            change()
    index.close()

    told: list[tuple[int, int | None]] = []
    scbf.SecondaryIndex.replan(folder, fpr=plan["fpr"], region_values=plan["region_values"])
    scbf.SecondaryIndex.add_columns(folder, {"tags": ","}, progress=lambda done, total: told.append((done, total)))
    assert told and told[0][0] <= 10_000 and told[0][1] == 10_000
    with scbf.SecondaryIndex.open(folder) as index:
        assert index.plan == plan and index.columns == {"city": True, "tags": True} and index.check() == []
        assert index.statistics()["filter_bytes"] < now["filter_bytes"]
        assert len(index.query({"city": "c3", "tags": "even"})) == sum(1 for i in range(0, 10_000, 2) if i % 9 == 3)
    scbf.SecondaryIndex.drop_columns(folder, ["city"])
    with scbf.SecondaryIndex.open(folder) as index:
        assert index.columns == {"city": False, "tags": True} and index.get("00001")["city"] == "c1"

    for change, message in ((lambda: scbf.SecondaryIndex.add_columns(folder, ["state"]), "'state': no such column"),
                            (lambda: scbf.SecondaryIndex.add_columns(folder, ["tags"]), "indexed"),
                            (lambda: scbf.SecondaryIndex.add_columns(folder, "tags"), "columns: must be a list"),
                            (lambda: scbf.SecondaryIndex.drop_columns(folder, "tags"), "columns: must be a list"),
                            (lambda: scbf.SecondaryIndex.drop_columns(folder, ["city"]), "not indexed")):
        with pytest.raises(scbf.InvalidArgument, match=message):
            change()
    with pytest.raises(FileNotFoundError):
        scbf.SecondaryIndex.add_columns(tmp_path / "nothing", ["tags"])


class Enough(Exception):
    pass


def test_progress_of_long_calls(index: scbf.SecondaryIndex, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    index.load(cities(), progress=lambda done, total: told.append((done, total)))
    index.check(progress=lambda done, total: told.append((done, total)))
    assert told[0][1] is None and 0 < told[0][0] <= 5_000 and told[-1] == (5_000, 5_000)

    def stop(done: int, total: int | None) -> None:
        raise Enough

    for call in (lambda: index.load(cities(), progress=stop), lambda: index.check(progress=stop)):
        with pytest.raises(Enough):
            call()
    for call in (lambda: index.load([], progress=5), lambda: index.check(progress=5)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="progress: must be callable"):
            call()
    check_equal(index, {row["id"]: row for row in cities()})
    index.close()
    with pytest.raises(Enough):
        scbf.SecondaryIndex.add_columns(tmp_path / "index", ["note"], progress=stop)
    with scbf.SecondaryIndex.open(tmp_path / "index") as again:
        assert again.columns["note"] is False and again.check() == []


def test_other_threads_run_during_long_calls(index: scbf.SecondaryIndex, tmp_path: Path) -> None:
    rows = [{"id": f"{i:06}", "city": f"c{i % 100}"} for i in range(20_000)]
    keys = [row["id"] for row in rows]
    index.load(rows)
    copies = (tmp_path / f"copy {i}" for i in range(100))

    def others_run(call: Callable[[], object]) -> bool:
        """Whether this thread goes on before the call ends. Nobody is made to give Python's lock away meanwhile."""
        begun, ended = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            call()
            ended.set()

        thread = threading.Thread(target=work)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(100)
        try:
            thread.start()
            begun.wait()
            return not ended.is_set()
        finally:
            sys.setswitchinterval(interval)
            thread.join()

    calls: list[Callable[[], object]] = [
        lambda: index.load(rows), lambda: index.get(keys), lambda: index.query([{"city": f"c{i}"} for i in range(100)]),
        lambda: list(index.scan()), index.check, lambda: index.backup(next(copies)), lambda: index.remove(keys)]
    for number, call in enumerate(calls):
        # On a busy machine, this thread may be late.
        assert any(others_run(call) for _ in range(10)), number
