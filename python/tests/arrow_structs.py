# SPDX-License-Identifier: Apache-2.0
"""Arrow's C structs by ctypes, to make arrays and streams that no library would make."""

import ctypes as c
import sys
from collections.abc import Callable, Sequence
from typing import Any


class Schema(c.Structure):
    pass


class Array(c.Structure):
    pass


class Stream(c.Structure):
    pass


ReleaseSchema = c.CFUNCTYPE(None, c.POINTER(Schema))
ReleaseArray = c.CFUNCTYPE(None, c.POINTER(Array))
ReleaseStream = c.CFUNCTYPE(None, c.POINTER(Stream))
GetSchema = c.CFUNCTYPE(c.c_int, c.POINTER(Stream), c.POINTER(Schema))
GetNext = c.CFUNCTYPE(c.c_int, c.POINTER(Stream), c.POINTER(Array))
GetLastError = c.CFUNCTYPE(c.c_char_p, c.POINTER(Stream))

Schema._fields_ = [
    ("format", c.c_char_p),
    ("name", c.c_char_p),
    ("metadata", c.c_char_p),
    ("flags", c.c_int64),
    ("n_children", c.c_int64),
    ("children", c.POINTER(c.POINTER(Schema))),
    ("dictionary", c.POINTER(Schema)),
    ("release", ReleaseSchema),
    ("private_data", c.c_void_p),
]
Array._fields_ = [
    ("length", c.c_int64),
    ("null_count", c.c_int64),
    ("offset", c.c_int64),
    ("n_buffers", c.c_int64),
    ("n_children", c.c_int64),
    ("buffers", c.POINTER(c.c_void_p)),
    ("children", c.POINTER(c.POINTER(Array))),
    ("dictionary", c.POINTER(Array)),
    ("release", ReleaseArray),
    ("private_data", c.c_void_p),
]
Stream._fields_ = [
    ("get_schema", GetSchema),
    ("get_next", GetNext),
    ("get_last_error", GetLastError),
    ("release", ReleaseStream),
    ("private_data", c.c_void_p),
]

_new_capsule = c.pythonapi.PyCapsule_New
_new_capsule.restype = c.py_object
_new_capsule.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]

_kept: list[Any] = []  # structs point to what ctypes would free
released: list[str] = []  # what was released, in order


def capsule(struct: c.Structure, name: bytes) -> Any:
    _kept.append(struct)
    return _new_capsule(c.addressof(struct), name, None)


@ReleaseSchema
def _release_schema(struct: Any) -> None:
    released.append("schema")
    struct.contents.release = ReleaseSchema()


@ReleaseArray
def _release_array(struct: Any) -> None:
    released.append("array")
    struct.contents.release = ReleaseArray()


@ReleaseStream
def _release_stream(struct: Any) -> None:
    released.append("stream")
    struct.contents.release = ReleaseStream()


def metadata(*texts: bytes, count: int | None = None) -> bytes:
    """Keys and values, one after another, as a schema has them."""
    entries = [len(text).to_bytes(4, sys.byteorder, signed=True) + text for text in texts]
    return (len(texts) // 2 if count is None else count).to_bytes(4, sys.byteorder, signed=True) + b"".join(entries)


def schema(
    format: bytes | None,
    children: Sequence[Schema] = (),
    dictionary: Schema | None = None,
    metadata: bytes | None = None,
    name: bytes | None = None,
) -> Schema:
    made = Schema(format=format, name=name, metadata=metadata, release=_release_schema, n_children=len(children))
    if children:
        made.children = (c.POINTER(Schema) * len(children))(*map(c.pointer, children))
    if dictionary:
        made.dictionary = c.pointer(dictionary)
    _kept.append((made, children, dictionary, metadata))
    return made


def array(
    length: int,
    buffers: Sequence[Any],
    *,
    offset: int = 0,
    null_count: int = 0,
    children: Sequence[Array] = (),
    dictionary: Array | None = None,
) -> Array:
    made = Array(length=length, offset=offset, null_count=null_count, release=_release_array)
    made.n_buffers, made.n_children = len(buffers), len(children)
    addresses = [None if buffer is None else c.cast(buffer, c.c_void_p).value for buffer in buffers]
    made.buffers = (c.c_void_p * max(1, len(buffers)))(*addresses)
    if children:
        made.children = (c.POINTER(Array) * len(children))(*map(c.pointer, children))
    if dictionary:
        made.dictionary = c.pointer(dictionary)
    _kept.append((made, buffers, children, dictionary))
    return made


class OneArray:
    """Offers the same two structs whenever it is asked."""

    def __init__(self, schema: Schema, array: Array) -> None:
        self.schema, self.array = schema, array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return capsule(self.schema, b"arrow_schema"), capsule(self.array, b"arrow_array")


class OneStream:
    """A stream of these functions; the structs that they return are copied out."""

    def __init__(
        self,
        get_schema: Callable[[], Schema | int | None],
        get_next: Callable[[], Array | int | None],
        last_error: bytes | None = None,
    ) -> None:
        def put(made: Any, out: Any) -> int:
            if isinstance(made, int):
                return made
            if made is not None:
                _kept.append(made)
                c.memmove(out, c.addressof(made), c.sizeof(made))
            return 0

        self.stream = Stream(
            get_schema=GetSchema(lambda _stream, out: put(get_schema(), out)),
            get_next=GetNext(lambda _stream, out: put(get_next(), out)),
            release=_release_stream,
        )
        # As a pointer: ctypes cannot return a char* from a callback without losing memory.
        self._text = None if last_error is None else c.create_string_buffer(last_error)
        address = None if self._text is None else c.addressof(self._text)
        self._get_last_error = c.CFUNCTYPE(c.c_void_p, c.POINTER(Stream))(lambda _stream: address)
        self.stream.get_last_error = c.cast(self._get_last_error, GetLastError)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return capsule(self.stream, b"arrow_array_stream")
