// SPDX-License-Identifier: Apache-2.0
// Answers of filters: checks their number, counts hits, and turns bytes into bits or indices. Also
// batches of one key.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "scbf/detail/packed.hpp"
#include "scbf/errors.hpp"
#include "scbf/filter.hpp"

namespace scbf {

// Answers that are not returned as bytes go through a buffer of bytes. It is large enough that a
// partitioned batch is worth its pass over the filter, and small enough not to matter (16 MiB).
inline constexpr std::size_t kAnswerWindow = 1u << 24;

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

/// Looks up stretches of at most kAnswerWindow keys and passes on the answers of each.
template <class AnyFilter, class Take>
ContainsReport ask_in_windows(const AnyFilter& filter, const KeyBatch& keys,
                              const BatchOptions& options, Take take) {
  std::vector<std::uint8_t> answers(std::min(keys.size(), kAnswerWindow));
  ContainsReport report;
  for (std::size_t first = 0; first < keys.size(); first += kAnswerWindow) {
    const std::size_t count = std::min(kAnswerWindow, keys.size() - first);
    const std::span<std::uint8_t> window(answers.data(), count);
    const ContainsReport part = filter.contains(keys.slice(first, count), window, options);
    take(first, window);
    report.hits += part.hits;
    report.nulls += part.nulls;
  }
  return report;
}

template <class AnyFilter>
ContainsReport contains_as_bits(const AnyFilter& filter, const KeyBatch& keys,
                                std::span<std::uint8_t> bits, const BatchOptions& options) {
  check_answers((keys.size() + 7) / 8, bits.size(), "bits");
  return ask_in_windows(filter, keys, options,
                        [&](std::size_t first, std::span<const std::uint8_t> answers) {
                          static_assert(kAnswerWindow % kAnswersPerWord == 0);
                          std::uint8_t* out = &bits[first / kAnswersPerWord];
                          std::size_t i = 0;
                          for (; i + kAnswersPerWord <= answers.size(); i += kAnswersPerWord) {
                            *out++ = detail::bits_of_bytes(eight_answers(&answers[i]));
                          }
                          std::uint64_t rest = 0;
                          std::memcpy(&rest, answers.data() + i, answers.size() - i);
                          if (i < answers.size()) *out = detail::bits_of_bytes(rest);
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
  std::size_t hits = 0;
  return ask_in_windows(filter, keys, options,
                        [&](std::size_t first, std::span<const std::uint8_t> answers) {
                          for (std::size_t i = 0; i < answers.size(); ++i) {
                            indices[hits] = first + i;
                            hits += answers[i];
                          }
                        });
}

inline KeyBatch one(const std::uint64_t& key) { return std::span<const std::uint64_t>(&key, 1); }
inline KeyBatch one(const std::string_view& key) {
  return std::span<const std::string_view>(&key, 1);
}
inline constexpr BatchOptions kOneKey{.threads = 1, .path = Path::direct};

}  // namespace scbf
