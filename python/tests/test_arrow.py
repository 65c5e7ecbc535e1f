# SPDX-License-Identifier: Apache-2.0
"""Keys from Arrow: every producer and every type gives the keys that it shows."""

import datetime
import decimal
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scbf
from support import check_column, filled, one_by_one

pa = pytest.importorskip("pyarrow")

NUMBERS: list[Any] = [5, None, 0, 100, None, 127, 7, 7, 1]
TEXT: list[Any] = ["a", None, "", "Schlüssel", "日本", None, "longer than twelve bytes", "x" * 300, "🍎"]
BYTES: list[Any] = [b"a", None, b"", b"\0\xff", b"longer than twelve bytes", None, b"\0" * 100]

INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
STRINGS = [pa.string(), pa.large_string(), pa.string_view()]
BINARY = [pa.binary(), pa.large_binary(), pa.binary_view()]

COLUMNS = [(kind, NUMBERS) for kind in INTEGERS] + [(kind, TEXT) for kind in STRINGS] + [(kind, BYTES) for kind in BINARY]
COLUMNS.append((pa.binary(3), [b"abc", None, b"\0\0\0", b"xyz"]))
COLUMNS.append((pa.null(), [None] * 5))
IDS = [str(kind) for kind, _ in COLUMNS]


# ---- types --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "keys"), COLUMNS, ids=IDS)
def test_types(kind: Any, keys: list[Any]) -> None:
    check_column(lambda: pa.array(keys, kind), keys)
    check_column(lambda: pa.array(keys * 50, kind), keys * 50)
    valid = [key for key in keys if key is not None]
    check_column(lambda: pa.array(valid, kind), valid)
    check_column(lambda: pa.array([], kind), [])
    check_column(lambda: pa.nulls(70, kind), [None] * 70)


@pytest.mark.parametrize(("kind", "keys"), COLUMNS, ids=IDS)
def test_slices(kind: Any, keys: list[Any]) -> None:
    many = keys * 20
    whole = pa.array(many, kind)
    for first, count in [(0, 0), (0, 1), (1, 5), (3, 40), (8, 8), (9, 64), (65, 30), (len(many), 0), (len(many) - 1, 1)]:
        part = many[first : first + count]
        check_column(lambda: whole.slice(first, count), part)
        check_column(lambda: whole.slice(first).slice(0, count), part)


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_ends_of_integers(kind: Any) -> None:
    info = np.iinfo(str(kind))
    keys = [int(info.min), int(info.max), int(info.min) + 1, None]
    check_column(lambda: pa.array(keys, kind), keys)


def test_null_count_that_is_not_known() -> None:
    whole = pa.array(NUMBERS, pa.int32())
    unknown = pa.Array.from_buffers(pa.int32(), len(whole), whole.buffers(), null_count=-1)
    check_column(lambda: unknown, NUMBERS)


def test_what_lies_under_nulls_does_not_matter() -> None:
    validity = pa.py_buffer(b"\x05")
    for values in ([1, 2, 3], [1, 99, 3]):
        array = pa.Array.from_buffers(pa.int64(), 3, [validity, pa.py_buffer(np.array(values))])
        check_column(lambda: array, [1, None, 3])


def test_same_keys_as_python_and_numpy() -> None:
    assert filled(pa.array([7], pa.int8())) == filled(np.array([7], ">u4")) == filled([7])
    assert filled(pa.array(["ü"])) == filled(["ü"]) == filled(pa.array(["ü".encode()]))
    assert filled(pa.array([-1], pa.int8())) == filled(pa.array([2**64 - 1], pa.uint64()))


# ---- dictionaries -------------------------------------------------------------------------------


@pytest.mark.parametrize("index", INTEGERS, ids=str)
def test_dictionaries(index: Any) -> None:
    for values in (["a", "b", "longer than twelve bytes"], [10, 20, -30]):
        indices = [0, 2, None, 1, 0, 2, None]
        array = pa.DictionaryArray.from_arrays(pa.array(indices, index), pa.array(values))
        keys = [None if i is None else values[i] for i in indices]
        check_column(lambda: array, keys)
        check_column(lambda: array.slice(1, 4), keys[1:5])


