// SPDX-License-Identifier: Apache-2.0
// Columns of keys that are Python objects: int, str, bytes, and None for nulls.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "keys/columns.hpp"

namespace scbf::python {

/// The items of a list, a tuple, a set, … as keys of filters of this seed. Throws InvalidKey,
/// naming the first item that is none.
std::unique_ptr<KeySource> objects_source(nanobind::handle items, std::uint64_t seed);
/// The same for a NumPy array of objects, which has one dimension.
std::unique_ptr<KeySource> object_array_source(nanobind::handle array, std::uint64_t seed);
/// What an iterator yields, 65,536 keys at a time: there may be more than memory holds.
std::unique_ptr<KeySource> iterator_source(nanobind::object iterator, std::uint64_t seed);

}  // namespace scbf::python
