// SPDX-License-Identifier: Apache-2.0
// Bytes of the library that are text to Python: UTF-8, and what is not becomes lone surrogates, as
// in Python's file names, and back again. Words for what objects show of themselves.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace scbf::python {

nanobind::object decoded(std::string_view bytes);
/// Of str or bytes. `what`: for messages. Throws InvalidArgument for anything else.
std::string encoded(nanobind::handle value, std::string_view what);

/// "1 key", "2 keys".
std::string counted(std::uint64_t n, std::string_view thing);

}  // namespace scbf::python
