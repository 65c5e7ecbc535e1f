// SPDX-License-Identifier: Apache-2.0
// Columns of keys in Arrow arrays, type by type.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "keys/arrow_abi.hpp"
#include "keys/columns.hpp"

namespace scbf::python {

/// Text from elsewhere, for messages: what is not printable ASCII becomes "?".
std::string printable(std::string_view text);
/// Throws InvalidArgument for what does not follow the C data interface.
[[noreturn]] void broken(std::string_view what);

/// Can the values of the schema's arrays be keys? Record batches are structs; one with a single
/// column is taken for that column. Throws InvalidKey, naming the type and what to do, or as
/// broken().
void check_schema(const ArrowSchema& schema);
/// The keys of an array whose schema has been checked. Throws as broken(), and InvalidKey.
std::unique_ptr<Column> column_of(const ArrowSchema& schema, Released<ArrowArray> array);

/// What keeps the memory of an array: the array itself, shared by what is made of it.
using Kept = std::shared_ptr<Released<ArrowArray>>;
/// The values of an array that `kept` has, from `first` on, `size` of them if that is given. The
/// structs of the schema and of the array must outlive the column. Throws as column_of().
std::unique_ptr<Column> part_of(const ArrowSchema& schema, const ArrowArray& array,
                                std::size_t first, std::optional<std::size_t> size,
                                const Kept& kept);
/// Is value i of the array valid, or is it null?
bool is_valid(const ArrowArray& array, std::size_t i);

}  // namespace scbf::python
