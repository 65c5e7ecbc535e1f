// SPDX-License-Identifier: Apache-2.0
// The keys in a Python object: one key (single_key.hpp), or a column of them, which arrow.hpp,
// buffers.hpp, hashes.hpp and objects.hpp turn into batches (columns.hpp).
//
// The rules, which scbf/__init__.py tells users: the same number is the same key in every integer
// type, signed ones as their 64-bit two's complement; text is its UTF-8 bytes; None, pandas.NA and
// NaN in a column of objects are null; bool, float, and text beside numbers are errors.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "errors.hpp"
#include "keys/columns.hpp"
#include "keys/single_key.hpp"

namespace scbf::python {

/// The keys of an object that is not a single key, for filters of this seed. Throws InvalidKey if
/// there are none in it, and whatever it raises.
std::unique_ptr<KeySource> keys_of(nanobind::handle object, std::uint64_t seed);

/// Is it an object that keys_of() would read, or refuse for what is in it? Reads nothing of it.
bool looks_like_column(nanobind::handle object);

}  // namespace scbf::python
