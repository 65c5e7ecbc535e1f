// SPDX-License-Identifier: Apache-2.0
// Where lines and fields end, and what else needs a closer look.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace scbf::cli {

/// Writes where `end` stands in fewer than 2^32 bytes, ascending, and returns how often it does;
/// `out` has room for a number per byte. Lengths of lines cannot be predicted, so no branch depends
/// on where one ends, unless more than two do within 64 bytes. A search for one after another
/// (memchr) takes twice as long where lengths differ.
std::size_t line_ends(std::string_view bytes, char end, std::uint32_t* out) noexcept;

/// Bytes that mean something in a table.
using Marks = std::array<char, 4>;
/// As line_ends, for all places where one of the marks stands; a branch is taken where more than
/// four do within 64 bytes.
std::size_t find_marks(std::string_view bytes, const Marks& marks, std::uint32_t* out) noexcept;

/// How often a byte stands there.
std::uint64_t count_byte(std::string_view bytes, char byte) noexcept;

}  // namespace scbf::cli
