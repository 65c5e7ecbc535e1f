# SPDX-License-Identifier: Apache-2.0
"""Filters on Hadoop file systems; here, Hadoop's view of the local one."""

import datetime
import decimal
import errno
import tempfile
import threading
import uuid
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import scbf
import scbf.spark
from scbf.spark import lookup


@pytest.fixture
def filter():
    made = scbf.Filter(capacity=1000, fpr=0.01)
    made.insert(range(1000))
    made.metadata = "of the orders"
    return made


@pytest.fixture
def elsewhere(spark, tmp_path):
    """A folder of a file system that is not the driver's own, to Hadoop: its files lie in ``tmp_path``."""
    host = f"host-{uuid.uuid4().hex}"  # Hadoop keeps what it knows of a host
    spark.conf.set(f"fs.viewfs.mounttable.{host}.link./files", f"file://{tmp_path}")
    yield f"viewfs://{host}/files"
    spark.conf.unset(f"fs.viewfs.mounttable.{host}.link./files")


@pytest.fixture
def unknown_to_contexts(spark, tmp_path):
    """The same, of a scheme for which Hadoop has a FileSystem, and no AbstractFileSystem, as for many object stores."""
    scheme, host = "scbftest", f"host-{uuid.uuid4().hex}"
    settings = {f"fs.{scheme}.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
                f"fs.viewfs.mounttable.{host}.link./files": f"file://{tmp_path}"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield f"{scheme}://{host}/files"
    for name in settings:
        spark.conf.unset(name)


@pytest.fixture(params=["file", "elsewhere", "unknown_to_contexts"])
def folder(request, tmp_path):
    return f"file://{tmp_path}" if request.param == "file" else request.getfixturevalue(request.param)


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("kind", ["counters", "bits"])
def test_a_filter_comes_back_as_it_was(spark, tmp_path, folder, filter, kind, compress):
    saved = filter if kind == "counters" else scbf.BloomFilter.of(filter)
    path = f"{folder}/with space.scbf"
    scbf.spark.save(saved, path, compress=compress)
    loaded = scbf.spark.load(path)
    assert type(loaded) is type(saved) and loaded.to_bytes() == saved.to_bytes()
    local = type(saved).load(tmp_path / "with space.scbf")  # a filter file like any other
    assert local.to_bytes() == saved.to_bytes()


@pytest.mark.parametrize("compress", [True, False])
def test_a_bank_comes_back_with_its_groups(spark, folder, tmp_path, compress):
    rows = spark.range(300).select(F.expr("nullif(id % 4, 3)").alias("g"), "id")
    made = scbf.spark.bank(rows, "id", "g", capacity=100)
    alone = made.filter(2).to_bytes()
    path = f"{folder}/groups.bank"
    scbf.spark.save(made, path, compress=compress)
    loaded = scbf.spark.load_bank(path)
    assert isinstance(loaded, scbf.spark.GroupBank)
    assert loaded.groups == made.groups and set(made.groups) == {0, 1, 2, None}
    assert loaded.bank.to_bytes() == made.bank.to_bytes()
    assert loaded.find(range(300)) == made.find(range(300))
    assert loaded.filter(2).to_bytes() == made.filter(2).to_bytes() == alone  # without the label
    assert loaded.bank.member_metadata(made.groups.index(2)) == '{"group": 2, "type": "int"}'
    assert scbf.Bank.load(tmp_path / "groups.bank").to_bytes() == made.bank.to_bytes()
    scbf.spark.save(loaded, path)  # again
    scbf.spark.save(loaded.bits(), path)
    bits = scbf.spark.load_bank(path)
    assert isinstance(bits.bank, scbf.BloomBank) and bits.groups == made.groups
    assert bits.find(range(300)) == made.find(range(300))
    assert bits.filter(2) == scbf.BloomFilter.of(made.filter(2))


GROUPS = [None, True, False, 7, -2**63, "µ", "", b"\0\xff", decimal.Decimal("1.50"), datetime.date(2020, 2, 29)]


def test_groups_of_every_type_are_noted(spark, folder):
    bank = scbf.Bank(capacity=10, fpr=0.01)
    for _ in GROUPS:
        bank.add_member()
    scbf.spark.save(scbf.spark.GroupBank(list(GROUPS), bank), f"{folder}/b")
    loaded = scbf.spark.load_bank(f"{folder}/b")
    assert list(map(repr, loaded.groups)) == list(map(repr, GROUPS))
    empty = scbf.spark.GroupBank([], scbf.Bank(capacity=10, fpr=0.01))
    scbf.spark.save(empty, f"{folder}/b")
    assert scbf.spark.load_bank(f"{folder}/b").groups == []


def test_a_bank_without_groups(spark, folder, filter):
    bank = scbf.Bank(growth=filter.growth)
    bank.add_member(filter)
    bank.metadata = "mine"
    scbf.spark.save(bank, f"{folder}/b")
    loaded = scbf.spark.load_bank(f"{folder}/b")
    assert isinstance(loaded, scbf.Bank) and loaded.to_bytes() == bank.to_bytes()
    bits = scbf.BloomBank.of(bank)
    scbf.spark.save(bits, f"{folder}/r")
    read = scbf.spark.load_bank(f"{folder}/r")
    assert isinstance(read, scbf.BloomBank) and read.to_bytes() == bits.to_bytes()
    for name in ("b", "r"):
        with pytest.raises(scbf.InvalidArgument, match=f"{name}: is a bank, not a filter: load it by load_bank"):
            scbf.spark.load(f"{folder}/{name}")
    scbf.spark.save(filter, f"{folder}/f")
    with pytest.raises(scbf.InvalidArgument, match="f: is a filter, not a bank: load it by load"):
        scbf.spark.load_bank(f"{folder}/f")
    with pytest.raises(scbf.InvalidArgument, match="name no groups"):
        scbf.spark.GroupBank.of(bank)


def test_groups_that_cannot_be_saved(spark, tmp_path):
    def of(*groups):
        bank = scbf.Bank(capacity=10, fpr=0.01)
        for _ in groups:
            bank.add_member()
        return scbf.spark.GroupBank(list(groups), bank)

    changed = of("a", "b")
    changed.bank.remove_member(0)
    noted = of("a")
    noted.bank.metadata = "mine"
    for wrong, why in ((changed, "has the members \\[1\\]: its 2 groups are members 0 to 1"),
                       (noted, "'mine': must be empty"), (of(1.5), "group 1.5: groups of type float"),
                       (of("b", "x" * 2**20), "member 1 takes .* at most 1048576")):
        with pytest.raises(scbf.InvalidArgument, match=why):
            scbf.spark.save(wrong, tmp_path / "b")
    assert not (tmp_path / "b").exists()
    described = of("a", 1.5)
    described.bank.set_member_metadata(0, "mine")
    for wrong, why in ((described, "group 1.5"),
                       (scbf.spark.GroupBank(["a", "b"], described.bank), "member 0 .* 'mine'")):
        with pytest.raises(scbf.InvalidArgument, match=why):
            wrong.labelled()
    assert described.bank.metadata == described.bank.member_metadata(1) == ""  # nothing is noted


def test_labels_that_are_wrong():
    def labelled(*labels):
        bank = scbf.Bank(capacity=10, fpr=0.01)
        bank.metadata = '{"scbf.spark": "groups"}'
        for label in labels:
            bank.set_member_metadata(bank.add_member(), label)
        return bank

    good = '{"group": "a", "type": "string"}'
    assert scbf.spark.GroupBank.of(labelled(good)).groups == ["a"]
    for label in ("", "a", "{}", '{"group": "x", "type": "colour"}', '{"group": true, "type": "int"}',
                  '{"group": 1.5, "type": "int"}', '{"group": [1], "type": "boolean"}', '{"group": {}, "type": "null"}',
                  '{"group": "1-1", "type": "date"}', '{"group": "x", "type": "decimal"}', "[" * 100_000, "[]", "5"):
        with pytest.raises(scbf.InvalidArgument, match="name no group"):
            scbf.spark.GroupBank.of(labelled(good, label))
    with pytest.raises(scbf.InvalidArgument, match="the same group"):
        scbf.spark.GroupBank.of(labelled(good, good))
    holes = labelled(*(f'{{"group": {i}, "type": "int"}}' for i in range(3)))
    holes.remove_member(0)
    with pytest.raises(scbf.InvalidArgument, match="some were removed"):
        scbf.spark.GroupBank.of(holes)


def test_a_file_is_replaced_and_nothing_else_is_left(spark, tmp_path, folder, filter):
    path = f"{folder}/a.scbf"
    scbf.spark.save(scbf.Filter(capacity=10, fpr=0.01), path)
    scbf.spark.save(filter, path)
    assert scbf.spark.load(path) == filter
    assert {each.name for each in tmp_path.iterdir()} <= {"a.scbf", ".a.scbf.crc"}


def test_a_file_is_there_all_the_time_that_it_is_replaced(spark, tmp_path, filter):
    path = tmp_path / "a.scbf"
    scbf.spark.save(filter, path)
    done = threading.Event()
    missing = []

    def look():
        while not done.is_set():
            if not path.exists():
                missing.append(path)

    looks = threading.Thread(target=look)
    looks.start()
    for _ in range(50):
        scbf.spark.save(filter, path)
    done.set()
    looks.join()
    assert not missing


def test_checksums_of_an_old_file_do_not_stay(spark, tmp_path, filter):
    path = tmp_path / "a.scbf"
    scbf.Filter(capacity=10, fpr=0.01).save(tmp_path / "old")
    hadoop = spark.sparkContext._jvm.org.apache.hadoop.fs
    target = hadoop.Path(str(path))
    system = target.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    system.copyFromLocalFile(hadoop.Path(str(tmp_path / "old")), target)
    assert (tmp_path / ".a.scbf.crc").exists()
    scbf.spark.save(filter, path)
    (read,) = spark.read.format("binaryFile").load(str(path)).collect()
    assert read.content == path.read_bytes() and scbf.spark.load(path) == filter


def test_names_with_colons_folders_that_are_missing_and_objects_of_pathlib(spark, tmp_path, filter):
    for path in (f"file://{tmp_path}/10:30.scbf", tmp_path / "new" / "folder" / "a:b c%20#.scbf"):
        scbf.spark.save(filter, path)
        assert scbf.spark.load(path) == filter
    assert (tmp_path / "10:30.scbf").exists() and (tmp_path / "new/folder/a:b c%20#.scbf").exists()


def test_a_folder_for_temporary_files_with_any_name(spark, tmp_path, elsewhere, filter, monkeypatch):
    scratch = tmp_path / "a b%41#ü"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    scbf.spark.save(filter, f"{elsewhere}/a.scbf")
    assert scbf.spark.load(f"{elsewhere}/a.scbf") == filter
    assert not list(scratch.iterdir())
    monkeypatch.setattr(lookup, "_folder", lambda: scratch)
    frame = spark.range(5000)
    asked = frame.filter(scbf.spark.contains(frame, "id", filter))
    assert asked.count() == filter.contains(range(5000)).sum()


def test_in_a_thread_the_default_session_is_taken(spark, tmp_path, filter):
    done = []

    def work():
        scbf.spark.save(filter, tmp_path / "a.scbf")
        done.append(scbf.spark.load(tmp_path / "a.scbf") == filter)
        done.append(scbf.spark.share(filter).nbytes > 0)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True, True]


