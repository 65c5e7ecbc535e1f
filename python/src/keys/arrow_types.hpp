// SPDX-License-Identifier: Apache-2.0
// The types of Arrow in messages, by the format strings of its C data interface.
#pragma once

#include <string>
#include <string_view>

namespace scbf::python {

/// What a type is called.
std::string type_name(std::string_view format);
/// Why a column of this type cannot be keys: what it is called, and what to do about it.
std::string refusal_of_format(std::string_view format);

}  // namespace scbf::python
