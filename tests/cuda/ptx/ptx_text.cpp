// SPDX-License-Identifier: Apache-2.0
#include "ptx_text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <unordered_map>

namespace ptx {

namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_$%.", c);
}

std::vector<Token> tokens_of(std::string_view text, std::uint32_t line = 1) {
  std::vector<Token> tokens;
  std::size_t i = 0;
  const auto skip_to = [&](std::string_view end, std::size_t from) {
    const std::size_t found = std::min(text.find(end, from), text.size());
    line += static_cast<std::uint32_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(i),
                                                  text.begin() + static_cast<std::ptrdiff_t>(found),
                                                  '\n'));
    i = found;
  };
  while (i < text.size()) {
    const char c = text[i];
    if (c == '\n' || c == ' ' || c == '\t' || c == '\r') {
      line += c == '\n';
      ++i;
    } else if (text.substr(i, 2) == "//") {
      skip_to("\n", i);
    } else if (text.substr(i, 2) == "/*") {
      skip_to("*/", i + 2);
      i = std::min(i + 2, text.size());
    } else if (c == '"') {
      const std::size_t end = std::min(text.find('"', i + 1), text.size() - 1);
      tokens.push_back({text.substr(i, end + 1 - i), line});
      i = end + 1;
    } else if (is_word(c)) {
      std::size_t end = i;
      // A pair of colons belongs to a modifier, as in L1::no_allocate; a single one ends a label.
      while (end < text.size() && (is_word(text[end]) || text.substr(end, 2) == "::")) {
        end += text[end] == ':' ? 2 : 1;
      }
      tokens.push_back({text.substr(i, end - i), line});
      i = end;
    } else {
      tokens.push_back({text.substr(i++, 1), line});
    }
  }
  return tokens;
}

}  // namespace

std::optional<Type> type_named(std::string_view name) {
  static const std::unordered_map<std::string_view, Type> kTypes = {
      {"pred", Type::pred}, {"b8", Type::u8}, {"b16", Type::u16}, {"b32", Type::u32},
      {"b64", Type::u64},   {"u8", Type::u8}, {"u16", Type::u16}, {"u32", Type::u32},
      {"u64", Type::u64},   {"s8", Type::s8}, {"s16", Type::s16}, {"s32", Type::s32},
      {"s64", Type::s64}};
  const auto found = kTypes.find(name);
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Special> special_named(std::string_view name) {
  using enum Special;
  static const std::unordered_map<std::string_view, Special> kSpecials = {
      {"%tid.x", tid_x},
      {"%tid.y", tid_y},
      {"%tid.z", tid_z},
      {"%ntid.x", ntid_x},
      {"%ntid.y", ntid_y},
      {"%ntid.z", ntid_z},
      {"%ctaid.x", ctaid_x},
      {"%ctaid.y", ctaid_y},
      {"%ctaid.z", ctaid_z},
      {"%nctaid.x", nctaid_x},
      {"%nctaid.y", nctaid_y},
      {"%nctaid.z", nctaid_z},
      {"%laneid", laneid},
      {"%warpid", warpid},
      {"%lanemask_eq", lanemask_eq},
      {"%lanemask_lt", lanemask_lt},
      {"%lanemask_le", lanemask_le},
      {"%lanemask_gt", lanemask_gt},
      {"%lanemask_ge", lanemask_ge},
      {"%envreg1", envreg1},
      {"%envreg2", envreg2}};
  const auto found = kSpecials.find(name);
  return found == kSpecials.end() ? std::nullopt : std::optional(found->second);
}

Reader::Reader(std::string_view text) : tokens_(tokens_of(text)) {}

std::string_view Reader::peek_second() const {
  return at_ + 1 < tokens_.size() ? tokens_[at_ + 1].text : std::string_view();
}

void Reader::refuse(std::string_view what) const {
  throw NotUnderstood("PTX line " + std::to_string(line()) + ": " + std::string(what) +
                      " is not understood: " + std::string(has_ended() ? "the end" : peek()));
}
std::string_view Reader::peek() const {
  if (at_ >= tokens_.size()) refuse("the end of the text");
  return tokens_[at_].text;
}
std::string_view Reader::next() {
  const std::string_view text = peek();
  ++at_;
  return text;
}
bool Reader::take(std::string_view text) {
  if (peek() != text) return false;
  ++at_;
  return true;
}
void Reader::want(std::string_view text) {
  if (!take(text)) refuse("where '" + std::string(text) + "' must stand, this");
}
std::uint64_t Reader::number() {
  const bool negative = take("-");
  std::string_view text = next();
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  if (text.ends_with("U")) text.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) {
    --at_;
    refuse("a number");
  }
  return negative ? ~value + 1 : value;
}

}  // namespace ptx
