// SPDX-License-Identifier: Apache-2.0
// One key, as a Python object: a number, text or bytes; and what is not a key.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "key_kinds.hpp"

namespace scbf::python {

/// A single key, valid as long as the object that it was taken from.
struct SingleKey {
  KindsOfKeys kind;
  std::uint64_t number;
  std::string_view bytes;

  /// Calls the function with the number or with the bytes.
  template <class Function>
  decltype(auto) visit(Function&& function) const {
    return kind == KindsOfKeys::numbers ? function(number) : function(bytes);
  }
};

/// Is the object a single key? Then it is stored in `key`. Throws InvalidKey for a number that is
/// too large, and for bool, float and None.
bool is_single_key(PyObject* object, SingleKey& key);

// Its parts, for columns of objects, which check types first.

/// The 64 bits of an int from −2^63 to 2^64 − 1. Throws InvalidKey.
std::uint64_t number_of(PyObject* object);
/// The UTF-8 of a str. Throws InvalidKey.
std::string_view text_of(PyObject* object);
/// The bytes of a bytes object.
std::string_view bytes_of(PyObject* object);
/// Is it missing, in a column of objects: None, pandas.NA, NaN? May run code of the object's type.
bool is_null(PyObject* object);
/// The kind of an object's NumPy data type, such as 'M' for datetimes; 0 if it has none.
char dtype_kind(nanobind::handle object);

/// Is the object's type of a package, such as "pandas"?
bool is_of_package(nanobind::handle object, std::string_view package);

/// Is it an expression, such as a column of PySpark, which has any attribute that it is asked for?
bool is_expression(nanobind::handle object);

/// repr(object), shortened, for messages.
std::string shown(PyObject* object);
/// Why the object cannot be a key, and what to do.
std::string refusal(PyObject* object);

}  // namespace scbf::python
