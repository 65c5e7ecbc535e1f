// SPDX-License-Identifier: Apache-2.0
// What banks of counters and of bits have in common: the slots of their members' stages, and
// members that come and go as whole filters. Questions are in questions.cpp.
#include "bank/bank_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "bank/mapped_rows.hpp"
#include "scbf/detail/in_quotes.hpp"

namespace scbf {

// ---- stages and their slots ---------------------------------------------------------------------

const BankState::Member& BankState::at(std::uint32_t member) const {
  if (!first.has(member)) {
    throw InvalidArgument(
        fmt::format("member {}: there is none; the bank has {}, numbered below {}", member,
                    first.size, first.slots()));
  }
  return members[member];
}

Level& BankState::later_level(std::uint32_t index) {
  const auto at =
      std::ranges::lower_bound(later, index, {}, [](const auto& l) { return l->index; });
  if (at != later.end() && (*at)->index == index) return **at;
  auto level = std::make_unique<Level>(index, fit.shape(index), seed, *backend,
                                       BankOptions{}.capacity, cell);
  return **later.insert(at, std::move(level));
}

std::unique_ptr<FilterState> BankState::room_for(std::size_t stages) const {
  auto filter = std::make_unique<FilterState>(FilterState{growth, seed, backend});
  filter->cell = cell;
  filter->stages.reserve(stages);
  return filter;
}

void BankState::drop_empty_levels() noexcept {
  std::erase_if(later, [](const auto& level) { return level->size == 0; });
}

void BankState::blank(std::span<const StageSlot> stages, const BatchOptions& options) noexcept {
  for (const StageSlot& stage : stages) stage.level->blank(stage.slot, options);
}

void BankState::take_later(std::span<const StageSlot> stages, std::vector<Stage>& taken) noexcept {
  for (const StageSlot& stage : stages) taken.push_back(stage.level->take(stage.slot));
  drop_empty_levels();
}

// ---- comparison ---------------------------------------------------------------------------------

bool BankState::equals(const BankState& other) const {
  return seed == other.seed && growth == other.growth && same_members(other) &&
         (cell == Cell::bit ? same_bits(other) : same_counters(other));
}

bool BankState::same_members(const BankState& other) const {
  const auto same_shape = [](const StageSlot& a, const StageSlot& b) {
    return a.level->index == b.level->index;
  };
  if (first.size != other.first.size) return false;
  for (std::uint32_t m = 0; m < first.slots(); ++m) {
    if (!first.has(m)) continue;
    if (!other.first.has(m) || first.is_always(m) != other.first.is_always(m)) return false;
    if (!std::ranges::equal(members[m].stages, other.members[m].stages, same_shape)) return false;
  }
  return true;
}

bool BankState::same_counters(const BankState& other) const {
  const auto same = [](const StageSlot& a, const StageSlot& b) {
    return a.stage().equals(b.stage());
  };
  for (std::uint32_t m = 0; m < first.slots(); ++m) {
    if (!first.has(m)) continue;
    if (!std::ranges::equal(members[m].stages, other.members[m].stages, same)) return false;
  }
  return true;
}

bool BankState::same_bits(const BankState& other) const {
  struct Columns {
    const MemberRows* there = nullptr;
    std::vector<SlotPair> slots = {};
  };
  std::map<const Level*, Columns> of_level;
  for (std::uint32_t m = 0; m < first.slots(); ++m) {
    if (!first.has(m)) continue;
    for (std::size_t s = 0; s < members[m].stages.size(); ++s) {
      const StageSlot &here = members[m].stages[s], &there = other.members[m].stages[s];
      Columns& columns = of_level[here.level];
      columns.there = &there.level->rows;
      columns.slots.push_back({here.slot, there.slot});
    }
  }
  return std::ranges::all_of(of_level, [](const auto& level) {
    return level.first->rows.same_columns(*level.second.there, level.second.slots);
  });
}

// ---- filters that become members ----------------------------------------------------------------

void BankState::check(const FilterState& filter) {
  if (const auto misfit = fit.misfit(filter.growth, filter.seed, stages_of_growth(filter.stages))) {
    throw Incompatible(*misfit);
  }
}

void BankState::bring_here(FilterState& filter) const {
  if (filter.backend->memory() != backend->memory()) filter.move_to(*backend);
}

BankState::LaterStages::LaterStages(BankState& bank, std::vector<Stage*> stages,
                                    const BatchOptions& options)
    : dropped_{bank}, slots_(stages.size()) {
  std::map<std::uint32_t, std::vector<std::size_t>> of_level;
  for (std::size_t i = 0; i < stages.size(); ++i) of_level[stages[i]->index].push_back(i);
  arrivals_.reserve(of_level.size());
  for (const auto& [index, which] : of_level) {
    Level& level = bank.later_level(index);
    const std::vector<std::uint32_t> slots = level.free_slots(which.size());
    std::vector<Stage*> there;
    for (std::size_t i = 0; i < which.size(); ++i) {
      there.push_back(stages[which[i]]);
      slots_[which[i]] = {&level, slots[i]};
    }
    arrivals_.emplace_back(level, slots, std::move(there), options);
  }
}

void BankState::LaterStages::come_in(const BatchOptions& options) noexcept {
  for (Level::Arrivals& arrivals : arrivals_) arrivals.come_in(options);
}

namespace {

std::vector<Stage*> first_stages_of(std::span<FilterState* const> filters) {
  std::vector<Stage*> stages;
  for (FilterState* const filter : filters) stages.push_back(&filter->stages[0]);
  return stages;
}

std::vector<Stage*> later_stages_of(std::span<FilterState* const> filters) {
  std::vector<Stage*> stages;
  for (FilterState* const filter : filters) {
    for (Stage& stage : std::span(filter->stages).subspan(1)) stages.push_back(&stage);
  }
  return stages;
}

}  // namespace

BankState::Newcomers::Newcomers(BankState& bank, std::span<FilterState* const> filters,
                                const BatchOptions& options)
    : of_(bank), later_(bank, later_stages_of(filters), options) {
  auto slot = later_.slots().begin();
  for (const FilterState* const filter : filters) {
    Member& member = members_.emplace_back(std::vector<StageSlot>{{&bank.first, 0}},
                                           filter->metadata, filter->epoch);
    for (std::size_t s = 1; s < filter->stages.size(); ++s) member.stages.push_back(*slot++);
  }
}

void BankState::Newcomers::give(std::size_t i, std::uint32_t member) noexcept {
  members_[i].stages.front().slot = member;
  for (const StageSlot& stage : std::span(members_[i].stages).subspan(1)) {
    stage.level->own(stage.slot, member);
  }
  of_.members[member] = std::move(members_[i]);
}

void BankState::add(std::span<FilterState* const> filters, std::span<const std::uint32_t> numbers,
                    const BatchOptions& options) {
  if (filters.empty()) return;
  members.resize(std::max<std::size_t>(members.size(), numbers.back() + std::size_t{1}));
  Newcomers newcomers(*this, filters, options);
  Level::Arrivals firsts(first, numbers, first_stages_of(filters), options);
  // Nothing fails from here on.
  firsts.come_in(options);
  newcomers.come_in(options);
  for (std::size_t i = 0; i < numbers.size(); ++i) newcomers.give(i, numbers[i]);
}

std::vector<std::uint32_t> BankState::add(std::span<FilterState* const> filters,
                                          const BatchOptions& options) {
  check_writable();
  for (const FilterState* const filter : filters) check(*filter);
  for (FilterState* const filter : filters) bring_here(*filter);
  std::vector<std::uint32_t> numbers = first.free_slots(filters.size());
  add(filters, numbers, options);
  return numbers;
}

// ---- members ------------------------------------------------------------------------------------

const Backend& backend_for(const BankOptions& options) {
  const Backend& backend = find_backend(options.backend);
  if (backend.memory() != kHostMemory) {
    throw InvalidArgument(
        fmt::format("backend {} keeps filters in the memory of {}: a bank "
                    "needs them on the host, as 'simd' does",
                    detail::in_quotes(backend.name()), backend.memory()));
  }
  if (options.capacity > kMaxBankMembers) {
    throw InvalidArgument(fmt::format("capacity {}: a bank has at most {} members",
                                      options.capacity, kMaxBankMembers));
  }
  return backend;
}

std::unique_ptr<BankState> BankState::empty(const Growth& growth, Cell cell,
                                            const BankOptions& options) {
  const Backend& backend = backend_for(options);
  check_supports(backend, growth.layout(), cell);
  return std::unique_ptr<BankState>(
      new BankState{growth, options.seed, &backend, cell,
                    Level(0, growth.stage(0), options.seed, backend, options.capacity, cell)});
}

const Backend& BankState::backend_for_bits() const {
  const Backend& on = backend->supports(Cell::bit) ? *backend : backend_for({});
  check_supports(on, growth.layout(), Cell::bit);
  return on;
}

std::unique_ptr<BankState> BankState::copy_as(Cell of_copy, const Backend& on) const {
  check_mapped_rows(*this);
  auto copy = std::unique_ptr<BankState>(new BankState{
      growth, seed, &on, of_copy, first.copy_as(of_copy, on), {}, members, fit, metadata});
  for (const auto& level : later) {
    copy->later.push_back(std::make_unique<Level>(level->copy_as(of_copy, on)));
  }
  for (Member& member : copy->members) {
    for (StageSlot& stage : member.stages) {
      stage.level = stage.level == &first ? &copy->first : &copy->later_level(stage.level->index);
    }
  }
  return copy;
}

void BankState::drop_counters(const Backend& on) noexcept {
  cell = Cell::bit;
  backend = &on;
  first.drop_counters(on);
  for (const auto& level : later) level->drop_counters(on);
}

BankMemory BankState::memory() const {
  BankMemory sum;
  const auto add = [&](const Level& level) {
    if (cell == Cell::counter) sum.counters += level.size * level.shape.geometry.bytes();
    sum.rows += level.rows.bytes();
  };
  add(first);
  for (const auto& level : later) add(*level);
  return sum;
}

void BankState::check_writable() const {
  if (read_only()) {
    throw ReadOnly("the bank is mapped from a file, read-only: load the file to change it");
  }
}

void BankState::reserve(std::uint32_t capacity, const BatchOptions& options) {
  check_writable();
  if (capacity > kMaxBankMembers) {
    throw InvalidArgument(
        fmt::format("reserve {}: a bank has at most {} members", capacity, kMaxBankMembers));
  }
  first.reserve(capacity, options);
}

std::unique_ptr<FilterState> BankState::remove(std::uint32_t member, const BatchOptions& options) {
  const std::vector<StageSlot>& stages = at(member).stages;
  check_writable();
  auto gone = room_for(stages.size());
  blank(stages, options);  // nothing fails from here on
  gone->stages.push_back(first.take(member));
  take_later(std::span(stages).subspan(1), gone->stages);
  gone->metadata = std::exchange(members[member], {}).metadata;
  return gone;
}

std::unique_ptr<FilterState> BankState::replace(std::uint32_t member, FilterState& filter,
                                                const BatchOptions& options) {
  const std::vector<StageSlot>& stages = at(member).stages;
  check_writable();
  check(filter);
  bring_here(filter);
  auto gone = room_for(stages.size());
  FilterState* const one = &filter;
  Newcomers newcomer(*this, {&one, 1}, options);
  const auto later_stages = std::span(stages).subspan(1);
  // Nothing fails from here on.
  newcomer.come_in(options);
  blank(later_stages, options);
  gone->stages.push_back(first.replace(member, std::move(filter.stages[0]), options));
  take_later(later_stages, gone->stages);
  gone->metadata = std::exchange(members[member], {}).metadata;
  newcomer.give(0, member);
  return gone;
}

double BankState::fpr_bound(std::uint32_t member) const {
  std::vector<StageLoad> loads;
  for (const StageSlot& stage : at(member).stages) loads.push_back({0, stage.level->shape.fpr});
  return compound_fpr(loads);
}

void BankState::set_metadata(std::uint32_t member, std::string text) {
  at(member);
  check_metadata(text);
  members[member].metadata = std::move(text);
}

void BankState::ask_always(std::uint32_t member, bool ask) {
  at(member);
  first.set_always(member, ask);
}
bool BankState::asked_always(std::uint32_t member) const {
  at(member);
  return first.is_always(member);
}

}  // namespace scbf
