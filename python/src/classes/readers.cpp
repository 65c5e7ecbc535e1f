// SPDX-License-Identifier: Apache-2.0
// BloomFilter, the bits of a filter for readers that only ask; Delta, as which its changes travel;
// and Replica, a copy that takes them.
#include "classes/epochs.hpp"
#include "classes/filter_class.hpp"
#include "module.hpp"
#include "outside.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/delta.hpp"
#include "text.hpp"

namespace scbf::python {
namespace {

using HeldBloomFilter = Held<BloomFilter>;

std::unique_ptr<HeldBloomFilter> bits_of(const Held<Filter>& counters) {
  const Passage inside(counters.gate, Passage::To::read);
  Outside others_may_run;
  auto bits = hold(BloomFilter(counters.value));
  bits->take_notes_of(counters);
  return bits;
}

template <class F>
Delta advance(HeldBloomFilter& self, const Held<F>& now) {
  const PassageToBoth inside(self.gate, Passage::To::change, now.gate);
  self.check_no_exports();
  const auto advanced = [&] {
    Outside others_may_run;
    return self.value.advance(now.value);
  };
  Delta changes = advanced();
  self.kinds.follow(now.kinds);
  return changes;
}

template <class Function>
KeyEstimate together(const HeldBloomFilter& self, const HeldBloomFilter& other, Function function) {
  const PassageToBoth inside(self.gate, Passage::To::read, other.gate);
  Outside others_may_run;
  return function(self.value, other.value);
}

void intersect(HeldBloomFilter& self, const HeldBloomFilter& other) {
  const PassageToBoth inside(self.gate, Passage::To::change, other.gate);
  self.check_no_exports();
  Outside others_may_run;
  self.value.intersect(other.value);
}

nb::bytes message_of(const Delta& delta) {
  const std::span<const std::byte> message = delta.message();
  return nb::bytes(reinterpret_cast<const char*>(message.data()), message.size());
}

/// A question to a Replica: the keys, and one filter for the whole call, because a delta may bring
/// one with another seed.
struct Question {
  Question(const Replica& replica, const nb::object& keys, nb::handle threads)
      : options{.threads = thread_number(threads)},
        bits(replica.current()),
        parts(*keys_of(keys, bits->seed())) {}

  /// Calls add(filter, batch, number of its first key, options) for all pieces.
  template <class Add>
  void ask(Add add) const {
    Run run(nb::none(), parts.size, bits->seed());
    run.over(parts,
             [&](const KeyBatch& batch, std::size_t first) { add(*bits, batch, first, options); });
  }

