# SPDX-License-Identifier: Apache-2.0
"""What cannot be keys is refused, and objects that misbehave while they are read change nothing."""

import datetime
import decimal
import enum
import fractions
import re
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scbf
from support import GEOMETRY, check_column, check_process, filled

# ---- what cannot be keys ------------------------------------------------------------------------

BAD: list[tuple[Any, str]] = [
    (True, "True: true and false are no keys"),
    ([1, True], "key 1: True: true and false are no keys"),
    (np.array([True]), "an array of bool cannot be keys: true and false are no keys; was a mask given for the column?"),
    ([1, np.True_], "key 1: np.True_ is of type bool"),
    (1.5, "1.5: floating-point numbers cannot be keys, because numbers that print alike may differ; round them to"),
    ([1, 2, 2.0], "key 2: 2.0: floating-point numbers cannot be keys"),
    (np.array([1.5]), "an array of float64 cannot be keys: round floating-point numbers to integers, or take their"),
    (np.array([1.5], "f4"), "an array of float32 cannot be keys"),
    (np.array([1.5], "f2"), "an array of float16 cannot be keys"),
    (np.array([1.5], ">f8"), "an array of float64 cannot be keys"),
    (np.array([1.5], "g"), "longdouble"),
    (1j, "1j is of type complex; keys are int, str or bytes, or columns of them"),
    (np.zeros(2, [("a", "i8"), ("b", "i8")]), "an array of records cannot be keys: choose one of their fields"),
    (np.zeros((2, 3), "i8"), "keys are a column, and this array has 2 dimensions: flatten it, for example by ravel()"),
    (np.zeros((2, 3), "U3"), "this array has 2 dimensions"),
    (np.array(5), "this array has 0 dimensions: use its item()"),
    (2**64, "18446744073709551616: integers as keys have 64 bits, -2**63 to 2**64 - 1; use str() of larger ones"),
    (-(2**63) - 1, "-9223372036854775809: integers as keys have 64 bits"),
    ([1, 10**100], "key 1: 1000"),
    (10**5000, "integers as keys have 64 bits"),
    ("a\ud800", "'a\\ud800' has a lone surrogate, which UTF-8 cannot hold"),
    (["a", "\udfff"], "key 1: '\\udfff' has a lone surrogate"),
    (np.array(["a", "\ud800"]), "key 1 has the character U+D800, which UTF-8 cannot hold"),
    ([1, "a"], "key 1: 'a' is text or bytes, and the keys before it are numbers: a column holds one kind"),
    (["a", None, 1], "key 2: 1 is a number, and the keys before it are text or bytes: a column holds one kind"),
    (bytearray(b"ab"), "bytearray: use bytes() for one key, or memoryview for a column of small integers"),
    (memoryview(b"ab").cast("c"), "format 'c'"),
    (decimal.Decimal(1), "Decimal('1') is of type Decimal: take its str(), or an integer of a fixed scale; keys are int, str or bytes, or columns of them"),
    ([fractions.Fraction(1)], "key 0: Fraction(1, 1) is of type Fraction; keys are"),
    ([datetime.date(2020, 1, 1)], "key 0: datetime.date(2020, 1, 1) is of type date: take its isoformat()"),
    ([uuid.UUID(int=1)], "key 0: UUID('00000000-0000-0000-0000-000000000001') is of type UUID: take its bytes"),
    ([[1], [2]], "key 0: [1] is of type list"),
    ([(1, 2)], "key 0: (1, 2) is of type tuple"),
    (object, "<class 'object'> is of type type"),
    (np.zeros(2, "V0"), "format '0x'"),
]


class Number(enum.IntEnum):
    SEVEN = 7


@pytest.mark.parametrize("key", [7, 2**64, np.int64(7), Number.SEVEN, "abc", b"abc"])
def test_one_key_where_columns_are_taken(key: Any) -> None:
    some = filled([])
    bits = scbf.BloomFilter.of(some)
    replica = scbf.Replica(bits.advance(some))
    message = re.escape(f"{key!r} is one key, and this call takes columns: put it into a list")
    for call in (some.find, some.contains_bits, some.count_present, bits.find, some.bulk().insert,
                 replica.find, replica.contains_bits, replica.count_present):
        with pytest.raises(scbf.InvalidKey, match=message):
            call(key)


