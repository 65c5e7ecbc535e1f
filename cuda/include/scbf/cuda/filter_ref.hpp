// SPDX-License-Identifier: Apache-2.0
// A filter as kernels see it: a small trivially copyable view of counters, or of bits, in device
// memory, passed to a kernel by value. Owns nothing, allocates nothing, synchronises nothing.
//
// It also compiles for the host, where it works on host memory with std::atomic_ref, and is tested
// that way without a GPU. Compile device code with --expt-relaxed-constexpr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/words.hpp"
#include "scbf/cuda/xxh3.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"
#include "scbf/geometry.hpp"

namespace scbf::cuda {

/// Geometry, seed and words, of counters or of bits. Threads may insert, look up and count at once:
/// each counter or bit is read at some moment between call and return, independently of the others.
/// Counters in the layout `ranked` can only be looked up here: insert and count end the kernel
/// (`trap`), and on a host the process, since neither can throw.
class FilterRef {
 public:
  /// `words` points to geometry.words() words, 64-byte aligned, which must outlive the view.
  FilterRef(const Geometry& geometry, std::uint64_t seed, std::uint64_t* words) noexcept
      : geometry_(geometry), seed_(seed), words_(words) {}

  SCBF_INLINE const Geometry& geometry() const noexcept { return geometry_; }
  SCBF_INLINE std::uint64_t seed() const noexcept { return seed_; }
  SCBF_INLINE std::uint64_t* words() const noexcept { return words_; }
  /// k; also the most threads that can usefully share the insertion of one key into counters. (The
  /// bits of a block are in two words: two threads for each group of split_block.)
  SCBF_INLINE std::uint32_t probes() const noexcept { return geometry_.probes(); }
  /// 64-byte lines of the filter that a key touches.
  SCBF_INLINE std::uint32_t lines() const noexcept { return geometry_.cache_lines_per_key(); }

  /// Is it a filter of counters in the layout ranked?
  SCBF_INLINE bool is_ranked() const noexcept {
    return geometry_.layout() == Layout::ranked && !has_bits();
  }

  // ---- keys to hashes ---------------------------------------------------------------------------

  SCBF_INLINE std::uint64_t hash(std::uint64_t key) const noexcept {
    return detail::hash_u64<detail::PlainOps>(key, detail::u64_seed_mask(seed_));
  }
  /// Hashes a byte string in device memory; reads the aligned 8-byte words that contain it.
  SCBF_INLINE std::uint64_t hash(const std::byte* bytes, std::size_t length) const noexcept {
    return hash_bytes(bytes, length, seed_);
  }

  // ---- hashes to counters ----------------------------------------------------------------------

  /// The i-th of a key's k counters, i < k, each in a word of its own; for a filter of bits see
  /// detail::bit_of.
  SCBF_INLINE detail::Probe probe(std::uint64_t hash, std::uint32_t i) const noexcept {
    return detail::probe(geometry_, hash, i);
  }
  /// The i-th of the lines that a key touches among counters, i < lines(); line l holds words 8·l
  /// to 8·l + 7.
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
    if (is_ranked()) return holds<RankedCells>(hash);
    return has_bits() ? holds<BitCells>(hash) : holds<CounterCells>(hash);
  }
  /// The smallest of its k counters; 15 means 15 or more. With bits, 1 if it may be present.
  SCBF_INLINE unsigned count_hash(std::uint64_t hash) const noexcept {
    if (is_ranked()) end_kernel();
    return has_bits() ? least<BitCells>(hash) : least<CounterCells>(hash);
  }

  // ---- changes: exact, whatever other threads do ------------------------------------------------

  /// Adds 1 to the key's k counters, saturating, or sets its bits. `threads` threads may share the
  /// work, each with its own rank: a tile of eight changes the block of a key in split_block in one
  /// coalesced access; with bits, a tile of two.
  SCBF_INLINE void insert_hash(std::uint64_t hash, std::uint32_t rank = 0,
                               std::uint32_t threads = 1) const noexcept {
    if (is_ranked()) end_kernel();
    if (has_bits()) {
      add<BitCells>(hash, rank, threads);
    } else {
      add<CounterCells>(hash, rank, threads);
    }
  }