def test_a_session_that_was_stopped(spark, tmp_path, filter, monkeypatch):
    frame = spark.range(5)
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)  # what stop() leaves
    for call in (lambda: scbf.spark.save(filter, tmp_path / "a", spark=spark), lambda: scbf.spark.load(tmp_path / "a"),
                 lambda: scbf.spark.share(filter, spark=spark), lambda: scbf.spark.contains(frame, "id", filter),
                 lambda: scbf.spark.build(frame, "id"), lambda: scbf.spark.semi_join(frame, frame, on="id")):
        with pytest.raises(scbf.InvalidArgument, match="session was stopped: make a new one"):
            call()


def test_arguments_that_are_no_filters_and_no_paths(spark, tmp_path, filter):
    for wrong in (None, {1, 2}, scbf.Geometry.split(3, 100)):
        with pytest.raises(scbf.InvalidArgument, match=f"type {type(wrong).__name__}: must be a Filter, a Bloom"):
            scbf.spark.save(wrong, tmp_path / "a.scbf")
    for wrong in (None, "", 5, b"a.scbf"):
        with pytest.raises(scbf.InvalidArgument, match="must be a string that is not empty"):
            scbf.spark.load(wrong)
    with pytest.raises(scbf.InvalidArgument, match="give a string"):
        scbf.spark.load(Path("hdfs://host/a.scbf"))
    with pytest.raises(scbf.InvalidArgument, match="spark 5: must be a SparkSession"):
        scbf.spark.load(tmp_path / "a.scbf", spark=5)


