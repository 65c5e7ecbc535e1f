// SPDX-License-Identifier: Apache-2.0
// The text of PTX: words, numbers, names of types and special registers, the parts of an opcode.
// What they mean is in ptx_parse.cpp.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptx_program.hpp"

namespace ptx {

struct Token {
  std::string_view text;
  std::uint32_t line;
};

std::optional<Type> type_named(std::string_view name);
std::optional<Special> special_named(std::string_view name);

/// Reads a text word by word. Throws NotUnderstood, with the line, if something is not as it must
/// be.
class Reader {
 public:
  explicit Reader(std::string_view text);

  bool has_ended() const { return at_ >= tokens_.size(); }
  std::uint32_t line() const { return has_ended() ? 0 : tokens_[at_].line; }
  std::string_view peek() const;
  /// The word behind the next; empty at the end.
  std::string_view peek_second() const;
  std::string_view next();
  /// Steps back to the word before.
  void back() { --at_; }
  std::size_t place() const { return at_; }
  void go_to(std::size_t place) { at_ = place; }
  /// Whether the next word is this; then it is read.
  bool take(std::string_view text);
  void want(std::string_view text);
  std::uint64_t number();
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

/// The parts of an opcode: `ld.global.v2.u32` is ld, global, v2, u32.
class Opcode {
 public:
  explicit Opcode(std::string_view text) : text_(text) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('.', begin), text.size());
      parts_.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    used_.resize(parts_.size());
    used_[0] = true;
  }
  std::string_view text() const { return text_; }
  std::string_view base() const { return parts_[0]; }
  /// Whether it has this modifier, which is then understood.
  bool has(std::string_view modifier) {
    bool found = false;
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      if (parts_[i] == modifier) found = used_[i] = true;
    }
    return found;
  }
  std::vector<Type> types() {
    std::vector<Type> all;
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      if (const auto type = type_named(parts_[i])) {
        all.push_back(*type);
        used_[i] = true;
      }
    }
    return all;
  }
  /// The base and the modifiers but for types.
  std::string without_types() {
    std::string name(parts_[0]);
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      if (!type_named(parts_[i])) name.append(".").append(parts_[i]);
    }
    return name;
  }
  void use_all() { used_.assign(used_.size(), true); }
  std::optional<std::string_view> not_understood() const {
    const auto found = std::find(used_.begin(), used_.end(), false);
    if (found == used_.end()) return std::nullopt;
    return parts_[static_cast<std::size_t>(found - used_.begin())];
  }

 private:
  std::string_view text_;
  std::vector<std::string_view> parts_;
  std::vector<bool> used_;
};

}  // namespace ptx
