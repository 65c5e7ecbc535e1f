# SPDX-License-Identifier: Apache-2.0
"""Banks as files, bytes, pickles and copies, and their bits for readers."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scbf
from banks import grown, lists, small
from support import GEOMETRY, GOLDEN, filled


KEYS = [i.to_bytes(8, "little") for i in range(1000)]  # the keys of the integers, and no text


def check_same(bank: scbf.Bank, want: scbf.Bank) -> None:
    assert bank is not want and bank.to_bytes() == want.to_bytes()
    assert (bank.members, bank.seed, bank.growth) == (want.members, want.seed, want.growth)
    assert bank.metadata == want.metadata
    for member in want.members:
        assert bank.copy_member(member) == want.copy_member(member)
        assert bank.member_metadata(member) == want.member_metadata(member)
    assert lists(bank.find(KEYS)) == lists(want.find(KEYS))


@pytest.mark.parametrize("make", [small, grown])
@pytest.mark.parametrize("compress", [False, True])
def test_files_and_bytes(make: Callable[[], scbf.Bank], compress: bool, tmp_path: Path) -> None:
    bank = make()
    bank.save(tmp_path / "b", compress=compress)
    check_same(scbf.Bank.load(tmp_path / "b"), bank)
    data = bank.to_bytes(compress=compress)
    assert data == (tmp_path / "b").read_bytes()
    for buffer in (data, bytearray(data), memoryview(data)):
        check_same(scbf.Bank.from_bytes(buffer, backend="scalar"), bank)
    for info in (scbf.read_file_info(tmp_path / "b"), scbf.verify_file(tmp_path / "b")):
        assert isinstance(info, scbf.BankFileInfo) and info.kind == "bank"
        assert (info.growth, info.seed, info.metadata) == (bank.growth, bank.seed, bank.metadata)
        assert (info.compressed, info.file_bytes) == (compress, len(data)) and info.capacity >= 8
        assert list(info.members) == bank.members
        for number, member in info.members.items():
            assert member.kind == "counters" and member.metadata == bank.member_metadata(number)
            assert member.keys_inserted == bank.copy_member(number).statistics().keys_inserted
        assert repr(info) == f"<scbf.BankFileInfo: 3 members, {len(data)} bytes>"


def test_pickles() -> None:
    for bank in (small(), grown()):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            check_same(pickle.loads(pickle.dumps(bank, protocol)), bank)


def test_copies() -> None:
    for bank in (small(), grown()):
        for other in (bank.copy(), copy.copy(bank), copy.deepcopy(bank), copy.deepcopy([bank])[0]):
            check_same(other, bank)
            assert other == bank and not (other != bank)
            other.insert(0, [b"another key"])
            assert 0 in other.find(b"another key") and 0 not in bank.find(b"another key")
            assert other != bank and other.to_bytes() != bank.to_bytes()
    twice = copy.deepcopy([bank, bank])
    assert twice[0] is twice[1]


def test_equality() -> None:
    bank, other = grown(), grown()
    bits = scbf.BloomBank.of(bank)
    assert bank == bank and bank == other and bits == scbf.BloomBank.of(other) and bits == bits
    other.metadata = "other"
    other.set_member_metadata(0, "other")
    other.reserve(1000)
    other.insert(0, [7])
    other.remove(0, [7])
    assert bank == other and not (bank != other) and scbf.BloomBank.of(other) == bits
    for change in (lambda b: b.ask_always(0), lambda b: b.ask_always(2, False), lambda b: b.insert(0, [10**9]),
                   lambda b: b.remove_member(2), lambda b: b.add_member()):
        other = grown()
        change(other)
        assert bank != other and not (bank == other) and bits != scbf.BloomBank.of(other)
    assert small() != bank and scbf.Bank(geometry=GEOMETRY) != scbf.Bank(geometry=GEOMETRY, seed=1)
    assert bank != bits and bits != bank
    for stranger in (None, 1, "a", object(), [1, 2], bank.copy_member(0)):
        for some in (bank, bits):
            assert some != stranger and not (some == stranger)
    for some in (bank, bits):
        with pytest.raises(TypeError, match="unhashable"):
            hash(some)


def test_copies_of_mapped_banks(tmp_path: Path) -> None:
    bits = scbf.BloomBank.of(grown())
    bits.save(tmp_path / "bits")
    mapped = scbf.BloomBank.map(tmp_path / "bits")
    for other in (mapped.copy(), copy.copy(mapped), copy.deepcopy(mapped)):
        assert not other.read_only and other == mapped == bits and other.to_bytes() == bits.to_bytes()
        other.remove_member(0)
        assert other != mapped and mapped == bits
    data = bytearray((tmp_path / "bits").read_bytes())
    data[-100] ^= 255
    (tmp_path / "damaged").write_bytes(data)
    with pytest.raises(scbf.CorruptFile, match="the bank is damaged, as a mapped file may be"):
        scbf.BloomBank.map(tmp_path / "damaged").copy()


def test_files_of_other_kinds(tmp_path: Path) -> None:
    small().save(tmp_path / "b")
    for kind in (scbf.Filter, scbf.BloomFilter):
        for read in (kind.load, kind.map, lambda path, kind=kind: kind.from_bytes(path.read_bytes())):
            with pytest.raises(scbf.Incompatible, match="a bank of filters, and no filter: load it as a Bank"):
                read(tmp_path / "b")
    filled([1]).save(tmp_path / "f")
    with pytest.raises(scbf.Incompatible, match="a filter, and no bank: load it as a Filter"):
        scbf.Bank.load(tmp_path / "f")
    data = bytearray(small().to_bytes())
    with pytest.raises(scbf.CorruptFile, match="1 bytes after the end"):
        scbf.Bank.from_bytes(data + b"\0")
    with pytest.raises(scbf.CorruptFile, match="truncated"):
        scbf.Bank.from_bytes(data[:-1])
    data[-1] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    for call in (scbf.Bank.load, scbf.verify_file):
        with pytest.raises(scbf.CorruptFile, match=r"damaged': member 2: payload chunk"):
            call(tmp_path / "damaged")
    assert scbf.read_file_info(tmp_path / "damaged").kind == "bank"
    with pytest.raises(scbf.IoError):
        scbf.Bank.load(tmp_path / "missing")
    with pytest.raises(scbf.IoError):
        small().save(tmp_path / "missing" / "b")


def test_metadata() -> None:
    bank = small()
    assert bank.metadata == "" and bank.member_metadata(0) == ""
    with pytest.raises(scbf.InvalidArgument, match="member 7: there is none"):
        bank.set_member_metadata(7, "x")
    with pytest.raises(scbf.InvalidArgument, match="member 7: there is none"):
        bank.member_metadata(7)
    for too_long in (lambda: bank.set_member_metadata(0, "x" * (2**20 + 1)),
                     lambda: setattr(bank, "metadata", "x" * (2**20 + 1))):
        with pytest.raises(scbf.InvalidArgument, match="1048576"):
            too_long()
    bank.set_member_metadata(1, "name")
    assert bank.remove_member(1).metadata == "name"


def test_golden_banks() -> None:
    for name in ("bank.scbf", "growing_bank_compressed.scbf"):
        bank = scbf.Bank.load(GOLDEN / name)
        assert bank.members == [0, 2, 3] and bank.metadata == '{"sign": "✓"}'
        assert (bank.member_metadata(3), bank.member_metadata(0)) == ("both", "")
        for i in range(40):
            assert {0, 2, 3} == set(bank.find(i**3))  # member 2 is always asked
        assert {2, 3} <= set(bank.find("Schlüssel"))


def test_bits_of_a_bank(tmp_path: Path) -> None:
    bank = small()
    bank.remove(0, "a")
    bank.ask_always(2)
    bank.metadata = "of a test"
    bank.set_member_metadata(1, "second")
    bank.save(tmp_path / "plain")
    bank.save(tmp_path / "compressed", compress=True)
    for bits in (scbf.BloomBank.of(bank), scbf.BloomBank.load(tmp_path / "plain"),
                 scbf.BloomBank.load(tmp_path / "compressed", backend="scalar"),
                 scbf.BloomBank.from_bytes(bank.to_bytes()), scbf.BloomBank.map(tmp_path / "plain")):
        assert not bits.read_only
        assert lists(bits.find(["a", "b", "c", None])) == lists(bank.find(["a", "b", "c", None]))
        assert lists(bits.find(["a", "b"])) == [[2], [0, 1, 2]] and bits.find("c") == [1, 2]
        assert (bits.growth, bits.seed, bits.metadata) == (bank.growth, 42, "of a test")
        assert bits.members == [0, 1, 2] and len(bits) == 3
        assert bits.member_metadata(1) == "second"
        assert bits.copy_member(1) == scbf.BloomFilter.of(bank.copy_member(1))
        assert bits.nbytes == bank.nbytes - 3 * GEOMETRY.nbytes
        assert repr(bits).startswith("<scbf.BloomBank: 3 members, ")
    with pytest.raises(scbf.CorruptFile):
        scbf.BloomBank.from_bytes(bank.to_bytes()[:-1])
    with pytest.raises(scbf.Incompatible):
        scbf.BloomBank.load(GOLDEN / "split_k7.scbf")
    with pytest.raises(scbf.IoError):
        scbf.BloomBank.load(tmp_path / "none")


def test_files_of_banks_of_bits(tmp_path: Path) -> None:
    bank = grown()
    bank.ask_always(2)
    bits = scbf.BloomBank.of(bank)
    path = tmp_path / "r"
    keys = np.arange(1000)
    for compress in (True, False):
        bits.save(path, compress=compress)
        assert path.read_bytes() == bits.to_bytes(compress=compress)
        copies = [scbf.BloomBank.load(path), scbf.BloomBank.from_bytes(path.read_bytes(), backend="scalar"),
                  pickle.loads(pickle.dumps(bits)), copy.deepcopy(bits)]
        for info in (scbf.read_file_info(path), scbf.verify_file(path)):
            assert isinstance(info, scbf.BankFileInfo) and info.kind == "bits_bank"
            assert (info.growth, info.seed, info.compressed) == (bank.growth, bank.seed, compress)
            for number, member in info.members.items():
                assert member.kind == "bits" and member.metadata == bank.member_metadata(number)
                assert member.keys_inserted == bank.copy_member(number).statistics().keys_inserted
        if compress:
            with pytest.raises(scbf.IoError, match="cannot map: the rows are compressed"):
                scbf.BloomBank.map(path)
        else:
            copies.append(scbf.BloomBank.map(path))
        for other in copies:
            assert other.to_bytes() == bits.to_bytes() and lists(other.find(keys)) == lists(bank.find(keys))
            assert other.read_only == (other is copies[-1] and not compress)
    mapped = copies[-1]
    for change in (lambda: mapped.add_member(mapped.copy_member(0)), lambda: mapped.remove_member(0),
                   lambda: mapped.replace_member(0, mapped.copy_member(2)), lambda: mapped.reserve(1000)):
        with pytest.raises(scbf.ReadOnly, match="the bank is mapped from a file, read-only"):
            change()
    with pytest.raises(scbf.Incompatible, match="a bank of bits, without counters: load it as a BloomBank"):
        scbf.Bank.load(path)


def test_memory_of_a_bank_of_bits_is_that_of_its_members() -> None:
    bits, counters = scbf.BloomBank(capacity=1000, memory_bytes=4096), scbf.Bank(capacity=1000, memory_bytes=4096)
    bits.add_member(scbf.BloomFilter(capacity=1000, memory_bytes=4096))
    counters.add_member(scbf.Filter(capacity=1000, memory_bytes=4096))
    assert bits.copy_member(0).nbytes == counters.copy_member(0).nbytes == 4096


def test_members_of_bits() -> None:
    bits = [scbf.BloomFilter.of(filled([str(i), "all"])) for i in range(20)]
    bank = scbf.BloomBank(geometry=GEOMETRY, seed=42, members=4)
    assert bank.add_members(bits[:19]) == list(range(19)) and bank.add_member(bits[19]) == 19
    assert bank.find("all") == list(range(20)) and bank.find("7") == [7]
    bits[7].insert("later")
    assert bank.find("later") == []  # a copy went in
    bank.replace_member(7, bits[7])
    assert bank.find("later") == [7] and bank.copy_member(7) == bits[7]
    assert bank.epoch(7) is None
    first = bits[7].advance(bits[7])  # deltas: all bits, then what changed
    bank.apply(7, first)
    newer = bits[7].copy()
    newer.insert("newer")
    second = bits[7].advance(newer)
    bank.apply(7, scbf.Delta.from_bytes(second.to_bytes()))
    assert not second.whole and bank.epoch(7) == bank.copy_member(7).epoch == 2 and bank.find("newer") == [7]
    with pytest.raises(scbf.Incompatible, match="has epoch 2, the delta begins at 1"):
        bank.apply(7, second)
    with pytest.raises(scbf.Incompatible, match="no epoch"):
        bank.apply(3, second)
    loaded = scbf.BloomBank.from_bytes(bank.to_bytes())
    assert loaded.epoch(7) == 2 and loaded.epoch(3) is None
    bank.remove_member(3)
    assert bank.find("3") == [] and 3 not in bank.members and bank.add_member(bits[3]) == 3
    bank.ask_always(5)
    assert bank.find("nothing") == [5]
    bank.reserve(1000)
    bank.set_member_metadata(5, "five")
    assert bank.member_metadata(5) == "five"
    found = bank.find(np.arange(10), threads=1, progress=lambda done, all: None)
    assert lists(found) == [[5]] * 10
    for wrong, error in ((filled(["x"]), TypeError), (None, TypeError), (scbf.BloomFilter(10, 0.1), scbf.Incompatible)):
        with pytest.raises(error):
            bank.add_member(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a BloomFilter"):
        bank.add_members([filled(["x"])])  # type: ignore[list-item]
    with pytest.raises(scbf.InvalidArgument, match="member 99: there is none"):
        bank.replace_member(99, bits[0])
    with pytest.raises(scbf.Incompatible, match="seeds differ"):
        bank.add_member(scbf.BloomFilter(geometry=GEOMETRY, seed=1))
    assert len(bank) == 20
