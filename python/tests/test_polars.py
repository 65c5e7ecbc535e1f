# SPDX-License-Identifier: Apache-2.0
"""The namespace `scbf` of Polars' expressions and Series: the answers are those of Filter.contains()."""

import doctest
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pl = pytest.importorskip("polars")

import scbf  # noqa: E402
import scbf.polars  # noqa: E402
from support import GEOMETRY, check_process, filled, one_by_one  # noqa: E402


def test_examples_of_the_documentation() -> None:
    result = doctest.testmod(scbf.polars)
    assert result.attempted > 0 and result.failed == 0


COLUMNS = {
    "Int64": pl.Series([1, 2, None, 3, 1000]),
    "Int8": pl.Series([1, -2, None, 3], dtype=pl.Int8),
    "UInt64": pl.Series([2**64 - 1, 2, None], dtype=pl.UInt64),
    "String": pl.Series(["apple", "", None, "durian", "a string longer than twelve bytes"]),
    "Binary": pl.Series([b"apple", b"", None, b"\xff\x00"]),
    "Categorical": pl.Series(["apple", None, "durian", "apple"], dtype=pl.Categorical),
    "Enum": pl.Series(["apple", None, "durian"], dtype=pl.Enum(["durian", "apple"])),
    "Null": pl.Series([None, None]),
    "empty": pl.Series([], dtype=pl.Int64),
}


