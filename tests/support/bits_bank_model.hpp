// SPDX-License-Identifier: Apache-2.0
// The model of a bank of bits: separate filters of bits, on the scalar backend.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "scbf/bloom_bank.hpp"
#include "support/bank_model.hpp"

namespace scbf_test {

/// Filters of bits of this growth and seed, by member.
struct BitsModel {
  scbf::Growth growth;
  std::uint64_t seed;
  std::map<std::uint32_t, scbf::BloomFilter> members = {};
  std::set<std::uint32_t> ask = {};

  std::uint32_t lowest_free() const {
    std::uint32_t member = 0;
    while (members.contains(member)) ++member;
    return member;
  }
  /// A filter of some keys, made from counters or directly.
  scbf::BloomFilter filled(Random& random) const {
    Keys keys(random.below(random.below(2) == 0 ? 20 : 400));
    for (auto& key : keys) key = random.below(800);
    const auto fill = [&](auto filter) {
      inserted([&] { return filter.insert(keys); });
      filter.set_metadata("of " + std::to_string(keys.size()));
      return filter;
    };
    if (random.below(2) == 0) {
      return fill(scbf::BloomFilter(growth, {.seed = seed, .backend = "scalar"}));
    }
    scbf::Filter counters = fill(scbf::Filter(growth, {.seed = seed, .backend = "scalar"}));
    counters.remove(std::span(keys).first(keys.size() / 3));
    return scbf::BloomFilter(counters);
  }
};

/// Keys to ask for: some of those of the filters, and others.
inline Keys asked_keys() {
  Keys keys(70);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i * 13;
  return keys;
}

/// Does the bank have the members of the model, with their records, and their answers?
inline ::testing::AssertionResult same_bits(const scbf::BloomBank& bank, const BitsModel& model,
                                            const scbf::KeyBatch& keys,
                                            const scbf::BatchOptions& options) {
  const auto differs = [](const auto&... what) {
    auto failure = ::testing::AssertionFailure();
    (failure << ... << what);
    return failure;
  };
  if (const auto wrong = bits_error(bank, model.members)) return differs(*wrong);
  if (bank.size() != model.members.size()) return differs(bank.size(), " members");
  std::vector<std::vector<std::uint32_t>> want(keys.size());
  for (const auto& [member, filter] : model.members) {
    if (!bank.has_member(member)) return differs("no member ", member);
    const scbf::BloomFilter copy = bank.copy_member(member, options);
    if (copy != filter) return differs("member ", member, " has other bits");
    if (copy.keys_inserted() != filter.keys_inserted() ||
        copy.keys_removed() != filter.keys_removed() || copy.metadata() != filter.metadata() ||
        bank.metadata(member) != filter.metadata() || copy.nonzero() != filter.nonzero() ||
        copy.epoch() != filter.epoch() || bank.epoch(member) != filter.epoch()) {
      return differs("member ", member, " has other records");
    }
    if (bank.stages(member) != filter.stages() || bank.fpr_bound(member) != filter.fpr_bound() ||
        bank.asked_always(member) != model.ask.contains(member)) {
      return differs("member ", member, " has other stages or another mark");
    }
    const Answers hits = contains(filter, keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys.valid(i) && (hits[i] != 0 || model.ask.contains(member))) want[i].push_back(member);
    }
  }
  if (unpacked(bank, keys, options) != want) return differs("packed answers");
  scbf::MemberLists lists;
  if (bank.find(keys, lists, options).nulls != keys.nulls()) return differs("nulls");
  for (std::size_t i = 0; i < std::min<std::size_t>(keys.size(), 3); ++i) {
    if (keys.valid(i) && bank.find(keys.value(i)) != want[i]) return differs("one key, ", i);
  }
  return same_lists(lists, want);
}

}  // namespace scbf_test
