// SPDX-License-Identifier: Apache-2.0
// A filter as kernels see it: a small trivially copyable view of counters in device memory, passed
// to a kernel by value. Owns nothing, allocates nothing, synchronises nothing.
//
// It also compiles for the host, where it works on host memory with std::atomic_ref, and is tested
// that way without a GPU. Compile device code with --expt-relaxed-constexpr.
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

/// Geometry, seed and counters. Threads may insert, look up and count at once: each counter is read
/// at some moment between call and return, independently of the others.
class FilterRef {
 public:
  /// `words` points to geometry.words() words, 64-byte aligned, which must outlive the view.
  FilterRef(const Geometry& geometry, std::uint64_t seed, std::uint64_t* words) noexcept
      : geometry_(geometry), seed_(seed), words_(words) {}

  SCBF_INLINE const Geometry& geometry() const noexcept { return geometry_; }
  SCBF_INLINE std::uint64_t seed() const noexcept { return seed_; }
  SCBF_INLINE std::uint64_t* words() const noexcept { return words_; }
  /// k; also the most threads that can usefully share the insertion of one key.
  SCBF_INLINE std::uint32_t probes() const noexcept { return geometry_.probes(); }
  /// 64-byte lines of the filter that a key touches.
  SCBF_INLINE std::uint32_t lines() const noexcept { return geometry_.cache_lines_per_key(); }

  // ---- keys to hashes ---------------------------------------------------------------------------

  SCBF_INLINE std::uint64_t hash(std::uint64_t key) const noexcept {
    return detail::hash_u64<detail::PlainOps>(key, detail::u64_seed_mask(seed_));
  }
  /// Hashes a byte string in device memory; reads the aligned 8-byte words that contain it.
  SCBF_INLINE std::uint64_t hash(const std::byte* bytes, std::size_t length) const noexcept {
    return hash_bytes(bytes, length, seed_);
  }

  // ---- hashes to counters ----------------------------------------------------------------------

  /// The i-th of a key's k counters, i < k, each in a word of its own.
  SCBF_INLINE detail::Probe probe(std::uint64_t hash, std::uint32_t i) const noexcept {
    return detail::probe(geometry_, hash, i);
  }
  /// The i-th of the lines that a key touches, i < lines(); line l holds words 8·l to 8·l + 7.
  SCBF_INLINE std::uint64_t line(std::uint64_t hash, std::uint32_t i) const noexcept {
    if (geometry_.layout() == Layout::split_block) {
      return i * geometry_.blocks_per_group() +
             detail::block_of(detail::place_in_group(geometry_, hash, i));
    }
    return probe(hash, i).word / kWordsPerBlock;
  }

  // ---- hashes to answers; k loads at most ------------------------------------------------------

  /// The value of the i-th counter.
  SCBF_INLINE unsigned counter(std::uint64_t hash, std::uint32_t i) const noexcept {
    const detail::Probe at = probe(hash, i);
    return detail::counter_at(Atomic().load(words_ + at.word), at.shift);
  }

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

  /// Adds 1 to the key's k counters, saturating. `threads` threads may share the work, each with
  /// its own rank: a tile of eight changes the block of a key in split_block in one coalesced
  /// access.
  SCBF_INLINE void insert_hash(std::uint64_t hash, std::uint32_t rank = 0,
                               std::uint32_t threads = 1) const noexcept {
    for (std::uint32_t i = rank; i < probes(); i += threads) {
      const detail::Probe at = probe(hash, i);
      add_one(Atomic(), words_ + at.word, at.shift);
    }
  }

  SCBF_INLINE void insert(std::uint64_t key) const noexcept { insert_hash(hash(key)); }
  SCBF_INLINE bool contains(std::uint64_t key) const noexcept { return contains_hash(hash(key)); }
  SCBF_INLINE unsigned count(std::uint64_t key) const noexcept { return count_hash(hash(key)); }

  // ---- the same by a cooperative group of up to a warp, all of whose threads call with one key
  // ----

  template <class Group>
  SCBF_INLINE void insert(const Group& group, std::uint64_t key) const {
    insert_hash(hash(key), group.thread_rank(), group.num_threads());
  }
  template <class Group>
  SCBF_INLINE bool contains(const Group& group, std::uint64_t key) const {
    const std::uint64_t h = hash(key);
    bool found = true;
    for (std::uint32_t i = group.thread_rank(); found && i < probes(); i += group.num_threads()) {
      found = counter(h, i) != 0;
    }
    return group.all(found);
  }

 private:
  Geometry geometry_;
  std::uint64_t seed_;
  std::uint64_t* words_;
};

}  // namespace scbf::cuda
