// SPDX-License-Identifier: Apache-2.0
// Columns of keys in Arrow arrays, type by type.
#pragma once

#include <memory>
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

}  // namespace scbf::python
