# SPDX-License-Identifier: Apache-2.0
"""Files: written, loaded, mapped, verified, damaged, and exchanged with other programs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scbf
from support import COMMAND, GEOMETRY, GOLDEN, PACKAGE, filled

FILTERS = {
    "split_block_g1.scbf": scbf.Geometry.split_block(1, 13),
    "split_block_g2.scbf": scbf.Geometry.split_block(2, 8),
    "split_k7.scbf": scbf.Geometry.split(7, 150),
}
SEED = 0xFEDC_BA98_7654_3210
golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden files in {GOLDEN}")


# ---- files of this package ----------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("kind", [scbf.Filter, scbf.BloomFilter])
@pytest.mark.parametrize("growth", [scbf.Growth.one(scbf.Geometry.split(5, 5000)), scbf.Growth.tightening(100, 0.01)])
def test_save_and_load(tmp_path: Path, kind: Any, compress: bool, growth: scbf.Growth) -> None:
    some = kind(growth=growth, seed=9)
    some.insert(range(1000))
    some.metadata = "µ"
    path = tmp_path / "some.scbf"
    some.save(path, compress=compress)
    assert path.read_bytes() == some.to_bytes(compress=compress)
    info = scbf.verify_file(path)
    for told in (info, scbf.read_file_info(path)):
        assert told.kind == ("counters" if kind is scbf.Filter else "bits")
        assert (told.seed, told.metadata, told.keys_inserted, told.keys_removed) == (9, "µ", 1000, 0)
        assert (told.growth, told.stages, told.geometry) == (some.growth, some.stages, some.geometry)
        assert told.file_bytes == path.stat().st_size and told.compressed is compress
    ways = [
        kind.load(path),
        kind.load(str(path)),
        kind.load(os.fsencode(path)),
        kind.from_bytes(path.read_bytes()),
        kind.from_bytes(bytearray(path.read_bytes())),
        kind.from_bytes(memoryview(path.read_bytes())),
        kind.from_bytes(np.fromfile(path, np.uint8)),
        kind.load(path, backend="scalar"),
    ]
    for same in ways:
        assert same == some and same.metadata == "µ" and len(same) == 1000 and not same.read_only
        same.insert("more")
    assert sorted(os.listdir(tmp_path)) == ["some.scbf"]


@pytest.mark.parametrize("growth", [scbf.Growth.one(scbf.Geometry.split(5, 5000)), scbf.Growth.tightening(100, 0.01)])
def test_map(tmp_path: Path, growth: scbf.Growth) -> None:
    some = scbf.Filter(growth=growth)
    some.insert(range(1000))
    path = tmp_path / "some.scbf"
    some.save(path)
    mapped = scbf.Filter.map(path)
    assert mapped.read_only and mapped == some and mapped.contains(range(1000)).all() and mapped.count(5) >= 1
    for change in (
        lambda: mapped.insert(1),
        lambda: mapped.insert([1]),
        lambda: mapped.insert(iter([1])),
        lambda: mapped.insert(np.arange(10**6)),
        lambda: mapped.remove(1),
        lambda: mapped.remove([1]),
        lambda: mapped.remove([1], most_absent=1),
        lambda: mapped.merge(some),
        lambda: mapped.subtract(some),
        lambda: mapped.clear(),
    ):
        with pytest.raises(scbf.ReadOnly, match="copy it, or load the file, to change it"):
            change()
    assert issubclass(scbf.ReadOnly, PermissionError)
    assert not mapped.copy().read_only and (mapped | some).contains(range(1000)).all()
    os.unlink(path)
    assert mapped == some
    mapped.close()
    with pytest.raises(scbf.InvalidArgument):
        mapped.contains([1])
    some.save(path, compress=True)
    with pytest.raises(scbf.IoError, match="the payload is compressed; load it"):
        scbf.Filter.map(path)


def test_close() -> None:
    with filled([1]) as some:
        assert 1 in some
    for call in (
        lambda: some.contains([1]),
        lambda: some.contains(1),
        lambda: 1 in some,
        lambda: some.insert([1]),
        lambda: some.insert(iter([1])),
        lambda: some.remove([1]),
        lambda: some.count([1]),
        lambda: some.copy(),
        lambda: some | some,
        lambda: filled([1]).merge(some),
        lambda: some.clear(),
        lambda: some.to_bytes(),
        lambda: some.geometry,
        lambda: len(some),
        lambda: some.statistics(),
        lambda: memoryview(some),
        lambda: scbf.BloomFilter.of(some),
        lambda: scbf.Bank(1000, 0.01).add_member(some),
    ):
        with pytest.raises(scbf.InvalidArgument):
            call()
    some.close()  # again
    assert "closed" in repr(some)
    with pytest.raises(RuntimeError, match="as it was"), filled([1]):
        raise RuntimeError("as it was")


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "some.scbf"
    filled([1]).save(path)
    mapped = scbf.Filter.map(path)
    filled([2]).save(path)
    assert mapped == filled([1]) and scbf.Filter.load(path) == filled([2])


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.scbf"
    filled([1]).save(name)
    assert scbf.Filter.load(name) == scbf.Filter.load(os.fsdecode(name)) == filled([1])
    with pytest.raises(scbf.IoError, match=r"\\xfe"):
        scbf.Filter.load(os.fsencode(tmp_path) + b"/\xfe")


# ---- what goes wrong ----------------------------------------------------------------------------

READ: list[Any] = [
    scbf.Filter.load,
    scbf.Filter.map,
    scbf.BloomFilter.load,
    scbf.BloomFilter.map,
    scbf.Delta.load,
    scbf.read_file_info,
    scbf.verify_file,
]


@pytest.mark.parametrize("read", READ, ids=lambda read: read.__qualname__)
def test_paths(tmp_path: Path, read: Any) -> None:
    with pytest.raises(scbf.IoError, match="nothing.scbf': cannot open: No such file or directory") as raised:
        read(tmp_path / "nothing.scbf")
    assert isinstance(raised.value, OSError)
    with pytest.raises(scbf.IoError, match="Is a directory"):
        read(tmp_path)
    with pytest.raises(scbf.CorruptFile):
        (tmp_path / "empty").touch()
        read(tmp_path / "empty")
    with pytest.raises(scbf.CorruptFile, match="text.txt': not a filter file"):
        (tmp_path / "text.txt").write_text("This is no filter. " * 1000)
        read(tmp_path / "text.txt")
    for wrong in (None, 5, "a\0b", object()):
        with pytest.raises(TypeError):
            read(wrong)


def test_errors_have_a_number_and_a_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        scbf.Filter.load(tmp_path / "nothing")
    assert raised.value.errno == 2 and raised.value.filename == str(tmp_path / "nothing")


def test_writing_where_that_is_impossible(tmp_path: Path) -> None:
    some = filled([1])
    with pytest.raises(scbf.IoError, match="No such file or directory"):
        some.save(tmp_path / "no" / "such" / "folder.scbf")
    with pytest.raises(scbf.IoError):
        some.save(tmp_path)
    assert os.listdir(tmp_path) == []
    if Path("/dev/full").exists():
        with pytest.raises(scbf.IoError):
            some.save("/dev/full/x")


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("kind", [scbf.Filter, scbf.BloomFilter])
def test_damage_is_found(tmp_path: Path, kind: Any, compress: bool) -> None:
    some = kind(growth=scbf.Growth.tightening(100, 0.01))
    some.insert(range(300))
    good = some.to_bytes(compress=compress)
    path = tmp_path / "some.scbf"
    random = np.random.default_rng(7)
    sizes = (0, 1, 127, 128, 4095, 4096, len(good) // 2, len(good) - 1)
    damaged = [good[:size] for size in sizes if size < len(good)]
    for at in [0, 8, 12, 16, 24, 36, 48, 56, 80, 104, 120, 130, *random.integers(0, len(good), 60)]:
        damaged.append(good[:at] + bytes([good[at] ^ (1 << int(random.integers(8)))]) + good[at + 1 :])
    for one in damaged:
        with pytest.raises(scbf.CorruptFile, match="stream"):
            kind.from_bytes(one)
        path.write_bytes(one)
        with pytest.raises(scbf.CorruptFile, match="some.scbf'"):
            kind.load(path)
        with pytest.raises(scbf.CorruptFile):
            scbf.verify_file(path)
        try:
            kind.map(path).contains(range(100))  # verifies the headers only
        except (scbf.CorruptFile, scbf.IoError):
            pass


def test_bytes_after_the_end_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "some.scbf"
    path.write_bytes(filled([1]).to_bytes() + b"more")
    for read in (scbf.Filter.load, scbf.Filter.map, scbf.verify_file, scbf.read_file_info):
        with pytest.raises(scbf.CorruptFile):
            read(path)


def test_bytes_after_the_end_of_a_message() -> None:
    with pytest.raises(scbf.CorruptFile):
        scbf.Filter.from_bytes(filled([1]).to_bytes() + b"more")


def test_counters_and_bits_are_not_the_same(tmp_path: Path) -> None:
    counters, bits = tmp_path / "counters", tmp_path / "bits"
    filled([1]).save(counters)
    scbf.BloomFilter.of(filled([1])).save(bits)
    with pytest.raises(scbf.Incompatible, match="a filter of bits, without counters"):
        scbf.Filter.load(bits)
    with pytest.raises(scbf.Incompatible):
        scbf.Filter.map(bits)
    assert scbf.BloomFilter.load(counters) == scbf.BloomFilter.load(bits) == scbf.BloomFilter.map(counters)
    for wrong in ("text", None, 5, np.arange(10)[::2]):
        with pytest.raises((TypeError, ValueError, BufferError)):
            scbf.Filter.from_bytes(wrong)


def test_metadata_that_are_not_utf8(tmp_path: Path) -> None:
    xxhash = pytest.importorskip("xxhash")
    some = scbf.Filter(1000, 0.01)
    some.metadata = "ab"
    raw = bytearray(some.to_bytes())
    end, chunks = (int.from_bytes(raw[at : at + 8], "little") for at in (80, 104))
    raw[128 + 8 * chunks : 130 + 8 * chunks] = b"\xff\xfe"
    raw[120:128] = bytes(8)
    raw[120:128] = xxhash.xxh3_64_intdigest(bytes(raw[:end])).to_bytes(8, "little")
    other = scbf.Filter.from_bytes(raw)
    assert other.metadata == "\udcff\udcfe"
    other.metadata = other.metadata
    assert other.to_bytes() == raw
    (tmp_path / "x").write_bytes(raw)
    assert scbf.read_file_info(tmp_path / "x").metadata == "\udcff\udcfe"


def test_repr_of_file_info(tmp_path: Path) -> None:
    filled([1]).save(tmp_path / "x")
    assert repr(scbf.read_file_info(tmp_path / "x")).startswith("<scbf.FileInfo: counters, 1 stage, ")


# ---- golden files -------------------------------------------------------------------------------


def numbers() -> list[int]:
    return [i**3 for i in range(40)] + [2**32, 2**63, 2**64 - 1]


def texts() -> list[str]:
    lengths = (0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1500)
    return ["a" * length for length in lengths] + ["a\0b", "Schlüssel"]


def build(name: str) -> scbf.Filter:
    """As tests/files/golden_test.cpp does."""
    made = scbf.Filter(geometry=FILTERS[name], seed=SEED)
    made.insert(numbers())
    made.insert(texts())
    made.insert(["saturated"] * 17)
    made.insert(["thrice"] * 3)
    made.remove(["thrice", "a"])
    made.metadata = f'{{"name": "{name}", "sign": "✓"}}'
    return made


def build_stages() -> scbf.Filter:
    made = scbf.Filter(growth=scbf.Growth.tightening(20, 0.05), seed=SEED)
    made.insert([i**3 for i in range(90)])
    made.insert(["saturated"] * 17)
    made.remove(5**3)
    made.metadata = '{"sign": "✓"}'
    return made


@golden
@pytest.mark.parametrize("name", [*FILTERS, "scalable.scbf"])
def test_python_writes_the_bytes_of_the_golden_files(name: str) -> None:
    made = build_stages() if name == "scalable.scbf" else build(name)
    assert made.to_bytes() == (GOLDEN / name).read_bytes()
    assert scbf.Filter.load(GOLDEN / name) == scbf.Filter.map(GOLDEN / name) == made
    bits = GOLDEN / name.replace(".scbf", "_bits.scbf")
    if bits.exists():
        assert scbf.BloomFilter.of(made).to_bytes() == bits.read_bytes()


@golden
def test_all_golden_files() -> None:
    files = sorted(GOLDEN.glob("*.scbf")) + sorted(GOLDEN.glob("*.delta"))
    assert len(files) > 10
    for path in files:
        info = scbf.verify_file(path)
        if isinstance(info, scbf.BankFileInfo):
            bank = (scbf.Bank if info.kind == "bank" else scbf.BloomBank).load(path)
            assert bank.members == list(info.members)
            if not info.compressed:
                assert bank.to_bytes() == path.read_bytes()
        elif info.kind == "delta":
            delta = scbf.Delta.load(path)
            reader = scbf.BloomFilter.load(path.with_name(path.stem + "_epoch.scbf"))
            assert reader.epoch == delta.since
            reader.apply(delta)
            assert reader.epoch == delta.epoch
        else:
            kind = scbf.Filter if info.kind == "counters" else scbf.BloomFilter
            some = kind.load(path)
            assert some.geometry == info.geometry and len(some) == info.keys_inserted - info.keys_removed
            if not info.compressed:
                assert some.to_bytes() == path.read_bytes()


@golden
def test_a_reader_that_shares_no_code_gives_the_same_counts(tmp_path: Path) -> None:
    pytest.importorskip("xxhash")
    some = build("split_k7.scbf")
    some.save(tmp_path / "some.scbf")
    keys = numbers() + [5, 6] + texts() + ["saturated", "thrice", "other"]
    lines = [f"u64 {key}" if isinstance(key, int) else f"hex {key.encode().hex()}" for key in keys]
    done = subprocess.run(
        [sys.executable, GOLDEN / "read_filter.py", tmp_path / "some.scbf", "count"],
        input="\n".join(lines) + "\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    counts = [int(line) for line in done.stdout.split()[-len(keys) :]]
    assert counts == [some.count(key) for key in keys]


def test_bytes_of_several_pieces() -> None:
    some = scbf.Filter(geometry=scbf.Geometry.split_block(1, 300_000), seed=42)  # 19 MB
    some.insert(range(1000))
    for compress in (False, True):
        data = some.to_bytes(compress=compress)
        assert scbf.Filter.from_bytes(data) == some
        assert (len(data) > 19_000_000) == (not compress)


def test_bytes_take_their_memory_once() -> None:
    some = scbf.Filter(geometry=scbf.Geometry.split_block(1, 1_500_000), seed=42)  # 96 MB
    some.insert([1])

    def status(field: str) -> int:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
        return 1024 * int(line.split()[1])

    for _ in range(3):  # memory that malloc keeps would show from the second time on
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            pytest.skip("this system does not reset the peak of the resident set")
        before = status("VmRSS")
        size = len(some.to_bytes())
        assert status("VmHWM") - before < 1.3 * size


# ---- the command --------------------------------------------------------------------------------

command = pytest.mark.skipif(not COMMAND, reason="SCBF_COMMAND does not name the scbf command")


def scbf_command(*arguments: Any, input: str = "") -> str:
    assert COMMAND is not None
    done = subprocess.run([COMMAND, *map(str, arguments)], input=input, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_package_is_the_command() -> None:
    """`python -m scbf`, and the script of the same name."""
    if not (PACKAGE / "scbf" / "bin" / "scbf").exists():
        pytest.skip("the command was not built beside the package")
    entry = "from scbf._command import main; main()"
    for how in (["-m", "scbf"], ["-c", entry]):
        def ask(*arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:
            return subprocess.run([sys.executable, "-P", *how, *arguments], input=input, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        assert scbf.__version__ in ask("--version").stdout
        assert ask("plan", "--capacity", "1000", "--fpr", "1%").returncode == 0
        wrong = ask("plan", "--capacity", "x")
        assert wrong.returncode == 2 and wrong.stderr.startswith("scbf: --capacity 'x'")
        assert ask("query", "-", "nowhere").returncode == 3


@command
def test_the_command_reads_what_python_wrote(tmp_path: Path) -> None:
    some = scbf.Filter(1000, 0.0001)
    some.insert(["apple", "apple", "Schlüssel"])
    path = tmp_path / "words.scbf"
    some.save(path)
    words = "apple\ndurian\nSchlüssel\n"
    assert scbf_command("query", path, input=words) == "apple\nSchlüssel\n"
    assert scbf_command("count", path, input=words) == "apple\t2\ndurian\t0\nSchlüssel\t1\n"
    scbf_command("verify", path)
    some.save(path, compress=True)
    assert scbf_command("query", "--load", path, input=words) == "apple\nSchlüssel\n"
    numbers = scbf.Filter(1000, 0.0001)
    numbers.insert([5, -1])
    numbers.save(path)
    answer = scbf_command("query", "--keys", "decimal", path, input="5\n6\n18446744073709551615\n")
    assert answer == "5\n18446744073709551615\n"


@command
def test_banks_of_python_and_of_the_command(tmp_path: Path) -> None:
    bank = scbf.Bank(1000, 1e-6)
    for keys, metadata in ((["apple"], '{"group": "shop 7", "type": "string"}'),
                           (["pear"], '{"group": 8, "type": "int"}'), (["apple", "plum"], "free text"), ([5], "")):
        bank.set_member_metadata(bank.add_member(), metadata)
        bank.insert(bank.members[-1], keys)
    path = tmp_path / "b.bank"
    bank.save(path)
    found = scbf_command("find", path, input="apple\npear\nnothing\nplum\n")
    assert found == "shop 7\tapple\n2\tapple\n8\tpear\n2\tplum\n"
    assert scbf_command("find", path, "--keys", "decimal", "--force", input="5\n") == "3\t5\n"
    (tmp_path / "words").write_text("apple\nplum\n")
    (tmp_path / "more").write_text("pear\n")
    scbf_command("bank", "--fpr", "1e-6", "-o", path, tmp_path / "words", tmp_path / "more")
    made = scbf.Bank.load(path)
    assert [made.find(key) for key in ("apple", "pear", "cherry")] == [[0], [1], []]
    assert json.loads(made.member_metadata(1))["name"] == str(tmp_path / "more")


@command
def test_metadata_of_strangers(tmp_path: Path) -> None:
    for metadata in ("[" * 500_000, '{"name":' + "[" * 400_000 + "]" * 400_000 + "}", '{"name": [[1]]}',
                     '{"name": {"bytes": [256]}}'):
        bank = scbf.Bank(10, 0.01)
        bank.set_member_metadata(bank.add_member(), metadata)
        bank.metadata = metadata
        bank.insert(0, ["a"])
        bank.save(tmp_path / "b.bank")
        assert scbf_command("find", tmp_path / "b.bank", input="a\n").endswith("\ta\n")
        scbf_command("info", "--json", tmp_path / "b.bank")
        some = scbf.Filter(10, 0.01)
        some.metadata = metadata
        some.save(tmp_path / "x.scbf")
        scbf_command("info", "--json", tmp_path / "x.scbf")
        scbf_command("bank", "--filters", "-o", tmp_path / "c.bank", tmp_path / "x.scbf")


@command
def test_python_reads_what_the_command_wrote(tmp_path: Path) -> None:
    path, bits = tmp_path / "words.scbf", tmp_path / "bits.scbf"
    words = "apple\nbanana\napple\n"
    scbf_command("build", "--capacity", 1000, "--fpr", "0.01%", "--seed", 7, "-o", path, input=words)
    some = scbf.Filter.load(path)
    assert some.contains(["apple", "banana", "cherry"]).tolist() == [True, True, False]
    assert some.count("apple") == 2 and some.seed == 7 and some.metadata
    same = scbf.Filter(geometry=some.geometry, seed=7)
    same.insert(words.split())
    assert same == some == scbf.Filter.map(path)
    scbf_command("project", path, "-o", bits)
    assert scbf.BloomFilter.load(bits) == scbf.BloomFilter.of(some)
    scbf_command("build", "--scalable", "--capacity", 10, "-o", path, input="\n".join(map(str, range(1000))))
    grown = scbf.Filter.load(path)
    assert grown.stages > 1 and grown.contains([str(i) for i in range(1000)]).all()


@command
def test_deltas_of_the_command(tmp_path: Path) -> None:
    counters = filled(range(100))
    published, words, first, second = (tmp_path / name for name in ("published", "words", "1.delta", "2.delta"))
    scbf.BloomFilter.of(counters).save(published)
    counters.save(words)
    scbf_command("delta", published, words, "-o", first)
    counters.insert(["new"])
    counters.save(words)
    scbf_command("delta", published, words, "-o", second)
    replica = scbf.Replica(scbf.Delta.load(first))
    replica.apply(scbf.Delta.load(second))
    assert "new" in replica and replica.snapshot() == scbf.BloomFilter.of(counters)


@command
@pytest.mark.parametrize(
    "metadata, name, left",
    [
        ('{"name": "here", "old": 1}', "here", {"name": "here", "new": 2}),
        ('{"group": 7}', "7", {"group": 7, "new": 2}),
        ("", "0", {"new": 2}),
        ("text", "0", {"new": 2}),
    ],
)
def test_a_member_that_the_command_changes_keeps_its_name(tmp_path: Path, metadata: str, name: str, left: Any) -> None:
    counters = filled(["old"])
    published = scbf.BloomFilter.of(counters)
    published.advance(counters)
    bank = scbf.BloomBank(geometry=GEOMETRY, seed=42)
    bank.add_member(published)
    bank.set_member_metadata(0, metadata)
    bank.save(tmp_path / "r.bank")
    counters.insert("new")
    counters.metadata = '{"name": "there", "group": 1, "new": 2}'
    published.advance(counters).save(tmp_path / "2.delta")
    scbf_command("apply", "--member", name, tmp_path / "r.bank", tmp_path / "2.delta")
    changed = scbf.BloomBank.load(tmp_path / "r.bank")
    assert changed.find("new") == [0] and changed.epoch(0) == published.epoch == 2
    assert json.loads(changed.member_metadata(0)) == left


@command
@pytest.mark.parametrize("growth", [scbf.Growth.one(GEOMETRY), scbf.Growth.tightening(100, 0.01)])
def test_metadata_of_strangers_cannot_control_a_terminal(tmp_path: Path, growth: scbf.Growth) -> None:
    some = scbf.Filter(growth=growth)
    some.metadata = "\x1b]0;title\x07\nkeys   forged"
    some.save(tmp_path / "some")
    bank = scbf.Bank(growth=growth)
    bank.add_member(some)
    bank.metadata = some.metadata
    bank.save(tmp_path / "bank")
    for name, times in (("some", 1), ("bank", 2)):
        said = scbf_command("info", tmp_path / name)
        assert "\x1b" not in said and said.count("title\\x07\\x0akeys   forged") == times
