// SPDX-License-Identifier: Apache-2.0
#include "kit/word_ops.hpp"

#include <algorithm>
#include <bit>

#include "scbf/detail/packed.hpp"

namespace scbf {

void plain_count_values(const std::uint64_t* blocks, std::uint64_t count,
                        HistogramByWord& by_word) noexcept {
  for (std::uint64_t w = 0; w < count * kWordsPerBlock; ++w) {
    detail::count_values(blocks[w], by_word[w % kWordsPerBlock]);
  }
}

void merge_words(std::uint64_t* into, const std::uint64_t* from, std::size_t words) noexcept {
  for (std::size_t i = 0; i < words; ++i) into[i] = detail::added(into[i], from[i]);
}

SubtractCounts check_subtract_words(const std::uint64_t* from, const std::uint64_t* what,
                                    std::size_t words) noexcept {
  SubtractCounts counts;
  for (std::size_t i = 0; i < words; ++i) {
    const auto difference = detail::subtracted(from[i], what[i]);
    counts.below += static_cast<unsigned>(std::popcount(difference.below));
    counts.inexact += static_cast<unsigned>(std::popcount(difference.inexact));
  }
  return counts;
}

void subtract_words(std::uint64_t* from, const std::uint64_t* what, std::size_t words) noexcept {
  for (std::size_t i = 0; i < words; ++i) from[i] = detail::subtracted(from[i], what[i]).word;
}

std::uint64_t nonzero_in_words(const std::uint64_t* words, std::size_t count) noexcept {
  // The bits of fifteen words can be added up within their nibbles before these overflow. So
  // fifteen words need one final sum, and no population count, which the simplest machines lack.
  constexpr std::size_t kAtOnce = 15;
  constexpr std::uint64_t kLowNibbles = 0x0F0F'0F0F'0F0F'0F0Fu, kOnes = 0x0101'0101'0101'0101u;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count;) {
    std::uint64_t sums = 0;
    for (const std::size_t end = std::min(count, i + kAtOnce); i < end; ++i) {
      sums += detail::nonzero_bits(words[i]);
    }
    total += (((sums & kLowNibbles) + (sums >> 4 & kLowNibbles)) * kOnes) >> 56;
  }
  return total;
}

std::optional<StrayPadding> stray_padding(const Geometry& geometry, std::uint64_t first_word,
                                          std::span<const std::uint64_t> words) noexcept {
  if (geometry.layout() != Layout::split) return {};
  const std::uint64_t stride = geometry.slice_stride_words();
  const std::uint64_t counters = geometry.counters_per_slice();
  const std::uint64_t end = first_word + words.size();
  for (std::uint64_t slice = first_word / stride; slice * stride < end; ++slice) {
    const std::uint64_t first = slice * stride + counters / kCountersPerWord;
    const std::uint64_t last = std::min((slice + 1) * stride, end);
    for (std::uint64_t w = std::max(first, first_word); w < last; ++w) {
      const std::uint64_t used = w == first ? counters % kCountersPerWord * kCounterBits : 0;
      if (const std::uint64_t stray = words[w - first_word] >> used << used; stray != 0) {
        const auto bits = w * 64 + static_cast<unsigned>(std::countr_zero(stray));
        return StrayPadding{slice, bits / 8};
      }
    }
  }
  return {};
}

std::uint64_t histogram_units(const Geometry& geometry) noexcept {
  return geometry.layout() == Layout::split ? geometry.slice_stride_words() / kWordsPerBlock
                                            : geometry.blocks_per_group();
}

std::vector<Histogram> histograms_of(ConstCounterView view, std::uint64_t first, std::uint64_t last,
                                     CountValues count) {
  const Geometry& geometry = view.geometry;
  std::vector<Histogram> histograms(geometry.probes(), Histogram{});
  if (first >= last) return histograms;
  if (geometry.layout() == Layout::split_block) {
    for (std::uint32_t group = 0; group < geometry.groups(); ++group) {
      HistogramByWord by_word{};
      const std::uint64_t block = group * geometry.blocks_per_group() + first;
      count(view.words + block * kWordsPerBlock, last - first, by_word);
      std::ranges::copy(by_word, histograms.begin() + group * kWordsPerBlock);
    }
    return histograms;
  }
  const std::uint64_t stride = geometry.slice_stride_words();
  const bool has_end = last == histogram_units(geometry);
  const std::uint64_t padding = stride * kCountersPerWord - geometry.counters_per_slice();
  for (std::uint32_t slice = 0; slice < geometry.probes(); ++slice) {
    HistogramByWord by_word{};
    count(view.words + slice * stride + first * kWordsPerBlock, last - first, by_word);
    for (const Histogram& part : by_word) {
      for (std::size_t v = 0; v < part.size(); ++v) histograms[slice][v] += part[v];
    }
    if (has_end) histograms[slice][0] -= padding;
  }
  return histograms;
}

std::uint64_t Backend::count_nonzero(ConstCounterView view, const BatchOptions& options) const {
  std::uint64_t zero = 0;
  for (const Histogram& slice : histograms(view, options)) zero += slice[0];
  return view.geometry.counters() - zero;
}

}  // namespace scbf