def test_the_kind_that_must_be_in_a_file(spark, folder, filter):
    bits = scbf.BloomFilter.of(filter)
    for saved, other, says in ((filter, scbf.BloomFilter, r"has counters: load it as a Filter, and take BloomFilter.of\(\)"),
                               (bits, scbf.Filter, "has only bits: load it as a BloomFilter")):
        path = f"{folder}/a.scbf"
        scbf.spark.save(saved, path)
        assert scbf.spark.load(path, kind=type(saved)) == saved == scbf.spark.load(path)
        with pytest.raises(scbf.InvalidArgument, match=f"^{path}: {says}"):
            scbf.spark.load(path, kind=other)
    for wrong in (scbf.Bank, "bits"):
        with pytest.raises(scbf.InvalidArgument, match="must be scbf.Filter or scbf.BloomFilter"):
            scbf.spark.load(path, kind=wrong)


def test_what_the_file_system_refuses_is_an_error_of_the_package(spark, tmp_path, folder, filter):
    with pytest.raises(scbf.errors.FileNotFound, match=f"{folder}/nothing.scbf") as caught:
        scbf.spark.load(f"{folder}/nothing.scbf")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, f"{folder}/nothing.scbf")
    with pytest.raises(scbf.IoError, match="No FileSystem for scheme"):
        scbf.spark.save(filter, "unknown://host/a.scbf")
    (tmp_path / "text").write_text("no filter")
    with pytest.raises(scbf.CorruptFile, match=f"^'{folder}/text': not a filter file"):
        scbf.spark.load(f"{folder}/text")
    (tmp_path / "of one").mkdir()
    filter.save(tmp_path / "of one" / "of one")
    with pytest.raises(scbf.IoError, match="of one"):
        scbf.spark.save(filter, f"{folder}/of one")
    with pytest.raises(IsADirectoryError, match=f"{folder}/of one") as caught:
        scbf.spark.load(f"{folder}/of one")
    assert isinstance(caught.value, scbf.IoError) and caught.value.filename == f"{folder}/of one"
    assert {each.name for each in tmp_path.iterdir()} == {"text", "of one"}
    published = scbf.BloomFilter.of(filter)
    published.advance(filter)
    filter.insert(-1)
    published.advance(filter).save(tmp_path / "a.delta")
    with pytest.raises(scbf.InvalidArgument, match=f"{folder}/a.delta: is a delta"):
        scbf.spark.load(f"{folder}/a.delta")


