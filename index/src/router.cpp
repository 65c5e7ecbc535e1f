// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

#include <bit>
#include <cmath>

#include "scbf/backend.hpp"
#include "scbf/sizing.hpp"

namespace scbf::index {

Router::Router(const IndexPlan& plan, const IndexOptions& options)
    : empty_(Growth::tightening(plan.region_values, plan.fpr, plan.layout),
             {.seed = plan.seed, .backend = options.backend}),
      bank_(empty_.growth(), {.seed = plan.seed, .backend = options.backend}) {}

std::vector<std::uint64_t> Router::hash(std::span<const std::string_view> entries) const {
  return KeyBatch(entries).hashes(empty_.seed());
}

namespace {

// Counters of more words than this are not read: their blocks are so many that the rate is near the
// one predicted from the fill.
constexpr std::uint64_t kReadWords = (1u << 20) / sizeof(std::uint64_t);

/// The number of counters of a word that are not 0.
int nonzero(std::uint64_t word) {
  word |= word >> 1;
  word |= word >> 2;
  return std::popcount(word & 0x1111'1111'1111'1111u);
}

/// The share of absent keys that these counters claim. A prediction from the fill is an average
/// over all filters with that fill: in `split_block`, a few blocks with many keys make most of the
/// rate, so that it may be off by a multiple where there are few blocks.
double fpr_of(const StageView& stage) {
  const Geometry& geometry = stage.geometry();
  if (stage.nonzero(kAlone) == 0) return 0;
  const auto slice = static_cast<double>(geometry.counters_per_slice());
  if (geometry.words() > kReadWords) {
    return predicted_fpr(geometry, keys_for_fill(stage.fill(kAlone), slice));
  }
  std::vector<std::uint64_t> words(geometry.words());
  stage.read_words(0, words);
  double fpr = 1;
  if (geometry.layout() == Layout::split) {
    for (std::uint32_t i = 0; i < geometry.probes(); ++i) {
      const auto first =
          words.begin() + static_cast<std::ptrdiff_t>(i * geometry.slice_stride_words());
      std::uint64_t claimed = 0;
      for (std::uint64_t w = 0; w < geometry.slice_stride_words(); ++w) {
        claimed += static_cast<std::uint64_t>(nonzero(first[static_cast<std::ptrdiff_t>(w)]));
      }
      fpr *= static_cast<double>(claimed) / slice;
    }
    return fpr;
  }
  const std::uint64_t blocks = geometry.blocks_per_group();
  if (geometry.layout() == Layout::ranked) {
    const std::uint64_t upper = (std::uint64_t{1} << (geometry.positions() - 64)) - 1;
    double claimed = 0;
    for (std::uint64_t block = 0; block < blocks; ++block) {
      const std::uint64_t* const line = words.data() + block * kWordsPerBlock;
      double share = 1;
      for (std::uint32_t i = 0; i < kRankedSlices; ++i) {
        share *= std::popcount(line[i]) + std::popcount(line[kRankedSlices + i] & upper);
      }
      claimed += share / std::pow(geometry.positions(), kRankedSlices);
    }
    return claimed / static_cast<double>(blocks);
  }
  auto word = words.begin();
  for (std::uint32_t group = 0; group < geometry.groups(); ++group) {
    double claimed = 0;
    for (std::uint64_t block = 0; block < blocks; ++block) {
      double share = 1;
      for (std::uint32_t i = 0; i < kWordsPerBlock; ++i) share *= nonzero(*word++) / 16.0;
      claimed += share;
    }
    fpr *= claimed / static_cast<double>(blocks);
  }
  return fpr;
}

}  // namespace

FilterFacts facts_of(const Bank& bank, std::uint32_t member) {
  FilterFacts facts = {static_cast<std::uint32_t>(bank.stages(member)), 0, 1};
  double none = 1;
  for (std::size_t s = 0; s < facts.stages; ++s) {
    const StageView stage = bank.stage(member, s);
    facts.bytes += stage.geometry().bytes();
    if (!bank.asked_always(member)) none *= 1 - fpr_of(stage);
  }
  facts.fpr = bank.asked_always(member) ? 1 : 1 - none;
  return facts;
}

}  // namespace scbf::index
