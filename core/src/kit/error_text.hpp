// SPDX-License-Identifier: Apache-2.0
// Messages of exceptions that must be thrown even if memory is short.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <new>
#include <utility>

#include "scbf/errors.hpp"

namespace scbf {

/// Made when the program starts; copies of it allocate nothing.
inline const Error kNoMemoryForText(
    "memory is short, even for this message: the exception says how far it got");

/// What follows the number of keys that were processed.
constexpr const char* keys_of_batch_were(std::uint64_t keys) noexcept {
  return keys == 1 ? "key of the batch was" : "keys of the batch were";
}

/// As fmt::format; kNoMemoryForText if there is no memory for the text.
template <class... Arguments>
Error error_text(fmt::format_string<Arguments...> text, Arguments&&... arguments) noexcept {
  try {
    return Error(fmt::format(text, std::forward<Arguments>(arguments)...));
  } catch (...) {
    return kNoMemoryForText;
  }
}

}  // namespace scbf
