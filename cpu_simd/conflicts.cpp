// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/conflicts.hpp"

#include "scbf/detail/packed.hpp"
#include "scbf/detail/positions.hpp"

namespace scbf {

namespace {

std::uint64_t number_of(detail::Probe probe) noexcept {
  return probe.word * kCountersPerWord + probe.shift / kCounterBits;
}

}  // namespace

void Underflows::append(std::uint64_t first_word, std::span<const std::uint64_t> counters) {
  for (const std::uint64_t counter : counters) {
    counters_.push_back(first_word * kCountersPerWord + counter);
  }
}

ConflictResolver::ConflictResolver(CounterView view, const Underflows& underflows,
                                   std::pmr::memory_resource& memory)
    : view_(view),
      in_blocks_(view.geometry.layout() == Layout::split_block),
      marks_(marks_for(underflows.counters_.size()), &memory),
      contested_(&memory),
      slots_(slots_for(underflows.counters_.size()), &memory) {
  contested_.reserve(underflows.counters_.size());
  for (const std::uint64_t counter : underflows.counters_) {
    const std::uint64_t mark = in_blocks_ ? counter / kCountersPerBlock : counter;
    marks_[mark / 64 & (marks_.size() - 1)] |= std::uint64_t{1} << mark % 64;
    std::size_t& slot = slot_of(counter);
    if (slot == 0) {
      contested_.push_back({counter, 0, 0, 0});
      slot = contested_.size();
    }
    ++contested_[slot - 1].underflows;
  }
}

std::size_t& ConflictResolver::slot_of(std::uint64_t counter) noexcept {
  constexpr std::uint64_t kGoldenRatio = 0x9E37'79B9'7F4A'7C15u;  // spreads neighbours
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (counter * kGoldenRatio >> 32) & mask;
  while (slots_[at] != 0 && contested_[slots_[at] - 1].counter != counter) at = (at + 1) & mask;
  return slots_[at];
}

ConflictResolver::Contested* ConflictResolver::find(std::uint64_t counter) noexcept {
  const std::size_t slot = slot_of(counter);
  return slot == 0 ? nullptr : &contested_[slot - 1];
}

void ConflictResolver::survey(std::uint64_t hash) {
  detail::for_each_probe(view_.geometry, hash, [&](detail::Probe probe) {
    if (Contested* entry = find(number_of(probe))) ++entry->takers;
  });
}

bool ConflictResolver::settle(std::uint64_t hash) {
  if (!settling_) {
    // What the counter held before: the number of takers that did not find it empty.
    for (Contested& entry : contested_) entry.left = entry.takers - entry.underflows;
    settling_ = true;
  }
  bool present = true;
  detail::for_each_probe(view_.geometry, hash, [&](detail::Probe probe) {
    const Contested* entry = find(number_of(probe));
    present &= entry == nullptr || entry->left > 0;
  });
  detail::for_each_probe(view_.geometry, hash, [&](detail::Probe probe) {
    Contested* entry = find(number_of(probe));
    if (present) {
      if (entry != nullptr) --entry->left;
    } else if (entry == nullptr) {
      // A counter at 15 was not lowered, and incremented() does not change it either. No other
      // counter can reach 15 here, since it only gets back what was taken.
      refilled_ += detail::counter_at(view_.words[probe.word], probe.shift) == 0;
      view_.words[probe.word] = detail::incremented(view_.words[probe.word], probe.shift);
    }
  });
  return present;
}

std::uint64_t ConflictResolver::finish() {
  for (const Contested& entry : contested_) {
    const std::uint64_t word = entry.counter / kCountersPerWord;
    const unsigned shift = static_cast<unsigned>(entry.counter % kCountersPerWord) * kCounterBits;
    view_.words[word] |= entry.left << shift;  // the counter is 0 now: its takers emptied it
    refilled_ += entry.left > 0;
  }
  return refilled_;
}

}  // namespace scbf
