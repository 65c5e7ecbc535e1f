# SPDX-License-Identifier: Apache-2.0
"""Keys from NumPy, from buffers and from Python objects: equal keys are equal whatever they come in."""

import array
import ctypes
import enum
from collections import deque
from typing import Any

import numpy as np
import pytest
import scbf
from support import GEOMETRY, check_column, filled, keys_of_several_columns, one_by_one

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


def test_an_empty_array_has_no_keys() -> None:
    assert filled([1]).contains(np.array([])).shape == (0,)


def test_one_by_one_is_the_model() -> None:
    assert one_by_one([1, 2]) != one_by_one([1, 3])  # the check can fail
