// SPDX-License-Identifier: Apache-2.0
// FilterBank: members and their numbers, questions and answers. Batches that change members are
// bank_changes.cpp, the rows member_rows.cpp; what vectors do for them is behind row_engine.hpp.
#include "scbf/filter_bank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bank/bank_answers.hpp"
#include "bank/bank_check.hpp"
#include "bank/bank_state.hpp"

namespace scbf {

namespace {

// Rows of keys located at once for a question; they stay in cache.
constexpr std::size_t kStripRows = 4096;

}  // namespace

FilterBank::FilterBank(const Geometry& geometry, const BankOptions& options) {
  const Backend& backend = find_backend(options.backend);
  if (backend.memory() != kHostMemory) {
    throw InvalidArgument(
        fmt::format("backend '{}' keeps counters in the memory of {}: a bank "
                    "needs them on the host, as 'simd' does",
                    backend.name(), backend.memory()));
  }
  if (options.capacity > kMaxBankMembers) {
    throw InvalidArgument(fmt::format("capacity {}: a bank has at most {} members",
                                      options.capacity, kMaxBankMembers));
  }
  state_ = std::make_unique<State>(State{geometry, options.seed, &backend, &backend.row_engine(),
                                         MemberRows(geometry, options.capacity)});
  state_->always.resize(state_->rows.stride());
}
FilterBank::FilterBank(FilterBank&&) noexcept = default;
FilterBank& FilterBank::operator=(FilterBank&&) noexcept = default;
FilterBank::~FilterBank() = default;

const Geometry& FilterBank::geometry() const noexcept { return state_->geometry; }
std::uint64_t FilterBank::seed() const noexcept { return state_->seed; }
const Backend& FilterBank::backend() const noexcept { return *state_->backend; }
std::size_t FilterBank::size() const noexcept { return state_->size; }
std::uint32_t FilterBank::slots() const noexcept {
  return static_cast<std::uint32_t>(state_->members.size());
}
std::uint32_t FilterBank::capacity() const noexcept { return state_->rows.capacity(); }
BankMemory FilterBank::memory() const noexcept {
  return {state_->size * state_->geometry.bytes(), state_->rows.bytes()};
}

// ---- members ------------------------------------------------------------------------------------

void FilterBank::reserve(std::uint32_t members) {
  if (members > kMaxBankMembers) {
    throw InvalidArgument(
        fmt::format("reserve {}: a bank has at most {} members", members, kMaxBankMembers));
  }
  state_->always.resize(std::max(state_->rows.stride(), row_stride(members)));
  state_->rows.grow(members, {});
}

std::uint32_t FilterBank::add_member() {
  State& state = *state_;
  const std::uint32_t slot = state.free_slots(1).front();
  state.make_room(slot + std::size_t{1}, {});
  Filter filter(state.geometry, {.seed = state.seed, .backend = state.backend->name()});
  if (slot == state.members.size()) state.members.emplace_back();
  state.members[slot] = std::move(filter);  // its column is zero: see remove_member
  ++state.size;
  state.lowest_free = slot + std::size_t{1};
  return slot;
}

std::uint32_t FilterBank::add_member(Filter filter, const BatchOptions& options) {
  std::vector<Filter> one;
  one.push_back(std::move(filter));
  return add_members(std::move(one), options).front();
}

std::vector<std::uint32_t> FilterBank::add_members(std::vector<Filter> filters,
                                                   const BatchOptions& options) {
  State& state = *state_;
  for (Filter& filter : filters) {
    state.check(filter);
    filter.to(state.backend->name());
  }
  if (filters.empty()) return {};
  std::vector<std::uint32_t> slots = state.free_slots(filters.size());
  state.make_room(slots.back() + std::size_t{1}, options);
  std::vector<MemberColumn> columns;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    columns.push_back({slots[i], filters[i].words().data()});
  }
  state.members.resize(std::max<std::size_t>(state.members.size(), slots.back() + 1));
  try {
    state.rows.rebuild(*state.engine, columns, options);
  } catch (...) {
    for (MemberColumn& column : columns) column.words = nullptr;
    state.rows.rebuild(*state.engine, columns, {.threads = 1});
    throw;
  }
  for (std::size_t i = 0; i < slots.size(); ++i) state.members[slots[i]] = std::move(filters[i]);
  state.size += slots.size();
  state.lowest_free = slots.back() + std::size_t{1};
  return slots;
}

