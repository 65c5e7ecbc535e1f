// SPDX-License-Identifier: Apache-2.0
// Arrow's extension types: columns whose schema has metadata that make them more than their
// storage.
#pragma once

#include <string_view>

#include "keys/arrow_abi.hpp"

namespace scbf::python {

/// Throws InvalidKey, naming the type and what to do, if the schema itself (not its children, nor
/// its dictionary) is of an extension type whose values would be other keys elsewhere than their
/// storage is here. Only arrow.json, which is text with a meaning, passes. Throws InvalidArgument
/// for metadata that does not follow the C data interface.
void check_extension(const ArrowSchema& schema);

/// The name of the schema's extension type; empty if it has none, and for arrow.json. Throws
/// InvalidArgument as check_extension().
std::string_view extension_name(const ArrowSchema& schema);

}  // namespace scbf::python
