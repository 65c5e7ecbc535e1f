// SPDX-License-Identifier: Apache-2.0
// Questions to a bank: for each key a row of bits, one per member, returned as they are or as
// lists.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "bank/bank_state.hpp"
#include "kit/executor.hpp"
#include "kit/hash_keys.hpp"

namespace scbf {

namespace {

// Keys hashed at once for a query: their hashes and rows stay in cache.
constexpr std::size_t kStripKeys = 512;
// Memory for answers of later levels; large enough for one of the longest rows.
constexpr std::size_t kLaterBytes = kMaxBankMembers / 8;
// Keys per task, and bytes of packed answers that are turned into lists at a time.
constexpr std::size_t kBankTaskKeys = 2048;
constexpr std::size_t kBankWindowBytes = 4u << 20;

/// The index of the lowest bit that is set; 63 for 0.
std::uint32_t lowest_bit(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(std::countr_zero(word | std::uint64_t{1} << 63));
}

/// Adds to packed answers, rows of `stride` bytes, what a later level answers to n hashes.
void add_answers(const Level& level, const std::uint64_t* hashes, std::size_t n, std::size_t stride,
                 std::uint8_t* out) noexcept {
  alignas(64) std::array<std::uint8_t, kLaterBytes> rows;
  const std::size_t row_bytes = level.rows.stride();
  const std::size_t at_once = kLaterBytes / row_bytes;
  for (std::size_t begin = 0; begin < n; begin += at_once) {
    const std::size_t asked = std::min(at_once, n - begin);
    level.answer(hashes + begin, asked, rows.data());
    for (std::size_t key = 0; key < asked; ++key) {
      const std::uint8_t* row = rows.data() + key * row_bytes;
      std::uint8_t* answer = out + (begin + key) * stride;
      for (std::size_t b = 0; b < row_bytes; b += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, row + b, std::min(row_bytes - b, sizeof word));
        for (; word != 0; word &= word - 1) {
          const std::uint32_t owner =
              level.owner(static_cast<std::uint32_t>(8 * b) + lowest_bit(word));
          if (owner == kNoMember) continue;
          answer[owner / 8] = static_cast<std::uint8_t>(answer[owner / 8] | 1u << owner % 8);
        }
      }
    }
  }
}

/// On entry `out` begins with a row for each valid key of the stretch; on return it has one for
/// each key, zeros for null keys.
void spread_rows(const KeyBatch& keys, std::size_t first, std::size_t count, std::size_t stride,
                 std::uint8_t* out) noexcept {
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

}  // namespace

void BankState::ask(const KeyBatch& keys, std::size_t first_key, std::size_t count,
                    std::uint8_t* out) const noexcept {
  std::array<std::uint64_t, kStripKeys> hashes;
  const std::size_t stride = first.rows.stride();
  for (std::size_t i = first_key; i < first_key + count; i += kStripKeys) {
    const std::size_t n = std::min(kStripKeys, first_key + count - i);
    const std::size_t valid = hash_keys(keys, i, n, seed, first.kernels->hashes, hashes.data());
    first.answer(hashes.data(), valid, out);
    for (const auto& level : later) add_answers(*level, hashes.data(), valid, stride, out);
    spread_rows(keys, i, n, stride, out);
    out += n * stride;
  }
}

BankReport BankState::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                    const BatchOptions& options) const {
  const std::size_t stride = first.rows.stride();
  if (bits.size() != keys.size() * stride) {
    throw InvalidArgument(fmt::format("bits has {} bytes: must be {}, {} for each of {} keys",
                                      bits.size(), keys.size() * stride, stride, keys.size()));
  }
  run_tasks(options, thread_count(options), (keys.size() + kBankTaskKeys - 1) / kBankTaskKeys,
            [&](std::size_t task) {
              const std::size_t begin = task * kBankTaskKeys;
              ask(keys, begin, std::min(kBankTaskKeys, keys.size() - begin),
                  bits.data() + begin * stride);
            });
  return {keys.nulls()};
}

BankReport BankState::find(const KeyBatch& keys, MemberLists& lists,
                           const BatchOptions& options) const {
  const std::size_t stride = first.rows.stride();
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
      const std::size_t begin = window + p * task_keys;
      if (begin >= keys.size()) return;
      const std::size_t n = std::min(task_keys, keys.size() - begin);
      part.bits.resize(n * stride);
      ask(keys, begin, n, part.bits.data());
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

std::vector<std::uint32_t> BankState::find_one(const KeyBatch& key) const {
  MemberLists lists;
  find(key, lists, {.threads = 1});
  return std::move(lists.members);
}

}  // namespace scbf
