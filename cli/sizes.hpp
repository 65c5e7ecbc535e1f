// SPDX-License-Identifier: Apache-2.0
// Parses and formats numbers as people write them: "1e8", "100M", "512MiB", "1%"; also parses
// options whose value is one of a few words. Every parser takes the name of the option for its
// message and throws UsageError with the value and the limit.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scbf/detail/in_quotes.hpp"

namespace scbf::cli {

inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// A whole number in [least, most]: digits, optionally with a fraction, an exponent and one of the
/// suffixes k M G T (powers of 1000) or Ki Mi Gi Ti (powers of 1024).
std::uint64_t parse_count(std::string_view option, std::string_view text, std::uint64_t least = 1,
                          std::uint64_t most = kNoLimit);
/// A number of bytes, at least 1: like parse_count, with an optional trailing B ("512MB" is
/// 512·10^6, "512MiB" 512·2^20).
std::uint64_t parse_bytes(std::string_view option, std::string_view text);
enum class LargestRate : bool { below_one, one };
/// A rate in (0, 1), or in (0, 1]: "0.01" or "1%".
double parse_rate(std::string_view option, std::string_view text,
                  LargestRate largest = LargestRate::below_one);
/// A real number in [least, most].
double parse_real(std::string_view option, std::string_view text, double least, double most);
/// Any 64-bit number, decimal or 0x….
std::uint64_t parse_seed(std::string_view option, std::string_view text);

/// Throws UsageError: must be "a, b or c".
[[noreturn]] void refuse_word(std::string_view option, std::string_view text,
                              std::span<const std::string_view> known);
/// What stands beside the word that `text` is.
template <class Value>
Value parse_word(std::string_view option, std::string_view text,
                 std::initializer_list<std::pair<std::string_view, Value>> words) {
  std::vector<std::string_view> known;
  for (const auto& [word, value] : words) {
    if (text == word) return value;
    known.push_back(word);
  }
  refuse_word(option, text, known);
}

/// 1234567 → "1,234,567".
std::string grouped(std::uint64_t value);
/// 1234567 → "1.2 MiB"; below 10 KiB "1,234 bytes".
std::string human_bytes(std::uint64_t bytes);
/// 12345678.0 → "12.3M"; for numbers per second.
std::string human_rate(double per_second);
/// 3725 → "1:02:05"; 65 → "1:05".
std::string human_seconds(double seconds);
/// 0.0123 → "1.23 %".
std::string percent(double share);
/// A name or value in messages: in single quotes, with escapes.
using detail::in_quotes;
/// A name or value in a command that a message prints, as a word of the shell: 'a', 'it'\''s' or,
/// with bytes that cannot be printed, $'\xff', which sh may not know, but bash and zsh do.
std::string in_shell(std::string_view word);
/// "'a', 'b', 'c'".
std::string list_in_quotes(std::span<const std::string> names);
/// A key in tables and reports: like in_quotes(text, most), but without quotes.
std::string printable(std::string_view text, std::size_t most = 40);
/// 1, "row" → "1 row"; 2000, "row" → "2,000 rows".
std::string counted(std::uint64_t n, std::string_view thing);

}  // namespace scbf::cli
