# SPDX-License-Identifier: Apache-2.0
"""insert_new: what it inserts and says is what a loop over the keys would."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scbf

KINDS = [scbf.Filter, scbf.BloomFilter]
SHAPES: list[dict[str, Any]] = [
    {"geometry": scbf.Geometry.split_block(1, 40)},
    {"geometry": scbf.Geometry.split_block(2, 30)},
    {"geometry": scbf.Geometry.split(5, 300)},
    {"geometry": scbf.Geometry.ranked(82, 60, 20)},
    {"growth": scbf.Growth.tightening(100, 0.1)},
]


def by_loop(some: Any, keys: list[Any]) -> list[bool]:
    answers = []
    for key in keys:
        answers.append(key is not None and key not in some)
        if answers[-1]:
            some.insert(key)
    return answers


def columns(keys: list[int | None]) -> list[Any]:
    pa = pytest.importorskip("pyarrow")
    text = [None if key is None else str(key) for key in keys]
    return [
        keys,
        text,
        (key for key in keys),
        pa.array(keys, pa.int64()),
        pa.chunked_array([text[:7], text[7:]]),
        pa.array(text).dictionary_encode(),
        np.array([-1 if key is None else key for key in keys], np.int32),
    ]


@pytest.mark.filterwarnings("ignore::scbf.KeyKindWarning")  # keys of both kinds come in turn
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: repr(next(iter(shape.values()))))
def test_equals_a_loop(kind: Any, shape: dict[str, Any]) -> None:
    random = np.random.default_rng(1)
    some, model = kind(**shape), kind(**shape)
    for n in (0, 1, 60, 400):
        keys = [None if key % 10 == 0 else int(key) for key in random.integers(0, 600, n)]
        for column, same in zip(columns(keys), columns(keys), strict=True):
            listed = same.to_pylist() if hasattr(same, "to_pylist") else [*same]
            answers = some.insert_new(column)
            assert answers.dtype == bool
            assert answers.tolist() == by_loop(model, [int(key) if isinstance(key, np.integer) else key for key in listed])
            assert some == model and len(some) == len(model)


@pytest.mark.parametrize("kind", KINDS)
def test_one_key(kind: Any) -> None:
    some = kind(100, 1e-6)
    assert some.insert_new("a") is True and some.insert_new("a") is False
    assert some.insert_new(7) is True and some.insert_new(b"a") is False and some.insert_new(np.int8(7)) is False
    assert len(some) == 2
    with pytest.raises(scbf.InvalidArgument, match="out is for columns"):
        some.insert_new("b", out=np.zeros(1, bool))
    with pytest.raises(scbf.InvalidKey):
        some.insert_new(1.5)
    assert "b" not in some


def test_out() -> None:
    some = scbf.Filter(100, 1e-6)
    for first, out in enumerate((np.zeros(3, bool), np.zeros(3, np.uint8), bytearray(3))):
        assert some.insert_new([10 * first, 1, 10 * first], out) is out
        assert bytes(out) == (b"\1\1\0" if first == 0 else b"\1\0\0")
    with pytest.raises(scbf.InvalidArgument, match="out: has 2 items, must have 3"):
        some.insert_new([77, 78, 79], out=np.zeros(2, bool))
    assert not some.contains([77, 78, 79]).any()
    keys = np.array([5, 6, 5, 1], np.uint8)
    assert some.insert_new(keys, out=keys).tolist() == [1, 1, 0, 0]  # in the memory of the keys


def test_many_keys_with_progress() -> None:
    random = np.random.default_rng(2)
    keys = random.integers(0, 2_000_000, 6_000_000)
    first = np.zeros(keys.size, bool)
    first[np.unique(keys, return_index=True)[1]] = True
    for threads in (1, 2):
        some = scbf.Filter(2_000_000, 1e-4)
        told: list[tuple[int, int]] = []
        answers = some.insert_new(keys, threads=threads, progress=lambda done, total: told.append((done, total)))
        assert told[-1] == (keys.size, keys.size)
        assert not (answers & ~first).any()
        assert np.count_nonzero(first & ~answers) < 500  # taken for old ones, at the filter's rate
        assert len(some) == np.count_nonzero(answers)


def test_where_to_continue_when_all_stages_are_full() -> None:
    pa = pytest.importorskip("pyarrow")
    growth = scbf.Growth.fixed(scbf.Geometry.split_block(1, 40), 2)
    keys = [int(key) for key in np.random.default_rng(3).integers(0, 3000, 4000)]
    model, processed = scbf.Filter(growth=growth), 0
    with pytest.raises(scbf.FilterFull):
        for key in keys:
            by_loop(model, [key])
            processed += 1
    for column in (keys, pa.chunked_array([keys[:100], keys[100:101], keys[101:]])):
        some, out = scbf.Filter(growth=growth), np.full(len(keys), 9, np.uint8)
        with pytest.raises(scbf.FilterFull) as full:
            some.insert_new(column, out)
        assert full.value.processed == processed
        assert full.value.inserted == len(model) == np.count_nonzero(out[:processed])
        assert some == model


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_refuses(kind: Any, tmp_path: Path) -> None:
    kind(100, 0.01).save(tmp_path / "f.scbf")
    mapped = kind.map(tmp_path / "f.scbf")
    for keys in (["a"], "a"):
        with pytest.raises(scbf.ReadOnly):
            mapped.insert_new(keys)


@pytest.mark.parametrize("kind", KINDS)
def test_warns_of_too_many_keys(kind: Any) -> None:
    some = kind(1000, 0.01)
    with pytest.warns(scbf.OverfullWarning, match="made for 1000 keys") as caught:
        answers = some.insert_new(np.arange(3000))
        some.insert_new(np.arange(3000, 4000))
        some.insert_new("one more")
    assert len(caught) == 1 and np.count_nonzero(answers) > 2000
