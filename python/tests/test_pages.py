# SPDX-License-Identifier: Apache-2.0
"""The Python in README.md, python/README.md and docs/python.md runs, and gives what the pages say.

That of docs/spark.md runs in tests/spark.
"""

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import scbf
from pages import run_block, run_page, ROOT


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (ROOT / "docs").exists():
        pytest.skip("not in a checkout")
    monkeypatch.chdir(tmp_path)


def test_the_package_readme(tmp_path: Path) -> None:
    assert run_page("python/README.md", {})[1] == 2
    assert (tmp_path / "seen.scbf").exists()


def test_readme() -> None:
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    import pyarrow.dataset  # noqa: F401
    import pyarrow.parquet

    import scbf.polars  # noqa: F401

    table = pa.table({"customer": pa.array([1, 150_000, None, 900_000])})
    pyarrow.parquet.write_table(table, "lineitem.parquet")
    consumed: list[Any] = []
    names = {
        "orders": pd.DataFrame({"customer": [150_000.0, None, 42.0]}),
        "customers": pd.DataFrame({"id": pd.array([42, 5_000_000, None], "Int64")}),
        "table": table, "pyarrow": pa, "consume": consumed.append,
        "frame": pl.DataFrame({"customer": [150_000, 5_000_000]}), "pl": pl,
    }
    values, compared = run_page("README.md", names)
    assert compared == 3
    report, frame = values[-2:]
    assert (report.inserted, report.nulls) == (2, 1)
    assert names["new"]["id"].tolist() == [5_000_000, pd.NA]
    assert names["table"]["customer"].to_pylist() == [1, 150_000]
    assert [batch["customer"].to_pylist() for batch in consumed] == [[1, 150_000]]
    assert frame["customer"].to_list() == [150_000]


def test_the_page_on_python() -> None:
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    import pyarrow.compute
    import pyarrow.parquet

    packages = [{"package": name, "section": section, "depends": depends}
                for name, section, depends in (("bash", "shells", "libc6,debianutils"), ("zsh", "shells", "libc6"),
                                               ("libc6", "libs", ""))]
    pyarrow.parquet.write_table(pa.Table.from_pylist(packages), "packages.parquet")
    cities = {"city": ["Bern", "Jena", None], "street": ["Aare", "Saale", "Isar"]}
    fetched: list[list[int]] = []
    names = {
        "users": np.array([1, 2]), "items": np.array([3, 4]),
        "table": pa.table(cities), "pc": pyarrow.compute, "frame": pl.DataFrame(cities), "pl": pl,
        "df": MagicMock(), "F": MagicMock(),  # tests/spark runs that line
        "batches": [np.array([2_000_000, 2_000_001, 2_000_000]), np.array([2_000_001, 2_000_002])],
        "reader": pa.RecordBatchReader.from_batches(
            pa.schema({"customer": pa.int64()}), [pa.record_batch({"customer": [5, 6]}),
                                                  pa.record_batch({"customer": [7, None]})]),
        "sections": ["shells", "libs", "none"],
        "fetch": lambda links: fetched.append(links.tolist()),
    }
    values, compared = run_page("docs/python.md", names)
    assert compared == 3
    assert {repr(value) for value in values} >= {"<scbf.InsertReport: 2 inserted, 0 nulls>"}
    joined = next(value for value in values if isinstance(value, pa.ChunkedArray))
    assert joined.to_pylist() == ["Bern\x1fAare", "Jena\x1fSaale", None]
    assert any(isinstance(value, pl.DataFrame) and value["city"].to_list() == joined.to_pylist() for value in values)
    assert fetched == [[2_000_000, 2_000_001], [2_000_002]]
    assert names["row"] == packages[2]  # the last that both loops saw
    with scbf.SecondaryIndex.open("packages.backup", read_only=True) as backup:
        assert backup.query({"section": "shells", "depends": "libc6"}).rows == packages[:2]


def test_a_wrong_comment_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.ROOT", tmp_path)
    for comment, right in {"3": True, "3: the sum": True, "4": False, "34": False, "(3)": False, "array([3])": False,
                           "see above": True}.items():
        (tmp_path / "page.md").write_text(f"text\n```python\na = 1\na + 2    # {comment}\n```\n")
        if right:
            assert run_page("page.md", {}) == ([3], comment != "see above")
        else:
            with pytest.raises(AssertionError, match="is 3, and the page says"):
                run_page("page.md", {})


def test_blocks_that_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.ROOT", tmp_path)
    (tmp_path / "page.md").write_text("<!-- not run: needs a GPU -->\n```python\nimport cupy\n```\n")
    assert run_page("page.md", {}) == ([], 0)
    assert list(run_block("# only a comment\n", {})) == []
