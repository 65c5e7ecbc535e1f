// SPDX-License-Identifier: Apache-2.0
// Answers of filters: checks their number, counts hits, and turns bytes into bits or indices. Also
// batches of one key.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>

#include "kit/executor.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/errors.hpp"
#include "scbf/filter.hpp"

namespace scbf {

// Answers that are not returned as bytes go through a buffer of bytes. It is large enough that a
// partitioned batch is worth its pass over the filter, and small enough not to matter (16 MiB).
inline constexpr std::size_t kAnswerWindow = 1u << 24;

/// The same where a large filter deserves a larger window: at least a key for each cache line of an
/// array.
inline std::size_t answer_window(const Geometry& geometry) noexcept {
  const std::uint64_t lines = geometry.bytes() / 64 / geometry.cache_lines_per_key();
  return std::max(kAnswerWindow, static_cast<std::size_t>(lines));
}

inline void check_answers(std::size_t keys, std::size_t answers, const char* what) {
  if (answers != keys) {
    throw InvalidArgument(fmt::format("{} has room for {}: must be {}", what, answers, keys));
  }
}

// Answers are bytes, 0 or 1; eight at a time they are one word.
inline constexpr std::size_t kAnswersPerWord = 8;
static_assert(std::endian::native == std::endian::little);

inline std::uint64_t eight_answers(const std::uint8_t* answers) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, answers, sizeof word);
  return word;
}

/// How many answers are not 0; none is above 15.
inline std::uint64_t count_hits(std::span<const std::uint8_t> answers) noexcept {
  constexpr std::size_t kMostWords = 255;  // after these, the sums in single bytes could overflow
  constexpr std::uint64_t kEvenBytes = 0x00FF'00FF'00FF'00FFu;
  constexpr std::uint64_t kOnes = 0x0101'0101'0101'0101u;
  std::uint64_t hits = 0;
  std::size_t i = 0;
  while (i + kAnswersPerWord <= answers.size()) {
    const std::size_t words = std::min(kMostWords, (answers.size() - i) / kAnswersPerWord);
    std::uint64_t sums = 0;
    for (std::size_t w = 0; w < words; ++w) {
      // Adding 127 takes all but 0 to the highest bit of the byte.
      const std::uint64_t highest = eight_answers(&answers[i + w * kAnswersPerWord]) + 127 * kOnes;
      sums += highest >> 7 & kOnes;
    }
    const std::uint64_t pairs = (sums & kEvenBytes) + (sums >> 8 & kEvenBytes);
    hits += (pairs * 0x0001'0001'0001'0001u) >> 48;
    i += words * kAnswersPerWord;
  }
  for (; i < answers.size(); ++i) hits += answers[i] != 0;
  return hits;
}

/// sums[i] = min(15, sums[i] + counts[i]).
inline void add_counts(std::span<const std::uint8_t> counts, std::uint8_t* sums) noexcept {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sums[i] = static_cast<std::uint8_t>(std::min<unsigned>(sums[i] + counts[i], kCounterMax));
  }
}

/// Packs answers, eight to a byte; bits beyond the last answer are 0.
inline void pack_answers(std::span<const std::uint8_t> answers, std::uint8_t* out) noexcept {
  std::size_t i = 0;
  for (; i + kAnswersPerWord <= answers.size(); i += kAnswersPerWord) {
    *out++ = detail::bits_of_bytes(eight_answers(&answers[i]));
  }
  if (i == answers.size()) return;
  std::uint64_t rest = 0;
  std::memcpy(&rest, answers.data() + i, answers.size() - i);
  *out = detail::bits_of_bytes(rest);
}

/// Writes first + i for each answer i that is 1, ascending. `out` has room for these and no more.
inline void list_answers(std::span<const std::uint8_t> answers, std::uint64_t first,
                         std::span<std::uint64_t> out) noexcept {
  constexpr std::uint64_t kOnes = 0x0101'0101'0101'0101u;
  std::size_t i = 0, at = 0;
  // Each of eight answers is written to its place, which the next one overwrites if it is a miss:
  // no branch, and no waiting for the answer before.
  for (; at + kAnswersPerWord <= out.size(); i += kAnswersPerWord) {
    const std::uint64_t eight = eight_answers(&answers[i]);
    const std::uint64_t hits_before = eight * (kOnes << 8);  // in each byte
    for (std::size_t j = 0; j < kAnswersPerWord; ++j) {
      out[at + (hits_before >> 8 * j & 0xFF)] = first + i + j;
    }
    at += eight * kOnes >> 56;
  }
  while (at < out.size()) {
    if (i + kAnswersPerWord <= answers.size() && eight_answers(&answers[i]) == 0) {
      i += kAnswersPerWord;
      continue;
    }
    out[at] = first + i;
    at += answers[i++];
  }
}

