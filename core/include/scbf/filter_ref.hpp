// SPDX-License-Identifier: Apache-2.0
// For loops with one key per call: views of a filter of one stage on the host. They keep what the
// filter's functions for one key look up in every call, so that a call is a hash and one function
// for the machine's best vectors. (scbf::cuda::FilterRef, of scbf/cuda/filter_ref.hpp, is its twin
// in kernels: lookups and insertions, inline, on counters in the memory of a device.)
#pragma once

#include <cstdint>
#include <string_view>

#include "scbf/backend.hpp"
#include "scbf/detail/hash.hpp"
#include "scbf/detail/known_count.hpp"
#include "scbf/detail/not_a_key.hpp"
#include "scbf/detail/positions.hpp"
#include "scbf/geometry.hpp"

namespace scbf {

struct FilterAccess;

namespace detail {

/// The numbers that a stage keeps about itself.
struct StageNumbers {
  std::uint64_t* keys_inserted;
  std::uint64_t* keys_removed;
  KnownCount* nonzero;  ///< cells
};

}  // namespace detail

/// A view of counters or of bits, for lookups; see Filter::ref and BloomFilter::ref.
class ConstFilterRef {
 public:
  /// As Filter::contains and Filter::count of one key; in bits, a key that may be present counts 1.
  /// Cost: the key's cache lines, and three to four nanoseconds in a second-level cache (`ranked`:
  /// four to seven).
  bool contains(std::uint64_t key) const noexcept { return contains_hash(hash(key)); }
  bool contains(std::string_view key) const noexcept { return contains_hash(hash(key)); }
  unsigned count(std::uint64_t key) const noexcept { return count_hash(hash(key)); }
  unsigned count(std::string_view key) const noexcept { return count_hash(hash(key)); }
  template <detail::NotAKey T>
  bool contains(T) const = delete;
  bool contains(detail::Literals) const = delete;
  template <detail::NotAKey T>
  unsigned count(T) const = delete;
  unsigned count(detail::Literals) const = delete;

  // The same in steps: for keys that are looked up several times, and for keys that are known
  // beforehand. A core works on the keys of a few iterations at once, too few to hide the wait for
  // memory. So in filters that outgrow the cache, prefetch about 32 keys ahead.

  std::uint64_t hash(std::uint64_t key) const noexcept {
    return detail::hash_u64<detail::PlainOps>(key, seed_mask_);
  }
  std::uint64_t hash(std::string_view key) const noexcept {
    return detail::hash_of_bytes(key, seed_);
  }
  /// Begins to fetch the key's cache lines, and does not wait for them.
  __attribute__((always_inline)) void prefetch_hash(std::uint64_t hash) const noexcept {
    // Inlining is forced: g++ drops calls of functions that only prefetch.
    const auto fetch = [this](std::uint64_t word) __attribute__((always_inline)) {
      __builtin_prefetch(words_ + word);
    };
    detail::for_each_line(geometry_, hash, fetch);
  }
  bool contains_hash(std::uint64_t hash) const noexcept {
    return functions_.holds(geometry_, words_, hash);
  }
  unsigned count_hash(std::uint64_t hash) const noexcept {
    return functions_.count(geometry_, words_, hash);
  }

 protected:
  friend struct FilterAccess;  // internal: makes views
  ConstFilterRef(const Geometry& geometry, std::uint64_t seed, const std::uint64_t* words,
                 const OneKey& functions) noexcept
      : functions_(functions),
        geometry_(geometry),
        words_(words),
        seed_(seed),
        seed_mask_(detail::u64_seed_mask(seed)) {}

  OneKey functions_;
  Geometry geometry_;

 private:
  const std::uint64_t* words_;
  std::uint64_t seed_, seed_mask_;
};

/// A view for insertions and lookups; see BloomFilter::ref.
class BloomFilterRef : public ConstFilterRef {
 public:
  /// As Filter::insert and insert_new of one key.
  void insert(std::uint64_t key) const noexcept { insert_hash(hash(key)); }
  void insert(std::string_view key) const noexcept { insert_hash(hash(key)); }
  bool insert_new(std::uint64_t key) const noexcept { return insert_new_hash(hash(key)); }
  bool insert_new(std::string_view key) const noexcept { return insert_new_hash(hash(key)); }
  template <detail::NotAKey T>
  void insert(T) const = delete;
  void insert(detail::Literals) const = delete;
  template <detail::NotAKey T>
  bool insert_new(T) const = delete;
  bool insert_new(detail::Literals) const = delete;

  void insert_hash(std::uint64_t hash) const noexcept {
    numbers_.nonzero->add(functions_.add(geometry_, words_, hash));
    ++*numbers_.keys_inserted;
  }
  bool insert_new_hash(std::uint64_t hash) const noexcept {
    if (contains_hash(hash)) return false;
    insert_hash(hash);
    return true;
  }

 protected:
  friend struct FilterAccess;
  BloomFilterRef(const Geometry& geometry, std::uint64_t seed, std::uint64_t* words,
                 const OneKey& functions, const detail::StageNumbers& numbers) noexcept
      : ConstFilterRef(geometry, seed, words, functions), words_(words), numbers_(numbers) {}

  std::uint64_t* words_;
  detail::StageNumbers numbers_;
};

/// A view of counters for all changes and lookups; see Filter::ref.
class FilterRef : public BloomFilterRef {
 public:
  /// As Filter::remove of one key; returns whether the key was there. (If it is kept by a stuck
  /// block of `ranked`, that is true, and it counts as removed.)
  bool remove(std::uint64_t key) const noexcept { return remove_hash(hash(key)); }
  bool remove(std::string_view key) const noexcept { return remove_hash(hash(key)); }
  template <detail::NotAKey T>
  bool remove(T) const = delete;
  bool remove(detail::Literals) const = delete;

  bool remove_hash(std::uint64_t hash) const noexcept {
    const std::uint32_t emptied = functions_.take(geometry_, words_, hash);
    if (emptied == OneKey::kNotThere) return false;
    numbers_.nonzero->subtract(emptied);
    ++*numbers_.keys_removed;
    return true;
  }

 private:
  friend struct FilterAccess;
  using BloomFilterRef::BloomFilterRef;
};

}  // namespace scbf
