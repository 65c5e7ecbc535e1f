# SPDX-License-Identifier: Apache-2.0
"""Keys from NumPy, from buffers and from Python objects: equal keys are equal whatever they come in."""

import array
import ctypes
import datetime
import decimal
import enum
import fractions
import re
import uuid
from collections import deque
from typing import Any

import numpy as np
import pytest
import scbf
from support import GEOMETRY, check_column, check_process, filled, keys_of_several_columns, one_by_one

SMALL = [0, 1, 7, 100, 127]
NEGATIVE = [-128, -1, 0, 1, 127]
TEXT = ["", "a", "apple", "Schlüssel", "日本", "🍎🍏", "x" * 300, "a b"]

INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


# ---- integers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", "<>=")
@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_of_every_width_and_byte_order(kind: str, order: str) -> None:
    check_column(lambda: np.array(SMALL, order + kind), SMALL)
    info = np.iinfo(kind)
    ends = [int(info.min), int(info.max), int(info.min) + 1, int(info.max) - 1, 42]
    check_column(lambda: np.array(ends, order + kind), ends)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
def test_sizes(kind: str, size: int) -> None:
    keys = [i % 120 for i in range(size)]
    assert filled(np.array(keys, kind)) == filled(keys)
    answers = filled(keys).contains(np.array(keys, kind))
    assert answers.dtype == np.bool_ and answers.shape == (size,) and answers.all()


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", INTEGERS)
def test_views_of_memory(kind: str, order: str) -> None:
    dtype = np.dtype(order + kind)
    whole = np.arange(60).astype(dtype)
    check_column(lambda: whole[::2], list(range(0, 60, 2)))
    check_column(lambda: whole[::-1], list(range(59, -1, -1)))
    check_column(lambda: whole[50:5:-7], list(range(50, 5, -7)))
    check_column(lambda: whole.reshape(6, 10)[:, 3], list(range(3, 60, 10)))
    check_column(lambda: np.broadcast_to(dtype.type(5).astype(dtype), 4), [5] * 4)
    raw = np.zeros(60 * dtype.itemsize + 1, np.uint8)
    unaligned = raw[1:].view(dtype)
    unaligned[:] = whole
    check_column(lambda: unaligned, list(range(60)))
    whole.flags.writeable = False
    check_column(lambda: whole, list(range(60)))
    field = np.zeros(60, dtype=[("pad", "u1"), ("key", dtype)])
    field["key"] = np.arange(60)
    check_column(lambda: field["key"], list(range(60)))


def test_signed_keys_are_their_two_complement() -> None:
    for kind in ("i1", "i2", "i4", "i8"):
        check_column(lambda: np.array(NEGATIVE, kind), NEGATIVE)
    assert -1 in filled([2**64 - 1])
    assert 2**64 - 1 in filled(np.array([-1], "i1"))
    assert 255 not in filled(np.array([-1], "i1"))
    assert filled([-(2**63)]) == filled([2**63])


def test_an_integer_has_the_bytes_of_its_value() -> None:
    for key in (7, -1, 2**40):
        raw = (key % 2**64).to_bytes(8, "little")
        assert filled([key]) == filled(np.frombuffer(raw, "V8")) == filled([raw])


def test_numpy_scalars_are_single_keys() -> None:
    for kind in INTEGERS:
        assert np.dtype(kind).type(5) in filled([5])
        assert filled([5]).contains(np.dtype(kind).type(5)) is True
    assert np.int8(-1) in filled([-1])
    assert np.uint64(2**64 - 1) in filled([2**64 - 1])
    assert np.str_("ü") in filled(["ü"])
    assert np.bytes_(b"a") in filled(["a"])


# ---- text and bytes -----------------------------------------------------------------------------


@pytest.mark.parametrize("order", "<>")
def test_fixed_width_text(order: str) -> None:
    check_column(lambda: np.array(TEXT, order + "U300"), TEXT)
    check_column(lambda: np.array(TEXT, order + "U300")[::2], TEXT[::2])
    check_column(lambda: np.array(TEXT, order + "U300")[::-1], TEXT[::-1])


