// SPDX-License-Identifier: Apache-2.0
// What must not become a single key without a word. Each function of one key, which takes a
// std::uint64_t or a std::string_view, is deleted for these.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace scbf::detail {

/// Types that would be converted to another 64-bit integer than they print: floating-point numbers,
/// characters, bool, and integers of more than 64 bits.
template <class T>
concept NotAKey = std::floating_point<T> || std::same_as<T, bool> || std::same_as<T, char> ||
    std::same_as<T, char8_t> || std::same_as<T, char16_t> || std::same_as<T, char32_t> ||
    std::same_as<T, wchar_t> ||(!std::is_class_v<T> && std::is_convertible_v<T, std::uint64_t> &&
                                sizeof(T) > sizeof(std::uint64_t));

/// Two literals in braces, which would make one std::string_view, from the first to the second.
/// Several keys are a std::vector<std::string>.
using Literals = std::initializer_list<const char*>;

}  // namespace scbf::detail
