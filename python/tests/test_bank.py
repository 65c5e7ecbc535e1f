# SPDX-License-Identifier: Apache-2.0
"""Bank: which of many filters may hold a key?"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scbf
from banks import lists, small
from support import GEOMETRY, filled


def test_find() -> None:
    bank = small()
    found = bank.find(["a", "b", "c", "d", None])
    assert isinstance(found, scbf.MemberLists) and lists(found) == [[0], [0, 1], [1], [], []]
    assert found.offsets.tolist() == [0, 1, 3, 4, 4, 4] and found.offsets.dtype == np.int64
    assert found.members.tolist() == [0, 0, 1, 1] and found.members.dtype == np.uint32
    assert len(found) == 5 and found[1].tolist() == found[-4].tolist() == [0, 1]
    assert found[1].base is not None  # a view
    for i in (5, -6):
        with pytest.raises(IndexError, match=f"key {i}"):
            found[i]
    assert repr(found) == "<scbf.MemberLists: 5 keys, 4 members in all>"
    assert repr(bank.find(["a"])) == "<scbf.MemberLists: 1 key, 1 member in all>"
    assert bank.find("b") == [0, 1] and bank.find(b"d") == []
    assert lists(bank.find([])) == [] and bank.find([]).offsets.tolist() == [0]
    assert lists(bank.find(iter(["c", "a"]))) == [[1], [0]]
    with pytest.raises(scbf.InvalidKey):
        bank.find([1.5])


def test_columns_of_all_kinds() -> None:
    bank = scbf.Bank(geometry=GEOMETRY, seed=42)
    member = bank.add_member()
    report = bank.insert(member, np.arange(10, dtype=">i2"))
    assert report.inserted == 10
    pa = pytest.importorskip("pyarrow")
    assert bank.insert(member, pa.chunked_array([["x"], [None, "y"]])).nulls == 1
    assert bank.insert(member, "single").inserted == 1
    assert bank.insert(member, 77).inserted == 1
    assert bank.copy_member(member) == filled(range(10)) | filled(["x", "y", "single"]) | filled([77])
    assert lists(bank.find(pa.array(["x", None, "z"]).dictionary_encode())) == [[0], [], []]


def test_a_closed_bank_says_so(tmp_path: Path) -> None:
    small().save(tmp_path / "bank")
    scbf.BloomBank.load(tmp_path / "bank").save(tmp_path / "bits")
    with small() as bank, scbf.BloomBank.map(tmp_path / "bits") as bits:
        assert bank.find("b") == bits.find("b") == [0, 1]
    for closed in (bank, bits):
        assert repr(closed) == f"<scbf.{type(closed).__name__}: closed>"
        closed.close()  # again
        for call in (lambda: closed.find("b"), lambda: closed.find(["b"]), lambda: len(closed), closed.to_bytes,
                     lambda: closed.members, lambda: closed.copy_member(0), lambda: closed.metadata,
                     lambda: pickle.dumps(closed), closed.copy, lambda: closed == closed,
                     lambda: closed == type(closed)(geometry=GEOMETRY),
                     lambda: type(closed)(geometry=GEOMETRY) == closed):
            with pytest.raises(scbf.InvalidArgument, match="it has been closed"):
                call()
    with pytest.raises(RuntimeError, match="as it was"), small() as bank:
        raise RuntimeError("as it was")
    for change in (lambda: bank.clear(0), lambda: bank.insert(0, ["x"]), lambda: bank.insert_each([0], ["x"]),
                   lambda: bank.add_member(), lambda: bank.remove_member(0),
                   lambda: bank.merge(0, filled([1])), lambda: scbf.BloomBank.of(bank)):
        with pytest.raises(scbf.InvalidArgument, match="it has been closed"):
            change()


def test_many_keys() -> None:
    bank = scbf.Bank(100_000, 0.001, members=70)
    for member in range(70):
        assert bank.add_member() == member
        bank.insert(member, np.arange(member * 1000, (member + 1) * 1000))
    found = bank.find(np.arange(70_000))
    assert all(i // 1000 in members for i, members in enumerate(lists(found)))
    assert len(found.members) < 70_000 * 1.5
    seen: list[tuple[int, int]] = []
    again = bank.find(np.arange(70_000), threads=1, progress=lambda done, all: seen.append((done, all)))
    assert lists(again) == lists(found) and seen == [(65_536, 70_000), (70_000, 70_000)]


def test_members() -> None:
    bank = small()
    assert len(bank) == 3 and bank.members == [0, 1, 2]
    for key in (0, 3, "b", None):
        with pytest.raises(TypeError, match=r"number in bank.members, or bank.find\(key\)"):
            key in bank  # noqa: B015
    taken = bank.remove_member(1)
    assert taken == filled(["b", "c"])
    assert bank.members == [0, 2] and bank.find("c") == []
    assert bank.add_member(taken) == 1 and bank.find("c") == [1]
    assert taken == filled(["b", "c"])  # a copy went in
    bank.insert(1, "z")
    assert "z" not in taken
    bank.merge(0, taken)
    assert bank.copy_member(0) == filled(["a", "b", "b", "c"])
    bank.clear(0)
    assert bank.find("a") == [] and bank.copy_member(0) == filled([])
    bank.ask_always(0)
    assert bank.find("nothing") == [0]
    bank.ask_always(0, False)
    assert bank.find("nothing") == []
    bank.reserve(1000)
    assert (bank.seed, bank.growth) == (42, scbf.Growth.one(GEOMETRY)) and bank.nbytes > 3 * GEOMETRY.nbytes
    assert "3 members" in repr(bank)


def test_members_in_one_call() -> None:
    filters = [filled([str(i), "all"]) for i in range(20)]
    bank = scbf.Bank(geometry=GEOMETRY, seed=42)
    assert bank.add_members([]) == []
    assert bank.add_members(filters) == list(range(20))
    bank.remove_member(7)
    assert bank.add_members(iter(filters[:2])) == [7, 20]
    assert bank.find("all") == list(range(21)) and bank.find("1") == [1, 20] and bank.find("7") == []
    assert bank.copy_member(20) == filters[1]
    bank.insert(20, "more")
    assert "more" not in filters[1]  # copies went in
    one_by_one = scbf.Bank(geometry=GEOMETRY, seed=42)
    for some in filters:
        one_by_one.add_member(some)
    again = scbf.Bank(geometry=GEOMETRY, seed=42)
    again.add_members(filters)
    assert again.find("all") == one_by_one.find("all")
    for wrong, error in (([filters[0], scbf.Filter(10, 0.1)], scbf.Incompatible), ([filters[0], 5], TypeError),
                         (5, TypeError), ([filters[0], scbf.BloomFilter.of(filters[0])], TypeError)):
        with pytest.raises(error):
            bank.add_members(wrong)  # type: ignore[arg-type]
    assert len(bank) == 21


def many_members(n: int = 30) -> scbf.Bank:
    bank = scbf.Bank(geometry=scbf.Geometry.split_block(groups=2, blocks_per_group=256), seed=42)
    for _ in range(n):
        bank.add_member()
    return bank


@pytest.mark.parametrize("kind", ["numbers", "strings", "arrow", "nulls"])
def test_keys_for_each_member(kind: str) -> None:
    rng = np.random.default_rng(1)
    members = rng.integers(0, 30, 5000)
    keys: Any = rng.integers(0, 2**63, 5000)
    given: Any = keys
    if kind == "strings":
        given = keys = [str(key) for key in keys]
    elif kind == "arrow":
        pa = pytest.importorskip("pyarrow")
        given = pa.chunked_array([keys[:1000], keys[1000:]])
        members = pa.array(members.astype(np.uint16))
    elif kind == "nulls":
        given = keys = [None if i % 7 == 0 else int(key) for i, key in enumerate(keys)]
    bank, want = many_members(), many_members()
    report = bank.insert_each(members, given)
    nulls = 715 if kind == "nulls" else 0
    assert (report.inserted, report.nulls) == (5000 - nulls, nulls)
    for member in range(30):
        own = [key for to, key in zip(np.asarray(members).tolist(), list(keys), strict=True) if to == member]
        want.insert(member, own)
        assert bank.copy_member(member) == want.copy_member(member)
    assert bank.to_bytes() == want.to_bytes() and lists(bank.find(given)) == lists(want.find(given))
    removed = bank.remove_each(np.asarray(members)[::2], list(keys)[::2])
    assert removed.absent == 0 and removed.removed + removed.nulls == 2500
    assert bank.remove_each([0, 1], [b"not there", b"neither"]).absent == 2
    bank.insert_each(np.asarray(members)[::2], list(keys)[::2])
    assert [bank.copy_member(member) for member in range(30)] == [want.copy_member(member) for member in range(30)]


def test_keys_for_each_member_that_are_refused() -> None:
    bank = many_members(3)
    bank.remove_member(1)
    before = bank.to_bytes()
    for members, keys, error, why in (
        ([0, 2], ["a"], scbf.InvalidArgument, "members has 2: must have 1, one for each key"),
        ([0, 1], ["a", "b"], scbf.InvalidArgument, r"members\[1\] 1: there is no such member; the bank has 2, num"),
        ([0, 3], ["a", "b"], scbf.InvalidArgument, r"members\[1\] 3: there is no such member"),
        ([0, -1], ["a", "b"], scbf.InvalidArgument, r"members\[1\] -1: must be 0 to 1048575"),
        ([0, 2**40], ["a", "b"], scbf.InvalidArgument, r"members\[1\] 1099511627776: must be"),
        ([0, None], ["a", "b"], scbf.InvalidArgument, r"members\[1\]: must be the number of a member"),
        (["0", "2"], ["a", "b"], scbf.InvalidArgument, r"members\[0\]: must be the number of a member"),
        ([0.5], ["a"], scbf.InvalidArgument, "members: .*0.5"),
        (0, ["a"], scbf.InvalidArgument, "members 0: must be a column, with the number of a member for each key"),
        ([0, 2], ["a", 1.5], scbf.InvalidKey, "1.5"),
    ):
        for call in (bank.insert_each, bank.remove_each):
            with pytest.raises(error, match=why):
                call(members, keys)
    assert bank.to_bytes() == before
    assert bank.insert_each([], []).inserted == bank.remove_each([], []).removed == 0


@pytest.mark.parametrize("number", [-1, 2**20, 2**32 - 1, 2**32, -(2**40), 2**63, 2**64, -(2**70)])
def test_numbers_that_no_member_can_have(number: int) -> None:
    bank, bits = many_members(2), scbf.BloomBank(100, 0.01)
    said = number if -(2**63) <= number < 2**64 else "of more than 64 bits"
    one = bank.copy_member(0)
    some_bits = scbf.BloomFilter.of(one)
    for call in (bank.copy_member, bank.remove_member, bank.member_metadata, bank.ask_always, bits.copy_member,
                 bits.remove_member, bits.member_metadata, bits.ask_always, lambda m: bank.insert(m, [1]),
                 lambda m: bank.remove(m, [1]), lambda m: bank.set_member_metadata(m, "a"),
                 lambda m: bank.replace_member(m, one), lambda m: bank.merge(m, one), bank.clear,
                 lambda m: bits.replace_member(m, some_bits), bits.epoch):
        with pytest.raises(scbf.InvalidArgument, match=f"member {said}: must be 0 to 1048575"):
            call(number)
    with pytest.raises(TypeError, match="member: int"):
        bank.copy_member("1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="member: int"):
        bank.copy_member(1.0)  # type: ignore[arg-type]
    assert bank.copy_member(np.uint8(1)) == bank.copy_member(1)  # type: ignore[arg-type]


def full_members() -> scbf.Bank:
    bank = scbf.Bank(growth=FULL)
    for _ in range(3):
        bank.add_member()
    return bank


@pytest.mark.parametrize("chunks", [1, 2, 7])
def test_keys_that_full_members_leave(chunks: int) -> None:
    pa = pytest.importorskip("pyarrow")
    members = np.arange(3000) % 3
    members[members == 2] = np.where(np.arange(1000) < 10, 2, 1)  # ten for member 2, for the others too many
    numbers = [None if i % 11 == 5 else i for i in range(3000)]
    keys = pa.chunked_array([numbers[at : at + 3000 // chunks + 1] for at in range(0, 3000, 3000 // chunks + 1)])
    bank = full_members()
    with pytest.raises(scbf.MembersFull, match=r"member 0: all 2 stages are full.*; \d+ keys are not in: 'l") as raised:
        bank.insert_each(members, keys)
    left = raised.value.left
    nulls = sum(key is None for key in numbers)
    assert left.dtype == np.int64 and (np.diff(left) > 0).all() and not any(numbers[i] is None for i in left)
    assert (raised.value.inserted, raised.value.nulls) == (3000 - nulls - len(left), nulls)
    # What is in is what calls for one member at a time would have inserted, whatever the pieces are.
    want = full_members()
    for member in range(3):
        own = [i for i in range(3000) if members[i] == member]
        try:
            want.insert(member, [numbers[i] for i in own])
        except scbf.FilterFull as full:
            rest = own[full.processed :]
            assert [i for i in rest if numbers[i] is not None] == [i for i in left if members[i] == member]
        else:
            assert member == 2 and not (members[left] == 2).any()
    assert want.to_bytes() == bank.to_bytes()
    assert pickle.loads(pickle.dumps(raised.value)).left.tolist() == left.tolist()


def test_other_calls_leave_nothing() -> None:
    bank = full_members()
    with pytest.raises(scbf.MembersFull) as one:
        bank.insert(0, range(10_000))
    assert one.value.left is None


def test_removal() -> None:
    bank = small()
    verdicts = np.full(4, 9, np.uint8)
    report = bank.remove(0, ["a", "a", "x", None], out=verdicts)
    assert (report.removed, report.absent, report.nulls) == (1, 2, 1) and verdicts.tolist() == [1, 0, 0, 0]
    assert bank.find("a") == []
    assert bank.remove(0, "b").removed == 1 and bank.find("b") == [1]
    with pytest.raises(scbf.InvalidArgument, match="out"):
        bank.remove(0, ["a"], out=np.zeros(2, np.uint8))


def test_members_that_are_not_there() -> None:
    bank = small()
    for call in (
        lambda: bank.insert(7, ["a"]),
        lambda: bank.remove(7, ["a"]),
        lambda: bank.remove_member(7),
        lambda: bank.copy_member(7),
        lambda: bank.clear(7),
        lambda: bank.ask_always(7),
        lambda: bank.merge(7, filled([])),
    ):
        with pytest.raises(scbf.InvalidArgument, match="member 7: there is none; the bank has 3"):
            call()
    with pytest.raises(scbf.InvalidArgument, match="members 1048577: must be 0 to 1048576"):
        bank.reserve(2**20 + 1)
    with pytest.raises(TypeError):
        bank.insert("a", ["a"])


def test_filters_that_do_not_fit() -> None:
    bank = small()
    for other in (scbf.Filter(1000, 0.01), scbf.Filter(geometry=GEOMETRY, seed=1)):
        with pytest.raises(scbf.Incompatible, match="differ"):
            bank.add_member(other)
        with pytest.raises(scbf.Incompatible, match="differ"):
            bank.merge(0, other)
    assert len(bank) == 3
    with pytest.raises(TypeError):
        bank.add_member(scbf.BloomFilter(geometry=GEOMETRY, seed=42))


FULL = scbf.Growth.fixed(scbf.Geometry.split_block(groups=1, blocks_per_group=4), most_stages=2)


def test_a_full_member() -> None:
    bank = scbf.Bank(growth=FULL)
    for keys in (range(10_000), iter(range(10_000)), np.arange(10_000)):
        member = bank.add_member()
        with pytest.raises(scbf.FilterFull, match=f"member {member}: all 2 stages are full") as raised:
            bank.insert(member, keys)
        assert raised.value.processed == raised.value.inserted == len(bank.copy_member(member))


def test_a_full_member_raises_members_full() -> None:
    bank = scbf.Bank(growth=FULL)
    with pytest.raises(scbf.MembersFull) as raised:
        bank.insert(bank.add_member(), range(10_000))
    assert raised.value.batch == 0


def test_slices_of_lists() -> None:
    assert lists(small().find(["a", "b", "c"])[1:]) == [[0, 1], [1]]


def test_progress_must_not_change_the_bank() -> None:
    bank = small()
    seen: list[str] = []

    def progress(_done: int, _all: int) -> None:
        with pytest.raises(scbf.Error, match="in use by the call"):
            bank.insert(0, "x")
        seen.append("called")

    bank.insert(0, ["y"], progress=progress)
    bank.find(["y"], progress=progress)
    assert seen == ["called"] * 2 and bank.find("x") == []


def test_a_member_is_replaced() -> None:
    bank = scbf.Bank(geometry=GEOMETRY, seed=42)
    for keys in (["a", "all"], ["b", "all"], ["c", "all"]):
        bank.add_member(filled(keys))
    bank.set_member_metadata(1, "old")
    bank.ask_always(1)
    new = filled(["new", "all"])
    new.metadata = "new"
    old = bank.replace_member(1, new)
    assert old == filled(["b", "all"]) and old.metadata == "old"
    assert bank.find("all") == [0, 1, 2] and bank.find("new") == [1] and bank.find("b") == []  # the mark is gone
    assert bank.copy_member(1) == new and bank.member_metadata(1) == "new"
    new.insert("later")
    assert bank.find("later") == []  # a copy went in
    bank.insert(1, "more")
    assert bank.find("more") == [1]
    for wrong, error in ((scbf.BloomFilter.of(new), TypeError), (None, TypeError),
                         (scbf.Filter(10, 0.1), scbf.Incompatible)):
        with pytest.raises(error):
            bank.replace_member(1, wrong)  # type: ignore[arg-type]
    with pytest.raises(scbf.InvalidArgument, match="member 99: there is none"):
        bank.replace_member(99, new)
    assert bank.find("more") == [1] and len(bank) == 3


def test_a_member_that_is_replaced_has_the_plan_of_the_bank() -> None:
    bank = scbf.Bank(1000, 0.01)
    bank.insert(bank.add_member(), range(1000))
    with pytest.warns(scbf.OverfullWarning, match="member 0 of the bank was made for 1000 keys"):
        bank.insert(0, range(3000))
    with pytest.warns(scbf.OverfullWarning, match="the filter was made for 1000 keys"):
        bank.replace_member(0, scbf.Filter(1000, 0.01)).insert(range(3000, 3100))
    with pytest.warns(scbf.OverfullWarning, match="member 0 of the bank"):
        bank.insert(0, range(3000))  # it has not warned yet
