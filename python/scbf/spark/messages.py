# SPDX-License-Identifier: Apache-2.0
"""Filters on their way from task to task: a message for each, cut into rows.

Arrow's binary columns, and Spark's rows, must stay below 2 GiB; a message may be larger. So it travels as rows
of one *chunk* each, which say where in the message they lie, and may arrive in any order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow as pa

from scbf.errors import CorruptFile

# target: the task that the row is for; sender: whose message it is part of.
SCHEMA = "target int, sender int, offset long, total long, data binary"
_ARROW_SCHEMA = pa.schema([("target", pa.int32()), ("sender", pa.int32()), ("offset", pa.int64()),
                           ("total", pa.int64()), ("data", pa.binary())])

# Bytes of the rows in one Arrow batch that this module makes.
_BATCH_BYTES = 32 << 20
_LARGEST_CHUNK = 8 << 20
_SMALLEST_CHUNK = 1 << 10

# Magic, bytes of the mask, number of the mask's first partition, sent_bytes. The mask follows, then the filter.
_HEADER = struct.Struct("<8sQQQ")
_MAGIC = b"scbfpart"


def chunk_bytes_for(records_per_batch: int) -> int:
    """Bytes of a chunk such that a batch of this many rows stays below 256 MiB; 0 rows means no limit."""
    if records_per_batch <= 0:
        return _LARGEST_CHUNK  # then spark.sql.execution.arrow.maxBytesPerBatch limits batches
    return max(_SMALLEST_CHUNK, min(_LARGEST_CHUNK, (256 << 20) // records_per_batch))


@dataclass
class Partial:
    """The filter of the keys of some partitions.

    Attributes:
        partitions: bit i is set if the keys of partition i are in it.
        filter: the compressed filter; empty if there are no keys.
        sent_bytes: of all messages that led to this one.
    """

    partitions: int
    filter: bytes | memoryview
    sent_bytes: int = 0

    def pack(self) -> tuple[bytes, bytes | memoryview]:
        """The message, in two parts."""
        first = max(0, (self.partitions & -self.partitions).bit_length() - 1)
        mask = self.partitions >> first
        packed = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
        return _HEADER.pack(_MAGIC, len(packed), first, self.sent_bytes) + packed, self.filter

    @classmethod
    def unpack(cls, message: bytes | bytearray) -> Partial:
        """Raises CorruptFile if it is no message; the filter verifies itself when it is read."""
        if len(message) < _HEADER.size or not message.startswith(_MAGIC):
            raise CorruptFile(f"a message of {len(message)} bytes is not a partial filter")
        _, mask_bytes, first, sent_bytes = _HEADER.unpack_from(message)
        end = _HEADER.size + mask_bytes
        mask = int.from_bytes(message[_HEADER.size : end], "little")
        return cls(mask << first, memoryview(message)[end:], sent_bytes + len(message))


def chunks_of(parts: tuple[bytes | memoryview, ...], chunk_bytes: int) -> Iterator[tuple[int, pa.BinaryArray]]:
    """The chunks of a message, as (where the first lies, array of some), without copying."""
    offset = 0
    for part in parts:
        whole = pa.py_buffer(part)
        step = max(1, _BATCH_BYTES // chunk_bytes) * chunk_bytes
        for begin in range(0, whole.size, step):
            size = min(step, whole.size - begin)
            bounds = numpy.append(numpy.arange(0, size, chunk_bytes), size).astype(numpy.int32)
            yield offset + begin, pa.Array.from_buffers(
                pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), whole.slice(begin, size)])
        offset += whole.size


def rows_of(partial: Partial, sender: int, target: int, chunk_bytes: int) -> Iterator[pa.RecordBatch]:
    """The message as rows of SCHEMA."""
    parts = partial.pack()
    total = sum(len(part) for part in parts)
    for begin, data in chunks_of(parts, chunk_bytes):
        n = len(data)
        yield pa.record_batch([numpy.full(n, target, numpy.int32), numpy.full(n, sender, numpy.int32),
                               offsets_of(begin, data), numpy.full(n, total, numpy.int64), data],
                              schema=_ARROW_SCHEMA)


def offsets_of(begin: int, chunks: pa.BinaryArray) -> numpy.ndarray:
    """Where in the message each chunk lies, if the first lies at ``begin``. int64."""
    bounds = numpy.frombuffer(chunks.buffers()[1], numpy.int32, len(chunks) + 1)
    return begin + bounds[:-1].astype(numpy.int64)


class _Incoming:
    """A message of which some chunks have come."""

    def __init__(self, total: int) -> None:
        self.message = bytearray(total)
        self.offsets: set[int] = set()
        self.arrived = 0


class Inbox:
    """Puts messages together. Holds those whose chunks have not all come.

    The rows of one task come one after another, so it holds one message at a time.
    """

    def __init__(self) -> None:
        self._open: dict[Any, _Incoming] = {}

    def add(self, sender: Any, offset: int, total: int, data: bytes | bytearray | pa.Buffer) -> bytearray | None:
        """Takes a chunk, and returns the message if that was its last one."""
        if (incoming := self._open.get(sender)) is None:
            incoming = self._open[sender] = _Incoming(total)
        chunk = memoryview(data)
        if len(incoming.message) != total or offset + len(chunk) > total or offset in incoming.offsets:
            raise CorruptFile(f"a chunk of {len(chunk)} bytes at {offset} of {total}, from {sender}, came twice or "
                              f"does not fit a message of {len(incoming.message)} bytes")
        incoming.message[offset : offset + len(chunk)] = chunk
        incoming.offsets.add(offset)
        incoming.arrived += len(chunk)
        if incoming.arrived < total:
            return None
        del self._open[sender]
        return incoming.message

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[bytearray]:
        """All messages of rows of SCHEMA. Raises CorruptFile if one is incomplete."""
        for batch in batches:
            senders, offsets, totals = (batch.column(name).to_pylist() for name in ("sender", "offset", "total"))
            data = batch.column("data")
            for i in range(batch.num_rows):
                message = self.add(senders[i], offsets[i], totals[i], data[i].as_buffer())
                if message is not None:
                    yield message
        self.check_empty()

    def check_empty(self) -> None:
        """Raises CorruptFile if a message is incomplete."""
        for sender, incoming in self._open.items():
            raise CorruptFile(f"of the message of {sender}, {incoming.arrived} of {len(incoming.message)} bytes came")
