// SPDX-License-Identifier: Apache-2.0
#include "scbf/detail/in_quotes.hpp"

#include <fmt/format.h>

namespace scbf::detail {
namespace {

/// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none.
std::size_t character_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  // The second byte excludes spellings that are too long, surrogates, and what is above U+10FFFF.
  const unsigned lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned highest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < lowest || at(1) > highest) return 0;
  for (std::size_t i = 2; i < bytes; ++i) {
    if (at(i) < 0x80 || at(i) > 0xBF) return 0;
  }
  return bytes;
}

}  // namespace

std::string in_quotes(std::string_view name, std::size_t most) {
  std::string text = "'";
  std::size_t i = 0;
  while (i < name.size()) {
    const std::size_t bytes = character_bytes(name.substr(i));
    if (i + (bytes == 0 ? 1 : bytes) > most) break;
    const auto byte = static_cast<unsigned char>(name[i]);
    if (bytes == 0 || byte < 0x20 || byte == 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      if (byte == '\'' || byte == '\\') text += '\\';
      text += name.substr(i, bytes);
    }
    i += bytes == 0 ? 1 : bytes;
  }
  return text + (i < name.size() ? "…'" : "'");
}

}  // namespace scbf::detail