@pytest.mark.parametrize(("kind", "keys"), COLUMNS[:-1], ids=IDS[:-1])  # PyArrow makes no dictionary of nulls
def test_dictionaries_with_nulls_in_the_values(kind: Any, keys: list[Any]) -> None:
    indices = [i % len(keys) for i in range(50)]
    array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int16()), pa.array(keys, kind))
    check_column(lambda: array, [keys[i] for i in indices])


def test_dictionary_that_is_a_slice() -> None:
    values = pa.array(["w", "x", "y", "z"]).slice(1, 2)
    check_column(lambda: pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), values), ["y", "x", "y"])


def test_dictionary_of_dictionaries() -> None:
    inner = pa.array(["b", "a", "b"]).dictionary_encode()
    check_column(lambda: pa.DictionaryArray.from_arrays(pa.array([2, 1, 0]), inner), ["b", "a", "b"])


def test_dictionaries_that_differ_from_chunk_to_chunk() -> None:
    chunks = [pa.array(part).dictionary_encode() for part in (["a", "b", None], ["c", "a"], ["b"])]
    check_column(lambda: pa.chunked_array(chunks), ["a", "b", None, "c", "a", "b"])


def test_dictionaries_for_filters_of_different_seeds() -> None:
    array = pa.array(["a", "b", "a"]).dictionary_encode()
    for seed in (0, 1, 2**63):
        by_dictionary, by_list = (scbf.Filter(1000, 0.01, seed=seed) for _ in range(2))
        by_dictionary.insert(array)
        by_list.insert(["a", "b", "a"])
        assert by_dictionary == by_list


# ---- producers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "keys"), COLUMNS, ids=IDS)
def test_pyarrow_producers(kind: Any, keys: list[Any]) -> None:
    array = pa.array(keys, kind)
    chunked = pa.chunked_array([array.slice(0, 1), array.slice(1, 0), array.slice(1, 2), array.slice(3)])
    check_column(lambda: chunked, keys)
    check_column(lambda: pa.chunked_array([], kind), [])
    check_column(lambda: pa.table({"key": chunked}), keys)
    check_column(lambda: pa.table({"key": chunked}).slice(2), keys[2:])
    check_column(lambda: pa.record_batch({"key": array}), keys)
    check_column(lambda: pa.record_batch({"key": array}).slice(1, 3), keys[1:4])
    check_column(lambda: pa.table({"key": chunked}).to_reader(max_chunksize=2), keys)
    check_column(lambda: pa.StructArray.from_arrays([array], ["key"]).slice(2), keys[2:])


def test_chunks_whose_lengths_are_no_multiples_of_eight() -> None:
    keys = list(range(1000))
    ends = [0, 3, 3, 11, 12, 100, 107, 1000]
    chunks = [keys[a:b] for a, b in zip(ends, ends[1:])]
    check_column(lambda: pa.chunked_array(chunks, pa.int64()), keys)


def test_polars() -> None:
    pl = pytest.importorskip("polars")
    for kind in (pl.Int8, pl.UInt8, pl.Int16, pl.UInt16, pl.Int32, pl.UInt32, pl.Int64, pl.UInt64):
        check_column(lambda: pl.Series(NUMBERS, dtype=kind), NUMBERS)
    check_column(lambda: pl.Series(TEXT), TEXT)
    check_column(lambda: pl.Series(TEXT)[::2], TEXT[::2])
    check_column(lambda: pl.Series(TEXT).slice(1, 4), TEXT[1:5])
    check_column(lambda: pl.Series(BYTES), BYTES)
    check_column(lambda: pl.Series(TEXT, dtype=pl.Categorical), TEXT)
    check_column(lambda: pl.Series(["b", "a", None], dtype=pl.Enum(["a", "b"])), ["b", "a", None])
    check_column(lambda: pl.Series([None, None]), [None, None])
    check_column(lambda: pl.DataFrame({"key": NUMBERS}), NUMBERS)
    check_column(lambda: pl.concat([pl.Series(TEXT), pl.Series(TEXT)], rechunk=False), TEXT * 2)
    frame = pl.DataFrame({"key": [1, 2, 3]})
    assert frame.filter(filled([2]).contains(frame["key"]))["key"].to_list() == [2]
    with pytest.raises(scbf.InvalidKey, match=r"this has 2 \(a, b\): choose one"):
        filled(pl.DataFrame({"a": [1], "b": [2]}))
    for series in (pl.Series([True]), pl.Series([1.5]), pl.Series([datetime.date(2020, 1, 1)]), pl.Series([[1]])):
        with pytest.raises(scbf.InvalidKey, match="an Arrow column of type"):
            filled(series)


