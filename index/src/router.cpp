// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

#include <mutex>
#include <shared_mutex>

#include "scbf/backend.hpp"
#include "scbf/sizing.hpp"

namespace scbf::index {

namespace {

// Questions and changes are small: threads come from the callers.
constexpr BatchOptions kAlone{.threads = 1};

/// The rate of a filter as its fill says.
double rate_of(const Filter& filter) {
  const Geometry& geometry = filter.geometry();
  const auto slice = static_cast<double>(geometry.counters_per_slice());
  return predicted_fpr(geometry, keys_for_fill(filter.fill(kAlone), slice));
}

}  // namespace

Router::Router(const IndexPlan& plan, const IndexOptions& options)
    : growth_(Growth::tightening(plan.region_values, plan.fpr, plan.layout)),
      backend_(&find_backend(options.backend)),
      seed_(plan.seed),
      empty_(growth_, {.seed = seed_, .backend = backend_->name()}),
      bank_(growth_, {.seed = plan.seed, .backend = options.backend}) {}

bool Router::regular(const ScalableFilter& filter) const {
  const std::lock_guard lock(shapes_mutex_);
  for (std::size_t s = 0; s < filter.stages(); ++s) {
    if (s >= growth_.most_stages()) return false;
    if (s == shapes_.size()) shapes_.push_back(growth_.stage(static_cast<std::uint32_t>(s)));
    if (!(filter.shape(s) == shapes_[s])) return false;
  }
  return true;
}

std::vector<std::uint64_t> Router::hash(std::span<const std::string_view> entries) const {
  std::vector<std::uint64_t> hashes(entries.size());
  backend_->hash(KeyBatch(entries), 0, entries.size(), seed_, hashes.data());
  return hashes;
}

std::vector<std::uint32_t> Router::add(std::vector<ScalableFilter> filters) {
  const std::lock_guard lock(mutex_);
  return bank_.add_members(std::move(filters), kAlone);
}
void Router::drop(std::uint32_t member) {
  const std::lock_guard lock(mutex_);
  bank_.remove_member(member, kAlone);
}
void Router::replace(std::uint32_t member, ScalableFilter filter) {
  const std::lock_guard lock(mutex_);
  bank_.replace_member(member, std::move(filter), kAlone);
}
ScalableFilter Router::copy(std::uint32_t member) const {
  const std::shared_lock lock(mutex_);
  return bank_.copy_member(member);
}
void Router::ask_always(std::uint32_t member) {
  const std::lock_guard lock(mutex_);
  bank_.ask_always(member, true);
}

void Router::insert(std::uint32_t member, Hashes hashes) {
  if (hashes.empty()) return;
  const std::lock_guard lock(mutex_);
  bank_.insert(member, KeyBatch::from_hashes(hashes), kAlone);
}
std::uint64_t Router::remove(std::uint32_t member, Hashes hashes) {
  if (hashes.empty()) return 0;
  const std::lock_guard lock(mutex_);
  return bank_.remove(member, KeyBatch::from_hashes(hashes), {}, kAlone).ambiguous;
}

void Router::route(Hashes hashes, MemberLists& lists) const {
  const std::shared_lock lock(mutex_);
  bank_.find(KeyBatch::from_hashes(hashes), lists, kAlone);
}

Router::Facts Router::facts(std::uint32_t member) const {
  const std::shared_lock lock(mutex_);
  Facts facts{static_cast<std::uint32_t>(bank_.stages(member)), 0, 0, bank_.asked_always(member)};
  double none = 1;
  for (std::size_t s = 0; s < facts.stages; ++s) {
    const Filter& stage = bank_.stage(member, s);
    facts.bytes += stage.geometry().bytes();
    none *= 1 - rate_of(stage);
  }
  facts.fpr = facts.asked_always ? 1 : 1 - none;
  return facts;
}

BankMemory Router::memory() const {
  const std::shared_lock lock(mutex_);
  return bank_.memory();
}

}  // namespace scbf::index
