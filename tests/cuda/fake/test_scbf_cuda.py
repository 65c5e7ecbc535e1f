# SPDX-License-Identifier: Apache-2.0
"""scbf.cuda over the fake runtime: the extension module that ctest builds is linked with it, and has the C
functions of fake_for_python.cpp. SCBF_FAKE_SCHEDULE says whether work is done as late as CUDA allows, or at once."""

import ast
import ctypes
import gc
import os
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scbf
import scbf.cuda
from scbf import _scbf
from scbf.cuda import DeviceArray, DeviceFilter

fake = ctypes.CDLL(_scbf.__file__)
fake.fake_upload.restype = fake.fake_new_stream.restype = ctypes.c_void_p
fake.fake_alive.restype = fake.fake_memory_in_use.restype = ctypes.c_size_t


class Array:
    """A NumPy array copied to the device, as CuPy or Numba would show it."""

    def __init__(self, values: Any, device: int = 0, stream: int | None = None, **changes: Any) -> None:
        host = np.asarray(values)
        self.strides = None if host.flags.c_contiguous else host.strides
        data = np.ascontiguousarray(host)
        self.memory = fake.fake_upload(ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes), device)
        assert self.memory
        self.host, self.stream, self.changes = data, stream, changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.host.shape, "typestr": self.host.dtype.str, "data": (self.memory, False),
                "strides": self.strides, "version": 3, "stream": self.stream, **self.changes}

    def get(self) -> Any:
        there = np.empty_like(self.host)
        fake.fake_download(ctypes.c_void_p(there.ctypes.data), ctypes.c_void_p(self.memory),
                           ctypes.c_size_t(there.nbytes))
        return there

    def write(self, values: Any, stream: "Stream") -> None:
        """Enqueues a change of it."""
        data = np.ascontiguousarray(values)
        fake.fake_write(ctypes.c_void_p(self.memory), ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes),
                        ctypes.c_void_p(stream.handle))

    def __del__(self) -> None:
        fake.fake_free(ctypes.c_void_p(self.memory))


class Stream:
    """A stream as PyTorch or CuPy would have it: `name` is the attribute with its handle."""

    def __init__(self, name: str = "ptr") -> None:
        self.handle: int = fake.fake_new_stream()
        setattr(self, name, (lambda: (0, self.handle)) if name == "__cuda_stream__" else self.handle)

    def synchronize(self) -> None:
        fake.fake_synchronize(ctypes.c_void_p(self.handle))

    def __del__(self) -> None:
        fake.fake_destroy_stream(ctypes.c_void_p(self.handle))


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    """Nothing is left behind, and the fake runtime has noted no mistake."""
    yield
    fake.fake_heal()
    fake.fake_set_memory(ctypes.c_size_t(1 << 30))
    gc.collect()
    assert fake.fake_alive() == 0
    text = ctypes.create_string_buffer(4096)
    fake.fake_take_problems(text, ctypes.c_size_t(len(text)))
    assert text.value == b""


KEYS = np.random.default_rng(7).integers(-(2**63), 2**63, 20_000)


def twins(**shape: Any) -> tuple[DeviceFilter, scbf.Filter]:
    """The same filter on the device and on the host."""
    shape = shape or {"capacity": 20_000, "fpr": 0.01}
    return DeviceFilter(**shape, seed=3), scbf.Filter(**shape, seed=3)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_counters_and_answers_are_those_of_the_host(dtype: str) -> None:
    there, here = twins()
    keys, asked = KEYS[:10_000].astype(dtype), KEYS[5_000:].astype(dtype)
    there.insert(Array(keys))
    here.insert(keys)
    assert there.to_filter() == here
    assert (there.keys_inserted(), there.keys_removed()) == (10_000, 0)
    assert (there.contains(Array(asked)).get() == here.contains(asked)).all()
    assert (there.contains_bits(Array(asked)).get() == here.contains_bits(asked)).all()
    assert (there.find(Array(asked)).get() == here.find(asked)).all()
    assert (there.count(Array(asked)).get() == here.count(asked)).all()
    verdicts = np.empty(15_000, np.uint8)
    here.remove(asked, out=verdicts)
    assert (there.remove(Array(asked)).get() == (verdicts == scbf.Removal.removed.value)).all()
    assert there.to_filter() == here


