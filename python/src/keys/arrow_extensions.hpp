// SPDX-License-Identifier: Apache-2.0
// Arrow's extension types: columns that are more than their storage, by metadata of the schema.
#pragma once

#include "keys/arrow_abi.hpp"

namespace scbf::python {

/// Throws InvalidKey, naming the type and what to do, if the schema itself (not its children, nor
/// its dictionary) is of an extension type whose values would be other keys elsewhere than their
/// storage is here: all but text with a meaning, which is arrow.json. Throws InvalidArgument for
/// metadata that does not follow the C data interface.
void check_extension(const ArrowSchema& schema);

}  // namespace scbf::python
