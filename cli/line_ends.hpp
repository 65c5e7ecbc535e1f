// SPDX-License-Identifier: Apache-2.0
// Where lines end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace scbf::cli {

/// What `out` has room for beyond the bytes that are searched.
inline constexpr std::size_t kLineEndsBeyond = 2;

/// Writes where `end` stands in the bytes, ascending, and returns how often it does. Lengths of
/// lines cannot be predicted, so there is no branch that depends on where one ends; a search for
/// one after another (memchr) takes twice as long where lengths differ.
std::size_t line_ends(std::string_view bytes, char end, std::uint32_t* out) noexcept;

}  // namespace scbf::cli