def test_what_was_not_there_yet() -> None:
    there, here = twins()
    for keys in (KEYS[:2_000], np.concatenate([KEYS[1_000:3_000], KEYS[500:4_000]])):
        new = there.insert_new(Array(keys))
        assert new.dtype == np.bool_ and (new.get() == here.insert_new(keys)).all()
        assert there.to_filter() == here
    out = Array(np.ones(3, np.uint8))
    assert there.insert_new(Array(KEYS[:3]), out) is out
    assert out.get().tolist() == [0, 0, 0]
    assert there.keys_inserted() == here.keys_inserted


def test_rows_of_bytes_are_keys_of_one_width() -> None:
    there, here = twins()
    rows = np.random.default_rng(1).integers(0, 256, (500, 12), np.uint8)
    there.insert(Array(rows))
    here.insert(rows.view("V12").ravel())
    assert there.to_filter() == here


def test_copies_bits_merge_subtract_and_clear() -> None:
    there, here = twins()
    here.insert(KEYS[:6_000])
    copied = DeviceFilter.of(here)
    assert copied.to_filter() == here
    there.insert(Array(KEYS[6_000:9_000]))
    there.merge(copied)
    assert (there.contains(Array(KEYS[:9_000])).get()).all()
    assert there.subtract(copied) == 0
    alone = scbf.Filter(geometry=there.geometry, seed=3)
    alone.insert(KEYS[6_000:9_000])
    assert there.to_filter() == alone
    bits = copied.project()
    assert bits.geometry.cell == "bit" and bits.nbytes * 4 == copied.nbytes
    assert (bits.contains(Array(KEYS)).get() == here.contains(KEYS)).all()
    assert (DeviceFilter.of(scbf.BloomFilter.of(here)).contains(Array(KEYS)).get() == here.contains(KEYS)).all()
    there.clear()
    assert not there.contains(Array(KEYS)).get().any()
    with pytest.raises(scbf.InvalidArgument, match="bits"):
        bits.to_filter()
    with pytest.raises(scbf.InvalidArgument, match="bits"):
        bits.project()
    with pytest.raises(scbf.InvalidArgument, match="bits"):
        bits.remove(Array(KEYS[:5]))
    with pytest.raises(scbf.Incompatible):
        there.merge(DeviceFilter(capacity=10, fpr=0.1))


def test_a_filter_of_bits_has_four_times_the_bits_of_a_plan_for_memory() -> None:
    filter = DeviceFilter(fpr=0.01, memory_bytes=100_000, bits=True)
    assert 90_000 < filter.nbytes <= 100_000
    assert filter.geometry == scbf.BloomFilter(fpr=0.01, memory_bytes=100_000).geometry


@pytest.mark.parametrize("how", ["cuda_stream", "ptr", "__cuda_stream__", "handle as an int"])
def test_a_stream_of_the_caller_and_work_that_comes_before(how: str) -> None:
    mine, theirs = Stream(how), Stream()
    stream = mine.handle if how == "handle as an int" else mine
    there, here = twins()
    keys = Array(np.zeros(1_000, np.int64), stream=theirs.handle)
    keys.write(KEYS[:1_000], theirs)  # not done before somebody waits for it
    there.insert(keys, stream=stream)
    here.insert(KEYS[:1_000])
    answers = there.contains(Array(KEYS[:2_000]), stream=stream)
    assert answers.__cuda_array_interface__["stream"] == mine.handle
    assert (answers.get() == here.contains(KEYS[:2_000])).all()
    assert there.keys_inserted(stream=stream) == 1_000
    assert there.to_filter(stream=stream) == here
    del answers  # before the stream, of which an int keeps nothing


def test_without_a_stream_the_work_is_done() -> None:
    there, _ = twins()
    keys, stream = Array(KEYS), Stream()  # which waits for nobody
    there.insert(keys)
    assert there.contains(keys, stream=stream).get().all()
    assert there.contains(keys).__cuda_array_interface__["stream"] is None