def test_polars_objects_are_no_keys() -> None:
    pl = pytest.importorskip("polars")
    with pytest.raises(scbf.InvalidKey):
        filled(pl.Series([object()], dtype=pl.Object))


def test_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        check_column(lambda: database.sql("SELECT i FROM range(5000) t(i)"), list(range(5000)))
        check_column(lambda: database.sql("SELECT 'a' UNION ALL SELECT NULL ORDER BY 1 NULLS LAST"), ["a", None])
        check_column(lambda: database.sql("SELECT 7::UTINYINT"), [7])
        check_column(lambda: database.sql("SELECT 'x'::BLOB"), [b"x"])
        check_column(lambda: database.sql("SELECT 1 WHERE false"), [])
        with pytest.raises(scbf.InvalidKey, match=r"this has 2 \(a, b\)"):
            filled(database.sql("SELECT 1 AS a, 2 AS b"))
        with pytest.raises(scbf.InvalidKey, match="decimal"):
            filled(database.sql("SELECT 1.5"))
        database.execute("SET arrow_lossless_conversion = true")
        named = {"1::HUGEINT": r"arrow.opaque \(hugeint\)", "true": "arrow.bool8", "uuid()": "arrow.uuid"}
        for key, name in named.items():
            with pytest.raises(scbf.InvalidKey, match=f"the extension type {name} cannot be keys"):
                filled(database.sql(f"SELECT {key}"))
        check_column(lambda: database.sql("SELECT 'a' UNION ALL SELECT NULL ORDER BY 1 NULLS LAST"), ["a", None])


def test_nanoarrow() -> None:
    na = pytest.importorskip("nanoarrow")
    check_column(lambda: na.Array([1, 2, 3], na.int64()), [1, 2, 3])
    check_column(lambda: na.Array(["a", None, "b"], na.string()), ["a", None, "b"])
    check_column(lambda: na.c_array([1, None, 3], na.int32()), [1, None, 3])
    check_column(lambda: na.ArrayStream(na.Array([1, 2, 3], na.int64())), [1, 2, 3])


def test_pandas() -> None:
    pd = pytest.importorskip("pandas")
    check_column(lambda: pd.Series([1, 2, 3]), [1, 2, 3])
    check_column(lambda: pd.Series([1, 2, 3], dtype="uint8")[::-1], [3, 2, 1])
    check_column(lambda: pd.Series(NUMBERS, dtype="Int64"), NUMBERS)
    check_column(lambda: pd.Series(TEXT), TEXT)
    check_column(lambda: pd.Series(TEXT, dtype=object), TEXT)
    check_column(lambda: pd.Series(TEXT, dtype="string"), TEXT)
    check_column(lambda: pd.Series(BYTES, dtype=object), BYTES)
    check_column(lambda: pd.Series(["b", "a", None], dtype="category"), ["b", "a", None])
    check_column(lambda: pd.Series(TEXT, dtype=pd.ArrowDtype(pa.string())), TEXT)
    check_column(lambda: pd.Series([1, None, float("nan"), pd.NA, 2], dtype=object), [1, None, None, None, 2])
    check_column(lambda: pd.Index([3, 1, 2]), [3, 1, 2])
    check_column(lambda: pd.Index(["x", "y"]), ["x", "y"])
    check_column(lambda: pd.RangeIndex(5), list(range(5)))
    check_column(lambda: pd.Series([], dtype=object), [])
    check_column(lambda: pd.Series([1, -2, 3], dtype=">i8"), [1, -2, 3])
    check_column(lambda: pd.Series([1, 0, 2], dtype="Sparse[int64]"), [1, 0, 2])
    check_column(lambda: pd.array(NUMBERS, dtype="Int64"), NUMBERS)
    check_column(lambda: pd.array([2**64 - 1, None, 2**53 + 1], dtype="UInt64"), [2**64 - 1, None, 2**53 + 1])
    check_column(lambda: pd.array(TEXT, dtype="string"), TEXT)
    check_column(lambda: pd.Series([None, None], dtype="category"), [None, None])
    check_column(lambda: pd.Categorical([None, None]), [None, None])
    frame = pd.DataFrame({"key": [1, 2, 3]}, index=[30, 20, 10])
    assert frame[filled([2]).contains(frame["key"])]["key"].tolist() == [2]
    with pytest.raises(scbf.InvalidKey, match="float64"):
        filled(pd.Series([1, None]))
    for moments in (pd.Series(pd.to_datetime(["2020-01-01", None])), pd.Series(pd.to_timedelta(["1 s", None]))):
        with pytest.raises(scbf.InvalidKey, match="(timestamp|duration) .* leave NaT out first, for example by dropna"):
            filled(moments)
        assert len(moments.dropna().astype("int64")) == 1  # without dropna(), NaT becomes a number
    with pytest.raises(scbf.InvalidKey, match="bool"):
        filled(pd.Series([True]))


