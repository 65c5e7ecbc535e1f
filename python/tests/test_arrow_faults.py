# SPDX-License-Identifier: Apache-2.0
"""Arrow structs and objects that do not follow the rules: errors, never crashes."""

import ctypes
import re
import textwrap
from typing import Any

import arrow_structs
import pytest
import scbf
from arrow_structs import OneArray, OneStream, array, metadata, schema
from support import check_process, filled

NUMBERS = (ctypes.c_int64 * 4)(1, 2, 3, 4)
OFFSETS = (ctypes.c_int32 * 4)(0, 1, 2, 3)


def test_a_good_one() -> None:
    arrow_structs.released.clear()
    assert filled(OneArray(schema(b"l"), array(4, [None, NUMBERS]))) == filled([1, 2, 3, 4])
    assert sorted(arrow_structs.released) == ["array", "schema"]

    arrow_structs.released.clear()
    parts = iter([array(4, [None, NUMBERS]), array(2, [None, NUMBERS], offset=1), None])
    assert filled(OneStream(lambda: schema(b"l"), lambda: next(parts))) == filled([1, 2, 3, 4, 2, 3])
    assert sorted(arrow_structs.released) == ["array", "array", "schema", "stream"]


def child(**change: Any) -> Any:
    return array(change.pop("length", 4), [None, NUMBERS], **change)


def numbers(count: int, *values: int) -> Any:
    return (ctypes.c_int32 * count)(*values)


