// SPDX-License-Identifier: Apache-2.0
// How filters and banks are saved: in files, as bytes, and as pickles.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "classes/messages.hpp"
#include "classes/pickled.hpp"
#include "held.hpp"
#include "outside.hpp"

namespace scbf::python {

namespace nb = nanobind;

/// What a pickle makes of an object that was planned for a number of keys.
template <class T>
std::unique_ptr<Held<T>> from_bytes_and_plan(nb::handle data, std::uint64_t capacity, double fpr) {
  auto made = from_bytes<T>(data, "auto");
  made->planned.set(capacity, fpr);
  return made;
}

/// What __reduce__ returns. The bytes are those of a file, which do not say what Python has
/// planned.
template <class T>
nb::tuple as_pickle(nb::handle self) {
  const nb::object bytes = self.attr("to_bytes")();
  const auto& held = nb::cast<const Held<T>&>(self);
  const Passage inside(held.gate, Passage::To::read);
  const PlannedFor& planned = held.planned;
  if (!planned.is_set()) return pickled(self.type(), "from_bytes", bytes);
  return pickled(self.type(), "_made", bytes, planned.capacity(), planned.fpr());
}

/// The signature of a static method that makes an object of a file. (By itself, nanobind does not
/// say that the path is one of str.)
inline std::string path_signature(const char* method, const char* name) {
  return fmt::format("def {}(path: str | os.PathLike[str], *, backend: str = 'auto') -> {}", method,
                     name);
}

/// Adds what all classes that are saved have; `name` is that of the class in Python.
template <class T>
void add_saving(nb::class_<Held<T>>& cls, const char* name) {
  using Self = Held<T>;
  // Kept, as nanobind keeps the pointers; a static method cannot return Self.
  static const std::string from_bytes_signature = fmt::format(
      "def from_bytes(data: bytes | bytearray | memoryview, *, backend: str = 'auto') -> {}", name);
  static const std::string load_signature = path_signature("load", name);
  static const std::string from_bytes_doc = fmt::format(
      "The {} in the bytes of to_bytes() or of a file. Raises CorruptFile or Incompatible.", name);
  cls.def_static(
         "load",
         [](const std::filesystem::path& path, std::string_view backend) {
           Outside others_may_run;
           return hold(T::load(path, {.backend = backend}));
         },
         nb::arg("path"), nb::kw_only(), nb::arg("backend") = "auto",
         nb::sig(load_signature.c_str()),
         "Reads a file and verifies all of it. Raises IoError, CorruptFile or Incompatible.")
      .def_static("from_bytes", &from_bytes<T>, nb::arg("data"), nb::kw_only(),
                  nb::arg("backend") = "auto", nb::sig(from_bytes_signature.c_str()),
                  from_bytes_doc.c_str())
      .def(
          "save",
          [](const Self& self, const std::filesystem::path& path, bool compress) {
            const Passage inside(self.gate, Passage::To::read);
            Outside others_may_run;
            self.value.save(path, {.compress = compress});
          },
          nb::arg("path"), nb::kw_only(), nb::arg("compress") = false,
          nb::sig(
              "def save(self, path: str | os.PathLike[str], *, compress: bool = False) -> None"),
          "Writes a file, atomically: an existing one is replaced as a whole or not at all. A "
          "compressed file can be loaded but not mapped. Raises IoError.")
      .def("to_bytes", &to_bytes<T>, nb::kw_only(), nb::arg("compress") = false,
           "What save() writes, as bytes.")
      .def_static("_made", &from_bytes_and_plan<T>)
      .def(
          "_plan_for",
          [](Self& self, std::uint64_t capacity, double fpr) {
            const Passage inside(self.gate, Passage::To::change);
            self.planned.set(capacity, fpr);
          },
          nb::arg("capacity"), nb::arg("fpr"),
          "For what scbf.spark builds: as if the object had been made of this plan.")
      .def("__reduce__", &as_pickle<T>);
}

/// Adds map(); `name` is that of the class in Python.
template <class T>
void add_mapping(nb::class_<Held<T>>& cls, const char* name, const char* doc) {
  static const std::string signature = path_signature("map", name);
  cls.def_static(
      "map",
      [](const std::filesystem::path& path, std::string_view backend) {
        Outside others_may_run;
        return hold(T::map(path, {.backend = backend}));
      },
      nb::arg("path"), nb::kw_only(), nb::arg("backend") = "auto", nb::sig(signature.c_str()), doc);
}

}  // namespace scbf::python
