# SPDX-License-Identifier: Apache-2.0
"""Filters as functions of DuckDB: the answers are those of Filter.contains()."""

import doctest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

import scbf  # noqa: E402
import scbf.duckdb  # noqa: E402
from support import GEOMETRY, check_process, filled, one_by_one  # noqa: E402


def test_examples_of_the_documentation() -> None:
    result = doctest.testmod(scbf.duckdb)
    assert result.attempted > 0 and result.failed == 0


@pytest.fixture
def connection() -> Iterator[Any]:
    with duckdb.connect() as made:
        yield made


def answers(connection: Any, values: list[str], type: str) -> list[bool | None]:
    """seen(k) for a column of this type, in order."""
    rows = ", ".join(f"({i}, {value})" for i, value in enumerate(values))
    query = f"SELECT seen(k::{type}) FROM (VALUES {rows}) rows(i, k) ORDER BY i"
    return [answer for (answer,) in connection.execute(query).fetchall()]


@pytest.mark.parametrize("type", ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER",
                                  "UBIGINT"])
def test_integers(connection: Any, type: str) -> None:
    scbf.duckdb.register(connection, "seen", filled([7, 100]))
    assert answers(connection, ["7", "8", "NULL", "100", "0"], type) == [True, False, None, True, False]


def test_extreme_integers(connection: Any) -> None:
    scbf.duckdb.register(connection, "seen", filled([-1, 2**63 - 1, -2**63, 2**63]))
    assert answers(connection, ["-1", "-2", f"{2**63 - 1}", f"{-2**63}"], "BIGINT") == [True, False, True, True]
    # The bits of -1 and of 2**64 - 1 are the same, and so is the key.
    assert answers(connection, [f"{2**63}", f"{2**64 - 1}", "5"], "UBIGINT") == [True, True, False]


def test_text_bytes_and_enumerations(connection: Any) -> None:
    filter = filled(["apple", "", "größer als zwölf Bytes", b"\xff\x00"])
    scbf.duckdb.register(connection, "seen", filter)
    text = ["'apple'", "'durian'", "NULL", "''", "'größer als zwölf Bytes'"]
    assert answers(connection, text, "VARCHAR") == [True, False, None, True, True]
    assert answers(connection, ["'apple'", r"'\xFF\x00'", r"'\xFF'", "NULL"], "BLOB") == [True, True, False, None]
    assert answers(connection, ["'apple'", "'pear'", "NULL"], "ENUM('pear', 'apple')") == [True, False, None]


@pytest.mark.parametrize("threads", [1, 4])
def test_many_keys_are_all_asked_for(connection: Any, threads: int) -> None:
    """Many vectors of 2,048 keys, some of them NULL, in several threads of DuckDB."""
    filter = scbf.Filter(capacity=50_000, fpr=0.01)
    filter.insert(np.arange(0, 150_000, 3))
    scbf.duckdb.register(connection, "seen", filter)
    connection.execute(f"SET threads = {threads}")
    connection.execute("CREATE TABLE t AS SELECT CASE WHEN i % 10 <> 0 THEN i END AS k FROM range(300_000) r(i)")
    found = connection.execute("SELECT k FROM t WHERE seen(k) ORDER BY k").fetchnumpy()["k"]
    asked = np.arange(300_000)
    asked = asked[asked % 10 != 0]
    assert np.array_equal(found, asked[filter.contains(asked)])
    assert connection.execute("SELECT count(*) FROM t WHERE seen(k) IS NULL").fetchall() == [(30_000,)]
    assert connection.execute("SELECT count(*) FROM t WHERE NOT seen(k)").fetchall() == [(270_000 - len(found),)]


def test_in_joins_and_expressions(connection: Any) -> None:
    scbf.duckdb.register(connection, "seen", filled([2, 4, 6]))
    query = """SELECT a.i, seen(a.i + b.i) AND a.i < 3 FROM range(4) a(i) JOIN range(4) b(i) ON a.i = b.i
               WHERE seen(a.i * 2) OR a.i = 0 ORDER BY 1"""
    assert connection.execute(query).fetchall() == [(0, False), (1, True), (2, True), (3, False)]
    assert connection.execute("SELECT seen(NULL), SEEN(4)").fetchall() == [(None, True)]


def test_readers_are_asked_too(connection: Any) -> None:
    counters = scbf.Filter(capacity=100, fpr=0.001)
    published = scbf.BloomFilter.of(counters)
    reader = scbf.Replica(published.advance(counters))
    counters.insert(range(10))
    reader.apply(published.advance(counters))
    for name, filter in (("counted", counters), ("published", published), ("replicated", reader)):
        scbf.duckdb.register(connection, name, filter, threads=1)
        query = f"SELECT {name}(i) FROM range(20) t(i) ORDER BY i"
        assert [row[0] for row in connection.execute(query).fetchall()] == counters.contains(np.arange(20)).tolist()


def test_later_changes_show_in_later_queries_also_prepared_ones(connection: Any) -> None:
    filter = filled([1])
    scbf.duckdb.register(connection, "seen", filter)
    connection.execute("PREPARE q AS SELECT seen(i) FROM range(1, 3) t(i) ORDER BY i")
    assert connection.execute("EXECUTE q").fetchall() == [(True,), (False,)]
    filter.remove(1)
    filter.insert(2)
    assert connection.execute("EXECUTE q").fetchall() == [(False,), (True,)]


