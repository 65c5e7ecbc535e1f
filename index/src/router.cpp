// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

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

double estimated_fpr(const Bank& bank, std::uint32_t member) {
  if (bank.asked_always(member)) return 1;
  double none = 1;
  for (std::size_t s = 0; s < bank.stages(member); ++s) {
    const StageView stage = bank.stage(member, s);
    const auto slice = static_cast<double>(stage.geometry().counters_per_slice());
    none *= 1 - predicted_fpr(stage.geometry(), keys_for_fill(stage.fill(kAlone), slice));
  }
  return 1 - none;
}

}  // namespace scbf::index