@pytest.mark.parametrize(("keys", "message"), BAD, ids=[re.sub(r"\s+", " ", message)[:40] for _, message in BAD])
@pytest.mark.parametrize("call", ["insert", "contains", "count", "remove"])
def test_bad_keys(call: str, keys: Any, message: str) -> None:
    some = filled([])
    with pytest.raises(scbf.InvalidKey) as raised:
        getattr(some, call)(keys)
    assert message in str(raised.value)
    assert some == filled([])


SINGLE = [(key, message) for key, message in BAD if not isinstance(key, (list, np.ndarray, bytearray, memoryview))]


@pytest.mark.parametrize(("key", "message"), SINGLE, ids=[message[:40] for _, message in SINGLE])
def test_bad_keys_that_in_is_asked_for(key: Any, message: str) -> None:
    for some in (filled([1]), scbf.Replica(scbf.BloomFilter.of(filled([1])).advance(filled([1])))):
        with pytest.raises(scbf.InvalidKey) as raised:
            key in some
        assert message in str(raised.value)
        with pytest.raises(scbf.InvalidKey, match=r"a single value of Arrow: give its as_py\(\)"):
            pa.scalar("a") in some
        read: list[int] = []
        for column in ([1, 2], np.arange(2), pa.array([1]), (read.append(i) for i in range(3)), bytearray(b"a")):
            with pytest.raises(scbf.InvalidKey, match="`in` asks for one key; use contains"):
                column in some
        assert read == []


@pytest.mark.parametrize("unit", ["s", "ns", "D"])
def test_moments_cannot_be_keys(unit: str) -> None:
    for kind in ("M8", "m8"):
        column = np.array([0, "NaT", 5], f"{kind}[{unit}]")
        with pytest.raises(scbf.InvalidKey, match=r"leave NaT out first, by keys\[~numpy.isnat\(keys\)\], .* view\('int64'\)"):
            filled(column)
        assert column[~np.isnat(column)].view("int64").tolist() == [0, 5]


@pytest.mark.parametrize(("keys", "message"), [
    ([1.0, float("nan"), -2.0], r"holds only whole numbers and NaN: make them integers, .* astype\('int64'\)"),
    ([1.0, 2.0**53], r"holds only whole numbers: make them integers by astype\('int64'\)"),
    ([1.0, 1.5], ": round"),
    ([1.0, float("inf")], ": round"),
    ([1.0, 2.0**54], ": round"),
])
def test_whole_floating_point_numbers_are_told_apart(keys: list[float], message: str) -> None:
    for array in (np.array(keys), np.array(keys, ">f8")[::-1]):
        with pytest.raises(scbf.InvalidKey, match=f"an array of float64 cannot be keys.*{message}"):
            filled(array)


def test_complex_arrays_are_called_complex() -> None:
    with pytest.raises(scbf.InvalidKey, match="complex"):
        filled(np.zeros(3, complex))


def test_floating_point_scalars_are_called_floating_point() -> None:
    for scalar in (np.float32(1), np.float16(1), np.longdouble(1)):
        with pytest.raises(scbf.InvalidKey, match="float|longdouble"):
            filled([1]).contains(scalar)


def test_every_nan_is_null() -> None:
    check_column(lambda: [1, np.float32("nan"), 2], [1, None, 2])


def test_bad_keys_after_the_first_block_of_an_iterator() -> None:
    some = scbf.Filter(geometry=GEOMETRY, seed=42)
    with pytest.raises(scbf.InvalidKey, match="key 70000: 1.5"):
        some.insert(1.5 if i == 70_000 else i for i in range(100_000))
    assert some == filled(np.arange(65_536))  # as the documentation says
    with pytest.raises(scbf.InvalidKey, match="key 70000: 'x' is text"):
        some.contains("x" if i == 70_000 else i for i in range(100_000))


@pytest.mark.parametrize("kind", [scbf.Filter, scbf.BloomFilter, scbf.Bank])
def test_a_bad_key_in_a_later_piece_changes_nothing(kind: Any) -> None:
    text = np.array([f"key {i}" for i in range(600_000)])
    text[-1] = "\ud800"
    some = kind(capacity=600_000, fpr=0.01)
    member = [some.add_member()] if kind is scbf.Bank else []
    with pytest.raises(scbf.InvalidKey, match="key 599999 has the character"):
        some.insert(*member, text)
    assert not some.contains(text[:-1]).any() if not member else some.find(text[:1])[0].size == 0
    if kind is scbf.BloomFilter:
        return
    some.insert(*member, text[:-1])
    with pytest.raises(scbf.InvalidKey, match="key 599999 has the character"):
        some.remove(*member, text)
    assert some.contains(text[:-1]).all() if not member else some.find(text[:1])[0].size == 1