class Renames:
    """A file system with other calls in place of some of its own."""

    def __init__(self, system, rename, delete=None):
        self._system, self.rename, self.delete = system, rename, delete or system.delete

    def __getattr__(self, name):
        return getattr(self._system, name)


def test_a_rename_that_is_refused_without_a_reason_is_an_error(spark, unknown_to_contexts, filter, tmp_path):
    path = f"{unknown_to_contexts}/a.scbf"
    filter.save(tmp_path / "here")
    system, target = scbf.spark.files._resolved(spark, path)
    with pytest.raises(scbf.IoError, match=f"^{path}: .*could not be renamed"):
        scbf.spark.files._upload(spark, Renames(system, lambda *_: False), tmp_path / "here", target, path)
    assert [each.name for each in tmp_path.iterdir() if each.suffix != ".crc"] == ["here"]


@pytest.mark.parametrize("throws", [False, True])
def test_a_rename_that_fails_once_the_old_file_is_gone_leaves_the_new_one(spark, unknown_to_contexts, filter, tmp_path,
                                                                          throws):
    path = f"{unknown_to_contexts}/a.scbf"
    scbf.spark.save(scbf.Filter(capacity=10, fpr=0.01), path)
    filter.save(tmp_path / "here")
    system, target = scbf.spark.files._resolved(spark, path)

    def rename(*_):
        if throws:
            raise RuntimeError("the store is busy")
        return False

    with pytest.raises(scbf.IoError, match=f"^{path}: .*: the old file is gone; the complete new one is ") as caught:
        scbf.spark.files._upload(spark, Renames(system, rename), tmp_path / "here", target, path)
    assert ("store is busy" in str(caught.value)) == throws
    (left,) = tmp_path.glob(".scbf-*.tmp")
    assert f"{unknown_to_contexts}/{left.name}: rename it, or save again" in str(caught.value)
    assert scbf.Filter.load(left) == filter and not (tmp_path / "a.scbf").exists()


def test_an_old_file_that_cannot_be_deleted_stays(spark, unknown_to_contexts, filter, tmp_path):
    path = f"{unknown_to_contexts}/a.scbf"
    scbf.spark.save(filter, path)
    scbf.Filter(capacity=10, fpr=0.01).save(tmp_path / "here")
    system, target = scbf.spark.files._resolved(spark, path)

    def rename(*_):
        raise AssertionError("after a deletion that failed")

    def delete(path, recursive):
        if path.getName() == "a.scbf":
            raise RuntimeError("the store is busy")
        return system.delete(path, recursive)

    with pytest.raises(scbf.IoError, match=f"^{path}: the store is busy$"):
        scbf.spark.files._upload(spark, Renames(system, rename, delete), tmp_path / "here", target, path)
    assert scbf.spark.load(path) == filter
    assert not list(tmp_path.glob(".scbf-*.tmp"))


def test_a_failed_replacement_leaves_the_old_file(spark, tmp_path, elsewhere, filter, monkeypatch):
    path = f"{elsewhere}/a.scbf"
    scbf.spark.save(filter, path)

    def fails(*_):
        raise RuntimeError("the name node is gone")

    monkeypatch.setattr(scbf.spark.files, "_rename_over", fails)
    with pytest.raises(scbf.IoError, match="name node is gone"):
        scbf.spark.save(scbf.Filter(capacity=10, fpr=0.01), path)
    assert scbf.spark.load(path) == filter
    assert {each.name for each in tmp_path.iterdir()} <= {"a.scbf", ".a.scbf.crc"}
