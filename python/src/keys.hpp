// SPDX-License-Identifier: Apache-2.0
// The keys in a Python object: one key, or a column of them. columns.hpp, arrow.hpp and buffers.hpp
// turn columns into batches.
//
// The rules, which scbf/__init__.py tells users: the same number is the same key in every integer
// type, signed ones as their 64-bit two's complement; text is its UTF-8 bytes; None, pandas.NA and
// NaN in a column of objects are null; bool, float, and text beside numbers are errors.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "columns.hpp"
#include "errors.hpp"

namespace scbf::python {

/// A single key, valid as long as the object that it was taken from.
struct SingleKey {
  bool is_number;
  std::uint64_t number;
  std::string_view bytes;

  /// Calls the function with the number or with the bytes.
  template <class Function>
  decltype(auto) visit(Function&& function) const {
    return is_number ? function(number) : function(bytes);
  }
};

/// Is the object a single key? Then it is stored in `key`. Throws InvalidKey for a number that is
/// too large, and for bool and float.
bool is_single_key(PyObject* object, SingleKey& key);

/// The keys of any other object, for filters of this seed. Throws InvalidKey if there are none in
/// it, and whatever it raises.
std::unique_ptr<KeySource> keys_of(nanobind::handle object, std::uint64_t seed);

}  // namespace scbf::python
