// SPDX-License-Identifier: Apache-2.0
#include "keys/single_key.hpp"

#include <fmt/format.h>

#include <cmath>

#include "errors.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

std::string type_name(PyObject* object) {
  return nb::str(nb::handle(object).type().attr("__name__")).c_str();
}

}  // namespace

std::string shown(PyObject* object) {
  const nb::object text = nb::steal(PyObject_Repr(object));
  if (!text.is_valid()) {
    PyErr_Clear();
    return "?";
  }
  const nb::object encoded =
      nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!encoded.is_valid()) {
    PyErr_Clear();
    return "?";
  }
  std::string shown(nb::borrow<nb::bytes>(encoded).c_str());
  if (shown.size() > 60) {
    std::size_t end = 57;
    while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) --end;
    shown = shown.substr(0, end) + "...";
  }
  return shown;
}

bool is_expression(nb::handle object) {
  const std::string type = type_name(object.ptr());
  return (type == "Column" && is_of_package(object, "pyspark")) ||
         (type == "Expr" && is_of_package(object, "polars"));
}

std::string refusal(PyObject* object) {
  if (PyBool_Check(object)) return fmt::format("{}: true and false are no keys", shown(object));
  if (PyFloat_Check(object)) {
    return fmt::format(
        "{}: floating-point numbers cannot be keys, because numbers that print alike may differ; "
        "round them to integers (pandas with missing values: astype('Int64')), or take their bytes",
        shown(object));
  }
  const std::string type(type_name(object));
  const char* instead = "";
  if (type == "NaTType") {
    return fmt::format("{}: a missing timestamp, and timestamps are no keys; give None",
                       shown(object));
  }
  if (object == Py_None || type == "NAType") {
    return fmt::format("{} is no key: only columns of keys may have missing ones", shown(object));
  }
  if (is_expression(object)) {
    instead = is_of_package(object, "polars")
                  ? ", which has no values yet: ask by its own scbf.contains(filter), once "
                    "scbf.polars is imported, or give a column of a collected frame"
                  : ", which has no values here: scbf.spark.contains(df, column, filter) asks for "
                    "them where they are, and scbf.spark.build(df, column) makes a filter of them";
  } else if (nb::hasattr(object, "__arrow_c_array__") ||
             nb::hasattr(object, "__arrow_c_stream__")) {
    instead =
        ", which is a column or a table itself: give each in a call of its own, or one that has "
        "them all, such as pyarrow.chunked_array(columns) or a column of "
        "pyarrow.Table.from_batches(batches)";
  } else if (nb::hasattr(object, "as_py")) {
    instead = ", a single value of Arrow: give its as_py(), or the column that it is from";
  } else if (type == "UUID") {
    instead = ": take its bytes";
  } else if (type == "date" || type == "datetime" || type == "Timestamp") {
    instead = ": take its isoformat(), or a number of seconds or days";
  } else if (type == "Decimal") {
    instead = ": take its str(), or an integer of a fixed scale";
  } else if (PyObject_HasAttrString(object, "value") == 1) {  // an Enum
    instead = ": take its value";
  }
  return fmt::format("{} is of type {}{}; keys are int, str or bytes, or columns of them",
                     shown(object), type, instead);
}

std::uint64_t number_of(PyObject* object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    if (value == -1 && PyErr_Occurred()) throw nb::python_error();
    return static_cast<std::uint64_t>(value);
  }
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(object);
    if (large != static_cast<unsigned long long>(-1) || !PyErr_Occurred()) return large;
    PyErr_Clear();
  }
  throw InvalidKey(fmt::format(
      "{}: integers as keys have 64 bits, -2**63 to 2**64 - 1; use str() of larger ones",
      shown(object)));
}

std::string_view text_of(PyObject* object) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text) return {text, static_cast<std::size_t>(size)};
  PyErr_Clear();
  throw InvalidKey(fmt::format(
      "{} has a lone surrogate, which UTF-8 cannot hold: encode it, for example by encode('utf-8', "
      "'surrogatepass')",
      shown(object)));
}

std::string_view bytes_of(PyObject* object) {
  char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object, &bytes, &size) != 0) throw nb::python_error();
  return {bytes, static_cast<std::size_t>(size)};
}

char dtype_kind(nb::handle object) {
  if (!nb::hasattr(object, "dtype")) return 0;
  const nb::object dtype = object.attr("dtype");
  if (!nb::hasattr(dtype, "kind")) return 0;
  const nb::object kind = dtype.attr("kind");
  return nb::isinstance<nb::str>(kind) ? nb::cast<nb::str>(kind).c_str()[0] : '\0';
}

bool is_of_package(nb::handle object, std::string_view package) {
  const nb::object module = object.type().attr("__module__");
  if (!nb::isinstance<nb::str>(module)) return false;
  const std::string_view name = nb::cast<nb::str>(module).c_str();
  return name == package || (name.starts_with(package) && name[package.size()] == '.');
}

bool is_null(PyObject* object) {
  // The usual types first: attributes take long.
  const PyTypeObject* const type = Py_TYPE(object);
  if (type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyLong_Type) return false;
  if (object == Py_None) return true;
  if (PyFloat_Check(object) || (dtype_kind(object) == 'f' && !PySequence_Check(object))) {
    return std::isnan(PyFloat_AsDouble(object));
  }
  return type_name(object) == "NAType";
}

bool is_single_key(PyObject* object, SingleKey& key) {
  if (PyLong_CheckExact(object)) {
    key = {KindsOfKeys::numbers, number_of(object), {}};
  } else if (PyUnicode_Check(object)) {
    key = {KindsOfKeys::text, 0, text_of(object)};
  } else if (PyBytes_Check(object)) {
    key = {KindsOfKeys::bytes, 0, bytes_of(object)};
  } else if (PyBool_Check(object) || PyFloat_Check(object) || object == Py_None) {
    throw InvalidKey(refusal(object));
  } else if (PyIndex_Check(object) && !PySequence_Check(object)) {
    const nb::object number = nb::steal(PyNumber_Index(object));
    if (!number.is_valid()) throw nb::python_error();
    key = {KindsOfKeys::numbers, number_of(number.ptr()), {}};
  } else if (!PySequence_Check(object) && dtype_kind(object) != 0 &&
             !nb::hasattr(object, "__len__")) {
    throw InvalidKey(refusal(object));  // numpy.float32, numpy.datetime64 …
  } else {
    return false;
  }
  return true;
}

}  // namespace scbf::python