def test_fixed_width_text_of_all_lengths_of_utf8() -> None:
    keys = [chr(c) for c in (1, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)]
    check_column(lambda: np.array(keys), keys)


def test_byte_strings() -> None:
    keys = [b"", b"a", b"\0a", b"apple", b"\xff\xfe", b"x" * 300]
    check_column(lambda: np.array(keys, "S300"), keys)
    check_column(lambda: np.array(keys, "S300")[::-2], keys[::-2])
    assert filled(np.array([b"a\0\0"], "S3")) == filled([b"a"])  # padding, as NumPy reads it


def test_bytes_of_one_width() -> None:
    keys = [bytes([i, 0, i, 0]) for i in range(20)]
    check_column(lambda: np.array(keys, "V4"), keys)
    check_column(lambda: np.array(keys, "V4")[::3], keys[::3])
    check_column(lambda: np.array(keys, "V4")[::-1], keys[::-1])
    floats = np.array([1.5, -2.5])
    check_column(lambda: floats.view("V8"), [floats[:1].tobytes(), floats[1:].tobytes()])


def test_keys_of_several_columns() -> None:
    """As docs/python.md makes them; for Spark, see spark/test_build.py."""
    of_numpy, of = keys_of_several_columns()
    assert sorted(of) == ["Arrow", "Polars", "Spark"]
    seen = scbf.Filter(geometry=GEOMETRY)
    names = {"np": np, "users": np.array([1, 1]), "items": np.array([5, 6], np.int32), "seen": seen}
    exec(of_numpy, names)
    assert seen.keys_inserted == 2
    for user, item, present in ((1, 5, True), (1, 6, True), (2, 5, False), (5, 1, False)):
        assert (user.to_bytes(8, "little") + item.to_bytes(8, "little") in seen) == present
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    import pyarrow.compute as pc

    columns = {"city": ["Rom", "Bonn", None], "street": ["a", None, "b"]}
    names = {"pc": pc, "table": pa.table(columns), "pl": pl, "frame": pl.DataFrame(columns)}
    for library in ("Arrow", "Polars"):
        check_column(lambda code=of[library]: eval(code, names), ["Rom\x1fa", None, None])


def test_letters_anywhere_in_text_of_one_width() -> None:
    """Text is looked at in blocks of letters: any letter may be at any place of one."""
    keys = ["", "x\0y", "x" * 20 + "\0y"]
    for length in range(1, 28):
        for letter in ("\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\U0010ffff"):
            at = len(keys) % length
            keys.append("a" * at + letter + "b" * (length - at - 1))
    for text in (np.array(keys), np.array(keys, "U100")):
        for column in (text, text.astype(text.dtype.newbyteorder()), text[::-1][::-1]):
            check_column(lambda column=column: column, keys)
    for length in range(1, 20):
        for at in range(length):
            wrong = np.array(["b" * 25, "a" * at + "\ud800" + "b" * (length - at - 1)])
            for column in (wrong, wrong.astype(wrong.dtype.newbyteorder())):
                with pytest.raises(scbf.InvalidKey, match="key 1 has the character U\\+D800"):
                    filled(column)
                with pytest.raises(scbf.InvalidKey, match="key 1 has the character U\\+D800"):
                    filled([]).contains(column)


def test_variable_width_text() -> None:
    string = pytest.importorskip("numpy.dtypes", reason="NumPy 2").StringDType
    check_column(lambda: np.array(TEXT, string()), TEXT)
    check_column(lambda: np.array(TEXT, string())[::-2], TEXT[::-2])
    with_null: list[Any] = ["a", None, "b"]
    check_column(lambda: np.array(with_null, string(na_object=None)), with_null)
    check_column(lambda: np.array(["a", np.nan, "b"], string(na_object=np.nan)), with_null)


