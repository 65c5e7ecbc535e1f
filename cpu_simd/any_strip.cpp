// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/any_strip.hpp"

#include <algorithm>
#include <bit>

namespace scbf {

namespace {

/// So many of n keys are done with: are the others to be moved together? That costs about what an
/// eighth of them costs in the next stage.
constexpr bool worth_moving(std::size_t done, std::size_t n) noexcept {
  return done > 0 && done * 8 >= n;
}

constexpr auto kEachItself = [] {
  std::array<std::uint16_t, kStripKeys> index{};
  for (std::size_t i = 0; i < kStripKeys; ++i) index[i] = static_cast<std::uint16_t>(i);
  return index;
}();

/// Calls visit(i) for each bit i that is 1, in order.
template <class Bits, class Visit>
void for_each_bit(const Bits& bits, std::size_t n, Visit visit) noexcept {
  for (std::size_t word = 0; word * 64 < n; ++word) {
    for (std::uint64_t rest = bits[word]; rest != 0; rest &= rest - 1) {
      visit(word * 64 + static_cast<std::size_t>(std::countr_zero(rest)));
    }
  }
}

template <class Bits>
void complement(Bits& bits, std::size_t n) noexcept {
  for (std::size_t word = 0; word * 64 < n; ++word) bits[word] = ~bits[word];
  if (n % 64 != 0) bits[n / 64] &= (std::uint64_t{1} << (n % 64)) - 1;
}

/// `set` may hold the hashes that are copied.
template <class Bits>
void copy_keys(const Bits& bits, const std::uint64_t* hashes, const std::uint16_t* index,
               std::size_t n, KeySet& set) noexcept {
  std::size_t kept = 0;
  for_each_bit(bits, n, [&](std::size_t i) {
    set.hashes[kept] = hashes[i];
    set.index[kept++] = index[i];
  });
  set.keys = kept;
}

}  // namespace

std::size_t AnyStrip::test(const ReadWork& filter, std::uint32_t stage_index,
                           const std::uint64_t* hashes, std::size_t n, const Fetch& fetch,
                           Bits& bits) noexcept {
  const Stage stage = filter.stage(stage_index);
  filter.stage_kernels.locate(stage, hashes, n, positions_.data());
  filter.stage_kernels.test(filter.words(stage), positions_.data(), n, fetch, answers_.data());
  if (n == 1) {  // single keys: a call per stage less
    bits[0] = answers_[0];
    return answers_[0];
  }
  return kernels_.pack_answers(answers_.data(), n, bits.data());
}

/// Asks the filter's further stages, from `stage` on, about the set; marks who passes all, and
/// returns how many.
std::size_t AnyStrip::finish(const Asked& asked, std::uint32_t stage, KeySet& set,
                             std::uint8_t* out) noexcept {
  Bits alive, bits;
  std::size_t living = set.keys;
  bool all = true;  // in the set are alive
  for (; stage < asked.work.stages && living > 0; ++stage) {
    living = test(asked.work, stage, set.hashes.data(), set.keys, {.distance = asked.next_distance},
                  bits);
    if (!all) {
      living = 0;
      for (std::size_t word = 0; word * 64 < set.keys; ++word) {
        bits[word] &= alive[word];
        living += static_cast<std::size_t>(std::popcount(bits[word]));
      }
    }
    alive = bits;
    all = living == set.keys;
    if (worth_moving(set.keys - living, set.keys)) {
      copy_keys(alive, set.hashes.data(), set.index.data(), set.keys, set);
      all = true;
    }
  }
  if (all) {
    for (std::size_t i = 0; i < set.keys; ++i) out[set.index[i]] = 1;
  } else {
    for_each_bit(alive, set.keys, [&](std::size_t i) { out[set.index[i]] = 1; });
  }
  return living;
}

void AnyStrip::finish_waiting(std::uint8_t* out) noexcept {
  if (waiting_for_ == nullptr) return;
  finish(*waiting_for_, 1, waiting_[now_ ^ 1], out);
  waiting_for_ = nullptr;
}

void AnyStrip::ask(const std::uint64_t* hashes, std::size_t n, Lines chunk_ahead,
                   std::uint8_t* out) noexcept {
  std::fill_n(out, n, std::uint8_t{0});
  const std::uint16_t* index = kEachItself.data();
  for (Asked& asked : filters_) {
    if (n == 0) break;
    const ReadWork& filter = asked.work;
    Bits bits;
    const Fetch fetch = {.distance = asked.first_distance, .ahead = {asked.ahead, chunk_ahead}};
    chunk_ahead = {};
    const std::size_t passed = test(filter, 0, hashes, n, fetch, bits);
    std::size_t found = 0;
    const bool wait = filter.stages > 1 && asked.next_distance > 0 && !worth_moving(passed, n);
    if (wait) {
      KeySet& set = waiting_[now_];
      copy_keys(bits, hashes, index, n, set);
      const Stage stage = filter.stage(1);
      filter.stage_kernels.locate(stage, set.hashes.data(), set.keys, positions_.data());
      for (std::size_t i = 0; i < set.keys; ++i) {
        __builtin_prefetch(filter.line_of(stage, positions_[i]));
      }
    } else if (filter.stages > 1) {
      copy_keys(bits, hashes, index, n, passed_);
      found = finish(asked, 1, passed_, out);
    } else {
      found = passed;
      if (index == kEachItself.data() && worth_moving(found, n)) {
        for (std::size_t i = 0; i < n; ++i) out[i] |= answers_[i];
      } else {
        for_each_bit(bits, n, [&](std::size_t i) { out[index[i]] = 1; });
      }
    }
    finish_waiting(out);
    if (wait) {
      waiting_for_ = &asked;
      now_ ^= 1;
      continue;  // found there are too few to be worth moving the others
    }
    if (&asked == &filters_.back() || !worth_moving(found, n)) continue;
    if (filter.stages == 1) {
      complement(bits, n);
      copy_keys(bits, hashes, index, n, rest_);
      n = rest_.keys;
    } else {
      std::size_t kept = 0;
      for (std::size_t i = 0; i < n; ++i) {
        rest_.hashes[kept] = hashes[i];
        rest_.index[kept] = index[i];
        kept += out[index[i]] == 0;  // branch-free: answers are unpredictable
      }
      n = kept;
    }
    hashes = rest_.hashes.data();
    index = rest_.index.data();
  }
  finish_waiting(out);
}

}  // namespace scbf
