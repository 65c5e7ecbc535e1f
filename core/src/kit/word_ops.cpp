// SPDX-License-Identifier: Apache-2.0
#include "kit/word_ops.hpp"

#include <algorithm>
#include <bit>

#include "kit/ranked_counts.hpp"
#include "scbf/detail/packed.hpp"

namespace scbf {

namespace {

// Bits are counted in four lanes of a word: population counts are slow with only a machine's
// simplest instructions, and this compiles to vectors.

constexpr unsigned kLanes = 4, kLaneBits = 64 / kLanes;
/// More sums of ones_in_lanes might overflow a lane.
constexpr std::uint64_t kSumsAtOnce = 0xFFFF / kLaneBits;

/// How many bits of each lane are 1.
std::uint64_t ones_in_lanes(std::uint64_t bits) noexcept {
  bits -= bits >> 1 & 0x5555'5555'5555'5555u;
  bits = (bits & 0x3333'3333'3333'3333u) + (bits >> 2 & 0x3333'3333'3333'3333u);
  bits = (bits + (bits >> 4)) & 0x0F0F'0F0F'0F0F'0F0Fu;
  return (bits + (bits >> 8)) & 0x00FF'00FF'00FF'00FFu;
}
std::uint64_t lane(std::uint64_t word, unsigned i) noexcept {
  return word >> i * kLaneBits & 0xFFFF;
}

/// How many bits of word_at(0) … word_at(count − 1) are 1.
template <class WordAt>
std::uint64_t count_ones(std::size_t count, WordAt word_at) noexcept {
  std::uint64_t ones = 0;
  for (std::size_t first = 0; first < count; first += kSumsAtOnce) {
    std::uint64_t sums = 0;
    for (std::size_t i = first; i < std::min(count, first + kSumsAtOnce); ++i) {
      sums += ones_in_lanes(word_at(i));
    }
    for (unsigned i = 0; i < kLanes; ++i) ones += lane(sums, i);
  }
  return ones;
}

}  // namespace

std::uint64_t ones_in_either(const std::uint64_t* a, const std::uint64_t* b,
                             std::size_t words) noexcept {
  return count_ones(words, [&](std::size_t i) { return a[i] | b[i]; });
}

void plain_count_values(const std::uint64_t* blocks, std::uint64_t count,
                        HistogramByWord& by_word) noexcept {
  for (std::uint64_t w = 0; w < count * kWordsPerBlock; ++w) {
    detail::count_values(blocks[w], by_word[w % kWordsPerBlock]);
  }
}

void prepare_merge(const CounterView& into, const ConstCounterView& from,
                   FilterPart part) noexcept {
  if (has_ranked_counts(into.geometry)) merge_stuck_blocks(into, from, part);
}

void merge_part(const CounterView& into, const ConstCounterView& from, FilterPart part,
                const RankedLists* lists) noexcept {
  if (has_ranked_counts(into.geometry)) return merge_blocks(into, from, part, lists);
  std::uint64_t* const to = into.words;
  if (into.geometry.cell() == Cell::bit) {
    for (std::size_t i = part.first; i < part.last; ++i) to[i] |= from.words[i];
  } else {
    for (std::size_t i = part.first; i < part.last; ++i)
      to[i] = detail::added(to[i], from.words[i]);
  }
}

void intersect_words(std::uint64_t* into, const std::uint64_t* from, std::size_t words) noexcept {
  for (std::size_t i = 0; i < words; ++i) into[i] &= from[i];
}

WordRange counter_words_of(const Geometry& geometry, WordRange bits) noexcept {
  if (geometry.layout() != Layout::ranked) return {4 * bits.first, 4 * bits.count};
  const std::uint64_t per_block = geometry.cells_per_block();
  const std::uint64_t first = 64 * bits.first / per_block;
  const std::uint64_t end = (64 * (bits.first + bits.count) + per_block - 1) / per_block;
  const std::uint64_t last = std::min(end, geometry.blocks_per_group());
  return {first * kWordsPerBlock, last > first ? (last - first) * kWordsPerBlock : 0};
}

WordRange bit_words_of(const Geometry& geometry, WordRange counters) noexcept {
  if (geometry.layout() != Layout::ranked) return {counters.first / 4, counters.count / 4};
  const std::uint64_t first = counters.first / kWordsPerBlock;
  const std::uint64_t last =
      std::min(first + counters.count / kWordsPerBlock, geometry.blocks_per_group());
  if (first >= last) return {0, 0};
  const std::uint64_t per_block = geometry.cells_per_block();
  const std::uint64_t from = first * per_block / 64, to = (last * per_block + 63) / 64;
  return {from, to - from};
}

namespace {

/// The bitmaps of ranked blocks, one behind the other. The first block may begin before the first
/// word of bits, and the last may end behind the last.
void project_ranked(const Geometry& geometry, const std::uint64_t* counters, WordRange bits,
                    std::uint64_t* out) noexcept {
  std::fill_n(out, bits.count, std::uint64_t{0});
  const std::uint64_t blocks = counter_words_of(geometry, bits).count / kWordsPerBlock;
  const std::uint64_t per_slice = geometry.positions();
  const std::uint64_t upper = (std::uint64_t{1} << (per_slice - 64)) - 1;
  // Counted from the first word of bits; what lies before it wraps around, and is left out.
  std::uint64_t at =
      64 * bits.first / geometry.cells_per_block() * geometry.cells_per_block() - 64 * bits.first;
  const auto put = [&](std::uint64_t word, std::uint64_t part) {
    if (word < bits.count) out[word] |= part;
  };
  for (const std::uint64_t* line = counters; line != counters + blocks * kWordsPerBlock;
       line += kWordsPerBlock) {
    for (unsigned j = 0; j < kRankedSlices; ++j, at += per_slice) {
      const std::uint64_t low = line[j], high = line[kRankedSlices + j] & upper;
      const auto word = static_cast<std::uint64_t>(static_cast<std::int64_t>(at) >> 6);
      const unsigned shift = at % 64;
      put(word, low << shift);
      put(word + 1, high << shift | low >> 1 >> (63 - shift));
      put(word + 2, high >> 1 >> (63 - shift));
    }
  }
}

}  // namespace

void project_words(const Geometry& geometry, const std::uint64_t* counters, WordRange bits,
                   std::uint64_t* out) noexcept {
  if (geometry.layout() == Layout::ranked) return project_ranked(geometry, counters, bits, out);
  for (std::size_t i = 0; i < bits.count; ++i) out[i] = detail::bits_of_four(counters + 4 * i);
}

SubtractCounts check_subtract_part(const ConstCounterView& from, const ConstCounterView& what,
                                   FilterPart part, const RankedLists* lists) noexcept {
  if (has_ranked_counts(from.geometry)) return check_subtract_blocks(from, what, part, lists);
  SubtractCounts counts;
  for (std::size_t i = part.first; i < part.last; ++i) {
    const auto difference = detail::subtracted(from.words[i], what.words[i]);
    counts.below += static_cast<unsigned>(std::popcount(difference.below));
    counts.inexact += static_cast<unsigned>(std::popcount(difference.inexact));
  }
  return counts;
}

void subtract_part(const CounterView& from, const ConstCounterView& what, FilterPart part,
                   const RankedLists* lists) noexcept {
  if (has_ranked_counts(from.geometry)) return subtract_blocks(from, what, part, lists);
  for (std::size_t i = part.first; i < part.last; ++i) {
    from.words[i] = detail::subtracted(from.words[i], what.words[i]).word;
  }
}

std::uint64_t ones_in(const std::uint64_t* words, std::size_t count) noexcept {
  return count_ones(count, [&](std::size_t i) { return words[i]; });
}

std::uint64_t nonzero_in_part(const ConstCounterView& view, FilterPart part) noexcept {
  if (has_ranked_counts(view.geometry)) return total_positions_in_use(view, part);
  const std::uint64_t* const words = view.words + part.first;
  const std::size_t count = part.last - part.first;
  if (view.geometry.cell() == Cell::bit) return ones_in(words, count);
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
  if (geometry.layout() == Layout::ranked && geometry.cell() == Cell::bit) {
    const std::uint64_t used = geometry.counters(), end = first_word + words.size();
    for (std::uint64_t w = std::max(used / 64, first_word); w < end; ++w) {
      const unsigned mine = w == used / 64 ? used % 64 : 0;
      if (const std::uint64_t stray = words[w - first_word] >> mine << mine; stray != 0) {
        return StrayPadding{kRankedSlices - 1,
                            w * 8 + static_cast<unsigned>(std::countr_zero(stray)) / 8};
      }
    }
  }
  if (geometry.layout() != Layout::split) return {};
  const std::uint64_t stride = geometry.slice_stride_words();
  const std::uint64_t counters = geometry.counters_per_slice();
  const std::uint64_t per_word = geometry.cells_per_word();
  const std::uint64_t end = first_word + words.size();
  for (std::uint64_t slice = first_word / stride; slice * stride < end; ++slice) {
    const std::uint64_t first = slice * stride + counters / per_word;
    const std::uint64_t last = std::min((slice + 1) * stride, end);
    for (std::uint64_t w = std::max(first, first_word); w < last; ++w) {
      const std::uint64_t used = w == first ? counters % per_word * geometry.cell_bits() : 0;
      if (const std::uint64_t stray = words[w - first_word] >> used << used; stray != 0) {
        const auto bits = w * 64 + static_cast<unsigned>(std::countr_zero(stray));
        return StrayPadding{slice, bits / 8};
      }
    }
  }
  return {};
}

std::uint64_t histogram_units(const Geometry& geometry) noexcept {
  return geometry.layout() == Layout::split ? geometry.slice_stride() / kCountersPerBlock
                                            : geometry.blocks_per_group();
}

namespace {

/// Counts the ones of `count` blocks, separately for each of the eight lanes of sixteen bits.
void count_bits_of_blocks(const std::uint64_t* blocks, std::uint64_t count,
                          std::array<std::uint64_t, kWordsPerBlock>& ones) noexcept {
  constexpr std::size_t kWords = kWordsPerBlock / kLanes;
  for (std::uint64_t first = 0; first < count; first += kSumsAtOnce) {
    std::array<std::uint64_t, kWords> sums = {};
    for (std::uint64_t b = first; b < std::min(count, first + kSumsAtOnce); ++b) {
      for (std::size_t w = 0; w < kWords; ++w) sums[w] += ones_in_lanes(blocks[b * kWords + w]);
    }
    for (unsigned i = 0; i < kWordsPerBlock; ++i) ones[i] += lane(sums[i / kLanes], i % kLanes);
  }
}

/// Up to 64 bits from bit `at` on.
std::uint64_t bits_from(const std::uint64_t* words, std::uint64_t at,
                        std::uint64_t count) noexcept {
  const unsigned shift = at % 64;
  std::uint64_t bits = words[at / 64] >> shift;
  if (shift + count > 64) bits |= words[at / 64 + 1] << 1 << (63 - shift);
  return count < 64 ? bits & ((std::uint64_t{1} << count) - 1) : bits;
}

std::vector<Histogram> histograms_of_bits(ConstCounterView view, std::uint64_t first,
                                          std::uint64_t last) {
  const Geometry& geometry = view.geometry;
  std::vector<Histogram> histograms(geometry.probes(), Histogram{});
  const std::uint64_t unit_words = kCountersPerBlock / geometry.cells_per_word();
  const auto record = [&](std::size_t slice, std::uint64_t all, std::uint64_t ones) {
    histograms[slice][0] = all - ones;
    histograms[slice][1] = ones;
  };
  if (geometry.layout() == Layout::split_block) {
    for (std::uint32_t group = 0; group < geometry.groups(); ++group) {
      std::array<std::uint64_t, kWordsPerBlock> ones = {};
      const std::uint64_t block = group * geometry.blocks_per_group() + first;
      count_bits_of_blocks(view.words + block * unit_words, last - first, ones);
      for (std::size_t i = 0; i < ones.size(); ++i) {
        record(group * kWordsPerBlock + i, (last - first) * kCountersPerWord, ones[i]);
      }
    }
    return histograms;
  }
  if (geometry.layout() == Layout::ranked) {
    const std::uint64_t per_slice = geometry.positions();
    std::array<std::uint64_t, kRankedSlices> ones = {};
    std::uint64_t at = first * geometry.cells_per_block();
    for (std::uint64_t block = first; block < last; ++block) {
      for (std::uint64_t& of_slice : ones) {
        of_slice += detail::bits_set(bits_from(view.words, at, 64)) +
                    detail::bits_set(bits_from(view.words, at + 64, per_slice - 64));
        at += per_slice;
      }
    }
    for (std::size_t i = 0; i < ones.size(); ++i) record(i, (last - first) * per_slice, ones[i]);
    return histograms;
  }
  const std::uint64_t end = std::min(last * kCountersPerBlock, geometry.counters_per_slice());
  for (std::uint32_t slice = 0; slice < geometry.probes(); ++slice) {
    const std::uint64_t* words =
        view.words + slice * geometry.slice_stride_words() + first * unit_words;
    record(slice, end - first * kCountersPerBlock, ones_in(words, (last - first) * unit_words));
  }
  return histograms;
}

}  // namespace

std::vector<Histogram> histograms_of(ConstCounterView view, std::uint64_t first, std::uint64_t last,
                                     CountValues count) {
  const Geometry& geometry = view.geometry;
  std::vector<Histogram> histograms(geometry.probes(), Histogram{});
  if (first >= last) return histograms;
  if (geometry.cell() == Cell::bit) return histograms_of_bits(view, first, last);
  if (geometry.layout() == Layout::ranked) {
    const auto slices = histograms_of_blocks(view, {first, last});
    return {slices.begin(), slices.end()};
  }
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

}  // namespace scbf
