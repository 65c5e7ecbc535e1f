// SPDX-License-Identifier: Apache-2.0
// The cuckoo filter of Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo Filter: Practically Better
// Than Bloom" (CoNEXT 2014): buckets of 4 fingerprints of f bits; each key has two buckets, and the
// second follows from the first and the fingerprint. Where both are full, a fingerprint is moved to
// its other bucket, up to 500 times; the last one that finds no place becomes the victim, and from
// then on insertions are refused.
//
// The paper finds the second bucket by exclusive or, for which the number of buckets must be a
// power of two: up to twice the memory. Here it is h(fingerprint) − bucket modulo the number of
// buckets, which is its own inverse, too, and works for any number.
//
// Sized as in the paper: n keys fill 95 % of the slots; f is the least for which 8 · 0.95 / (2^f −
// 1) is below the rate. At 1 %, f = 10. At 10^8 keys that refused the last thousandth of them (as
// the paper says, more buckets need longer fingerprints), so large ones are filled to 94 %.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cells.hpp"

namespace scbf::bench {

class CuckooFilter {
 public:
  static constexpr const char* kName = "cuckoo";

  CuckooFilter(std::size_t n, double fpr)
      : buckets_(static_cast<std::uint64_t>(
            std::ceil(static_cast<double>(n) / (kSlots * (n > kLarge ? kLargeLoad : kLoad))))),
        width_(width_for(fpr)),
        lanes_(kSlots, width_),
        cells_(buckets_, kSlots * width_) {}

  /// False if the filter is full; then nothing has changed.
  bool insert(std::uint64_t hash) noexcept {
    if (victim_.print != 0) return false;
    place(at(hash));
    return true;
  }

  bool contains(std::uint64_t hash) const noexcept {
    const Place place = at(hash);
    // No branch between the buckets: which one it is cannot be predicted.
    const std::uint64_t found = lanes_.equal(cells_.get(place.bucket), place.print) |
                                lanes_.equal(cells_.get(other(place)), place.print);
    return found != 0 || is_victim(place);
  }

  unsigned count(std::uint64_t hash) const noexcept {
    const Place place = at(hash);
    const std::uint64_t second = other(place);
    unsigned sum = is_victim(place) ? 1 : 0;
    sum += lanes_.number(lanes_.equal(cells_.get(place.bucket), place.print));
    if (second != place.bucket) {
      sum += lanes_.number(lanes_.equal(cells_.get(second), place.print));
    }
    return sum;
  }

  bool remove(std::uint64_t hash) noexcept {
    const Place place = at(hash);
    if (take(place.bucket, place.print) || take(other(place), place.print)) {
      // There is room now.
      if (victim_.print != 0) this->place(std::exchange(victim_, {}));
      return true;
    }
    if (!is_victim(place)) return false;
    victim_ = {};
    return true;
  }

  bool empty() const noexcept { return victim_.print == 0 && cells_.empty(); }
  void clear() {
    cells_.clear();
    victim_ = {};
  }
  /// Its contents, and back to them: keys that are removed leave free just the slots that they
  /// need, so inserting them again takes less time than inserting them first did.
  std::vector<std::uint64_t> state() const {
    std::vector<std::uint64_t> state(cells_.words().begin(), cells_.words().end());
    state.push_back(victim_.bucket);
    state.push_back(victim_.print);
    return state;
  }
  void set_state(std::span<const std::uint64_t> state) {
    const std::size_t words = state.size() - 2;
    std::ranges::copy(state.first(words), cells_.words().begin());
    victim_ = {state[words], state[words + 1]};
  }
  std::size_t bytes() const noexcept { return cells_.size_bytes(); }
  std::uint64_t slots() const noexcept { return kSlots * buckets_; }
  /// That one of the fingerprints in two buckets is the same.
  double predicted_fpr(std::size_t n) const noexcept {
    return fpr_at(static_cast<double>(n) / static_cast<double>(slots()), width_);
  }

 private:
  static constexpr unsigned kSlots = 4, kKicks = 500, kWidest = 14;
  static constexpr double kLoad = 0.95, kLargeLoad = 0.94;
  static constexpr std::size_t kLarge = 20'000'000;

  /// A fingerprint, never 0, and one of its two buckets.
  struct Place {
    std::uint64_t bucket = 0, print = 0;
  };

  static double fpr_at(double load, unsigned width) noexcept {
    return -std::expm1(2 * kSlots * load * std::log1p(-1 / (std::ldexp(1, width) - 1)));
  }
  static unsigned width_for(double fpr) {
    for (unsigned width = 2; width <= kWidest; ++width) {
      if (fpr_at(kLoad, width) <= fpr) return width;
    }
    throw std::invalid_argument("cuckoo: the rate takes more than 14 bits a fingerprint");
  }

  Place at(std::uint64_t hash) const noexcept {
    // The bucket comes from the upper bits, the fingerprint from the lower half.
    const std::uint64_t prints = (std::uint64_t{1} << width_) - 1;
    return {scaled(hash, buckets_), 1 + ((hash & 0xFFFF'FFFFu) * prints >> 32)};
  }
  std::uint64_t other(Place place) const noexcept {
    const std::uint64_t sum = scaled(place.print * 0x9E37'79B9'7F4A'7C15ull, buckets_);
    return sum >= place.bucket ? sum - place.bucket : sum + buckets_ - place.bucket;
  }
  bool is_victim(Place place) const noexcept {
    return victim_.print == place.print &&
           (victim_.bucket == place.bucket || victim_.bucket == other(place));
  }

  /// Puts the fingerprint into an empty slot of its bucket, which holds `cells`, if there is one.
  bool put(Place place, std::uint64_t cells) noexcept {
    const std::uint64_t empty = lanes_.equal(cells, 0);
    if (empty == 0) return false;
    cells_.set(place.bucket, cells | lanes_.in(lanes_.mask(empty), place.print));
    return true;
  }
  bool take(std::uint64_t at, std::uint64_t print) noexcept {
    const std::uint64_t bucket = cells_.get(at);
    const std::uint64_t found = lanes_.equal(bucket, print);
    if (found == 0) return false;
    cells_.set(at, bucket & ~lanes_.mask(found));
    return true;
  }

  /// Requires that there is no victim.
  void place(Place place) noexcept {
    const Place second = {other(place), place.print};
    // Both are read before the first is tested, so that they are fetched together.
    const std::uint64_t first_cells = cells_.get(place.bucket);
    const std::uint64_t second_cells = cells_.get(second.bucket);
    if (put(place, first_cells) || put(second, second_cells)) return;
    if ((random() & 1) != 0) place = second;
    for (unsigned kick = 0; kick < kKicks; ++kick) {
      // The bucket is full: its fingerprint in a random slot makes room.
      const unsigned shift = static_cast<unsigned>(random() % kSlots) * width_;
      const std::uint64_t mask = ((std::uint64_t{1} << width_) - 1) << shift;
      const std::uint64_t bucket = cells_.get(place.bucket);
      cells_.set(place.bucket, (bucket & ~mask) | place.print << shift);
      place.print = (bucket & mask) >> shift;
      place.bucket = other(place);
      if (put(place, cells_.get(place.bucket))) return;
    }
    victim_ = place;
  }

  std::uint64_t random() noexcept {  // xorshift
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ >> 32;
  }

  std::uint64_t buckets_;
  unsigned width_;
  Lanes<std::uint64_t> lanes_;
  PackedCells cells_;  ///< one per bucket
  Place victim_;       ///< print 0: there is none
  std::uint64_t random_ = 0x2545'F491'4F6C'DD1Dull;
};

}  // namespace scbf::bench