  // ---- the same for code that knows which cells the filter has ----------------------------------

  template <class Cells>
  SCBF_INLINE bool holds(std::uint64_t hash) const noexcept {
    if constexpr (Cells::kCell == Cell::bit) {
      if (geometry_.layout() == Layout::split_block) return blocks_of_bits_hold(hash);
    }
    for (std::uint32_t i = 0; i < Cells::shares(geometry_); ++i) {
      if (!holds_share<Cells>(hash, i)) return false;
    }
    return true;
  }
  template <class Cells>
  SCBF_INLINE unsigned least(std::uint64_t hash) const noexcept {
    if constexpr (Cells::kCell == Cell::bit) {
      return holds<Cells>(hash);
    } else {
      unsigned least = kCounterMax;
      for (std::uint32_t i = 0; i < probes(); ++i) {
        const unsigned c = counter(hash, i);
        least = c < least ? c : least;
      }
      return least;
    }
  }
  template <class Cells>
  SCBF_INLINE void add(std::uint64_t hash, std::uint32_t rank,
                       std::uint32_t threads) const noexcept {
    for (std::uint32_t i = rank; i < Cells::shares(geometry_); i += threads) {
      const auto share = Cells::share(geometry_, hash, i);
      Cells::add(words_ + share.word, share);
    }
  }

  SCBF_INLINE void insert(std::uint64_t key) const noexcept { insert_hash(hash(key)); }
  SCBF_INLINE bool contains(std::uint64_t key) const noexcept { return contains_hash(hash(key)); }
  SCBF_INLINE unsigned count(std::uint64_t key) const noexcept { return count_hash(hash(key)); }
  /// contains(key), as the predicate of thrust::copy_if, thrust::remove_if, cub::DeviceSelect::If …
  SCBF_INLINE bool operator()(std::uint64_t key) const noexcept { return contains(key); }

  // ---- the same by a cooperative group of up to a warp; all its threads pass the same key ------

  template <class Group>
  SCBF_INLINE void insert(const Group& group, std::uint64_t key) const {
    insert_hash(hash(key), group.thread_rank(), group.num_threads());
  }
  template <class Group>
  SCBF_INLINE bool contains(const Group& group, std::uint64_t key) const {
    const std::uint64_t h = hash(key);
    if (is_ranked()) return group_holds<RankedCells>(group, h);
    return has_bits() ? group_holds<BitCells>(group, h) : group_holds<CounterCells>(group, h);
  }

 private:
  SCBF_INLINE bool has_bits() const noexcept { return geometry_.cell() == Cell::bit; }
  SCBF_INLINE static void end_kernel() noexcept {
#if defined(__CUDA_ARCH__)
    asm("trap;");
#else
    std::abort();
#endif
  }

  template <class Cells>
  SCBF_INLINE bool holds_share(std::uint64_t hash, std::uint32_t i) const noexcept {
    const auto share = Cells::share(geometry_, hash, i);
    return Cells::has(Atomic().load(words_ + share.word), share);
  }
  template <class Cells, class Group>
  SCBF_INLINE bool group_holds(const Group& group, std::uint64_t hash) const {
    bool found = true;
    for (std::uint32_t i = group.thread_rank(); found && i < Cells::shares(geometry_);
         i += group.num_threads()) {
      found = holds_share<Cells>(hash, i);
    }
    return group.all(found);
  }
  /// One access for each block.
  SCBF_INLINE bool blocks_of_bits_hold(std::uint64_t hash) const noexcept {
    for (std::uint32_t group = 0; group < geometry_.groups(); ++group) {
      const std::uint64_t place = detail::place_in_group(geometry_, hash, group);
      const std::uint64_t block = group * geometry_.blocks_per_group() + detail::block_of(place);
      const WordPair words = Atomic().load_pair(words_ + block * BitCells::kBlockWords);
      const std::uint64_t missing = (detail::block_mask(place, 0) & ~words.low) |
                                    (detail::block_mask(place, 1) & ~words.high);
      if (missing != 0) return false;
    }
    return true;
  }

  Geometry geometry_;
  std::uint64_t seed_;
  std::uint64_t* words_;
};

}  // namespace scbf::cuda