def test_what_the_work_uses_is_kept_until_it_is_done() -> None:
    there, _ = twins()
    stream = Stream()
    keys, out = Array(KEYS), Array(np.zeros(len(KEYS), np.uint8))
    seen = [weakref.ref(x) for x in (keys, out, stream)]
    assert there.contains(keys, out, stream=stream) is out
    del keys, out
    handle = stream.handle
    del stream
    gc.collect()
    if os.environ.get("SCBF_FAKE_SCHEDULE") == "late":
        assert all(ref() is not None for ref in seen)
        fake.fake_synchronize(ctypes.c_void_p(handle))
    there.insert(Array(KEYS[:1]))  # any later call lets go
    gc.collect()
    assert all(ref() is None for ref in seen)


class Reused(Array):
    """Its memory goes to somebody else when it is gone."""

    def __del__(self) -> None:
        stream = Stream()
        self.write(np.zeros_like(self.host), stream)
        stream.synchronize()
        super().__del__()


@pytest.mark.parametrize("function", ["cudaEventCreateWithFlags", "cudaEventRecord", "cudaEventQuery"])
def test_keys_stay_even_if_nobody_can_say_until_when(function: str) -> None:
    there, stream = DeviceFilter(1000, 0.01), Stream()
    keys = Reused(KEYS[:100])
    fake.fake_fail(function.encode(), False)
    there.insert(keys, stream=stream)
    fake.fake_heal()
    del keys
    gc.collect()
    assert there.keys_inserted(stream=stream) == 100
    assert there.contains(Array(KEYS[:100]), stream=stream).get().all()


def test_filters_that_were_merged_both_ways_end() -> None:
    a, b, stream = DeviceFilter(1000, 0.01), DeviceFilter(1000, 0.01), Stream()
    a.merge(b, stream=stream)
    b.merge(a, stream=stream)


def test_a_process_ends_with_answers_that_others_took() -> None:
    program = ("import sys\nsys.path.insert(0, sys.argv[1])\nfrom test_scbf_cuda import *\n"
               "f, _ = twins()\nanswers = f.find(Array(KEYS[:5]))\ncapsule = answers.__dlpack__(stream=-1)\n"
               "del capsule\n")
    done = subprocess.run([sys.executable, "-P", "-c", program, str(Path(__file__).parent)], capture_output=True,
                          text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_filter_that_ends_waits_for_its_work() -> None:
    other = Stream()
    there, _ = twins()
    there.insert(Array(KEYS))
    keys, out = Reused(KEYS), Array(np.zeros(len(KEYS), np.uint8))
    gone = weakref.ref(keys)
    there.contains(keys, out, stream=other)
    del keys
    del there
    gc.collect()
    assert gone() is None
    assert out.get().all()


def test_answers_are_taken_by_dlpack() -> None:
    there, _ = twins()
    there.insert(Array(KEYS[:100]))
    hits = there.find(Array(KEYS[:200]), stream=Stream())
    assert hits.__dlpack_device__() == (2, 0)
    indices, other = DeviceFilter(1000, 0.01), Stream()
    indices.insert(hits, stream=other)
    assert indices.keys_inserted(stream=other) == 100
    assert indices.contains(Array(np.arange(100))).get().all()


def test_a_stream_that_takes_answers_waits_for_them() -> None:
    there, _ = twins()
    there.insert(Array(KEYS[:1000]))
    first, second = Stream(), Stream()
    answers = there.contains(Array(KEYS[:1000]), stream=first)
    there.contains(Array(KEYS[19_000:]), answers, stream=second)
    second.synchronize()
    assert answers.get().sum() < 100  # what the second stream wrote


def test_answers_written_again_are_waited_for() -> None:
    there, _ = twins()
    there.insert(Array(KEYS[:1000]))
    stream = Stream()
    answers = there.contains(Array(KEYS[19_000:]))
    assert there.contains(Array(KEYS[:1000]), answers, stream=stream) is answers
    assert answers.__cuda_array_interface__["stream"] is not None
    assert answers.get().all()


def test_memory_of_answers_is_free_in_the_order_of_their_stream() -> None:
    there, _ = twins()
    there.insert(Array(KEYS[:1000]))
    stream = Stream()
    present, absent = Array(KEYS[:1000]), Array(KEYS[19_000:])
    there.contains(present, stream=stream)  # nobody wants these
    answers = there.contains(absent)
    stream.synchronize()
    assert answers.get().sum() < 100


@pytest.mark.parametrize("how", ["a stream", "no stream", "the interface"])
def test_memory_that_another_stream_took_outlives_its_work(how: str) -> None:
    there, _ = twins()
    other = Stream()
    answers = there.count(Array(KEYS[:1000]))
    taken = Array(KEYS[:1])  # a view of the answers, in another library's hands
    address = answers.__cuda_array_interface__["data"][0]
    capsule = None if how == "the interface" else answers.__dlpack__(stream=other.handle if how == "a stream" else -1)
    own, taken.memory = taken.memory, address
    taken.write(np.ones(1000, np.uint8), other)
    taken.memory = own
    del answers, capsule
    gc.collect()
    again = there.count(Array(KEYS[:1000]))  # would take the memory
    other.synchronize()
    assert not again.get().any()


def test_dlpack_refuses_what_it_cannot_do() -> None:
    answers = twins()[0].contains(Array(KEYS[:64]))
    with pytest.raises(BufferError, match="get"):
        answers.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="copy"):
        answers.__dlpack__(copy=True)
    capsule = answers.__dlpack__(max_version=(1, 0), dl_device=(2, 0), copy=False)
    del answers
    gc.collect()
    assert "dltensor" in repr(capsule)
    del capsule  # nobody took it


