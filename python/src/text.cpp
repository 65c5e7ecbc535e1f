// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <fmt/format.h>

#include "scbf/errors.hpp"

namespace nb = nanobind;

namespace scbf::python {

nb::object decoded(std::string_view bytes) {
  PyObject* text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (!text) throw nb::python_error();
  return nb::steal(text);
}

std::string encoded(nb::handle value, std::string_view what) {
  if (nb::isinstance<nb::bytes>(value)) {
    const auto bytes = nb::borrow<nb::bytes>(value);
    return {bytes.c_str(), bytes.size()};
  }
  if (!nb::isinstance<nb::str>(value)) {
    throw InvalidArgument(fmt::format("{}: must be str or bytes, is {}", what,
                                      nb::str(value.type().attr("__name__")).c_str()));
  }
  const nb::object bytes =
      nb::steal(PyUnicode_AsEncodedString(value.ptr(), "utf-8", "surrogateescape"));
  if (!bytes.is_valid()) throw nb::python_error();
  return encoded(bytes, what);
}

std::string counted(std::uint64_t n, std::string_view thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

}  // namespace scbf::python
