# SPDX-License-Identifier: Apache-2.0
"""Messages of partial filters, and their rows. Without a session."""

import random

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scbf
from scbf.spark import messages
from scbf.spark.errors import MissingPartial
from scbf.spark.messages import Inbox, Partial, chunk_bytes_for, chunks_of, rows_of
from scbf.spark.tree import Shape, add_up, check_complete, widths_for

SHAPE = Shape(scbf.Filter, scbf.Geometry.split_block(groups=1, blocks_per_group=64), 7, 1024)


def message_of(partial: Partial) -> bytes:
    return b"".join(bytes(part) for part in partial.pack())


def partial_of(partition: int, keys: list[int]) -> Partial:
    filter = SHAPE.new()
    filter.insert(keys)
    return Partial(1 << partition, filter.to_bytes(compress=True) if keys else b"")


@settings(deadline=None)
@given(st.sets(st.integers(0, 3000), max_size=20), st.binary(max_size=300), st.integers(0, 2**63))
def test_a_message_says_what_was_packed(partitions, body, sent):
    mask = sum(1 << i for i in partitions)
    message = message_of(Partial(mask, body, sent))
    read = Partial.unpack(message)
    assert (read.partitions, bytes(read.filter), read.sent_bytes) == (mask, body, sent + len(message))


def test_the_message_of_a_late_partition_is_short():
    assert len(message_of(Partial(1 << 100_000, b""))) < 40


def test_what_is_no_message_is_refused():
    with pytest.raises(scbf.CorruptFile, match="not a partial filter"):
        Partial.unpack(b"something else, and long enough to be one")
    with pytest.raises(scbf.CorruptFile, match="3 bytes"):
        Partial.unpack(b"scb")


@settings(deadline=None)
@given(st.integers(1, 40), st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.randoms())
def test_messages_arrive_whole_whatever_the_order_of_their_rows(chunk_bytes, bodies, order):
    batches = [batch for i, body in enumerate(bodies) for batch in rows_of(Partial(1 << i, body), i, 0, chunk_bytes)]
    rows = [batch.slice(i, 1) for batch in batches for i in range(batch.num_rows)]
    order.shuffle(rows)
    arrived = {Partial.unpack(message).partitions: message for message in Inbox().messages(iter(rows))}
    assert arrived == {1 << i: message_of(Partial(1 << i, body)) for i, body in enumerate(bodies)}


def test_rows_are_cut_where_a_batch_would_be_too_large(monkeypatch):
    monkeypatch.setattr(messages, "_BATCH_BYTES", 100)
    batches = list(rows_of(Partial(1, bytes(1000)), 0, 5, 30))
    assert max(batch.column("data").nbytes for batch in batches) <= 150
    assert {target for batch in batches for target in batch.column("target").to_pylist()} == {5}
    assert len(list(Inbox().messages(iter(batches)))) == 1


def test_a_message_of_three_gibibytes_is_cut_into_chunks():
    large = numpy.empty(3 << 30, numpy.uint8)  # never touched, so it takes no memory
    pieces = list(chunks_of((large,), 8 << 20))
    ends = [offset + sum(len(chunk.as_buffer()) for chunk in data) for offset, data in pieces]
    assert [offset for offset, _ in pieces] == [0, *ends[:-1]] and ends[-1] == 3 << 30
    assert max(data.buffers()[2].size for _, data in pieces) <= 32 << 20


def test_a_message_of_many_chunks_is_put_together_once(monkeypatch):
    made = []
    incoming = messages._Incoming
    monkeypatch.setattr(messages, "_Incoming", lambda total: made.append(total) or incoming(total))
    assert len(list(Inbox().messages(rows_of(Partial(1, bytes(1000)), 3, 0, 10)))) == 1
    assert len(made) == 1


@pytest.mark.parametrize("fault, match", [
    ("lost", "of the message"), ("twice", "came twice"), ("other", "does not fit")])
def test_a_row_that_is_lost_or_came_twice_is_noticed(fault, match):
    rows = [batch.slice(i, 1) for batch in rows_of(Partial(1, bytes(100)), 3, 0, 30) for i in range(batch.num_rows)]
    random.Random(1).shuffle(rows)
    if fault == "lost":
        del rows[1]
    elif fault == "twice":
        rows.insert(1, rows[0])
    else:
        rows.insert(1, pa.RecordBatch.from_pylist([rows[0].to_pylist()[0] | {"total": 99, "offset": 70}],
                                                  schema=rows[0].schema))
    with pytest.raises(scbf.CorruptFile, match=match):
        list(Inbox().messages(iter(rows)))


@pytest.mark.parametrize("records", [1, 10, 10_000, 200_000, 2_000_000, 0, -1])
def test_a_batch_of_full_chunks_stays_below_two_gibibytes(records):
    assert 1 <= chunk_bytes_for(records) * max(records, 1) < 1 << 31


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 10_000), max_size=30), max_size=6))
def test_the_sum_of_partial_filters_is_the_filter_of_all_keys(parts):
    result = add_up(iter([message_of(partial_of(i, keys)) for i, keys in enumerate(parts)]), SHAPE)
    alone = SHAPE.new()
    alone.insert([key for keys in parts for key in keys])
    if not parts:
        assert result is None
        return
    made = SHAPE.read(result.filter) if result.filter else SHAPE.new()
    assert made.to_bytes() == alone.to_bytes()
    assert result.partitions == (1 << len(parts)) - 1


def test_a_partial_filter_that_came_twice_is_refused():
    message = message_of(partial_of(4, [1, 2]))
    with pytest.raises(MissingPartial, match="4 came twice"):
        add_up(iter([message, message]), SHAPE)


@pytest.mark.parametrize("missing", [{0}, {2}, {4}, {1, 3}])
def test_a_partition_that_did_not_arrive_is_named(missing):
    mask = sum(1 << i for i in range(5) if i not in missing)
    named = ", ".join(map(str, sorted(missing)))
    with pytest.raises(MissingPartial, match=f"of 5 partitions, the filters of {named} "):
        check_complete(mask, 5)
    check_complete(31, 5)
    check_complete(0, 0)
    with pytest.raises(MissingPartial, match="3 partitions were made"):
        check_complete(31, 3)


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(2, 9))
def test_a_tree_ends_in_one_task_and_loses_nobody(parallelism, fan_in):
    widths = widths_for(parallelism, fan_in)
    assert widths[0] == parallelism and widths[-1] == 1
    for below, above in zip(widths, widths[1:], strict=False):
        assert {task // fan_in for task in range(below)} == set(range(above))
