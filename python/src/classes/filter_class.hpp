// SPDX-License-Identifier: Apache-2.0
// What the classes Filter and BloomFilter have in common: the calls of batches.hpp, what shape.hpp,
// copying.hpp, saving.hpp and counters_buffer.hpp have, and properties.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calls/batches.hpp"
#include "classes/bulk.hpp"
#include "classes/closing.hpp"
#include "classes/copying.hpp"
#include "classes/counters_buffer.hpp"
#include "classes/saving.hpp"
#include "classes/shape.hpp"
#include "outside.hpp"
#include "text.hpp"

namespace scbf::python {

namespace nb = nanobind;

// ---- reading properties
// --------------------------------------------------------------------------

/// A property that reads the filter.
template <class F, class Get>
auto reading(Get get) {
  return [get](const Held<F>& self) {
    const Passage inside(self.gate, Passage::To::read);
    return get(self.value);
  };
}

/// The filter's class, with what both have; `Class` is its name in Python.
template <class F>
nb::class_<Held<F>> filter_class(nb::module_& module, const char* name, const char* doc) {
  using Self = Held<F>;
  const std::string python_name = name;
  static const std::string signature =
      fmt::format("@final\nclass {}()", name);  // nanobind keeps it
  nb::class_<Self> cls(module, name, nb::sig(signature.c_str()), nb::type_slots(filter_slots<F>()),
                       nb::is_final(), nb::is_weak_referenceable(), doc);
  cls.def("__init__", &construct<F>, nb::arg("capacity") = nb::none(), nb::arg("fpr") = nb::none(),
          nb::kw_only(), nb::arg("memory_bytes") = nb::none(), nb::arg("layout") = nb::none(),
          nb::arg("geometry") = nb::none(), nb::arg("growth") = nb::none(), nb::arg("seed") = 0,
          nb::arg("backend") = "auto",
          nb::sig("def __init__(self, capacity: int | float | None = None, fpr: float | None = "
                  "None, *, memory_bytes: int | float | None = None, layout: Layout | None = None, "
                  "geometry: Geometry | None = None, growth: Growth | None = None, seed: int = 0, "
                  "backend: str = 'auto') -> None"));

  // ---- keys
  cls.def(
         "contains",
         [](const Self& self, nb::object keys, nb::object out, nb::handle threads,
            std::string_view path, nb::object progress) {
           return contains(self, std::move(keys), std::move(out),
                           call_options(threads, path, std::move(progress)));
         },
         nb::arg("keys").none(), nb::arg("out") = nb::none(), nb::kw_only(),
         nb::arg("threads").none() = 0, nb::arg("path") = "automatic",
         nb::arg("progress") = nb::none(),
         nb::sig(
             "def contains(self, keys: Key | KeyColumn, out: NDArray[Any] | None = "
             "None, *, threads: int = 0, path: BatchPath = 'automatic', progress: Progress = None) "
             "-> Any"),
         R"(Which keys may be present? False is certain; True is wrong at the filter's rate.

Args:
    keys: a column of n keys, or one key; see the package's documentation.
    out: a contiguous array of n bool or uint8 to write to.
    threads: at most this many; 0 for all of the machine.
    path: 'direct' or 'partitioned', instead of the one that is measured to be faster ('automatic'). Answers are
        the same.
    progress: called with (keys done, keys in all) about four times a second.
Returns:
    an array of n bool (``out``, if that was given); for one key a bool. Null keys are False.
Raises:
    InvalidKey: for columns that cannot be keys.
    InvalidArgument: if ``out`` has another size.)")
      .def(
          "contains_bits",
          [](const Self& self, nb::object keys, nb::object out, nb::handle threads,
             std::string_view path, nb::object progress) {
            return contains_bits(self, std::move(keys), std::move(out),
                                 call_options(threads, path, std::move(progress)));
          },
          nb::arg("keys").none(), nb::arg("out") = nb::none(), nb::kw_only(),
          nb::arg("threads").none() = 0, nb::arg("path") = "automatic",
          nb::arg("progress") = nb::none(),
          nb::sig("def contains_bits(self, keys: KeyColumn, out: NDArray[Any] | "
                  "None = None, *, threads: int = 0, path: BatchPath = 'automatic', progress: "
                  "Progress = "
                  "None) -> NDArray[numpy.uint8]"),
          "Like contains(), but for columns only, and packed: key i is bit i % 8 of byte i // 8, "
          "least significant "
          "first, as in an Arrow column of bool. Returns an array of (n + 7) // 8 uint8.")
      .def(
          "find",
          [](const Self& self, nb::object keys, nb::handle threads, std::string_view path,
             nb::object progress) {
            return find(self, std::move(keys), call_options(threads, path, std::move(progress)));
          },
          nb::arg("keys").none(), nb::kw_only(), nb::arg("threads").none() = 0,
          nb::arg("path") = "automatic", nb::arg("progress") = nb::none(),
          nb::sig("def find(self, keys: KeyColumn, *, threads: int = 0, path: BatchPath = "
                  "'automatic', progress: Progress = None) -> NDArray[numpy.int64]"),
          "Like contains(), but for columns only, and returns indices: an ascending array of "
          "int64, one for each key "
          "that may be present.")
      .def(
          "count_present",
          [](const Self& self, nb::object keys, nb::handle threads, std::string_view path,
             nb::object progress) {
            return count_present(self, std::move(keys),
                                 call_options(threads, path, std::move(progress)));
          },
          nb::arg("keys").none(), nb::kw_only(), nb::arg("threads").none() = 0,
          nb::arg("path") = "automatic", nb::arg("progress") = nb::none(),
          nb::sig("def count_present(self, keys: KeyColumn, *, threads: int = 0, path: "
                  "BatchPath = 'automatic', progress: Progress = None) -> int"),
          "How many keys of a column may be present: less work than adding up the "
          "answers of contains().")
      .def(
          "insert",
          [](Self& self, nb::object keys, nb::handle threads, std::string_view path,
             nb::object progress) {
            return insert(self, std::move(keys), call_options(threads, path, std::move(progress)));
          },
          nb::arg("keys").none(), nb::kw_only(), nb::arg("threads").none() = 0,
          nb::arg("path") = "automatic", nb::arg("progress") = nb::none(),
          nb::sig("def insert(self, keys: Key | KeyColumn, *, threads: int = 0, path: BatchPath = "
                  "'automatic', progress: Progress = None) -> InsertReport | None"),
          R"(Inserts a column of keys, or one key.

An iterator is read in blocks of 65,536 keys, so it may be longer than memory; if its code asks the filter,
it sees the blocks before.

Args:
    keys: see the package's documentation.
    threads, path: as in contains().
    progress: as in contains(); for an iterator the number of all keys is None.
Returns:
    an InsertReport; None for one key.
Raises:
    InvalidKey: for columns that cannot be keys.
    FilterFull: if no stage has room; says where to continue.
    ReadOnly: if the filter is mapped.
    KeyboardInterrupt: within a second of Ctrl-C. The keys inserted until then stay; keys_inserted says how
        many.)")
      .def(
          "bulk",
          [](nb::object self, nb::handle threads, std::string_view path) -> std::unique_ptr<Bulk> {
            return std::make_unique<BulkOf<F>>(std::move(self),
                                               call_options(threads, path, nb::none()).batch);
          },
          nb::kw_only(), nb::arg("threads").none() = 0, nb::arg("path") = "automatic",
          nb::sig("def bulk(self, *, threads: int = 0, path: BatchPath = 'automatic') -> "
                  "BulkInserter"),
          R"(One insertion of many small columns, which is faster than an insert() for each.

>>> import scbf
>>> seen = scbf.Filter(capacity=1000, fpr=0.01)
>>> with seen.bulk() as bulk:
...     for keys in (["apple"], ["banana", None]):
...         _ = bulk.insert(keys)
>>> bulk.so_far
<scbf.InsertReport: 2 inserted, 1 null>

Args:
    threads, path: as in contains().
Returns:
    a BulkInserter, whose class says what holds meanwhile.
Raises:
    ReadOnly: if the filter is mapped.)")
      .def(
          "insert_new",
          [](Self& self, nb::object keys, nb::object out, nb::handle threads, std::string_view path,
             nb::object progress) {
            return insert_new(self, std::move(keys), std::move(out),
                              call_options(threads, path, std::move(progress)));
          },
          nb::arg("keys").none(), nb::arg("out") = nb::none(), nb::kw_only(),
          nb::arg("threads").none() = 0, nb::arg("path") = "automatic",
          nb::arg("progress") = nb::none(),
          nb::sig("def insert_new(self, keys: Key | KeyColumn, out: NDArray[Any] | None "
                  "= None, *, threads: int = 0, path: BatchPath = 'automatic', progress: Progress "
                  "= None) "
                  "-> Any"),
          R"(Inserts the keys that are not there yet, one after another, and says which those were.

Of equal keys only the first is new, so each key counts once. A new key is taken for an old one at the filter's
rate, and is then not inserted. Later, remove only keys that were new.

>>> import scbf
>>> seen = scbf.Filter(capacity=1000, fpr=0.01)
>>> seen.insert_new(["apple", "banana", "apple"])
array([ True,  True, False])
>>> seen.insert_new("banana")
False

Args:
    keys: see the package's documentation.
    out, threads, path, progress: as in contains().
Returns:
    an array of n bool (``out``, if that was given), True where the key was inserted; for one key a bool. Null
    keys are False.
Raises:
    FilterFull: at the first new key for which no stage has room; says where to continue. ``out`` is valid up
        to there.
    InvalidKey, ReadOnly, KeyboardInterrupt: as insert().)");

  // ---- shape and state
  cls.def_prop_ro("geometry", reading<F>([](const F& f) { return f.geometry(); }),
                  "of the first stage")
      .def_prop_ro("growth", reading<F>([](const F& f) { return f.growth(); }))
      .def_prop_ro("seed", reading<F>([](const F& f) { return f.seed(); }), "of the hash, XXH3-64")
      .def_prop_ro("backend",
                   reading<F>([](const F& f) { return std::string(f.backend().name()); }))
      .def_prop_ro("read_only", reading<F>([](const F& f) { return f.read_only(); }),
                   "True for a mapped filter")
      .def_prop_ro("stages", reading<F>([](const F& f) { return f.stages(); }),
                   "how many, at least 1")
      .def_prop_ro("nbytes", reading<F>([](const F& f) { return f.bytes(); }),
                   "bytes of all stages")
      .def_prop_ro("keys_inserted", reading<F>([](const F& f) { return f.keys_inserted(); }),
                   "as recorded, repetitions counted")
      .def_prop_ro("keys_removed", reading<F>([](const F& f) { return f.keys_removed(); }),
                   "as recorded")
      .def_prop_ro("fpr_bound", reading<F>([](const F& f) { return f.fpr_bound(); }),
                   "bound on the false-positive rate of a filter that grows; 1 for others, which "
                   "take any number of keys")
      .def_prop_rw(
          "metadata", reading<F>([](const F& f) { return decoded(f.metadata()); }),
          [](Self& self, nb::str text) {
            const Passage inside(self.gate, Passage::To::change);
            self.value.set_metadata(encoded(text, "metadata"));
          },
          nb::for_getter(nb::sig("def metadata(self, /) -> str")),
          nb::for_setter(nb::sig("def metadata(self, text: str, /) -> None")),
          "free text that is saved with the filter, at most 1 MiB")
      .def(
          "fill",
          [](const Self& self) {
            const Passage inside(self.gate, Passage::To::read);
            Outside others_may_run;
            return self.value.fill();
          },
          "Share of counters that are not 0.")
      .def(
          "statistics",
          [](const Self& self) {
            const Passage inside(self.gate, Passage::To::read);
            Outside others_may_run;
            return self.value.statistics();
          },
          "Figures of each stage and of all. Cost: one pass over the counters.")
      .def("__len__",
           reading<F>([](const F& f) { return keys_left(f.keys_inserted(), f.keys_removed()); }),
           "Keys inserted less keys removed, as recorded: repetitions count.")
      .def("__repr__", [python_name](const Self& self) {
        if (self.gate.closed) return fmt::format("<scbf.{}: closed>", python_name);
        const Passage inside(self.gate, Passage::To::read);
        const F& f = self.value;
        const std::string shape =
            f.stages() == 1 ? f.geometry().describe() : counted(f.stages(), "stage");
        std::string fill;
        if (!f.read_only()) {  // of a mapped file, counting would read all of it
          Outside others_may_run;
          fill = fmt::format("fill {:.3f}, ", f.fill());
        }
        return fmt::format("<scbf.{}: {}, {}, {}{} bytes>", python_name, shape,
                           counted(keys_left(f.keys_inserted(), f.keys_removed()), "key"), fill,
                           f.bytes());
      });

  // For scbf.spark, whose keys are inserted and asked for elsewhere.
  const auto kinds_named = [](std::string_view kind) {
    return kind == "numbers" ? KindsOfKeys::numbers
           : kind == "text"  ? KindsOfKeys::text
                             : KindsOfKeys::bytes;
  };
  cls.def(
         "_holds",
         [kinds_named](Self& self, std::string_view kind) {
           self.kinds.begin_empty();
           self.kinds.inserted(kinds_named(kind));
         },
         nb::arg("kind"), "Notes the kind of all keys: 'numbers', 'text' or 'bytes'.")
      .def(
          "_asked_for",
          [kinds_named](const Self& self, std::string_view kind, int stacklevel) {
            self.kinds.will_be_asked_for(kinds_named(kind), stacklevel);
          },
          nb::arg("kind"), nb::arg("stacklevel"),
          "Warns, once, if the filter is known to hold the other kind.");

  // ---- whole filters
  add_copying(cls,
              "Compares growth, seed, shapes and counters, but not the numbers of keys or the "
              "metadata.");
  cls.def(
         "merge",
         [](Self& self, const Self& other) {
           {
             const PassageToBoth inside(self.gate, Passage::To::change, other.gate);
             self.check_no_exports();
             Outside others_may_run;
             self.value.merge(other.value);
             self.kinds.join(other.kinds);
           }
           warn_if_overfull(self);
         },
         nb::arg("other"),
         "Adds the other filter; the result holds the keys of both. Also as ``|=``; ``|`` makes a "
         "new one. Raises Incompatible, changing nothing, unless geometry (or growth) and seed are "
         "equal.")
      .def(
          "clear",
          [](Self& self) {
            const Passage inside(self.gate, Passage::To::change);
            self.check_no_exports();
            Outside others_may_run;
            self.value.clear();
            self.kinds.begin_empty();
            self.planned.begin_again();
          },
          "Resets the filter to one empty stage.")
      .def(
          "to",
          [](nb::object self, std::string_view backend) {
            Self& held = nb::cast<Self&>(self);
            {
              const Passage inside(held.gate, Passage::To::change);
              held.check_no_exports();
              Outside others_may_run;
              held.value.to(backend);
            }
            return self;
          },
          nb::arg("backend"), nb::sig("def to(self, backend: str) -> Self"),
          "Moves the filter to another backend, for example to a GPU: ``'cuda'``. Returns the "
          "filter.")
      .def(
          "__ior__",
          [](nb::object self, const Self& other) {
            self.attr("merge")(nb::find(other));
            return self;
          },
          nb::sig("def __ior__(self, other: Self, /) -> Self"), nb::is_operator())
      .def(
          "__or__",
          [](const Self& self, const Self& other) {
            nb::object sum = nb::find(self).attr("copy")();
            sum.attr("merge")(nb::find(other));
            return sum;
          },
          nb::sig("def __or__(self, other: Self, /) -> Self"), nb::is_operator());
  // NumPy asks for it where there is no buffer, and would otherwise make an array of one object.
  cls.def(
      "__array__",
      [](nb::handle self, nb::handle dtype, nb::handle copy) {
        const nb::object view = nb::steal(PyMemoryView_FromObject(self.ptr()));
        if (!view.is_valid()) throw nb::python_error();
        return nb::module_::import_("numpy").attr("array")(view, dtype, nb::arg("copy") = copy);
      },
      nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
      nb::sig("def __array__(self, dtype: Any = None, copy: bool | None = None) -> "
              "NDArray[Any]"));

  // ---- files
  add_saving(cls, name);
  add_mapping(
      cls, name,
      "Maps a file as a filter that can be asked at once, but not changed. Pages are read "
      "as needed and shared by all processes. Only the headers are verified. The file must not "
      "be truncated or overwritten in place meanwhile, which would end the process; save() "
      "replaces it.");
  add_closing(cls, "Releases memory, mapping and file. The filter cannot be used afterwards.");
  return cls;
}

}  // namespace scbf::python
