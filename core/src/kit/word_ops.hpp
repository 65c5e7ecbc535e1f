// SPDX-License-Identifier: Apache-2.0
// Operations on whole stretches of packed counters, or of bits, for backends that run on the host:
// merge, subtract, counting, histograms. Memory-bound, so plain 64-bit arithmetic does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scbf/backend.hpp"

namespace scbf {

/// Are these counters of `ranked`? Their blocks mean something only as a whole; all other filters
/// can be worked on word by word.
constexpr bool has_ranked_counts(const Geometry& geometry) noexcept {
  return geometry.layout() == Layout::ranked && geometry.cell() == Cell::counter;
}
/// A part of a filter: words first … last − 1, or of ranked counters blocks first … last − 1.
struct FilterPart {
  std::uint64_t first, last;
};
constexpr FilterPart whole(const Geometry& geometry) noexcept {
  return {0, has_ranked_counts(geometry) ? geometry.blocks_per_group() : geometry.words()};
}

struct RankedLists;

// For filters of equal geometry; see Backend. `lists`: see ranked_counts.hpp.

/// The first of two steps for ranked counters, and nothing for others.
void prepare_merge(const CounterView& into, const ConstCounterView& from, FilterPart part) noexcept;
void merge_part(const CounterView& into, const ConstCounterView& from, FilterPart part,
                const RankedLists* lists) noexcept;
/// Merges filters; for_each_part(work) calls work(part) for all parts, possibly at once.
template <class ForEachPart>
void merge_filters(const CounterView& into, const ConstCounterView& from, ForEachPart for_each_part,
                   const RankedLists* lists = nullptr) {
  if (has_ranked_counts(into.geometry)) {
    for_each_part([&](FilterPart part) { prepare_merge(into, from, part); });
  }
  for_each_part([&](FilterPart part) { merge_part(into, from, part, lists); });
}
SubtractCounts check_subtract_part(const ConstCounterView& from, const ConstCounterView& what,
                                   FilterPart part, const RankedLists* lists = nullptr) noexcept;
void subtract_part(const CounterView& from, const ConstCounterView& what, FilterPart part,
                   const RankedLists* lists = nullptr) noexcept;
/// How many counters, or bits, are not 0; padding is 0 and does not count.
std::uint64_t nonzero_in_part(const ConstCounterView& view, FilterPart part) noexcept;

/// Bits that are 1 in both.
void intersect_words(std::uint64_t* into, const std::uint64_t* from, std::size_t words) noexcept;
/// How many bits are 1 in a or b.
std::uint64_t ones_in_either(const std::uint64_t* a, const std::uint64_t* b,
                             std::size_t words) noexcept;

/// `count` words of a filter, from word `first` on.
struct WordRange {
  std::uint64_t first, count;
};
/// The words of counters that words of bits are made of.
WordRange counter_words_of(const Geometry& geometry, WordRange bits) noexcept;
/// The words of bits that are made of a chunk of a file of counters. The table of a ranked filter
/// has no bits: for a chunk of it alone the range is empty.
WordRange bit_words_of(const Geometry& geometry, WordRange counters) noexcept;
/// Makes words of bits. `counters` points to the first word of counter_words_of(geometry, bits).
void project_words(const Geometry& geometry, const std::uint64_t* counters, WordRange bits,
                   std::uint64_t* out) noexcept;
/// How many bits are 1.
std::uint64_t ones_in(const std::uint64_t* words, std::size_t count) noexcept;

/// A byte with padding that is not zero.
struct StrayPadding {
  std::uint64_t slice;  ///< which it follows
  std::uint64_t byte;   ///< counted from the first word of the filter
};
/// The first one among `words`, which begin with word first_word. Padding is what stands behind the
/// slices of `split`, and behind the bits of `ranked`. Only these words are read, at most eight for
/// each slice. (RankedCheck checks what stands behind the table of ranked counters.)
std::optional<StrayPadding> stray_padding(const Geometry& geometry, std::uint64_t first_word,
                                          std::span<const std::uint64_t> words) noexcept;

/// One histogram for each word of a block of 64 bytes.
using HistogramByWord = std::array<Histogram, kWordsPerBlock>;
/// Adds the counters of `count` blocks of 64 bytes, by value, to the histograms of their words.
/// Backends bring their own, compiled for their instruction set.
using CountValues = void (*)(const std::uint64_t* blocks, std::uint64_t count,
                             HistogramByWord& by_word) noexcept;
void plain_count_values(const std::uint64_t* blocks, std::uint64_t count,
                        HistogramByWord& by_word) noexcept;

/// How many units a histogram's work can be cut into: cache lines of one slice (split), blocks of
/// all groups (split_block), or blocks (ranked).
std::uint64_t histogram_units(const Geometry& geometry) noexcept;
/// One histogram per slice over units first … last − 1; padding counters are not counted. For bits,
/// the values are 0 and 1. Histograms of disjoint ranges add up.
std::vector<Histogram> histograms_of(ConstCounterView view, std::uint64_t first, std::uint64_t last,
                                     CountValues count);

}  // namespace scbf