def test_arrays_say_what_they_are() -> None:
    there, _ = twins()
    found = there.count(Array(KEYS[:5]))
    assert (found.shape, len(found), found.dtype, found.nbytes, found.device) == ((5,), 5, np.uint8, 5, 0)
    assert repr(found) == "<scbf.cuda.DeviceArray: 5 uint8, device 0>"
    assert repr(there).startswith("<scbf.cuda.DeviceFilter: split_block, 1 group of ")
    assert there.contains(Array(KEYS[:0])).get().shape == (0,)
    with pytest.raises(AttributeError):
        there.anything = 1  # type: ignore[attr-defined]


def test_out() -> None:
    there, here = twins()
    there.insert(Array(KEYS[:3]))
    for dtype in (np.bool_, np.uint8):
        out = Array(np.zeros(6, dtype))
        assert there.contains(Array(KEYS[:6]), out) is out
        assert out.get().tolist() == [1, 1, 1, 0, 0, 0]
    for wrong, why in [(np.zeros(5, np.uint8), "has 5 items, must have 6"), (np.zeros(6, np.int64), "array of i8"),
                       (np.zeros((6, 1), np.uint8), r"shape \(6, 1\)"), (np.zeros(12, np.uint8)[::2], "contiguous")]:
        with pytest.raises(scbf.InvalidArgument, match=why):
            there.contains(Array(KEYS[:6]), Array(wrong))
    fixed = Array(np.zeros(6, np.uint8))
    fixed.changes["data"] = (fixed.memory, True)
    with pytest.raises(scbf.InvalidArgument, match="read only"):
        there.contains(Array(KEYS[:6]), fixed)

    class Fixed:
        """Only its interface can say that it is read only."""

        def __init__(self) -> None:
            self.answers = there.count(Array(KEYS[:6]))
            self.__dlpack__, self.__dlpack_device__ = self.answers.__dlpack__, self.answers.__dlpack_device__

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            interface = self.answers.__cuda_array_interface__
            return {**interface, "data": (interface["data"][0], True)}

    with pytest.raises(scbf.InvalidArgument, match="read only"):
        there.contains(Array(KEYS[:6]), Fixed())
    with pytest.raises(scbf.InvalidArgument, match="must be a contiguous array of uint8"):
        there.count(Array(KEYS[:6]), Array(np.zeros(6, np.bool_)))


@pytest.mark.parametrize(("values", "why"), [
    (np.arange(4, dtype=np.int32), "an array of i4 with shape.*astype"),
    (np.arange(4, dtype=np.float64), "astype"),
    (np.arange(4, dtype=">i8"), "an array of another type"),
    (np.arange(8)[::2], "not contiguous"),
    (np.arange(8).reshape(2, 4), r"shape \(2, 4\)"),
    (np.zeros((3, 0), np.uint8), r"shape \(3, 0\)"),
])
def test_what_cannot_be_keys(values: Any, why: str) -> None:
    with pytest.raises(scbf.InvalidKey, match=why):
        twins()[0].insert(Array(values))