@pytest.mark.parametrize("keys", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("engine", ["eager", "in-memory", "streaming", "Series"])
def test_answers_are_the_filters_and_null_is_null(keys: Any, engine: str) -> None:
    filter = one_by_one([1, -2, 2**64 - 1, "apple", "", b"\xff\x00"])
    expected = [None if key is None else key in filter for key in keys.to_list()]
    frame = pl.DataFrame({"k": keys})
    asked = pl.col("k").scbf.contains(filter)
    if engine == "eager":
        answers = frame.select(asked)["k"]
    elif engine == "Series":
        answers = frame["k"].scbf.contains(filter)
    else:
        answers = frame.lazy().select(asked).collect(engine=engine)["k"]
    assert answers.to_list() == expected
    assert (answers.name, answers.dtype) == ("k", pl.Boolean)
    if keys.len() > 2:
        assert True in expected


@pytest.mark.parametrize("engine", ["eager", "in-memory", "streaming"])
def test_keys_are_computed_once(engine: str) -> None:
    calls = 0

    def count(keys: Any) -> Any:
        nonlocal calls
        calls += 1
        return keys

    asked = pl.col("k").map_batches(count, return_dtype=pl.Int64).scbf.contains(filled([1]))
    frame = pl.DataFrame({"k": [1, None, 2]})
    answers = frame.select(asked) if engine == "eager" else frame.lazy().select(asked).collect(engine=engine)
    assert answers["k"].to_list() == [True, None, False]
    assert calls == 1


def test_random_keys_are_those_that_are_asked_for() -> None:
    asked = pl.DataFrame({"k": [1, None] * 500}).select(pl.col("k").shuffle(seed=None).scbf.contains(filled([1])))["k"]
    assert (asked.sum(), asked.null_count()) == (500, 500)


def test_types_are_known_before_the_query_runs() -> None:
    lazy = pl.LazyFrame({"k": [1.5]}).select(pl.col("k").scbf.contains(filled([])))
    assert lazy.collect_schema() == {"k": pl.Boolean}


def test_nulls_are_dropped_by_filter_with_and_without_not() -> None:
    frame = pl.DataFrame({"k": [1, None, 2]})
    asked = pl.col("k").scbf.contains(filled([1]))
    assert frame.filter(asked)["k"].to_list() == [1]
    assert frame.filter(~asked)["k"].to_list() == [2] == frame.filter(~pl.col("k").is_in([1]))["k"].to_list()
    assert frame.filter(~asked.fill_null(False))["k"].to_list() == [None, 2]


def test_chunks_and_slices() -> None:
    filter = filled(range(0, 100, 3))
    keys = pl.Series([*range(50), None]).append(pl.Series(range(50, 100)))
    assert keys.n_chunks() == 2
    for part in (keys, keys[1:], keys[13:67], keys[52:]):
        assert part.scbf.contains(filter).to_list() == [None if k is None else k % 3 == 0 for k in part.to_list()]


def test_groups_windows_literals_and_computed_keys() -> None:
    filter = filled([1, 4, 5])
    frame = pl.DataFrame({"g": ["a", "a", "b", "b"], "k": [1, 2, 3, 4]})
    asked = pl.col("k").scbf.contains(filter)
    groups = frame.group_by("g", maintain_order=True).agg(asked.alias("each"), asked.sum().alias("sum"))
    assert groups["each"].to_list() == [[True, False], [False, True]]
    assert groups["sum"].to_list() == [1, 1]
    assert frame.select(asked.any().over("g"))["k"].to_list() == [True] * 4
    assert frame.select((pl.col("k") + 1).scbf.contains(filter))["k"].to_list() == [False, False, True, True]
    assert frame.select(pl.lit(5).scbf.contains(filter)).item()


def test_several_columns_at_once() -> None:
    frame = pl.DataFrame({"a": [1, None, 3], "b": ["apple", "durian", None]})
    filter = one_by_one([1, "durian"])
    expected = {"a": [True, None, False], "b": [False, True, None]}
    for columns in (pl.all(), pl.col("a", "b"), pl.col("^[ab]$")):
        assert frame.select(columns.scbf.contains(filter)).to_dict(as_series=False) == expected


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_many_keys_are_all_asked_for(engine: str) -> None:
    """So many that the streaming engine has several batches, and Polars several threads."""
    filter = scbf.Filter(capacity=200_000, fpr=0.01)
    filter.insert(np.arange(200_000))
    keys = np.random.default_rng(1).integers(2_000_000, size=700_000)
    lazy = pl.LazyFrame({"k": keys}).with_row_index().filter(pl.col("k").scbf.contains(filter))
    kept = lazy.collect(engine=engine).sort("index")
    assert kept["index"].to_list() == filter.find(keys).tolist()


def test_the_filter_is_asked_inside_the_scan_of_a_parquet_file(tmp_path: Path) -> None:
    pl.DataFrame({"k": range(1000), "text": [f"row {i}" for i in range(1000)]}).write_parquet(tmp_path / "rows.parquet")
    lazy = pl.scan_parquet(tmp_path / "rows.parquet").with_columns(length=pl.col("text").str.len_bytes())
    lazy = lazy.filter(pl.col("k").scbf.contains(filled([7, 77])))
    plan = lazy.explain()
    scan = plan[plan.index("Parquet SCAN"):]
    assert "SELECTION" in scan and "python_udf" in scan, plan
    assert lazy.collect()["text"].to_list() == ["row 7", "row 77"]


def test_readers_are_asked_too() -> None:
    counters = scbf.Filter(capacity=100, fpr=0.001)
    published = scbf.BloomFilter.of(counters)
    reader = scbf.Replica(published.advance(counters))
    counters.insert(range(10))
    reader.apply(published.advance(counters))
    keys = pl.Series(range(20))
    expected = counters.contains(keys).tolist()
    assert expected.count(True) >= 10
    for filter in (counters, published, reader):
        assert keys.scbf.contains(filter, threads=1).to_list() == expected


def test_the_filter_is_asked_when_the_query_runs() -> None:
    filter = filled([1])
    lazy = pl.LazyFrame({"k": [1, 2]}).select(pl.col("k").scbf.contains(filter))
    filter.remove(1)
    filter.insert(2)
    assert lazy.collect()["k"].to_list() == [False, True]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("keys", [pl.Series([1.5]), pl.Series([True]), pl.Series([1]).cast(pl.Date), pl.Series([[1]])],
                         ids=["Float64", "Boolean", "Date", "List"])
def test_columns_that_cannot_be_keys(keys: Any, engine: str) -> None:
    filter = filled([1])
    with pytest.raises(scbf.InvalidKey, match="cannot be keys"):
        pl.LazyFrame({"k": keys}).select(pl.col("k").scbf.contains(filter)).collect(engine=engine)
    with pytest.raises(scbf.InvalidKey, match="cannot be keys"):
        keys.scbf.contains(filter)
    with pytest.raises(scbf.InvalidKey, match="a Struct is no key; give one of its fields"):
        pl.Series([{"a": 1}, None]).scbf.contains(filter)


@pytest.mark.parametrize("wrong", [scbf.Bank(geometry=GEOMETRY), {1, 2}, None], ids=["Bank", "set", "None"])
def test_what_is_no_filter_is_refused_where_the_query_is_written(wrong: Any) -> None:
    for keys in (pl.col("k"), pl.Series([1])):
        with pytest.raises(TypeError, match=f"not {type(wrong).__name__}"):
            keys.scbf.contains(wrong)


def test_the_function_is_the_namespace() -> None:
    frame = pl.DataFrame({"key": [1, None, 3]})
    for expression in (pl.col("key"), pl.col("key") + 2):
        made = scbf.polars.contains(expression, filled([3]), threads=1)
        assert frame.select(made).equals(frame.select(expression.scbf.contains(filled([3]))))
    with pytest.raises(TypeError):
        scbf.polars.contains(pl.col("key"), {3})  # type: ignore[arg-type]
    for wrong in ("key", pl.Series([3]), None):
        with pytest.raises(TypeError, match=rf"not {type(wrong).__name__}: give pl.col\('key'\); a Series has .scbf.cont"):
            scbf.polars.contains(wrong, filled([3]))  # type: ignore[arg-type]


def test_a_frame_that_is_serialised_carries_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    monkeypatch.setitem(sys.modules, "cloudpickle", cloudpickle)
    filter = filled([1])
    message = pl.LazyFrame({"k": [1, 2]}).select(pl.col("k").scbf.contains(filter)).serialize()
    filter.clear()
    assert pl.LazyFrame.deserialize(io.BytesIO(message)).collect()["k"].to_list() == [True, False]


def test_without_polars_the_message_says_what_to_install() -> None:
    said = check_process("""
        import sys
        sys.modules["polars"] = None
        import scbf
        try:
            import scbf.polars
        except ModuleNotFoundError as error:
            print(error.name, error)
    """)
    assert said == "polars scbf.polars needs Polars: pip install polars\n"


@pytest.mark.parametrize("call", ["insert", "contains", "count", "remove"])
def test_an_expression_has_no_keys(call: str) -> None:
    some = filled([1])
    for keys in (pl.col("key"), pl.col("key") + 1):
        with pytest.raises(scbf.InvalidKey, match=r"of type Expr, which has no values yet: ask by its own scbf.contains"):
            getattr(some, call)(keys)
    with pytest.raises(scbf.InvalidKey, match="key 1: .* of type Expr, which has no values yet"):
        getattr(some, call)([1, pl.col("key")])