// Answers that one task converts: they stay in cache between counting and listing.
inline constexpr std::size_t kAnswersPerTask = 1u << 16;
static_assert(kAnswersPerTask % kAnswersPerWord == 0);

/// Looks up stretches of at most kAnswerWindow keys, and calls convert(first, answers of the keys
/// from `first` on) for each.
template <class AnyFilter, class Convert>
ContainsReport ask_in_windows(const AnyFilter& filter, const KeyBatch& keys,
                              const BatchOptions& options, Convert convert) {
  const std::size_t most = std::min(keys.size(), kAnswerWindow);
  const auto answers = std::make_unique_for_overwrite<std::uint8_t[]>(most);
  ContainsReport report;
  for (std::size_t first = 0; first < keys.size(); first += kAnswerWindow) {
    const std::size_t count = std::min(kAnswerWindow, keys.size() - first);
    const std::span<std::uint8_t> window(answers.get(), count);
    const ContainsReport part = filter.contains(keys.slice(first, count), window, options);
    convert(first, window);
    report.hits += part.hits;
    report.nulls += part.nulls;
  }
  return report;
}

/// Calls task(number, its answers) for all parts of kAnswersPerTask answers.
template <class Task>
void for_parts(std::span<const std::uint8_t> answers, const BatchOptions& options,
               const Task& task) {
  const std::size_t parts = (answers.size() + kAnswersPerTask - 1) / kAnswersPerTask;
  run_tasks(options, parts > 1 ? thread_count(options) : 1, parts, [&](std::size_t number) {
    const std::size_t begin = number * kAnswersPerTask;
    task(number, answers.subspan(begin, std::min(kAnswersPerTask, answers.size() - begin)));
  });
}

template <class AnyFilter>
ContainsReport contains_as_bits(const AnyFilter& filter, const KeyBatch& keys,
                                std::span<std::uint8_t> bits, const BatchOptions& options) {
  check_answers((keys.size() + 7) / 8, bits.size(), "bits");
  return ask_in_windows(
      filter, keys, options, [&](std::size_t first, std::span<const std::uint8_t> answers) {
        for_parts(answers, options, [&](std::size_t number, auto part) {
          pack_answers(part, &bits[(first + number * kAnswersPerTask) / kAnswersPerWord]);
        });
      });
}

/// Writes the indices of the hits.
template <class AnyFilter>
ContainsReport contains_as_indices(const AnyFilter& filter, const KeyBatch& keys,
                                   std::span<std::uint64_t> indices, const BatchOptions& options) {
  if (indices.size() < keys.size()) {
    throw InvalidArgument(
        fmt::format("indices has room for {}: must be at least {}", indices.size(), keys.size()));
  }
  std::size_t hits = 0;                                           // of the windows before
  std::array<std::size_t, kAnswerWindow / kAnswersPerTask> ends;  // of the window's parts
  return ask_in_windows(
      filter, keys, options, [&](std::size_t first, std::span<const std::uint8_t> answers) {
        for_parts(answers, options,
                  [&](std::size_t number, auto part) { ends[number] = count_hits(part); });
        const std::size_t parts = (answers.size() + kAnswersPerTask - 1) / kAnswersPerTask;
        std::partial_sum(ends.begin(), ends.begin() + parts, ends.begin());
        for_parts(answers, options, [&](std::size_t number, auto part) {
          const std::size_t begin = number == 0 ? 0 : ends[number - 1];
          list_answers(part, first + number * kAnswersPerTask,
                       indices.subspan(hits + begin, ends[number] - begin));
        });
        hits += ends[parts - 1];
      });
}

inline KeyBatch one(const std::uint64_t& key) { return std::span<const std::uint64_t>(&key, 1); }
inline KeyBatch one(const std::string_view& key) {
  return std::span<const std::string_view>(&key, 1);
}

}  // namespace scbf
