# SPDX-License-Identifier: Apache-2.0
"""Filters on Hadoop file systems; here, Hadoop's view of the local one."""

import pytest

import scbf
import scbf.spark


@pytest.fixture
def filter():
    made = scbf.Filter(capacity=1000, fpr=0.01)
    made.insert(range(1000))
    made.metadata = "of the orders"
    return made


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("kind", ["counters", "bits"])
def test_a_filter_comes_back_as_it_was(spark, tmp_path, filter, kind, compress):
    saved = filter if kind == "counters" else scbf.BloomFilter.of(filter)
    path = f"file://{tmp_path}/with space.scbf"
    scbf.spark.save(saved, path, compress=compress)
    loaded = scbf.spark.load(path)
    assert type(loaded) is type(saved) and loaded.to_bytes() == saved.to_bytes()
    local = type(saved).load(tmp_path / "with space.scbf")  # a filter file like any other
    assert local.to_bytes() == saved.to_bytes()


def test_a_file_is_replaced_and_nothing_else_is_left(spark, tmp_path, filter):
    path = str(tmp_path / "a.scbf")
    scbf.spark.save(scbf.Filter(capacity=10, fpr=0.01), path)
    scbf.spark.save(filter, path)
    assert scbf.spark.load(path) == filter
    assert {each.name for each in tmp_path.iterdir()} <= {"a.scbf", ".a.scbf.crc"}


def test_what_the_file_system_refuses_is_an_error_of_the_package(spark, tmp_path, filter):
    with pytest.raises(scbf.IoError, match="nothing.scbf: .*does not exist"):
        scbf.spark.load(f"{tmp_path}/nothing.scbf")
    with pytest.raises(scbf.IoError, match="No FileSystem for scheme"):
        scbf.spark.save(filter, "unknown://host/a.scbf")
    (tmp_path / "text").write_text("no filter")
    with pytest.raises(scbf.CorruptFile):
        scbf.spark.load(str(tmp_path / "text"))
    published = scbf.BloomFilter.of(filter)
    published.advance(filter)
    filter.insert(-1)
    published.advance(filter).save(tmp_path / "a.delta")
    with pytest.raises(scbf.InvalidArgument, match="delta"):
        scbf.spark.load(str(tmp_path / "a.delta"))


def test_a_failed_replacement_leaves_the_old_file(spark, tmp_path, filter, monkeypatch):
    path = str(tmp_path / "a.scbf")
    scbf.spark.save(filter, path)

    def fails(*_):
        raise RuntimeError("the name node is gone")

    monkeypatch.setattr(scbf.spark.files, "_rename_over", fails)
    with pytest.raises(scbf.IoError, match="name node is gone"):
        scbf.spark.save(scbf.Filter(capacity=10, fpr=0.01), path)
    assert scbf.spark.load(path) == filter
    assert {each.name for each in tmp_path.iterdir()} <= {"a.scbf", ".a.scbf.crc"}
