// SPDX-License-Identifier: Apache-2.0
// Integers written as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace scbf::cli {

/// The value of a decimal number of any length; zeros may lead. None if there is any other byte,
/// such as a sign or a space, if it is empty, or if the value is 2^64 or more. Eight digits are
/// read at once.
std::optional<std::uint64_t> parse_decimal(std::string_view digits) noexcept;

}  // namespace scbf::cli
