// SPDX-License-Identifier: Apache-2.0
#include "keys/hashes.hpp"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <string_view>

#include "errors.hpp"
#include "module.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {

Hashes::Hashes(nb::handle object) {
  const auto refuse = [](const char* what) {
    throw InvalidKey(fmt::format(
        "Hashes: {}: must be an array of uint64 of one dimension, one after another", what));
  };
  try {
    buffer_ = std::make_unique<Buffer>(object, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError) &&
        !error.matches(PyExc_BufferError)) {
      throw;
    }
    refuse("no such array");
  }
  const Py_buffer& view = *buffer_->operator->();
  const std::string_view format = view.format ? view.format : "B";
  const bool is_uint64 = view.itemsize == 8 && (format == "L" || format == "Q");
  if (!is_uint64) refuse(fmt::format("items of format '{}'", format).c_str());
  if (view.ndim != 1) refuse(fmt::format("{} dimensions", view.ndim).c_str());
  if (reinterpret_cast<std::uintptr_t>(buffer_->data()) % alignof(std::uint64_t) != 0) {
    refuse("at an address that is no multiple of 8");
  }
  values_ = {reinterpret_cast<const std::uint64_t*>(buffer_->data()),
             static_cast<std::size_t>(view.len) / 8};
}

std::unique_ptr<KeySource> hashes_source(nb::handle object) {
  if (!nb::isinstance<Hashes>(object)) return nullptr;
  const auto values = nb::cast<const Hashes&>(object).values();
  // Of what keys they are is not known, as of bytes.
  return std::make_unique<OneColumn>(plain_column(KeyBatch::from_hashes(values), KindsOfKeys::bytes,
                                                  std::as_bytes(values),
                                                  nb::object(nb::borrow(object))));
}

void add_hashes(nb::module_& module) {
  nb::class_<Hashes>(
      module, "Hashes", nb::sig("@final\nclass Hashes()"), nb::is_final(),
      R"(Ready-made hashes: a column that calls take in place of keys, and do not hash again.

For keys that are hashed anyway, or once for several filters. A filter finds a key by its hash if it was inserted as
such, or if the hash is the XXH3-64 of the key's bytes with the filter's seed: of an integer, its 8 bytes as 64-bit
two's complement, least significant first. Other hashes must be uniform over all 64 bits, or the rate suffers; do not
mix them with keys in one filter.

>>> import numpy as np, scbf
>>> hashes = np.random.default_rng(1).integers(0, 2**64, 1000, np.uint64)
>>> seen = scbf.Filter(capacity=1000, fpr=0.01)
>>> seen.insert(scbf.Hashes(hashes))
<scbf.InsertReport: 1000 inserted, 0 nulls>
>>> bool(seen.contains(scbf.Hashes(hashes[:100])).all())
True

Args:
    array: n uint64, one after another, which it keeps and does not copy.
Raises:
    InvalidKey: for anything else.)")
      .def(nb::init<nb::handle>(), nb::arg("array").none(),
           nb::sig("def __init__(self, array: NDArray[numpy.uint64] | memoryview) -> None"))
      .def("__len__", &Hashes::size)
      .def("__repr__", [](const Hashes& hashes) {
        return fmt::format("<scbf.Hashes: {}>", counted(hashes.size(), "key"));
      });
}

}  // namespace scbf::python
