// SPDX-License-Identifier: Apache-2.0
// The d-left counting Bloom filter of Bonomi, Mitzenmacher, Panigrahy, Singh and Varghese, "An
// Improved Construction for Counting Bloom Filters" (ESA 2006): four subtables of buckets of 8
// cells, each a remainder of r bits and a counter of 2. A key goes to the emptiest of its four
// buckets.
//
// A key's fingerprint is a bucket and a remainder. A permutation of all fingerprints per subtable
// says where it lies there, so two keys that share a cell in one subtable share it in all, and
// removal finds the cell that insertion used. The paper multiplies by an odd number, for which the
// number of fingerprints must be a power of two. Here the remainder stays and the bucket moves by a
// hash of the remainder: a permutation for any number of buckets.
//
// Sized as in the paper: 6 keys to a bucket, rate 24 · 2^-r. At 1 %, r = 12. No remainder is 0, so
// that a free cell matches none and a lookup reads no counters. A key whose cell is at 3 takes a
// second cell, so no counter is ever stuck. A key with four full buckets is refused.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "cells.hpp"

namespace scbf::bench {

class DLeftFilter {
 public:
  static constexpr const char* kName = "d_left";

  DLeftFilter(std::size_t n, double fpr)
      : buckets_((n + kTables * kLoad - 1) / (kTables * kLoad)),
        width_(width_for(n, fpr, buckets_)),
        bytes_each_(width_ + 2),
        lanes_(kCells, width_),
        memory_(kTables * buckets_ * bytes_each_) {}

  /// False if all buckets of the key are full; then nothing has changed.
  bool insert(std::uint64_t hash) noexcept {
    const Places at = places(hash);
    unsigned best = kTables * kCells;  // cells in use · kTables + table: ties go left
    for (unsigned table = 0; table < kTables; ++table) {
      const std::uint64_t byte = at.bytes[table];
      const Wide bucket = memory_.load_wide(byte);
      for (Wide found = matches(bucket, at.remainder); found != 0; found &= found - 1) {
        const unsigned cell = lanes_.first(found);
        if (counter(bucket, cell) == kMost) continue;
        memory_.store_wide(byte, bucket + one(cell));
        return true;
      }
      const auto used = static_cast<unsigned>(std::popcount(in_use(bucket)));
      best = std::min(best, used * kTables + table);
    }
    if (best >= kTables * kCells) return false;
    const std::uint64_t emptiest = at.bytes[best % kTables];
    Wide bucket = memory_.load_wide(emptiest);
    const auto cell = static_cast<unsigned>(std::countr_zero(~in_use(bucket) & kEveryCounter)) / 2;
    bucket |= one(cell) | Wide{at.remainder} << (cell * width_);
    memory_.store_wide(emptiest, bucket);
    return true;
  }

  bool contains(std::uint64_t hash) const noexcept {
    const Places at = places(hash);
    Wide found = 0;  // no branch per bucket: which one it is cannot be predicted
    for (const std::uint64_t byte : at.bytes) {
      found |= matches(memory_.load_wide(byte), at.remainder);
    }
    return found != 0;
  }

  unsigned count(std::uint64_t hash) const noexcept {
    const Places at = places(hash);
    unsigned sum = 0;
    for (const std::uint64_t byte : at.bytes) {
      const Wide bucket = memory_.load_wide(byte);
      for (Wide found = matches(bucket, at.remainder); found != 0; found &= found - 1) {
        sum += counter(bucket, lanes_.first(found));
      }
    }
    return sum;
  }

  bool remove(std::uint64_t hash) noexcept {
    const Places at = places(hash);
    for (const std::uint64_t byte : at.bytes) {
      Wide bucket = memory_.load_wide(byte);
      const Wide found = matches(bucket, at.remainder);
      if (found == 0) continue;
      const unsigned cell = lanes_.first(found);
      if (counter(bucket, cell) == 1) bucket &= ~lanes_.mask(found);
      memory_.store_wide(byte, bucket - one(cell));
      return true;
    }
    return false;
  }

  bool empty() const noexcept { return memory_.empty(); }
  void clear() { memory_.clear(); }
  std::size_t bytes() const noexcept { return memory_.size_bytes(); }
  /// That one of n keys has the same fingerprint.
  double predicted_fpr(std::size_t n) const noexcept { return fpr_with(n, buckets_, width_); }

 private:
  static constexpr unsigned kTables = 4, kCells = 8, kLoad = 6, kMost = 3;
  /// A bucket is its remainders, then its counters: at most 8 · 14 + 16 bits.
  static constexpr unsigned kWidest = 14;
  static constexpr unsigned kEveryCounter = 0x5555;

  struct Places {
    std::uint64_t remainder;
    std::array<std::uint64_t, kTables> bytes;  ///< where the bucket of each subtable begins
  };

  static constexpr std::uint64_t remainders(unsigned width) noexcept {
    return (std::uint64_t{1} << width) - 1;
  }
  static double fpr_with(std::size_t n, std::uint64_t buckets, unsigned width) noexcept {
    return -std::expm1(-static_cast<double>(n) / static_cast<double>(buckets * remainders(width)));
  }
  static unsigned width_for(std::size_t n, double fpr, std::uint64_t buckets) {
    for (unsigned width = 1; width <= kWidest; ++width) {
      if (fpr_with(n, buckets, width) <= fpr) return width;
    }
    throw std::invalid_argument("d-left: the rate takes more than 14 bits a remainder");
  }

  Places places(std::uint64_t hash) const noexcept {
    constexpr std::array<std::uint64_t, kTables> kFactors = {
        0, 0x9E37'79B9'7F4A'7C15ull, 0xC2B2'AE3D'27D4'EB4Full, 0xD6E8'FEB8'6659'FD93ull};
    const Wide product = static_cast<Wide>(hash) * buckets_;
    const auto bucket = static_cast<std::uint64_t>(product >> 64);
    Places at;
    at.remainder = 1 + scaled(static_cast<std::uint64_t>(product), remainders(width_));
    for (unsigned table = 0; table < kTables; ++table) {
      std::uint64_t moved = bucket + scaled(at.remainder * kFactors[table], buckets_);
      if (moved >= buckets_) moved -= buckets_;
      at.bytes[table] = (table * buckets_ + moved) * bytes_each_;
    }
    return at;
  }

  /// The cells with this remainder.
  Wide matches(Wide bucket, std::uint64_t remainder) const noexcept {
    return lanes_.equal(bucket, remainder);
  }
  unsigned counters(Wide bucket) const noexcept {
    return static_cast<unsigned>(bucket >> (kCells * width_));
  }
  unsigned counter(Wide bucket, unsigned cell) const noexcept {
    return counters(bucket) >> (2 * cell) & kMost;
  }
  /// What to add to a bucket to add 1 to the cell's counter.
  Wide one(unsigned cell) const noexcept { return Wide{1} << (kCells * width_ + 2 * cell); }
  /// The lower bit of every counter that is not 0, as a mask.
  unsigned in_use(Wide bucket) const noexcept {
    return (counters(bucket) | counters(bucket) >> 1) & kEveryCounter;
  }

  std::uint64_t buckets_;  ///< of each subtable
  unsigned width_, bytes_each_;
  Lanes<Wide> lanes_;
  Memory memory_;
};

}  // namespace scbf::bench
