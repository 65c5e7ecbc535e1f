// SPDX-License-Identifier: Apache-2.0
// Answers of a bank: for each key a row of bits, one per member, returned as they are or as lists.
// The bank passes in how keys are looked up: ask(first, count, out) writes the rows of keys first …
// first + count − 1.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kit/executor.hpp"
#include "scbf/bank.hpp"

namespace scbf {

// Keys per task, and bytes of packed answers that are turned into lists at a time.
inline constexpr std::size_t kBankTaskKeys = 2048;
inline constexpr std::size_t kBankWindowBytes = 4u << 20;

/// On entry `out` begins with a row for each valid key of the stretch; on return it has one for
/// each key, zeros for null keys.
inline void spread_rows(const KeyBatch& keys, std::size_t first, std::size_t count,
                        std::size_t stride, std::uint8_t* out) noexcept {
  if (!keys.has_validity()) return;
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) next += keys.valid(first + i);
  for (std::size_t i = count; i-- > 0;) {  // backwards: rows move to higher indices
    if (keys.valid(first + i)) {
      --next;
      if (next != i) std::memcpy(out + i * stride, out + next * stride, stride);
    } else {
      std::memset(out + i * stride, 0, stride);
    }
  }
}

/// As Bank::contains_bits.
template <class Ask>
BankReport pack_members(const KeyBatch& keys, std::size_t stride, std::span<std::uint8_t> bits,
                        const BatchOptions& options, const Ask& ask) {
  if (bits.size() != keys.size() * stride) {
    throw InvalidArgument(fmt::format("bits has {} bytes: must be {}, {} for each of {} keys",
                                      bits.size(), keys.size() * stride, stride, keys.size()));
  }
  run_tasks(options, thread_count(options), (keys.size() + kBankTaskKeys - 1) / kBankTaskKeys,
            [&](std::size_t task) {
              const std::size_t first = task * kBankTaskKeys;
              ask(first, std::min(kBankTaskKeys, keys.size() - first),
                  bits.data() + first * stride);
            });
  return {keys.nulls()};
}

/// The index of the lowest bit that is set; 63 for 0.
inline std::uint32_t lowest_bit(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(std::countr_zero(word | std::uint64_t{1} << 63));
}

/// As Bank::find.
template <class Ask>
BankReport list_members(const KeyBatch& keys, std::size_t stride, MemberLists& lists,
                        const BatchOptions& options, const Ask& ask) {
  const unsigned threads = thread_count(options);
  const std::size_t task_keys =
      std::clamp<std::size_t>(kBankWindowBytes / threads / stride, 1, kBankTaskKeys);
  struct Part {
    std::vector<std::uint8_t> bits;
    std::vector<std::uint32_t> members;  // ends.back() of them are used
    std::vector<std::uint64_t> ends;     // of keys, in `members`
  };
  lists.members.clear();
  lists.offsets.clear();
  lists.offsets.reserve(keys.size() + 1);
  lists.offsets.push_back(0);
  std::vector<Part> parts(
      std::min<std::size_t>(threads, (keys.size() + task_keys - 1) / task_keys));
  for (std::size_t window = 0; window < keys.size(); window += parts.size() * task_keys) {
    const auto ask_part = [&](std::size_t p) {
      Part& part = parts[p];
      part.ends.clear();
      const std::size_t first = window + p * task_keys;
      if (first >= keys.size()) return;
      const std::size_t n = std::min(task_keys, keys.size() - first);
      part.bits.resize(n * stride);
      ask(first, n, part.bits.data());
      std::size_t found = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint8_t* answer = part.bits.data() + i * stride;
        // Room for one more than there can be: it is written but not kept.
        if (part.members.size() <= found + 8 * stride) part.members.resize(2 * found + 9 * stride);
        std::uint32_t* to = part.members.data();
        for (std::size_t b = 0; b < stride; b += sizeof(std::uint64_t)) {
          std::uint64_t word = 0;
          std::memcpy(&word, answer + b, std::min(stride - b, sizeof word));
          // Most words have at most two members: take these without a branch to mispredict.
          for (int twice = 0; twice < 2; ++twice, word &= word - 1) {
            to[found] = static_cast<std::uint32_t>(8 * b) + lowest_bit(word);
            found += word != 0;
          }
          for (; word != 0; word &= word - 1) {
            to[found++] = static_cast<std::uint32_t>(8 * b) + lowest_bit(word);
          }
        }
        part.ends.push_back(found);
      }
    };
    run_tasks(options, threads, parts.size(), ask_part);
    for (const Part& part : parts) {
      const std::uint64_t before = lists.members.size();
      if (part.ends.empty()) continue;
      lists.members.insert(lists.members.end(), part.members.data(),
                           part.members.data() + part.ends.back());
      for (const std::uint64_t end : part.ends) lists.offsets.push_back(before + end);
    }
  }
  return {keys.nulls()};
}

/// The members that may hold one key.
template <class Bank, class Key>
std::vector<std::uint32_t> find_one(const Bank& bank, const Key& key) {
  MemberLists lists;
  bank.find(std::span<const Key>(&key, 1), lists, {.threads = 1});
  return std::move(lists.members);
}

}  // namespace scbf