Filter FilterBank::remove_member(std::uint32_t member, const BatchOptions& options) {
  state_->at(member);
  state_->blank(member, options);
  return state_->take(member);
}

Filter FilterBank::replace_member(std::uint32_t member, Filter filter,
                                  const BatchOptions& options) {
  State& state = *state_;
  state.at(member);
  state.check(filter);
  filter.to(state.backend->name());
  const MemberColumn other = {member, filter.words().data()};
  try {
    state.rows.rebuild(*state.engine, {&other, 1}, options);
  } catch (...) {
    state.rebuild(member, {.threads = 1});
    throw;
  }
  std::swap(filter, *state.members[member]);
  state.set_always(member, false);
  return filter;
}

bool FilterBank::has_member(std::uint32_t member) const noexcept { return state_->has(member); }
const Filter& FilterBank::member(std::uint32_t member) const { return state_->at(member); }

void FilterBank::ask_always(std::uint32_t member, bool ask) {
  state_->at(member);
  state_->set_always(member, ask);
}

bool FilterBank::asked_always(std::uint32_t member) const {
  state_->at(member);
  return (state_->always[member / 8] >> member % 8 & 1) != 0;
}

// ---- questions ----------------------------------------------------------------------------------

void FilterBank::State::answer(const std::uint64_t* hashes, std::size_t n,
                               std::uint8_t* out) const noexcept {
  std::array<std::uint64_t, kStripRows> located;
  const std::uint32_t k = geometry.probes();
  const std::size_t per_strip = kStripRows / k;
  for (std::size_t i = 0; i < n; i += per_strip) {
    const std::size_t strip = std::min(per_strip, n - i);
    engine->locate(geometry, hashes + i, strip, located.data());
    engine->intersect(rows.view(), located.data(), k, strip, always.data(),
                      out + i * rows.stride());
  }
}

void FilterBank::State::ask(const KeyBatch& keys, std::size_t first, std::size_t count,
                            std::uint8_t* out) const noexcept {
  std::array<std::uint64_t, kStripRows> hashes;
  for (std::size_t i = first; i < first + count; i += kStripRows) {
    const std::size_t n = std::min(kStripRows, first + count - i);
    const std::size_t valid = hash_keys(keys, i, n, seed, engine->hash_u64(), hashes.data());
    answer(hashes.data(), valid, out);
    spread_rows(keys, i, n, rows.stride(), out);
    out += n * rows.stride();
  }
}

std::size_t FilterBank::answer_bytes() const noexcept { return state_->rows.stride(); }

BankReport FilterBank::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                     const BatchOptions& options) const {
  return pack_members(keys, answer_bytes(), bits, options,
                      [&](std::size_t first, std::size_t count, std::uint8_t* out) {
                        state_->ask(keys, first, count, out);
                      });
}

BankReport FilterBank::find(const KeyBatch& keys, MemberLists& lists,
                            const BatchOptions& options) const {
  return list_members(keys, answer_bytes(), lists, options,
                      [&](std::size_t first, std::size_t count, std::uint8_t* out) {
                        state_->ask(keys, first, count, out);
                      });
}

std::vector<std::uint32_t> FilterBank::find(std::uint64_t key) const {
  return find_one(*this, key);
}
std::vector<std::uint32_t> FilterBank::find(std::string_view key) const {
  return find_one(*this, key);
}

std::optional<std::string> BankCheck::difference(const FilterBank& bank) {
  const FilterBank::State& state = *bank.state_;
  std::vector<MemberColumn> columns;
  for (std::uint32_t slot = 0; slot < state.members.size(); ++slot) {
    columns.push_back(state.column(slot));
  }
  return state.rows.difference(columns);
}

}  // namespace scbf