@pytest.mark.parametrize(("keys", "message"), [
    ("pd.Series([1j])", "an array of complex numbers cannot be keys"),
    ("pd.Series([1, 'a'], dtype='category')", "'a' is text or bytes, and the keys before it are numbers"),
    ("pd.Series([1.5, 0], dtype='Sparse[float64]')", "an array of float64 cannot be keys: round"),
    ("pd.DataFrame({'key': [1, 2]})", r"a data frame of pandas: choose a column, such as df\['key'\]"),
    ("pd.array([True, None], dtype='boolean')", "true and false are no keys"),
    ("pd.Series(pd.period_range('2026', periods=2, freq='D'))", "the extension type pandas.period cannot be keys"),
    ("pd.Series(pd.interval_range(0, 2))", "the extension type pandas.interval cannot be keys: choose one"),
    ("pd.Series([pd.NaT], dtype=object)", "NaT: a missing timestamp, and timestamps are no keys; give None"),
])
def test_pandas_that_cannot_be_keys(keys: str, message: str) -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(scbf.InvalidKey, match=message):
        filled(eval(keys, {"pd": pd, "np": np}))


def test_errors_of_pandas_that_are_none_of_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    pd = pytest.importorskip("pandas")
    for error in (MemoryError, KeyboardInterrupt):
        def bang(self: object, requested_schema: object = None, error: type[BaseException] = error) -> Any:
            raise error

        monkeypatch.setattr(pd.Series, "__arrow_c_stream__", bang)
        with pytest.raises(error):
            filled(pd.Series([1]))


def test_floating_point_numbers_of_pandas_say_how_they_become_integers() -> None:
    pd = pytest.importorskip("pandas")
    gap = pd.DataFrame({"key": [1, None, 2]})
    with pytest.raises(scbf.InvalidKey, match=r"holds only whole numbers and NaN: .* astype\('Int64'\)"):
        filled(gap["key"])
    check_column(lambda: gap["key"].astype("Int64"), [1, None, 2])
    customers = pd.DataFrame({"id": [1, None, 5]}, dtype="Int64")
    assert customers[~filled(gap["key"].astype("Int64")).contains(customers["id"])].index.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("keys", "same"), [([2**64 - 1, 1], [2**64 - 1, 1]), ([1, "a"], None), ([2**64], None), ([True, 1], None)], ids=repr
)
def test_pandas_objects_are_as_a_list_of_them(keys: list[Any], same: list[Any] | None) -> None:
    pd = pytest.importorskip("pandas")
    if same is not None:
        check_column(lambda: pd.Series(keys, dtype=object), same)
        return
    with pytest.raises(scbf.InvalidKey):
        filled(pd.Series(keys, dtype=object))


