// SPDX-License-Identifier: Apache-2.0
// A filter as kernels see it: a small trivially copyable view of counters in device memory, passed
// to a kernel by value. Owns nothing, allocates nothing, synchronises nothing.
//
// Compiles for hosts, too, where it works on host memory with std::atomic_ref; so it is tested
// without a GPU. Compile device code with --expt-relaxed-constexpr.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/words.hpp"
#include "scbf/cuda/xxh3.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

/// Geometry, seed and counters. Threads may insert, ask and count at once: an answer is that of
/// some moment between the call and its return for each counter by itself.
class FilterRef {
 public:
  /// `words` are geometry.words() of them, 64-byte aligned, and outlive the view.
  FilterRef(const Geometry& geometry, std::uint64_t seed, std::uint64_t* words) noexcept
      : geometry_(geometry), seed_(seed), words_(words) {}

  /// k, and how many threads can usefully share the insertion of one key.
  SCBF_INLINE std::uint32_t probes() const noexcept { return geometry_.probes(); }

  // ---- keys to hashes ---------------------------------------------------------------------------

  SCBF_INLINE std::uint64_t hash(std::uint64_t key) const noexcept {
    return detail::hash_u64<detail::PlainOps>(key, detail::u64_seed_mask(seed_));
  }
  /// Of a byte string in device memory; reads the aligned 8-byte words that hold it.
  SCBF_INLINE std::uint64_t hash(const std::byte* bytes, std::size_t length) const noexcept {
    return hash_bytes(bytes, length, seed_);
  }

  // ---- hashes to answers; k loads at most
  // ---------------------------------------------------------

  /// May a key of this hash be present?
  SCBF_INLINE bool contains_hash(std::uint64_t hash) const noexcept {
    for (std::uint32_t i = 0; i < probes(); ++i) {
      if (counter(hash, i) == 0) return false;
    }
    return true;
  }
  /// The smallest of its k counters; 15 means 15 or more.
  SCBF_INLINE unsigned count_hash(std::uint64_t hash) const noexcept {
    unsigned least = kCounterMax;
    for (std::uint32_t i = 0; i < probes(); ++i) {
      const unsigned c = counter(hash, i);
      least = c < least ? c : least;
    }
    return least;
  }

  // ---- changes: exact, whatever other threads do ------------------------------------------------

  /// Adds 1 to the key's k counters, saturating. Shared by `threads` threads, each with a rank of
  /// its own: a tile of eight serves a key of split_block in one coalesced access.
  SCBF_INLINE void insert_hash(std::uint64_t hash, std::uint32_t rank = 0,
                               std::uint32_t threads = 1) const noexcept {
    for (std::uint32_t i = rank; i < probes(); i += threads) {
      const detail::Probe probe = detail::probe(geometry_, hash, i);
      add_one(Atomic(), words_ + probe.word, probe.shift);
    }
  }

  SCBF_INLINE void insert(std::uint64_t key) const noexcept { insert_hash(hash(key)); }
  SCBF_INLINE bool contains(std::uint64_t key) const noexcept { return contains_hash(hash(key)); }
  SCBF_INLINE unsigned count(std::uint64_t key) const noexcept { return count_hash(hash(key)); }

 private:
  SCBF_INLINE unsigned counter(std::uint64_t hash, std::uint32_t i) const noexcept {
    const detail::Probe probe = detail::probe(geometry_, hash, i);
    return detail::counter_at(Atomic().load(words_ + probe.word), probe.shift);
  }

  Geometry geometry_;
  std::uint64_t seed_;
  std::uint64_t* words_;
};

}  // namespace scbf::cuda