def test_constants_are_asked_for_whenever_a_query_runs(connection: Any) -> None:
    filter = filled([1])
    scbf.duckdb.register(connection, "seen", filter)
    connection.execute("PREPARE q AS SELECT seen(1), seen(2), count(*) FROM range(3) WHERE seen(1)")
    assert connection.execute("EXECUTE q").fetchall() == [(True, False, 3)]
    filter.insert(2)
    assert connection.execute("EXECUTE q").fetchall() == [(True, True, 3)]
    filter.remove(1)
    assert connection.execute("EXECUTE q").fetchall() == [(False, True, 0)]


@pytest.mark.parametrize("lossless", [False, True])
def test_other_types_are_their_text_or_refused(connection: Any, lossless: bool) -> None:
    connection.execute(f"SET arrow_lossless_conversion = {lossless}")
    uuid = "0b87f4d7-4a2c-4f0b-8a57-3f5d6e5b4c3a"
    scbf.duckdb.register(connection, "seen", one_by_one([uuid, "101", '{"a":1}', 1]))
    text = f"SELECT seen('{uuid.upper()}'::UUID::VARCHAR), seen('101'::BIT::VARCHAR), seen('{{\"a\":1}}'::JSON)"
    assert connection.execute(text).fetchall() == [(True, True, True)]
    for key in (f"'{uuid}'::UUID", "'101'::BIT"):
        if lossless:
            with pytest.raises(duckdb.Error, match="InvalidKey: .* extension type arrow.* cannot be keys: cast it to "):
                connection.execute(f"SELECT seen({key})").fetchall()
        else:
            assert connection.execute(f"SELECT seen({key})").fetchall() == [(key.endswith("UUID"),)]
    for key in ("1::HUGEINT", "1::UHUGEINT", "1::BIGNUM", "true", "TIMETZ '12:00:00+01'", "INTERVAL 1 DAY"):
        with pytest.raises(duckdb.Error, match="InvalidKey: an Arrow column of .* cannot be keys"):
            connection.execute(f"SELECT seen({key})").fetchall()
    with pytest.raises(duckdb.Error, match="InvalidKey: struct<a: int32>: a STRUCT is no key; give one of its fields"):
        connection.execute("SELECT seen({'a': 1})").fetchall()


def test_names(connection: Any) -> None:
    scbf.duckdb.register(connection, "seen", filled([1]))
    with pytest.raises(duckdb.Error, match="'seen' is already created"):
        scbf.duckdb.register(connection, "seen", filled([2]))
    connection.remove_function("seen")
    with pytest.raises(duckdb.CatalogException):
        connection.execute("SELECT seen(1)")
    scbf.duckdb.register(connection, "seen", filled([2]))
    assert connection.execute("SELECT seen(1), seen(2)").fetchall() == [(False, True)]


def test_cursors_see_the_function_and_other_databases_do_not(connection: Any) -> None:
    scbf.duckdb.register(connection, "seen", filled([1]))
    with connection.cursor() as cursor, duckdb.connect() as other:
        assert cursor.execute("SELECT seen(1)").fetchall() == [(True,)]
        with pytest.raises(duckdb.CatalogException):
            other.execute("SELECT seen(1)")


def test_cursors_in_threads(connection: Any) -> None:
    filter = filled(range(0, 20_000, 2))
    scbf.duckdb.register(connection, "seen", filter)

    def ask(_: int) -> list[tuple[int]]:
        with connection.cursor() as cursor:
            return cursor.execute("SELECT count(*) FROM range(20_000) t(i) WHERE seen(i)").fetchall()

    expected = [(int(filter.contains(np.arange(20_000)).sum()),)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(16))) == [expected] * 16


@pytest.mark.parametrize("key", ["1.5::DOUBLE", "true", "DATE '2026-01-01'", "1::HUGEINT", "[1]"])
def test_columns_that_cannot_be_keys(connection: Any, key: str) -> None:
    scbf.duckdb.register(connection, "seen", filled([1]))
    with pytest.raises(duckdb.Error, match="InvalidKey: an Arrow column of .* cannot be keys"):
        connection.execute(f"SELECT seen({key})").fetchall()
    assert connection.execute("SELECT seen(1)").fetchall() == [(True,)]


def test_one_key_at_a_time(connection: Any) -> None:
    scbf.duckdb.register(connection, "seen", filled([1]))
    with pytest.raises(duckdb.Error, match=r"seen\(\) takes one key, not 2"):
        connection.execute("SELECT seen(1, 2)").fetchall()
    with pytest.raises(duckdb.Error):
        connection.execute("SELECT seen()").fetchall()


@pytest.mark.parametrize("wrong", [scbf.Bank(geometry=GEOMETRY), {1, 2}, None], ids=["Bank", "set", "None"])
def test_what_is_no_filter_is_refused(connection: Any, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"not {type(wrong).__name__}"):
        scbf.duckdb.register(connection, "seen", wrong)


@pytest.mark.parametrize("missing", ["duckdb", "pyarrow"])
def test_the_message_says_what_to_install(missing: str) -> None:
    said = check_process("""
        import sys
        sys.modules[sys.argv[1]] = None
        import scbf
        try:
            import scbf.duckdb
        except ModuleNotFoundError as error:
            print(error.name, error)
    """, missing)
    assert said.startswith(f"{missing} scbf.duckdb needs DuckDB and pyarrow")
    assert said.endswith(": pip install duckdb pyarrow\n")
