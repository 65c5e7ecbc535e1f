// SPDX-License-Identifier: Apache-2.0
// Brings the answers of the partitioned path back into batch order.
//
// The answers of a chain are packed to one bit each (four if they are counters) and written over
// the chain's positions, from the beginning of its first segment on. That is safe because a
// position is read once, and its 64 bits become at most four. So answers need no memory of their
// own and almost no bandwidth.
//
// In batch order, each key then takes the next answer of its partition; two bytes per key record
// which partition that is. The next answers of all partitions lie in one small table, a *hand* of
// 56 bits for each. The table stays in L1; one cache line of every chain would not fit there.
#pragma once

#include <hwy/cache_control.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "cpu_simd/engine.hpp"
#include "cpu_simd/shards.hpp"
#include "kit/answer_forms.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/geometry.hpp"

namespace scbf {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::uint64_t kHandBytes = 7;
/// The part of a segment that answers fill: whole hands and whole groups of eight answers.
inline constexpr std::uint64_t kAnswerBytes =
    kSegmentBytes / (kHandBytes * kCounterBits) * (kHandBytes * kCounterBits);

/// Packs the answers of one chain.
template <unsigned bits>
class AnswerWriter {
  static_assert(bits == kYesOrNo || bits == kCounterBits);

 public:
  AnswerWriter(const Scatter& scatter, std::uint64_t first_entry) noexcept
      : segments_(reinterpret_cast<std::byte*>(scatter.entries)),
        next_segment_(scatter.next_segment),
        segment_(first_entry / kSegmentEntries) {}

  /// Where the next answers go, a byte each. There is room for those of a segment.
  std::uint8_t* room() noexcept { return bytes_.data() + held_; }
  /// Tells that n answers have been written and that their positions are no longer needed.
  void wrote(std::size_t n) noexcept {
    held_ += n;
    std::size_t i = 0;
    for (; i + kGroup <= held_; i += kGroup) put(i);
    std::memcpy(bytes_.data(), bytes_.data() + i, kGroup);
    held_ -= i;
  }
  void finish() noexcept {
    if (held_ > 0) put(0);
  }

 private:
  static constexpr std::size_t kGroup = 8;

  void put(std::size_t first) noexcept {
    std::uint64_t group;
    std::memcpy(&group, bytes_.data() + first, kGroup);
    const std::uint64_t packed =
        bits == kYesOrNo ? detail::bits_of_bytes(group) : detail::counters_of_bytes(group);
    std::memcpy(segments_ + segment_ * kSegmentBytes + offset_, &packed, bits);
    offset_ += bits;
    if (offset_ == kAnswerBytes) {
      segment_ = next_segment_[segment_];
      offset_ = 0;
    }
  }

  std::byte* segments_;
  const std::uint32_t* next_segment_;
  std::uint64_t segment_, offset_ = 0;
  std::size_t held_ = 0;  // answers not yet packed; between calls fewer than a group
  std::array<std::uint8_t, kSegmentEntries + 2 * kGroup> bytes_{};
};

/// Stands in for AnswerWriter where there are no answers.
struct NoAnswers {
  NoAnswers(const Scatter&, std::uint64_t) noexcept {}
  std::uint8_t* room() noexcept { return nullptr; }
  void wrote(std::size_t) noexcept {}
  void finish() noexcept {}
};

/// The next 56 bits of a chain's answers; a 1 above them marks the end of the hand.
inline std::uint64_t take_hand(const Scatter& scatter, std::uint64_t& cursor) noexcept {
  constexpr std::uint64_t kEnd = std::uint64_t{1} << (8 * kHandBytes);
  const auto* bytes = reinterpret_cast<const std::byte*>(scatter.entries);
  std::uint64_t hand;
  std::memcpy(&hand, bytes + cursor, sizeof hand);
  cursor += kHandBytes;
  if (cursor % kSegmentBytes == kAnswerBytes) {
    cursor = scatter.next_segment[cursor / kSegmentBytes] * kSegmentBytes;
  }
  hwy::Prefetch(bytes + cursor + 64);
  return (hand & (kEnd - 1)) | kEnd;
}

/// To be called once before a shard's answers are taken.
inline void begin_replay(Shard& shard, std::uint64_t partitions) noexcept {
  for (std::uint64_t p = 0; p < partitions; ++p) {
    shard.cursors[p] = shard.starts[p] / kSegmentEntries * kSegmentBytes;
    shard.hands[p] = take_hand(shard.scatter, shard.cursors[p]);
  }
}

/// Writes the answers of keys first … first + n − 1, counted in the order in which they were
/// scattered.
template <unsigned bits>
void replay(Shard& shard, std::size_t first, std::size_t n, std::uint8_t* answers) noexcept {
  constexpr std::uint64_t kAnswer = (1u << bits) - 1;
  constexpr std::size_t kAtOnce = 8;
  const std::uint16_t* partition_of = shard.scatter.partition_of + first;
  std::uint64_t* hands = shard.hands;
  const auto next = [&](std::size_t i) noexcept {
    const std::size_t partition = partition_of[i];
    const std::uint64_t hand = hands[partition];
    std::uint64_t rest = hand >> bits;
    if (rest == 1) [[unlikely]]
      rest = take_hand(shard.scatter, shard.cursors[partition]);
    hands[partition] = rest;
    return hand & kAnswer;
  };
  std::size_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    std::uint64_t word = 0;  // one store instead of eight
    for (std::size_t j = 0; j < kAtOnce; ++j) word |= next(i + j) << (8 * j);
    std::memcpy(answers + i, &word, sizeof word);
  }
  for (; i < n; ++i) answers[i] = static_cast<std::uint8_t>(next(i));
}

/// Writes all answers of a shard, in the order in which keys were scattered. Returns how many are
/// not 0.
template <unsigned bits>
std::uint64_t replay_all(Shard& shard, std::uint8_t* answers) noexcept {
  constexpr std::size_t kAtOnce = 4096;  // still in L1 when they are counted
  std::uint64_t hits = 0;
  for (std::size_t first = 0; first < shard.scatter.keys; first += kAtOnce) {
    const std::size_t n = std::min(kAtOnce, shard.scatter.keys - first);
    replay<bits>(shard, first, n, answers + first);
    hits += count_hits({answers + first, n});
  }
  return hits;
}

}  // namespace scbf
