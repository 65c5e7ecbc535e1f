// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/strip.hpp"

#include <algorithm>
#include <bit>

namespace scbf {

namespace {

/// If `done` of n keys are finished, should the others be moved together? Moving costs about as
/// much as looking up an eighth of them in the next array.
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

/// `hashes` may be those of `set`.
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

LookupStrip::LookupStrip(const Kernels& kernels, std::span<Asked> filters, bool ahead) noexcept
    : kernels_(kernels), filters_(filters), ahead_(ahead) {}

std::size_t LookupStrip::test(const ConstFilterArrays& filter, std::uint32_t array_index,
                              const std::uint64_t* hashes, std::size_t n, const Fetch& fetch,
                              Bits& bits) noexcept {
  const Array array = filter.array(array_index);
  filter.array_kernels.locate(array, hashes, n, positions_.data());
  filter.array_kernels.test(filter.view.geometry, filter.words(array), positions_.data(), n, fetch,
                            answers_.data());
  return kernels_.pack_answers(answers_.data(), n, bits.data());
}

/// Looks the set up in the filter's arrays from `array` on. Sets the answers of the keys that pass
/// all of them to 1, and returns how many there are.
std::size_t LookupStrip::finish(const Asked& asked, std::uint32_t array, KeySet& set,
                                std::uint8_t* out) noexcept {
  Bits alive, bits;
  std::size_t living = set.keys;
  bool all = true;  // keys of the set are alive
  for (; array < asked.filter.arrays && living > 0; ++array) {
    living = test(asked.filter, array, set.hashes.data(), set.keys,
                  {.distance = asked.next_distance}, bits);
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

void LookupStrip::finish_waiting(std::uint8_t* out) noexcept {
  if (waiting_for_ == nullptr) return;
  finish(*waiting_for_, 1, waiting_[now_ ^ 1], out);
  waiting_for_ = nullptr;
}

std::size_t LookupStrip::ask_further(const Asked& asked, const Bits& passed, std::size_t count,
                                     const std::uint64_t* hashes, const std::uint16_t* index,
                                     std::size_t n, std::uint8_t* out) noexcept {
  const bool wait = asked.next_distance > 0 && !worth_moving(count, n);
  if (!wait) {
    copy_keys(passed, hashes, index, n, passed_);
    const std::size_t found = finish(asked, 1, passed_, out);
    finish_waiting(out);
    return found;
  }
  KeySet& set = waiting_[now_];
  copy_keys(passed, hashes, index, n, set);
  const ConstFilterArrays& filter = asked.filter;
  const Array array = filter.array(1);
  filter.array_kernels.locate(array, set.hashes.data(), set.keys, positions_.data());
  for (std::size_t i = 0; i < set.keys; ++i) {
    __builtin_prefetch(filter.line_of(array, positions_[i]));
  }
  finish_waiting(out);
  waiting_for_ = &asked;
  now_ ^= 1;
  return 0;  // those that pass are too few to make moving the others pay
}

void LookupStrip::fetch_ahead(std::size_t next, const std::uint64_t* hashes,
                              std::size_t n) noexcept {
  fetched_ = std::max(fetched_, next);
  for (; fetched_ < filters_.size() && (fetched_ - next) * n < kLinesAhead; ++fetched_) {
    const ConstFilterArrays& filter = filters_[fetched_].filter;
    const Array array = filter.array(0);
    filter.array_kernels.locate(array, hashes, n, positions_.data());
    for (std::size_t i = 0; i < n; ++i) {
      __builtin_prefetch(filter.line_of(array, positions_[i]));
    }
  }
}

void LookupStrip::ask(const std::uint64_t* hashes, std::size_t n, Lines segment_ahead,
                      std::uint8_t* out) noexcept {
  std::fill_n(out, n, std::uint8_t{0});
  const std::uint16_t* index = kEachItself.data();
  // With more keys, prefetching within one filter hides most of the waiting.
  const bool ahead = ahead_ && n <= kFarDistance;
  fetched_ = 0;
  for (std::size_t f = 0; f < filters_.size() && n > 0; ++f) {
    const Asked& asked = filters_[f];
    if (ahead) fetch_ahead(f, hashes, n);
    const std::size_t passed =
        test(asked.filter, 0, hashes, n,
             {.distance = ahead ? 0 : asked.first_distance, .ahead = {asked.ahead, segment_ahead}},
             bits_);
    segment_ahead = {};
    const bool one_array = asked.filter.arrays == 1;
    std::size_t found = passed;
    if (!one_array) {
      found = ask_further(asked, bits_, passed, hashes, index, n, out);
    } else {
      if (index == kEachItself.data() && worth_moving(passed, n)) {
        for (std::size_t i = 0; i < n; ++i) out[i] |= answers_[i];
      } else {
        for_each_bit(bits_, n, [&](std::size_t i) { out[index[i]] = 1; });
      }
      finish_waiting(out);
    }
    if (f + 1 == filters_.size() || !worth_moving(found, n)) continue;
    if (one_array) {
      complement(bits_, n);
      copy_keys(bits_, hashes, index, n, rest_);
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