def test_long_keys_are_shortened_in_messages() -> None:
    with pytest.raises(scbf.InvalidKey) as raised:
        filled([1]).insert([1, "é" * 1000])
    assert len(str(raised.value)) < 200


# ---- objects that misbehave ---------------------------------------------------------------------


class Bang(Exception):
    pass


def bang(*_arguments: object, **_named: object) -> Any:
    raise Bang("bang")


@pytest.mark.parametrize("method", ["__index__", "__array__", "__next__"])
def test_exceptions_of_the_keys_go_through(method: str) -> None:
    hostile = type("Hostile", (), {method: bang, "__iter__": lambda self: self})()
    some = filled([1])
    for call in (some.insert, some.contains, some.count, some.remove):
        with pytest.raises(Bang):
            call(hostile)
    if method == "__index__":
        with pytest.raises(Bang):
            some.insert([1, hostile])
    assert some == filled([1])


def test_exceptions_of_iter_go_through() -> None:
    hostile = type("Hostile", (), {"__iter__": bang})()
    with pytest.raises(Bang):
        filled([1]).contains(hostile)


def test_index_of_another_type() -> None:
    hostile = type("Hostile", (), {"__index__": lambda self: "x"})()
    with pytest.raises(TypeError):
        filled(hostile)
    with pytest.raises(TypeError):
        filled([hostile])
    with pytest.raises(scbf.InvalidKey):
        filled(type("Large", (), {"__index__": lambda self: 2**64})())


def test_repr_that_raises() -> None:
    hostile = type("Hostile", (), {"__repr__": bang})()
    with pytest.raises(scbf.InvalidKey, match="is of type Hostile"):
        filled([hostile])


def test_repr_with_surrogates() -> None:
    hostile = type("Hostile", (), {"__repr__": lambda self: "\ud800"})()
    with pytest.raises(scbf.InvalidKey, match="is of type Hostile"):
        filled([hostile])


def test_array_method_that_returns_junk() -> None:
    with pytest.raises((TypeError, ValueError)):
        filled(type("Hostile", (), {"__array__": lambda self, *_, **__: "junk"})())


def test_a_list_that_changes_meanwhile() -> None:
    keys: list[Any] = [1, 2, 3]

    class Clears:
        def __index__(self) -> int:
            keys.clear()
            return 9

    keys.insert(0, Clears())
    assert filled(keys) == filled([9])  # as a loop over the list
    assert keys == []


def test_a_list_whose_items_are_freed_meanwhile() -> None:
    check_process("""
        import gc, scbf
        keys = []
        class Meta(type):
            @property
            def __name__(cls):
                keys.clear()
                gc.collect()
                more.append([bytes(48) for _ in range(1000)])  # takes over the memory
                return "Name"
        class Hostile(metaclass=Meta):
            __slots__ = ("a", "b")
        more = []
        for _ in range(200):
            keys.append(Hostile())
            try:
                scbf.Filter(1000, 0.01).contains(keys)
            except scbf.InvalidKey:
                pass
    """)


def test_a_list_that_lies_about_its_length() -> None:
    class Lies(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 2**60

    assert filled(Lies([1, 2])) == filled([1, 2])


def test_released_memoryview() -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(ValueError):
        filled(view)


# ---- one key or a column? -----------------------------------------------------------------------


@pytest.mark.parametrize("call", ["find", "contains_bits", "count_present"])
@pytest.mark.parametrize("key", ["apple", b"apple"])
def test_calls_for_columns_take_no_text_apart(call: str, key: Any) -> None:
    some = filled(["a", "p", "l", "e"]) | filled([97, 112])
    with pytest.raises(scbf.InvalidKey):
        getattr(some, call)(key)


@pytest.mark.parametrize("kind", ["O", "T"])
def test_arrays_without_dimensions_are_no_columns_of_characters(kind: str) -> None:
    with pytest.raises(scbf.InvalidKey, match="0 dimensions"):
        filled(np.array("abc", kind))


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(scbf.InvalidKey, match="compressed"):
        filled(np.ma.array([1, 2, 3], mask=[False, True, False]))


def test_a_filter_is_no_column_of_keys() -> None:
    with pytest.raises(scbf.InvalidKey, match="merge"):
        filled([1]).insert(filled([2]))