def test_pandas_without_pyarrow() -> None:
    pd = pytest.importorskip("pandas")

    class Series(pd.Series):
        """As where there is no PyArrow."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
            raise ImportError("pyarrow")

    check_column(lambda: Series([1, 2, 3]), [1, 2, 3])
    check_column(lambda: Series(TEXT, dtype=object), TEXT)


# ---- what cannot be keys ------------------------------------------------------------------------

BAD = {
    "bool": pa.array([True]),
    "float16": pa.array([np.float16(1)]),
    "float32": pa.array([1.0], pa.float32()),
    "float64": pa.array([1.0]),
    "decimal": pa.array([decimal.Decimal(1)]),
    "date": pa.array([1], pa.date32()),
    "time": pa.array([1], pa.time64("us")),
    "timestamp": pa.array([1], pa.timestamp("ns", "UTC")),
    "duration": pa.array([1], pa.duration("s")),
    "interval": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    "list": pa.array([[1]]),
    "large_list": pa.array([[1]], pa.large_list(pa.int8())),
    "fixed-size list": pa.array([[1]], pa.list_(pa.int8(), 1)),
    "list view": pa.array([[1]], pa.list_view(pa.int8())),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
    "run-end encoded": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int16()), pa.array(["a"])),
    "union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    "byte strings of width 0": pa.array([b""], pa.binary(0)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_types(name: str) -> None:
    some = filled([1])
    for column in (BAD[name], pa.chunked_array([BAD[name]]), pa.table({"key": BAD[name]}), BAD[name].slice(0, 0)):
        with pytest.raises(scbf.InvalidKey, match=f"an Arrow column of (type )?{name}"):
            some.insert(column)
        with pytest.raises(scbf.InvalidKey):
            some.contains(column)
    assert some == filled([1])


@pytest.mark.parametrize("kind", [
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("s"),
    pa.timestamp("ns", "UTC"), pa.duration("ms"), pa.decimal128(20, 0), pa.decimal256(20, 0)], ids=str)
def test_what_a_message_says_to_cast_to_makes_keys(kind: Any) -> None:
    column = pa.array([86_400_000, None]).cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    column = pa.array([1, None]).cast(kind) if pa.types.is_decimal(kind) else column.cast(kind)
    with pytest.raises(scbf.InvalidKey) as raised:
        filled(column)
    found = re.search(r"cast it to (a string or to )?(int32|int64)", str(raised.value))
    assert found
    keys = column.cast(found[2])
    check_column(lambda: keys, keys.to_pylist())
    if found[1]:
        check_column(lambda: column.cast(pa.string()), ["1", None])


def test_intervals_are_not_cast_by_arrow() -> None:
    with pytest.raises(scbf.InvalidKey, match="cast it to a string where it comes from, for example in SQL"):
        filled(BAD["interval"])


def extended(kind: Any, storage: Any) -> Any:
    return pa.ExtensionArray.from_storage(kind, storage)


EXTENDED = {
    "arrow.uuid": extended(pa.uuid(), pa.array([b"x" * 16], pa.binary(16))),
    "arrow.bool8": extended(pa.bool8(), pa.array([1], pa.int8())),
    r"arrow.opaque \(money\)": extended(pa.opaque(pa.int64(), "money", "some database"), pa.array([1])),
    "arrow.fixed_shape_tensor": pa.nulls(1, pa.fixed_shape_tensor(pa.int8(), [1])),
}


@pytest.mark.parametrize("name", EXTENDED)
def test_extension_types_are_not_their_storage(name: str) -> None:
    column = EXTENDED[name]
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0]), column)
    for given in (column, pa.chunked_array([column]), pa.table({"key": column}), column.slice(0, 0), dictionary):
        with pytest.raises(scbf.InvalidKey, match=f"an Arrow column of the extension type {name} cannot be keys: "):
            filled(given)


def test_extension_types_become_keys_as_their_messages_say() -> None:
    assert filled(EXTENDED["arrow.uuid"].cast(pa.binary(16))) == filled([b"x" * 16])
    assert filled(EXTENDED[r"arrow.opaque \(money\)"].storage) == filled([1])


@pytest.mark.parametrize(("item", "message"), [
    (pa.record_batch({"key": [1]}), r"is of type RecordBatch, which is a column or a table itself: .*from_batches"),
    (pa.table({"key": [1]}), "is of type Table, which is a column or a table itself"),
    (pa.array([1]), r"is of type Int64Array, which is a column or a table itself: .*pyarrow.chunked_array\(columns\)"),
    (pa.scalar("a"), r"is of type StringScalar, a single value of Arrow: give its as_py\(\)"),
], ids=["batch", "table", "array", "scalar"])
def test_items_that_are_columns_or_values_of_arrow(item: Any, message: str) -> None:
    for keys in ([item], (item for _ in range(2)), ["a", item]):
        with pytest.raises(scbf.InvalidKey, match=f"(?s)^key [01]: .* {message}"):
            filled(keys)


def test_columns_of_arrow_together_as_the_message_says() -> None:
    columns, batches = [pa.array([1, 2]), pa.array([3])], [pa.record_batch({"key": [1, 2]}), pa.record_batch({"key": [3]})]
    check_column(lambda: pa.chunked_array(columns), [1, 2, 3])
    check_column(lambda: pa.Table.from_batches(batches)["key"], [1, 2, 3])


def test_json_is_its_text() -> None:
    text = ['{"a": 1}', None, "2"]
    check_column(lambda: pa.array(text, pa.json_()), text)


def test_bad_types_in_a_dictionary() -> None:
    with pytest.raises(scbf.InvalidKey, match="float64"):
        filled(pa.array([1.5]).dictionary_encode())


def test_more_or_fewer_columns_than_one() -> None:
    two = pa.table({"id": [1], "name": ["a"]})
    for column in (two, two.to_batches()[0], two.to_reader(), two.to_struct_array()):
        with pytest.raises(scbf.InvalidKey, match=r"keys are one column, and this has 2 \(id, name\): choose one"):
            filled(column)
    with pytest.raises(scbf.InvalidKey, match="this has 0"):
        filled(pa.table({}))


def test_a_struct_of_a_struct() -> None:
    inner = pa.StructArray.from_arrays([pa.array([1])], ["a"])
    with pytest.raises(scbf.InvalidKey, match="struct"):
        filled(pa.table({"b": inner}))


def test_structs_that_are_null_as_a_whole() -> None:
    mask = pa.array([False, True, False, True])
    column = pa.StructArray.from_arrays([pa.array([1, 2, 3, None])], ["key"], mask=mask)
    with pytest.raises(scbf.InvalidKey, match="row 1 of the struct is null"):
        filled(column)


# ---- streams ------------------------------------------------------------------------------------

SCHEMA = pa.schema({"key": pa.int64()})


def test_a_stream_is_inserted_batch_by_batch() -> None:
    some = filled([])
    seen = []

    def batches() -> Iterator[Any]:
        for i in range(4):
            seen.append(len(some))
            assert [key in some for key in range(4)] == [key < i for key in range(4)]
            yield pa.record_batch({"key": [i]})

    report = some.insert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert (report.inserted, seen) == (4, [0, 1, 2, 3])


def test_chunks_in_memory_are_one_insertion() -> None:
    keys = np.random.default_rng(3).permutation(600_000)
    chunks = pa.chunked_array([keys[i : i + 7_001] for i in range(0, len(keys), 7_001)])
    told: list[tuple[int, int]] = []
    some = scbf.Filter(len(keys), 0.01)
    assert some.insert(chunks, progress=lambda *done: told.append(done)).inserted == len(keys)
    whole = scbf.Filter(len(keys), 0.01)
    whole.insert(keys)
    assert some == whole
    assert {total for _, total in told} == {len(keys)} and told[-1][0] == len(keys)


def test_chunks_that_are_too_many_say_where_to_go_on() -> None:
    keys = np.arange(600_000)
    small = scbf.Filter(growth=scbf.Growth.fixed(scbf.Geometry.split(2, 1 << 19), 1))
    with pytest.raises(scbf.FilterFull) as caught:
        small.insert(pa.chunked_array([keys[i : i + 7_001] for i in range(0, len(keys), 7_001)]))
    full = caught.value
    assert 0 < full.processed == full.inserted == small.keys_inserted < len(keys)
    assert small.contains(keys[: full.processed]).all()


def test_a_stream_is_empty_once_it_was_read() -> None:
    reader = pa.table({"key": [1, 2]}).to_reader()
    assert filled(reader) == filled([1, 2])
    assert filled(reader) == filled([])


def test_errors_of_a_stream_are_told() -> None:
    def batches() -> Iterator[Any]:
        yield pa.record_batch({"key": [1, 2]})
        raise RuntimeError("the disk is on fire")

    some = filled([])
    for call in (some.insert, some.contains, some.remove):
        with pytest.raises(scbf.IoError, match="the disk is on fire"):
            call(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert some == filled([1, 2])  # the batch before, as of an iterator


def test_arrays_live_as_long_as_they_are_needed() -> None:
    before = pa.total_allocated_bytes()

    def batches() -> Iterator[Any]:
        for i in range(20):
            yield pa.record_batch({"key": np.arange(i * 10_000, (i + 1) * 10_000)})

    assert filled(np.arange(200_000)).contains(pa.RecordBatchReader.from_batches(SCHEMA, batches())).all()
    assert pa.total_allocated_bytes() <= before + 1024


def test_one_by_one_agrees_on_a_mixture() -> None:
    keys = [None, 3, 1, 2, None]
    assert filled(pa.array(keys)) == one_by_one(keys)


def test_a_scalar_is_no_column_of_its_bytes() -> None:
    some = filled(["abc"])
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(3)):
        for call in (some.insert, some.contains, some.remove, some.count, lambda key: key in some):
            with pytest.raises(scbf.InvalidKey, match=r"as_py\(\)|one key"):
                call(pa.scalar(b"abc", kind))
    with pytest.raises(scbf.InvalidKey, match=r"single value of Arrow: give its as_py\(\)"):
        some.insert(pa.scalar([1, 2]))
    assert some == filled(["abc"])


def test_a_bad_index_in_a_later_piece_changes_nothing() -> None:
    indices = np.zeros(600_000, np.int32)
    indices[-1] = 7
    column = pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(["a", "b"]), safe=False)
    some = filled(["a"])
    for call in (some.insert, some.remove):
        with pytest.raises(scbf.InvalidArgument, match="index 599999 is 7, and the dictionary has 2 values"):
            call(column)
    assert some == filled(["a"])


@pytest.mark.parametrize("part", ["offsets", "bytes", "bitmap", "indices", "views"])
def test_out_in_the_memory_of_a_column(part: str) -> None:
    """Whichever of its buffers `out` is: the answers are those for the keys as they were."""
    n = 300_000
    some = scbf.Filter(n, 0.001)
    keys = [f"k{i:06}" for i in range(n)]
    some.insert(keys[::2])
    offsets = np.arange(n + 1, dtype=np.int32) * 7
    text = np.frombuffer("".join(keys).encode(), np.uint8).copy()
    valid = np.full(n, 255, np.uint8)  # more bits than are needed, so that `out` fits
    if part == "indices":
        memory = np.arange(n, dtype=np.int32)
        column = pa.DictionaryArray.from_arrays(pa.array(memory), pa.array(keys))
    elif part == "views":
        views = pa.array(keys, pa.string_view()).buffers()[1]
        memory = np.frombuffer(views, np.uint8).copy()
        column = pa.Array.from_buffers(pa.string_view(), n, [None, pa.py_buffer(memory)])
    else:
        memory = {"offsets": offsets, "bytes": text, "bitmap": valid}[part]
        column = pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(text),
                                             pa.py_buffer(valid) if part == "bitmap" else None, -1)
    want = some.contains(column).copy()
    assert want[::2].all() and not want.all()
    before = memory.copy()
    out = memory.view(np.uint8)[:n]
    for threads in (1, 2):
        assert (some.contains(column, out, threads=threads) == want).all()
        memory[:] = before
    verdicts = np.zeros(n, np.uint8)
    some.copy().remove(column, verdicts)
    some.remove(column, out)
    assert (out == verdicts).all()
