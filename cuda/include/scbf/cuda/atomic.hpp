// SPDX-License-Identifier: Apache-2.0
// Memory accesses that the language cannot express, for a GPU and, where the same source is tested,
// for the host: atomic operations on 64-bit words and 32-bit numbers, and accesses whose data
// leaves a cache first or bypasses it.
#pragma once

#include <cstdint>

#include "scbf/detail/hash.hpp"

#if !defined(__CUDA_ARCH__)
#include <atomic>
#endif

namespace scbf::cuda {

/// Loads and stores what is used once, such as keys and answers, so that it leaves the second-level
/// cache before the filter does. Other threads must not write there meanwhile.
template <class T>
SCBF_INLINE T load_streaming(const T* from) noexcept {
#if defined(__CUDA_ARCH__)
  return __ldcs(from);
#else
  return *from;
#endif
}
template <class T>
SCBF_INLINE void store_streaming(T* to, T value) noexcept {
#if defined(__CUDA_ARCH__)
  __stcs(to, value);
#else
  *to = value;
#endif
}

struct WordPair {
  std::uint64_t low, high;
};

/// Loads sixteen bytes in one access and does not keep them in the first-level cache, since no
/// second key needs them. They must not be written while the kernel runs.
SCBF_INLINE WordPair load_pair_uncached(const std::uint64_t* words) noexcept {
#if defined(__CUDA_ARCH__)
  WordPair pair;
  asm("ld.global.nc.L1::no_allocate.v2.u64 {%0, %1}, [%2];"
      : "=l"(pair.low), "=l"(pair.high)
      : "l"(words));
  return pair;
#else
  return {words[0], words[1]};
#endif
}

/// The same with eight bytes.
SCBF_INLINE std::uint64_t load_uncached(const std::uint64_t* word) noexcept {
#if defined(__CUDA_ARCH__)
  std::uint64_t loaded;
  asm("ld.global.nc.L1::no_allocate.u64 %0, [%1];" : "=l"(loaded) : "l"(word));
  return loaded;
#else
  return *word;
#endif
}

/// Relaxed, since counters are independent of each other; the end of a kernel, or a barrier in it,
/// orders everything.
struct Atomic {
  SCBF_INLINE std::uint64_t load(const std::uint64_t* word) const noexcept {
#if defined(__CUDA_ARCH__)
    return *const_cast<const volatile std::uint64_t*>(word);
#else
    return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_relaxed);
#endif
  }
  /// What the word holds, or held when this multiprocessor last loaded it: it may come from the
  /// first-level cache. For values that are checked when they are used, or that stay.
  SCBF_INLINE std::uint64_t load_cached(const std::uint64_t* word) const noexcept {
#if defined(__CUDA_ARCH__)
    // Relaxed among the threads of a block, which share that cache.
    std::uint64_t value;
    asm volatile("ld.relaxed.cta.global.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(__cvta_generic_to_global(word))
                 : "memory");
    return value;
#else
    return load(word);
#endif
  }
  /// Two neighbouring words, 16-byte aligned, each as by load, in one access.
  SCBF_INLINE WordPair load_pair(const std::uint64_t* words) const noexcept {
#if defined(__CUDA_ARCH__)
    WordPair pair;
    asm volatile("ld.volatile.v2.u64 {%0, %1}, [%2];"
                 : "=l"(pair.low), "=l"(pair.high)
                 : "l"(words)
                 : "memory");
    return pair;
#else
    return {load(words), load(words + 1)};
#endif
  }
  /// Two neighbouring words, 16-byte aligned, in one access.
  SCBF_INLINE void store_pair(std::uint64_t* words, const WordPair& pair) const noexcept {
#if defined(__CUDA_ARCH__)
    asm volatile("st.volatile.v2.u64 [%0], {%1, %2};"
                 :
                 : "l"(words), "l"(pair.low), "l"(pair.high)
                 : "memory");
#else
    store(words, pair.low);
    store(words + 1, pair.high);
#endif
  }
  SCBF_INLINE void store(std::uint64_t* word, std::uint64_t value) const noexcept {
#if defined(__CUDA_ARCH__)
    *const_cast<volatile std::uint64_t*>(word) = value;
#else
    std::atomic_ref(*word).store(value, std::memory_order_relaxed);
#endif
  }
  /// Stores `next` if the word is still `seen` and returns true; otherwise puts the word into
  /// `seen`.
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
  /// Stores `next` if the word is still `seen`; returns what the word was.
  SCBF_INLINE std::uint64_t swap(std::uint64_t* word, std::uint64_t seen,
                                 std::uint64_t next) const noexcept {
#if defined(__CUDA_ARCH__)
    using Word = unsigned long long;
    return atomicCAS(reinterpret_cast<Word*>(word), Word{seen}, Word{next});
#else
    std::atomic_ref(*word).compare_exchange_strong(seen, next, std::memory_order_relaxed);
    return seen;
#endif
  }
  SCBF_INLINE void add(std::uint64_t* word, std::uint64_t value) const noexcept {
    (void)advance(word, value);
  }
  /// Adds, and returns what the word was.
  SCBF_INLINE std::uint64_t advance(std::uint64_t* word, std::uint64_t by) const noexcept {
#if defined(__CUDA_ARCH__)
    return atomicAdd(reinterpret_cast<unsigned long long*>(word),
                     static_cast<unsigned long long>(by));
#else
    return std::atomic_ref(*word).fetch_add(by, std::memory_order_relaxed);
#endif
  }
  /// For 32 bits: adds 1, and returns what the number was.
  SCBF_INLINE std::uint32_t next(std::uint32_t* number) const noexcept {
#if defined(__CUDA_ARCH__)
    return atomicAdd(number, 1u);
#else
    return std::atomic_ref(*number).fetch_add(1, std::memory_order_relaxed);
#endif
  }
  SCBF_INLINE std::uint32_t load(const std::uint32_t* number) const noexcept {
#if defined(__CUDA_ARCH__)
    return *const_cast<const volatile std::uint32_t*>(number);
#else
    return std::atomic_ref(*const_cast<std::uint32_t*>(number)).load(std::memory_order_relaxed);
#endif
  }
  SCBF_INLINE void store(std::uint32_t* number, std::uint32_t value) const noexcept {
#if defined(__CUDA_ARCH__)
    *const_cast<volatile std::uint32_t*>(number) = value;
#else
    std::atomic_ref(*number).store(value, std::memory_order_relaxed);
#endif
  }
  /// Sets the word to the smaller of itself and `value`.
  SCBF_INLINE void lower(std::uint64_t* word, std::uint64_t value) const noexcept {
    std::uint64_t seen = load(word);
#if defined(__CUDA_ARCH__)
    // Read first: under contention most threads find that the word is already small enough.
    if (value < seen) {
      atomicMin(reinterpret_cast<unsigned long long*>(word),
                static_cast<unsigned long long>(value));
    }
#else
    while (value < seen && !exchange(word, seen, value)) {
    }
#endif
  }
  /// Returns what the word was.
  SCBF_INLINE std::uint64_t set_bits(std::uint64_t* word, std::uint64_t bits) const noexcept {
    // Read first: under contention most threads find that the bits are set already.
    const std::uint64_t seen = load(word);
    return (seen & bits) == bits ? seen : join_bits(word, bits);
  }
  /// The same, without reading first.
  SCBF_INLINE std::uint64_t join_bits(std::uint64_t* word, std::uint64_t bits) const noexcept {
#if defined(__CUDA_ARCH__)
    return atomicOr(reinterpret_cast<unsigned long long*>(word),
                    static_cast<unsigned long long>(bits));
#else
    return std::atomic_ref(*word).fetch_or(bits, std::memory_order_relaxed);
#endif
  }
};

}  // namespace scbf::cuda
