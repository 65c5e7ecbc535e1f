# SPDX-License-Identifier: Apache-2.0
"""The secondary index, against a dict of rows. tests/index has its guarantees; here it is what Python sees."""

import copy
import pickle
import random
import threading
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import scbf

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
