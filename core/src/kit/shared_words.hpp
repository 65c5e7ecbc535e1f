// SPDX-License-Identifier: Apache-2.0
// Words that one thread may change while others read them (views, `ref`): loaded and stored whole.
#pragma once

#include <cstdint>

#include "scbf/detail/hash.hpp"

namespace scbf {

SCBF_INLINE std::uint64_t load_word(const std::uint64_t* word) noexcept {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
SCBF_INLINE void store_word(std::uint64_t* word, std::uint64_t value) noexcept {
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

}  // namespace scbf
