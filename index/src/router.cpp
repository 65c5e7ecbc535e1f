// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

#include "definition.hpp"
#include "scbf/backend.hpp"
#include "scbf/sizing.hpp"

namespace scbf::index {

Router::Router(const IndexPlan& plan, const IndexOptions& options)
    : empty_(growth_of(plan), {.seed = plan.seed, .backend = options.backend}),
      bank_(empty_.growth(), {.seed = plan.seed, .backend = options.backend}) {}

std::vector<std::uint64_t> Router::hash(std::span<const std::string_view> entries) const {
  return KeyBatch(entries).hashes(empty_.seed());
}

void Router::find(std::span<const std::uint64_t> hashes, MemberLists& lists) const {
  const std::shared_lock lock(mutex_);
  const KeyBatch keys = KeyBatch::from_hashes(hashes);
  if (bits_) {
    bits_->find(keys, lists, kAlone);
  } else {
    bank_.find(keys, lists, kAlone);
  }
}

std::uint64_t Router::row_bytes() const {
  const std::shared_lock lock(mutex_);
  return bits_ ? bits_->bytes() : bank_.memory().rows;
}

void Router::keep_bits_only() {
  const std::lock_guard lock(mutex_);
  bits_.emplace(std::move(bank_));
}

namespace {

// Counters of more words than this are not read: their blocks are so many that the rate is near the
// one predicted from the fill.
constexpr std::uint64_t kReadWords = (1u << 20) / sizeof(std::uint64_t);

double fpr_of(const StageView& stage) {
  const Geometry& geometry = stage.geometry();
  if (stage.nonzero(kAlone) == 0) return 0;
  if (geometry.words() <= kReadWords) return stage.exact_fpr();
  const auto slice = static_cast<double>(geometry.counters_per_slice());
  return predicted_fpr(geometry, keys_for_fill(stage.fill(kAlone), slice));
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
