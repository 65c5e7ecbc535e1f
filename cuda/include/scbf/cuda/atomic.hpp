// SPDX-License-Identifier: Apache-2.0
// Atomic operations on 64-bit words, for words.hpp: a GPU's, or the host's.
#pragma once

#include <cstdint>

#include "scbf/detail/hash.hpp"

#if !defined(__CUDA_ARCH__)
#include <atomic>
#endif

namespace scbf::cuda {

/// Relaxed: counters order nothing but themselves; the end of a kernel orders all.
struct Atomic {
  SCBF_INLINE std::uint64_t load(std::uint64_t* word) const noexcept {
#if defined(__CUDA_ARCH__)
    return *const_cast<const volatile std::uint64_t*>(word);
#else
    return std::atomic_ref(*word).load(std::memory_order_relaxed);
#endif
  }
  /// Stores `next` if the word still is `seen`; otherwise puts what it is into `seen`.
  SCBF_INLINE bool exchange(std::uint64_t* word, std::uint64_t& seen,
                            std::uint64_t next) const noexcept {
#if defined(__CUDA_ARCH__)
    using Word = unsigned long long;
    static_assert(sizeof(Word) == sizeof(std::uint64_t));
    const std::uint64_t found = atomicCAS(reinterpret_cast<Word*>(word), Word{seen}, Word{next});
    const bool stored = found == seen;
    seen = found;
    return stored;
#else
    return std::atomic_ref(*word).compare_exchange_weak(seen, next, std::memory_order_relaxed);
#endif
  }
};

}  // namespace scbf::cuda