WRONG: dict[str, tuple[Any, str]] = {
    "length": (lambda: (schema(b"l"), array(-1, [None, NUMBERS])), "its length is -1"),
    "offset": (lambda: (schema(b"l"), array(4, [None, NUMBERS], offset=-1)), "its offset -1"),
    "no buffer": (lambda: (schema(b"l"), array(4, [None])), "format 'l' has 2 buffers, and this array 1"),
    "null buffer": (lambda: (schema(b"l"), array(4, [None, None])), "buffer 1 of 4 values is missing"),
    "no bytes": (lambda: (schema(b"u"), array(3, [None, OFFSETS, None])), "the buffer of the bytes is missing"),
    "offsets that fall": (
        lambda: (schema(b"u"), array(3, [None, numbers(4, 0, 5, 3, 5), b"abcde"])),
        "offset 2 is 3: must be at least offset 1, 5",
    ),
    "a negative offset": (lambda: (schema(b"u"), array(3, [None, numbers(4, 0, 1, 2, -1), b"ab"])), "offset 3 is -1"),
    "no sizes": (lambda: (schema(b"vu"), array(1, [None, numbers(4)])), "fewer than three buffers"),
    "a view beyond its buffer": (
        lambda: (schema(b"vu"), array(1, [None, numbers(4, 99), b"abc", (ctypes.c_int64 * 1)(3)])),
        "value 0 lies outside its buffer",
    ),
    "a view of a buffer that is not there": (
        lambda: (schema(b"vz"), array(1, [None, numbers(4, 99, 0, 1), b"abc", (ctypes.c_int64 * 1)(300)])),
        "value 0 lies outside its buffer",
    ),
    "a view of negative length": (
        lambda: (schema(b"vu"), array(1, [None, numbers(4, -1), (ctypes.c_int64 * 1)()])),
        "value 0 has length -1",
    ),
    "a view of a buffer that is null": (
        lambda: (schema(b"vu"), array(1, [None, numbers(4, 20), None, (ctypes.c_int64 * 1)(100)])),
        "value 0 lies in a buffer that is missing",
    ),
    "text under a schema of integers": (
        lambda: (schema(b"l"), array(3, [None, OFFSETS, b"abc"])), "format 'l' has 2 buffers, and this array 3"
    ),
    "integers under a schema of text": (
        lambda: (schema(b"u"), array(3, [None, NUMBERS])), "format 'u' has 3 buffers, and this array 2"
    ),
    "integers under a schema of bytes of one width": (
        lambda: (schema(b"w:8"), array(4, [None, NUMBERS, None])), "format 'w:8' has 2 buffers, and this array 3"
    ),
    "children under a schema of integers": (
        lambda: (schema(b"l"), child(children=[child()])), "this array has children"
    ),
    "a dictionary under a schema of integers": (
        lambda: (schema(b"l"), child(dictionary=child())), "this array has a dictionary"
    ),
    "text as indices": (
        lambda: (schema(b"i", dictionary=schema(b"l")), array(3, [None, OFFSETS, b"abc"], dictionary=child())),
        "format 'i' has 2 buffers, and this array 3",
    ),
    "a size that overflows": (
        lambda: (schema(b"w:2147483647"), array(2**33, [None, NUMBERS])), "8589934592 values of 2147483647 bytes"
    ),
    "no columns": (lambda: (schema(b"+s", [schema(b"l")]), array(4, [None])), "it has other columns than its schema"),
    "no dictionary": (
        lambda: (schema(b"c", dictionary=schema(b"l")), array(1, [None, NUMBERS])),
        "the dictionary of the values is missing",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_are_wrong(name: str) -> None:
    make, message = WRONG[name]
    some = filled([])
    for call in (some.insert, some.contains, some.remove):
        arrow_structs.released.clear()
        with pytest.raises(scbf.InvalidArgument, match=message):
            call(OneArray(*make()))
        assert sorted(arrow_structs.released) == ["array", "schema"]


@pytest.mark.parametrize("index", [-1, 4, 100])
def test_indices_outside_the_dictionary(index: int) -> None:
    indices = array(3, [None, (ctypes.c_int8 * 3)(0, 3, index)], dictionary=child())
    with pytest.raises(scbf.InvalidArgument, match=f"index 2 is {index}, and the dictionary has 4 values"):
        filled(OneArray(schema(b"c", dictionary=schema(b"l")), indices))


def test_a_dictionary_of_negative_length() -> None:
    indices = array(1, [None, NUMBERS], dictionary=child(length=-5))
    with pytest.raises(scbf.InvalidArgument, match="length is -5"):
        filled(OneArray(schema(b"c", dictionary=schema(b"l")), indices))


@pytest.mark.parametrize("change", [{"offset": -3}, {"length": 2}, {"length": -1}], ids=repr)
def test_children_that_are_too_short(change: dict[str, int]) -> None:
    with pytest.raises(scbf.InvalidArgument):
        filled(OneArray(schema(b"+s", [schema(b"l")]), array(4, [None], children=[child(**change)])))


def test_huge_arrays() -> None:
    # In a process of its own, because of test_errors.py, "memory".
    check_process("""
        import ctypes, scbf
        from arrow_structs import *
        numbers = (ctypes.c_int64 * 4)(1, 2, 3, 4)
        for column in (OneArray(schema(b"n"), array(2**60, [])), OneArray(schema(b"l"), array(2**60, [None, numbers]))):
            try:
                scbf.Filter(1000, 0.01).contains(column)
            except MemoryError:
                continue
            raise AssertionError
    """)


@pytest.mark.parametrize("width", [b"-5", b"", b"x", b"16junk", b" 8", b"+8", b"2147483648", b"4611686018427387904"])
def test_widths(width: bytes) -> None:
    with pytest.raises(scbf.InvalidArgument, match=re.escape(f"format 'w:{width.decode()}', whose width is")):
        filled(OneArray(schema(b"w:" + width), array(4, [None, NUMBERS])))


def test_the_width_0() -> None:
    with pytest.raises(scbf.InvalidKey, match="there is nothing in them"):
        filled(OneArray(schema(b"w:0"), array(4, [None, NUMBERS])))


NAME = b"ARROW:extension:name"


def test_metadata_without_an_extension_type() -> None:
    for made in (metadata(), metadata(b"a", b"b"), metadata(b"", b""), metadata(b"x" + NAME, b"arrow.bool8"),
                 metadata(b"a", NAME), metadata(NAME, b"")):
        assert filled(OneArray(schema(b"l", metadata=made), child())) == filled([1, 2, 3, 4])


@pytest.mark.parametrize("where", ["column", "struct", "child", "dictionary", "indices"])
def test_extension_types_wherever_they_are(where: str) -> None:
    extended = metadata(b"other", b"", NAME, b"my.type", b"ARROW:extension:metadata", b"")
    made = {
        "column": lambda: (schema(b"l", metadata=extended), child()),
        "struct": lambda: (schema(b"+s", [schema(b"l")], metadata=extended), array(4, [None], children=[child()])),
        "child": lambda: (schema(b"+s", [schema(b"l", metadata=extended)]), array(4, [None], children=[child()])),
        "dictionary": lambda: (schema(b"l", dictionary=schema(b"l", metadata=extended)), child(dictionary=child())),
        "indices": lambda: (schema(b"l", dictionary=schema(b"l"), metadata=extended), child(dictionary=child())),
    }[where]
    with pytest.raises(scbf.InvalidKey, match="of the extension type my.type cannot be keys: cast it"):
        filled(OneArray(*made()))


@pytest.mark.parametrize("made", [
    metadata(count=-1),
    metadata(count=1) + b"\xff\xff\xff\xff",
    metadata(b"key", count=1) + b"\0\0\0\x80",
    metadata(b"key", count=1) + b"\xff\xff\xff\x7f",
], ids=["count", "key", "value", "long value"])
def test_metadata_that_lies(made: bytes) -> None:
    with pytest.raises(scbf.InvalidArgument, match="in its schema's metadata"):
        filled(OneArray(schema(b"l", metadata=made), child()))


@pytest.mark.parametrize("format", [b"", b"?", b"lx", b"_pli128", b"vx", b"+", b"\xff"])
def test_unknown_formats(format: bytes) -> None:
    with pytest.raises(scbf.InvalidKey, match="cannot be keys"):
        filled(OneArray(schema(format), array(4, [None, NUMBERS])))


# ---- streams ------------------------------------------------------------------------------------


def test_errors_of_streams() -> None:
    with pytest.raises(scbf.IoError, match="Invalid argument"):
        filled(OneStream(lambda: 22, lambda: None))
    with pytest.raises(scbf.IoError, match="what happened"):
        filled(OneStream(lambda: schema(b"l"), lambda: 5, b"what happened"))
    assert arrow_structs.released[-2:] == ["schema", "stream"] or arrow_structs.released[-1] == "stream"


def test_errors_that_are_not_utf8() -> None:
    with pytest.raises(scbf.IoError, match="what"):
        filled(OneStream(lambda: schema(b"l"), lambda: 5, b"what \xff"))


# ---- objects ------------------------------------------------------------------------------------


class Bang(Exception):
    pass


@pytest.mark.parametrize("method", ["__arrow_c_array__", "__arrow_c_stream__"])
def test_methods_that_raise_or_return_junk(method: str) -> None:
    def bang(self: object, requested_schema: object = None) -> Any:
        raise Bang

    def hostile(returns: object) -> object:
        return type("Hostile", (), {method: lambda self, requested_schema=None: returns})()

    with pytest.raises(Bang):
        filled(type("Hostile", (), {method: bang})())
    for junk in (None, 5, (), (1,), (1, 2), "xy", [None, None], arrow_structs.capsule(schema(b"l"), b"wrong")):
        with pytest.raises((TypeError, ValueError, IndexError)):
            filled(hostile(junk))


def test_import_errors_of_others_go_through() -> None:
    class Hostile:
        def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
            raise ImportError("the driver is not installed")

    with pytest.raises(ImportError, match="driver"):
        filled(Hostile())


def test_an_array_that_was_taken_over_before() -> None:
    column = OneArray(schema(b"l"), array(4, [None, NUMBERS]))
    assert filled(column) == filled([1, 2, 3, 4])
    with pytest.raises(scbf.InvalidArgument, match="released"):
        filled(column)


# ---- crashes, each in a process of its own ------------------------------------------------------

REFUSED = """
import ctypes, sys, scbf
from arrow_structs import *
numbers = (ctypes.c_int64 * 4)(1, 2, 3, 4)
{setup}
try:
    scbf.Filter(1000, 0.01).contains(column)
except scbf.Error:
    sys.exit(0)
sys.exit("not refused")
"""

CRASHES = {
    "a stream that was taken over before": """
        import pyarrow
        class Once:
            def __init__(self): self.capsule = pyarrow.chunked_array([["a", "b"]]).__arrow_c_stream__()
            def __arrow_c_stream__(self, requested_schema=None): return self.capsule
        column = Once()
        scbf.Filter(1000, 0.01).contains(column)
    """,
    "no schema and no error": "column = OneStream(lambda: None, lambda: None)",
    "no format": "column = OneArray(schema(None), array(4, [None, numbers]))",
    "no children": """
        struct = schema(b'+s')
        struct.n_children = 1
        column = OneArray(struct, array(4, [None]))
    """,
    "no functions": """
        column = OneStream(lambda: None, lambda: None)
        column.stream.get_schema = GetSchema()
    """,
}


@pytest.mark.parametrize("name", CRASHES)
def test_crashes(name: str) -> None:
    if "pyarrow" in CRASHES[name]:
        pytest.importorskip("pyarrow")
    check_process(REFUSED.format(setup=textwrap.dedent(CRASHES[name])))