def test_empty_and_impossible_shapes() -> None:
    there, _ = twins()
    there.insert(Array(KEYS[:0], strides=(16,)))
    assert there.keys_inserted() == 0
    with pytest.raises(scbf.InvalidArgument, match="more than 2.64 bytes"):
        there.insert(Array(KEYS, shape=(2**61,)))


class LiesOfItsPlace:
    """A NumPy array that says that it is on the device."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **_options: Any) -> Any:
        return KEYS.__dlpack__()


def test_tensors_that_contradict_themselves() -> None:
    with pytest.raises(scbf.InvalidArgument, match="on another device than it says"):
        twins()[0].insert(LiesOfItsPlace())


def test_answers_are_not_taken_for_what_they_are_not() -> None:
    answers = twins()[0].contains(Array(KEYS[:3]))
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(answers)
    with pytest.raises(TypeError, match="get"):
        np.asarray(answers)


def test_arrays_elsewhere() -> None:
    there, _ = twins()
    with pytest.raises(scbf.InvalidKey, match="memory of the host: scbf.Filter takes it"):
        there.insert(KEYS)
    with pytest.raises(scbf.InvalidKey, match="neither __dlpack__ nor"):
        there.insert([1, 2])  # type: ignore[arg-type]
    with pytest.raises(scbf.InvalidKey, match="on device 1, and the filter on device 0"):
        there.insert(Array(KEYS, device=1))
    host = Array(KEYS, data=(KEYS.ctypes.data, False))
    with pytest.raises(scbf.InvalidKey, match="memory of the host"):
        there.insert(host)
    with pytest.raises(scbf.InvalidKey, match="mask"):
        there.insert(Array(KEYS, mask=Array(KEYS)))
    other = DeviceFilter(1000, 0.01, device=1)
    other.insert(Array(KEYS[:10], device=1))
    assert other.keys_inserted() == 10 and other.device == 1
    found = other.find(Array(KEYS[:10], device=1))
    with pytest.raises(scbf.InvalidKey, match="on device 1, and the filter on device 0"):
        there.insert(found)
    with pytest.raises(scbf.InvalidArgument, match="device 2: must be from 0 to 1"):
        DeviceFilter(1000, 0.01, device=2)


@pytest.mark.parametrize("changes", [{"data": None}, {"typestr": "i"}, {"shape": (-1,)}, {"strides": (8, 8)},
                                     {"shape": ("five",)}, {"data": "here"}, {"stream": "mine"}])
def test_broken_interfaces(changes: dict[str, Any]) -> None:
    with pytest.raises(scbf.InvalidArgument, match="protocol|strides"):
        twins()[0].insert(Array(KEYS, **changes))


@pytest.mark.parametrize("stream", ["fast", -5, 1.5, True, object()])
def test_what_is_no_stream(stream: Any) -> None:
    with pytest.raises(scbf.InvalidArgument, match="must be None, the handle of a stream"):
        twins()[0].insert(Array(KEYS), stream=stream)


def test_too_little_memory_and_errors_of_the_device() -> None:
    fake.fake_set_memory(ctypes.c_size_t(fake.fake_memory_in_use() + 4_000_000))
    with pytest.raises(scbf.OutOfDeviceMemory, match="bytes of device memory: .* are free") as caught:
        DeviceFilter(10**8, 0.01)
    assert isinstance(caught.value, MemoryError)
    there, here = twins()
    keys = Array(KEYS)
    fake.fake_set_memory(ctypes.c_size_t(fake.fake_memory_in_use()))
    with pytest.raises(scbf.OutOfDeviceMemory):
        there.contains(keys)
    fake.fake_set_memory(ctypes.c_size_t(1 << 30))
    fake.fake_fail(b"cudaMallocFromPoolAsync", False)
    with pytest.raises(scbf.DeviceError, match="unknown error"):
        there.contains(keys)
    there.insert(keys)
    here.insert(KEYS)
    assert there.to_filter() == here


def test_memory_that_ends_in_a_later_piece_of_the_keys() -> None:
    pieces = [np.arange(1000, dtype=np.uint64), np.arange(1000, 500_000, dtype=np.uint64)]
    keys = pa.chunked_array([pa.array([*pieces[0], None], pa.uint64()), pa.array(pieces[1])])

    def memory_ends(done: int, _: int) -> None:
        assert done == 1001  # those of the first piece
        fake.fake_set_memory(ctypes.c_size_t(fake.fake_memory_in_use()))

    there, here = (scbf.Filter(500_000, 0.01, backend=backend) for backend in ("cuda", "scalar"))
    with pytest.raises(scbf.FilterFull, match="begins at key 1001") as full:
        there.insert(keys, progress=memory_ends)
    assert (full.value.processed, full.value.inserted, full.value.nulls) == (1001, 1000, 1)
    here.insert(pieces[0])
    assert there.to("scalar") == here and there.keys_inserted == 1000

    fake.fake_set_memory(ctypes.c_size_t(1 << 30))
    there.to("cuda").insert(pieces[1])
    here.insert(pieces[1])
    with pytest.raises(scbf.RemovalStopped, match="begins at key 1001") as stopped:
        there.remove(keys, progress=memory_ends)
    assert (stopped.value.processed, stopped.value.removed, stopped.value.nulls) == (1001, 1000, 1)
    assert (stopped.value.absent, stopped.value.ambiguous) == (0, 0)
    here.remove(pieces[0])
    assert there.to("scalar") == here and there.keys_removed == 1000


def test_a_lost_device_is_said_aloud() -> None:
    program = ("import ctypes, numpy as np, scbf, scbf.cuda, sys\nfrom scbf import _scbf\n"
               "filter = scbf.cuda.DeviceFilter(1000, 0.01)\nfake = ctypes.CDLL(_scbf.__file__)\n"
               "fake.fake_fail(b'cudaStreamSynchronize', True)\n"
               "try:\n    filter.keys_inserted()\n"
               "except scbf.DeviceLost as error:\n    print(error)\n")
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert "nothing can be done on this device until the process ends" in done.stdout, done.stderr


def test_the_hand_written_stub_is_right() -> None:
    """Every method with the names of its parameters, and no other."""
    stub = ast.parse((Path(scbf.cuda.__file__).with_suffix(".pyi")).read_text())

    def parameters(function: ast.FunctionDef) -> tuple[list[str], list[str]]:
        return [a.arg for a in function.args.args if a.arg != "self"], [a.arg for a in function.args.kwonlyargs]

    for cls in (DeviceArray, DeviceFilter):
        body = next(x.body for x in stub.body if isinstance(x, ast.ClassDef) and x.name == cls.__name__)
        written = {x.name: x for x in body if isinstance(x, ast.FunctionDef)}
        members = {name: value for name, value in vars(cls).items()
                   if name not in ("__doc__", "__module__", "__repr__", "__new__", "__bool__", "__array__",
                                   "__nb_signature__")
                   and (name != "__init__" or cls is DeviceFilter)}
        assert written.keys() == members.keys()
        for name, value in members.items():
            if isinstance(value, property):
                continue
            signature = re.sub(r"\\\d+", "None", value.__nb_signature__[0][0])
            made = ast.parse(signature + ": ...").body[0]
            assert isinstance(made, ast.FunctionDef)
            assert parameters(written[name]) == parameters(made), name


def test_a_build_without_the_index_says_so() -> None:
    assert not _scbf.has_index and "SecondaryIndex" not in scbf.__all__
    for name in ("SecondaryIndex", "QueryAnswer", "RoutingReport", "WriteReport"):
        assert not hasattr(_scbf, name)
        with pytest.raises(AttributeError, match=f"^scbf.{name}: this build has no secondary index, because RocksDB"):
            getattr(scbf, name)


def test_many_answers_leak_nothing() -> None:
    there, _ = twins()
    keys = Array(KEYS[:10])
    stream = Stream()
    for _ in range(5_000):
        there.contains(keys, stream=stream)
    stream.synchronize()
    assert isinstance(there.contains(keys), DeviceArray)
