// SPDX-License-Identifier: Apache-2.0
// The library's bytes as Python's text, and back: UTF-8, where bytes that are not become lone
// surrogates, as in Python's file names. Also words for the reprs of objects.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace scbf::python {

nanobind::object decoded(std::string_view bytes);
/// The bytes of a str or bytes. `what`: for messages. Throws InvalidArgument for anything else.
std::string encoded(nanobind::handle value, std::string_view what);

/// "1 key", "2 keys".
std::string counted(std::uint64_t n, std::string_view thing);

}  // namespace scbf::python