  BatchOptions options;
  std::shared_ptr<const BloomFilter> bits;
  Parts parts;
};

nb::object replica_contains(const Replica& self, nb::object keys, nb::object out,
                            nb::handle threads) {
  SingleKey key;
  if (is_single_key(keys.ptr(), key)) {
    thread_number(threads);  // refuses what is none
    check_no_out(out);
    return nb::bool_(key.visit([&](auto k) { return self.contains(k); }));
  }
  const Question question(self, keys, threads);
  Answers answers(std::move(out), question.parts, question.parts.size, "?B");
  question.ask([&](const BloomFilter& bits, const KeyBatch& batch, std::size_t first,
                   const BatchOptions& options) {
    bits.contains(batch, answers.span().subspan(first, batch.size()), options);
  });
  return std::move(answers).array<bool>();
}

nb::object replica_contains_bits(const Replica& self, nb::object keys, nb::object out,
                                 nb::handle threads) {
  const Question question(self, keys, threads);
  PackedAnswers answers(std::move(out), question.parts);
  question.ask([&](const auto&... piece) { answers.add(piece...); });
  return std::move(answers).array();
}

nb::object replica_find(const Replica& self, nb::object keys, nb::handle threads) {
  const Question question(self, keys, threads);
  FoundIndices answers;
  question.ask([&](const auto&... piece) { answers.add(piece...); });
  return std::move(answers).array();
}

std::uint64_t replica_count_present(const Replica& self, nb::object keys, nb::handle threads) {
  const Question question(self, keys, threads);
  std::uint64_t present = 0;
  question.ask(
      [&](const BloomFilter& bits, const KeyBatch& batch, std::size_t,
          const BatchOptions& options) { present += bits.count_present(batch, options).hits; });
  return present;
}

int replica_contains_slot(PyObject* self, PyObject* object) noexcept {
  try {
    SingleKey key;
    if (!is_single_key(object, key)) refuse_in(object);
    const Replica& replica = ready<Replica>(self);
    return key.visit([&](auto k) { return replica.contains(k); }) ? 1 : 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

}  // namespace

void add_readers(nb::module_& module) {
  auto delta = nb::class_<Delta>(
      module, "Delta", R"(Changes of a BloomFilter from one epoch to the next, for readers.

>>> import scbf
>>> counters = scbf.Filter(capacity=1000, fpr=0.01)
>>> published = scbf.BloomFilter.of(counters)
>>> first = published.advance(counters)     # epoch 1: the whole filter, for new readers
>>> reader = scbf.Replica(first)
>>> _ = counters.insert(["apple", "banana"])
>>> change = published.advance(counters)    # epoch 1 to 2
>>> reader.apply(scbf.Delta.from_bytes(change.to_bytes()))
>>> "apple" in reader, reader.epoch
(True, 2))");
  auto bits = filter_class<BloomFilter>(module, "BloomFilter",
                                        R"(The bits of a counting filter, for readers that only ask.

It gives the same answers as the Filter that it was made from, key by key, from a quarter of the memory (more in
layout ranked). Built from keys, it is a plain Bloom filter. Keys can be added, but not removed.

>>> import scbf
>>> counters = scbf.Filter(capacity=1000, fpr=0.01)
>>> _ = counters.insert(range(1000))
>>> bits = scbf.BloomFilter.of(counters)
>>> bits.nbytes * 4 == counters.nbytes, bool(bits.contains(range(1000)).all())
(True, True))");
  bits.def_static("of", &bits_of, nb::arg("counters"),
                  "The bits of a Filter. Cost: one pass over its counters.")
      .def("intersect", &intersect, nb::arg("other"),
           "Keeps the bits that both have. Also as ``&=``; ``&`` makes a new one. The result holds "
           "every key that both held, but has more false positives than the filter of the common "
           "keys would. Raises Incompatible, changing nothing.")
      .def(
          "__iand__",
          [](nb::object self, const HeldBloomFilter& other) {
            self.attr("intersect")(nb::find(other));
            return self;
          },
          nb::sig("def __iand__(self, other: Self, /) -> Self"), nb::is_operator())
      .def(
          "__and__",
          [](const HeldBloomFilter& self, const HeldBloomFilter& other) {
            nb::object both = nb::find(self).attr("copy")();
            both.attr("intersect")(nb::find(other));
            return both;
          },
          nb::sig("def __and__(self, other: Self, /) -> Self"), nb::is_operator())
      .def(
          "estimated_keys",
          [](const HeldBloomFilter& self) {
            const Passage inside(self.gate, Passage::To::read);
            Outside others_may_run;
            return self.value.estimated_keys();
          },
          "How many distinct keys would give this fill, with the standard error of the estimate.")
      .def(
          "estimated_union",
          [](const HeldBloomFilter& self, const HeldBloomFilter& other) {
            return together(self, other, [](const BloomFilter& a, const BloomFilter& b) {
              return a.estimated_union(b);
            });
          },
          nb::arg("other"), "How many distinct keys are in this filter or the other.")
      .def(
          "estimated_intersection",
          [](const HeldBloomFilter& self, const HeldBloomFilter& other) {
            return together(self, other, [](const BloomFilter& a, const BloomFilter& b) {
              return a.estimated_intersection(b);
            });
          },
          nb::arg("other"), "How many distinct keys are in both filters.")
      .def_prop_ro("epoch",
                   reading<BloomFilter>([](const BloomFilter& f) { return number_of(f.epoch()); }),
                   "where the bits stand in their history, 1, 2, 3 …; None if they were changed by "
                   "anything but advance() and apply()")
      .def("advance", &advance<Filter>, nb::arg("now"))
      .def("advance", &advance<BloomFilter>, nb::arg("now"),
           "Takes over the bits of ``now`` as the next epoch, and returns the Delta that leads "
           "there: a whole filter where there was no epoch, or where that is shorter.")
      .def(
          "apply",
          [](HeldBloomFilter& self, const Delta& change) {
            const Passage inside(self.gate, Passage::To::change);
            self.check_no_exports();
            Outside others_may_run;
            self.value.apply(change);
            self.kinds.forget();
          },
          nb::arg("delta"),
          "Applies a delta, all of it or nothing. Raises Incompatible, naming both epochs, unless "
          "it begins at the epoch of this filter, or is whole and of a later one.");

  delta
      .def_static(
          "load",
          [](const std::filesystem::path& path) {
            Outside others_may_run;
            return Delta::load(path);
          },
          nb::arg("path"), nb::sig("def load(path: str | os.PathLike[str]) -> Delta"),
          "Reads and verifies a file. Raises IoError, CorruptFile or Incompatible.")
      .def_static(
          "from_bytes",
          [](nb::handle data) {
            const Buffer buffer(data, PyBUF_SIMPLE);
            Outside others_may_run;
            BytesSource source(bytes_in(buffer));
            Delta read = Delta::read(std::ref(source));
            source.check_at_end();
            return read;
          },
          nb::arg("data"), nb::sig("def from_bytes(data: bytes | bytearray | memoryview) -> Delta"),
          "Reads and verifies a message.")
      .def(
          "save",
          [](const Delta& self, const std::filesystem::path& path) {
            Outside others_may_run;
            self.save(path);
          },
          nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
          "Writes a file, atomically.")
      .def("to_bytes", &message_of, "The message.")
      .def("__reduce__",
           [](nb::handle self) {
             return pickled(self.type(), "from_bytes", self.attr("to_bytes")());
           })
      .def_prop_ro(
          "since", [](const Delta& d) { return number_of(d.since()); },
          "the epoch that it is applied to; None if it is a whole filter")
      .def_prop_ro(
          "epoch", [](const Delta& d) { return number_of(d.epoch()); },
          "the epoch that it leads to")
      .def_prop_ro("whole", &Delta::whole, "does it have all bits?")
      .def_prop_ro("changes", &Delta::changes,
                   "bits that it changes; for a whole one, bits that are 1")
      .def_prop_ro(
          "nbytes", [](const Delta& d) { return d.message().size(); }, "bytes of the message")
      .def("__repr__", [](const Delta& d) {
        return d.whole() ? fmt::format("<scbf.Delta: whole, epoch {}, {} bytes>", d.epoch().number,
                                       d.message().size())
                         : fmt::format("<scbf.Delta: epoch {} to {}, {} changed, {} bytes>",
                                       d.since().number, d.epoch().number,
                                       counted(d.changes(), "bit"), d.message().size());
      });

  static PyType_Slot replica_slots[] = {
      {Py_sq_contains, reinterpret_cast<void*>(&replica_contains_slot)}, {0, nullptr}};
  nb::class_<Replica>(module, "Replica", nb::type_slots(replica_slots),
                      "A reader's copy of a BloomFilter, which any number of threads can ask while "
                      "deltas are applied; neither side waits for the other.")
      .def(
          "__init__",
          [](Replica* self, const Delta& whole) {
            Outside others_may_run;
            std::construct_at(self, whole);
          },
          nb::arg("whole"), "Begins with a whole filter. Raises Incompatible if it is not.")
      .def("contains", &replica_contains, nb::arg("keys").none(), nb::arg("out") = nb::none(),
           nb::kw_only(), nb::arg("threads").none() = 0,
           nb::sig("def contains(self, keys: Key | KeyColumn, out: NDArray[Any] | None "
                   "= None, *, threads: int = 0) -> Any"),
           "As BloomFilter.contains(). Keys that are in the filter before and after a delta are "
           "also found while it is applied.")
      .def("contains_bits", &replica_contains_bits, nb::arg("keys").none(),
           nb::arg("out") = nb::none(), nb::kw_only(), nb::arg("threads").none() = 0,
           nb::sig("def contains_bits(self, keys: KeyColumn, out: NDArray[Any] | None = "
                   "None, *, threads: int = 0) -> NDArray[numpy.uint8]"),
           "As BloomFilter.contains_bits().")
      .def("find", &replica_find, nb::arg("keys").none(), nb::kw_only(),
           nb::arg("threads").none() = 0,
           nb::sig("def find(self, keys: KeyColumn, *, threads: int = 0) -> "
                   "NDArray[numpy.int64]"),
           "As BloomFilter.find().")
      .def("count_present", &replica_count_present, nb::arg("keys").none(), nb::kw_only(),
           nb::arg("threads").none() = 0,
           nb::sig("def count_present(self, keys: KeyColumn, *, threads: int = 0) -> int"),
           "As BloomFilter.count_present().")
      .def(
          "apply",
          [](Replica& self, const Delta& change) {
            Outside others_may_run;
            self.apply(change);
          },
          nb::arg("delta"), "As BloomFilter.apply().")
      .def_prop_ro(
          "epoch", [](const Replica& self) { return number_of(self.epoch()); },
          "the epoch that lookups which begin now see")
      .def_prop_ro(
          "geometry", [](const Replica& self) { return self.current()->geometry(); },
          "of the first stage")
      .def_prop_ro(
          "nbytes", [](const Replica& self) { return self.current()->bytes(); },
          "bytes of the bits that lookups see; while a delta is applied, there is a copy of them")
      .def(
          "snapshot",
          [](const Replica& self) {
            Outside others_may_run;
            return hold(self.snapshot());
          },
          "A BloomFilter as of now, for example to save it.")
      .def("__repr__", [](const Replica& self) {
        return fmt::format("<scbf.Replica: epoch {}>", self.epoch().number);
      });
}

}  // namespace scbf::python