def test_text_is_its_utf8() -> None:
    assert filled(TEXT) == filled([text.encode() for text in TEXT])
    check_column(lambda: ["a", b"b", "ü", "ü".encode()], ["a", b"b", b"\xc3\xbc", b"\xc3\xbc"])
    assert "a" in filled([b"a"]) and b"a" in filled(["a"])
    assert "a\0" not in filled(["a"])


def test_numbers_are_no_text() -> None:
    with pytest.warns(scbf.KeyKindWarning):
        assert "7" not in filled([7]) and 7 not in filled(["7"])


# ---- other buffers ------------------------------------------------------------------------------


@pytest.mark.parametrize("code", "bBhHiIlLqQ")
def test_array_module(code: str) -> None:
    check_column(lambda: array.array(code, SMALL), SMALL)
    check_column(lambda: memoryview(array.array(code, SMALL)), SMALL)
    check_column(lambda: memoryview(array.array(code, SMALL))[::-1], SMALL[::-1])


def test_ctypes_arrays() -> None:
    check_column(lambda: (ctypes.c_int64 * 5)(*NEGATIVE), NEGATIVE)
    check_column(lambda: (ctypes.c_uint16.__ctype_be__ * 5)(*SMALL), SMALL)


def test_memoryview_of_bytes_is_a_column_of_numbers() -> None:
    check_column(lambda: memoryview(b"\x01\x02\xff"), [1, 2, 255])
    check_column(lambda: memoryview(bytearray(b"\x01\x02\xff"))[::2], [1, 255])


def test_objects_with_array_method() -> None:
    class HasArray:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.array(SMALL)

    check_column(lambda: HasArray(), SMALL)


def test_columns_that_change_hold_their_memory_meanwhile() -> None:
    held = array.array("q", range(10))

    def resize(_done: int, _all: int) -> None:
        with pytest.raises(BufferError):
            held.append(1)

    filled(held, progress=resize)
    held.append(1)


# ---- Python objects -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, deque, iter, lambda keys: (key for key in keys)])
def test_sequences_and_iterators(kind: Any) -> None:
    columns: list[Any] = [[], SMALL, [2**64 - 1, -(2**63), 0], TEXT, [b"a", "b"]]
    for keys in columns:
        check_column(lambda: kind(keys), keys)


def test_object_arrays() -> None:
    check_column(lambda: np.array(TEXT, object), TEXT)
    check_column(lambda: np.array(NEGATIVE, object)[::-1], NEGATIVE[::-1])
    check_column(lambda: np.array([], object), [])
    with_null: list[Any] = [None, 2**64 - 1, None, 3]
    check_column(lambda: np.array(with_null, object), with_null)
    apart = np.zeros(4, np.dtype([("before", "i1"), ("key", "O"), ("after", "i2")]))
    apart["key"] = ["a", None, "b", "ü"]
    check_column(lambda: apart["key"], ["a", None, "b", "ü"])
    null_pointers = np.empty(3, object)
    ctypes.memset(null_pointers.ctypes.data, 0, null_pointers.nbytes)
    check_column(lambda: null_pointers, [None, None, None])


def test_object_arrays_that_change_while_they_are_read() -> None:
    class Number:
        def __index__(self) -> int:
            column[:] = None  # drops the next one, and this one
            column.resize(100_000, refcheck=False)
            return 5

    column = np.array([3, Number(), 10**15], object)
    assert filled(column) == filled([3, 5, 10**15])
    assert column.size == 100_000


def test_sets_and_mappings() -> None:
    keys = {"a", "b", "c"}
    assert filled(keys) == filled(frozenset(keys)) == filled(sorted(keys))
    assert filled({"a": 1, "b": 2}) == filled({"a": 1, "b": 2}.keys()) == filled(["a", "b"])
    assert filled({1: "a"}.values()) == filled(["a"])
    assert filled(keys).contains(keys).all()


def test_ranges() -> None:
    check_column(lambda: range(-3, 100, 7), list(range(-3, 100, 7)))
    check_column(lambda: range(0), [])


