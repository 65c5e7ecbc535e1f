// SPDX-License-Identifier: Apache-2.0
// What must not become a single key without a word. Each function of one key, which takes a
// std::uint64_t or a std::string_view, is deleted for these.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace scbf::detail {

/// Integers of more than 64 bits, which would be cut.
template <class T>
concept TooWide = !std::is_class_v<T> && std::is_convertible_v<T, std::uint64_t> &&
                  (sizeof(T) > sizeof(std::uint64_t));

/// Types that would be converted to another 64-bit integer than they print: floating-point numbers,
/// characters, bool, and wide integers; and a null pointer, which would be read.
template <class T>
concept NotAKey = std::floating_point<T> || TooWide<T> || std::same_as<T, bool> ||
    std::same_as<T, std::vector<bool>::reference> || std::same_as<T, char> ||
    std::same_as<T, char8_t> || std::same_as<T, char16_t> || std::same_as<T, char32_t> ||
    std::same_as<T, wchar_t> || std::same_as<T, std::nullptr_t>;

/// Two literals in braces, which would make one std::string_view, from the first to the second:
/// with this, the call is ambiguous. Several keys are a std::vector<std::string>.
struct Literals {
  template <std::size_t n, std::size_t m>
  Literals(const char (&)[n], const char (&)[m]);
};

}  // namespace scbf::detail
