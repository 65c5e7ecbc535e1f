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

template <class Bits>
void join(Bits& bits, const Bits& others, std::size_t n) noexcept {
  for (std::size_t word = 0; word * 64 < n; ++word) bits[word] |= others[word];
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

/// Filters in memory are left to themselves: there a line costs more than locating a key, and keys
/// that one filter holds should not fetch the lines of others.
bool take_first_stage_together(const Asked& a, const Asked& b) noexcept {
  return a.work.stage_kernels.test_alike != nullptr && a.first_distance == 0 &&
         b.first_distance == 0 && a.work.view.geometry == b.work.view.geometry;
}

}  // namespace

AnyStrip::AnyStrip(const Kernels& kernels, std::span<Asked> filters, bool ahead) noexcept
    : kernels_(kernels), filters_(filters), ahead_(ahead) {
  for (std::size_t i = filters.size(); i-- > 1;) {
    if (!take_first_stage_together(filters[i - 1], filters[i])) continue;
    filters[i - 1].alike = std::min(Alike::kMost, filters[i].alike + 1);
  }
}

std::size_t AnyStrip::test(const ReadWork& filter, std::uint32_t stage_index,
                           const std::uint64_t* hashes, std::size_t n, const Fetch& fetch,
                           Bits& bits) noexcept {
  const Stage stage = filter.stage(stage_index);
  filter.stage_kernels.locate(stage, hashes, n, positions_.data());
  filter.stage_kernels.test(filter.words(stage), positions_.data(), n, fetch, answers_.data());
  return kernels_.pack_answers(answers_.data(), n, bits.data());
}

void AnyStrip::test_first(std::span<const Asked> alike, const std::uint64_t* hashes, std::size_t n,
                          Lines chunk_ahead, bool fetched) noexcept {
  const Asked& first = alike[0];
  const Fetch fetch = {.distance = fetched ? 0 : first.first_distance,
                       .ahead = {first.ahead, chunk_ahead}};
  if (alike.size() == 1) {
    passed_by_[0] = test(first.work, 0, hashes, n, fetch, bits_[0]);
    return;
  }
  const Stage stage = first.work.stage(0);
  Alike together = {.words = {}, .filters = alike.size(), .stride = kStripKeys};
  for (std::size_t f = 0; f < alike.size(); ++f) together.words[f] = alike[f].work.words(stage);
  first.work.stage_kernels.locate(stage, hashes, n, positions_.data());
  first.work.stage_kernels.test_alike(together, positions_.data(), n, fetch, answers_.data());
  for (std::size_t f = 0; f < alike.size(); ++f) {
    passed_by_[f] = kernels_.pack_answers(answers_.data() + f * kStripKeys, n, bits_[f].data());
  }
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

std::size_t AnyStrip::ask_further(const Asked& asked, const Bits& passed, std::size_t count,
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
  const ReadWork& filter = asked.work;
  const Stage stage = filter.stage(1);
  filter.stage_kernels.locate(stage, set.hashes.data(), set.keys, positions_.data());
  for (std::size_t i = 0; i < set.keys; ++i) {
    __builtin_prefetch(filter.line_of(stage, positions_[i]));
  }
  finish_waiting(out);
  waiting_for_ = &asked;
  now_ ^= 1;
  return 0;  // too few to be worth moving the others
}

void AnyStrip::fetch_ahead(std::size_t next, const std::uint64_t* hashes, std::size_t n) noexcept {
  fetched_ = std::max(fetched_, next);
  for (; fetched_ < filters_.size() && (fetched_ - next) * n < kLinesAhead; ++fetched_) {
    const ReadWork& filter = filters_[fetched_].work;
    const Stage stage = filter.stage(0);
    filter.stage_kernels.locate(stage, hashes, n, positions_.data());
    for (std::size_t i = 0; i < n; ++i) {
      __builtin_prefetch(filter.line_of(stage, positions_[i]));
    }
  }
}

void AnyStrip::ask(const std::uint64_t* hashes, std::size_t n, Lines chunk_ahead,
                   std::uint8_t* out) noexcept {
  std::fill_n(out, n, std::uint8_t{0});
  const std::uint16_t* index = kEachItself.data();
  const bool ahead = ahead_ && n <= kFarDistance;  // of more, most do not wait
  fetched_ = 0;
  for (std::size_t next = 0; next < filters_.size() && n > 0;) {
    const bool alone = next == 0 && first_alone_;
    const std::span<const Asked> alike = filters_.subspan(next, alone ? 1 : filters_[next].alike);
    if (ahead) fetch_ahead(next, hashes, n);
    test_first(alike, hashes, n, chunk_ahead, ahead);
    if (next == 0) first_alone_ = worth_moving(passed_by_[0], n);
    next += alike.size();
    chunk_ahead = {};
    const bool one_stage = alike[0].work.stages == 1;
    std::size_t found = 0;
    for (std::size_t f = 0; f < alike.size(); ++f) {
      if (!one_stage) {
        found += ask_further(alike[f], bits_[f], passed_by_[f], hashes, index, n, out);
        continue;
      }
      found += passed_by_[f];
      if (index == kEachItself.data() && worth_moving(passed_by_[f], n)) {
        const std::uint8_t* answers = answers_.data() + f * kStripKeys;
        for (std::size_t i = 0; i < n; ++i) out[i] |= answers[i];
      } else {
        for_each_bit(bits_[f], n, [&](std::size_t i) { out[index[i]] = 1; });
      }
      if (f > 0) join(bits_[0], bits_[f], n);
    }
    if (one_stage) finish_waiting(out);
    if (next == filters_.size() || !worth_moving(found, n)) continue;
    if (one_stage) {
      complement(bits_[0], n);
      copy_keys(bits_[0], hashes, index, n, rest_);
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