def test_iterators_longer_than_a_block() -> None:
    assert filled(iter(range(200_000))) == filled(np.arange(200_000))
    assert filled(str(i) for i in range(70_000)) == filled([str(i) for i in range(70_000)])


def test_old_style_sequences() -> None:
    class Old:
        def __getitem__(self, i: int) -> str:
            return TEXT[i]

    check_column(lambda: Old(), TEXT)


def test_subclasses_and_index() -> None:
    class Number(enum.IntEnum):
        ONE = 1

    class Text(str):
        pass

    class Indexed:
        def __index__(self) -> int:
            return 5

    class Named(str, enum.Enum):
        A = "a"

    assert Number.ONE in filled([1]) and Text("a") in filled(["a"]) and Indexed() in filled([5])
    assert Named.A in filled(["a"])
    check_column(lambda: [Number.ONE, Indexed(), np.int8(-1), 3], [1, 5, -1, 3])
    check_column(lambda: [Text("x"), Named.A, np.str_("y"), np.bytes_(b"z")], ["x", "a", "y", "z"])


def test_single_keys() -> None:
    some = scbf.Filter(geometry=GEOMETRY, seed=42)
    for key in (5, -1, 2**64 - 2, "text", b"bytes", ""):
        assert some.insert(key) is None
        assert some.contains(key) is True and key in some
        assert some.count(key) == 1
    assert some == filled([5, -1, 2**64 - 2]) | filled(["text", b"bytes", ""])
    assert "t" not in some  # text is one key, not a column of characters
    assert some.contains("absent") is False and some.count("absent") == 0
    assert some.remove("text") is scbf.Removal.removed and some.remove("text") is scbf.Removal.absent


# ---- nulls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("null", [None, float("nan"), np.float64("nan")], ids=repr)
def test_nulls_in_objects(null: object) -> None:
    for keys in ([null, 1, null, 2], ["a", null], [null, "a", null], [null, null], [1, 2, null], [null]):
        plain: Any = [None if key is null else key for key in keys]
        check_column(lambda: keys, plain)
        check_column(lambda: np.array(keys, object), plain)
        check_column(lambda: iter(keys), plain)


def test_pandas_null() -> None:
    pandas = pytest.importorskip("pandas")
    check_column(lambda: [pandas.NA, 1, None, pandas.NA], [None, 1, None, None])
    check_column(lambda: np.array(["a", pandas.NA], object), ["a", None])


def test_many_nulls() -> None:
    keys: list[Any] = [None if i % 7 else i for i in range(1000)]
    check_column(lambda: keys, keys)
    long: list[Any] = [None] * 70_000 + ["late"] + [None] * 70_000
    made = scbf.Filter(geometry=GEOMETRY, seed=42)
    report = made.insert(iter(long))
    assert (report.inserted, report.nulls) == (1, 140_000)
    assert made == filled(["late"])


def test_a_null_is_no_single_key() -> None:
    some = filled([1])
    for null in (None, float("nan")):
        for call in (some.contains, some.insert, some.remove, some.count, lambda key: key in some):
            with pytest.raises(scbf.InvalidKey, match=r"nan|None"):
                call(null)
    assert not some.contains([None]).any()


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


@pytest.mark.parametrize(("keys", "message"), BAD, ids=[re.sub(r"\s+", " ", message)[:40] for _, message in BAD])
@pytest.mark.parametrize("call", ["insert", "contains", "count", "remove"])
def test_bad_keys(call: str, keys: Any, message: str) -> None:
    some = filled([])
    with pytest.raises(scbf.InvalidKey) as raised:
        getattr(some, call)(keys)
    assert message in str(raised.value)
    assert some == filled([])


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


@pytest.mark.parametrize("call", ["find", "contains_bits"])
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


def test_an_empty_array_has_no_keys() -> None:
    assert filled([1]).contains(np.array([])).shape == (0,)


def test_one_by_one_is_the_model() -> None:
    assert one_by_one([1, 2]) != one_by_one([1, 3])  # the check can fail
