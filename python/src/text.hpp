// SPDX-License-Identifier: Apache-2.0
// Bytes of the library that are text to Python: UTF-8, and what is not becomes lone surrogates, as
// in Python's file names, and back again.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace scbf::python {

nanobind::object decoded(std::string_view bytes);
/// Of str or bytes. `what`: for messages. Throws InvalidArgument for anything else.
std::string encoded(nanobind::handle value, std::string_view what);

}  // namespace scbf::python
