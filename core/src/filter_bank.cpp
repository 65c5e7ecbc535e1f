// SPDX-License-Identifier: Apache-2.0
// FilterBank: members and their numbers, questions and answers. Batches that change members are
// bank_changes.cpp, the rows member_rows.cpp; what vectors do for them is behind row_engine.hpp.
#include "scbf/filter_bank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "bank_check.hpp"
#include "bank_state.hpp"
#include "executor.hpp"

namespace scbf {

namespace {

// Rows of keys located at once for a question; they stay in cache.
constexpr std::size_t kStripRows = 4096;
// Keys per task, and bytes of packed answers on their way to lists.
constexpr std::size_t kTaskKeys = 2048;
constexpr std::size_t kWindowBytes = 4u << 20;

/// The lowest bit that is set; any number for 0.
std::uint32_t lowest(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(std::countr_zero(word | std::uint64_t{1} << 63));
}

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
  state_->always.resize(std::max(state_->rows.stride(), MemberRows::stride_for(members)));
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
  std::vector<Column> columns;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    columns.push_back({slots[i], filters[i].words().data()});
  }
  state.members.resize(std::max<std::size_t>(state.members.size(), slots.back() + 1));
  try {
    state.rows.rebuild(*state.engine, columns, options);
  } catch (...) {
    for (Column& column : columns) column.words = nullptr;
    state.rows.rebuild(*state.engine, columns, {.threads = 1});
    throw;
  }
  for (std::size_t i = 0; i < slots.size(); ++i) state.members[slots[i]] = std::move(filters[i]);
  state.size += slots.size();
  state.lowest_free = slots.back() + std::size_t{1};
  return slots;
}

Filter FilterBank::remove_member(std::uint32_t member, const BatchOptions& options) {
  State& state = *state_;
  state.at(member);
  const Column zeros = {member, nullptr};
  try {
    state.rows.rebuild(*state.engine, {&zeros, 1}, options);
  } catch (...) {
    state.rebuild(member, {.threads = 1});
    throw;
  }
  Filter filter = std::move(*state.members[member]);
  state.members[member].reset();
  state.set_always(member, false);
  --state.size;
  state.lowest_free = std::min<std::size_t>(state.lowest_free, member);
  return filter;
}

Filter FilterBank::replace_member(std::uint32_t member, Filter filter,
                                  const BatchOptions& options) {
  State& state = *state_;
  state.at(member);
  state.check(filter);
  filter.to(state.backend->name());
  const Column other = {member, filter.words().data()};
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

void FilterBank::State::ask(const KeyBatch& keys, std::size_t first, std::size_t count,
                            std::uint8_t* out) const noexcept {
  std::array<std::uint64_t, kStripRows> located;
  std::array<std::uint64_t, kStripRows> hashes;
  const std::uint32_t k = geometry.probes();
  const std::size_t per_strip = kStripRows / k, stride = rows.stride();
  for (std::size_t i = first; i < first + count; i += per_strip) {
    const std::size_t n = std::min(per_strip, first + count - i);
    const std::size_t valid = hash_keys(keys, i, n, seed, engine->hash_u64(), hashes.data());
    engine->locate(geometry, hashes.data(), valid, located.data());
    engine->intersect(rows.view(), located.data(), k, valid, always.data(), out);
    if (valid < n) {  // answers to valid keys lie densely; from the last on they move apart
      std::size_t next = valid;
      for (std::size_t j = n; j-- > 0;) {
        if (keys.valid(i + j)) {
          --next;
          if (next != j) std::memcpy(out + j * stride, out + next * stride, stride);
        } else {
          std::memset(out + j * stride, 0, stride);
        }
      }
    }
    out += n * stride;
  }
}

std::size_t FilterBank::answer_bytes() const noexcept { return state_->rows.stride(); }

BankReport FilterBank::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                     const BatchOptions& options) const {
  const std::size_t stride = answer_bytes();
  if (bits.size() != keys.size() * stride) {
    throw InvalidArgument(fmt::format("bits has {} bytes: must be {}, {} for each of {} keys",
                                      bits.size(), keys.size() * stride, stride, keys.size()));
  }
  run_tasks(options, thread_count(options), (keys.size() + kTaskKeys - 1) / kTaskKeys,
            [&](std::size_t task) {
              const std::size_t first = task * kTaskKeys;
              state_->ask(keys, first, std::min(kTaskKeys, keys.size() - first),
                          bits.data() + first * stride);
            });
  return {keys.nulls()};
}

BankReport FilterBank::find(const KeyBatch& keys, MemberLists& lists,
                            const BatchOptions& options) const {
  const std::size_t stride = answer_bytes();
  const unsigned threads = thread_count(options);
  const std::size_t task_keys =
      std::clamp<std::size_t>(kWindowBytes / threads / stride, 1, kTaskKeys);
  struct Part {
    std::vector<std::uint8_t> bits;
    std::vector<std::uint32_t> members;  // room, of which the last of `ends` is used
    std::vector<std::uint64_t> ends;     // of keys, in `members`
  };
  lists.members.clear();
  lists.offsets.clear();
  lists.offsets.reserve(keys.size() + 1);
  lists.offsets.push_back(0);
  std::vector<Part> parts(
      std::min<std::size_t>(threads, (keys.size() + task_keys - 1) / task_keys));
  for (std::size_t window = 0; window < keys.size(); window += parts.size() * task_keys) {
    const auto ask_part = [&](std::size_t p) {
      Part& part = parts[p];
      part.ends.clear();
      const std::size_t first = window + p * task_keys;
      if (first >= keys.size()) return;
      const std::size_t n = std::min(task_keys, keys.size() - first);
      part.bits.resize(n * stride);
      state_->ask(keys, first, n, part.bits.data());
      std::size_t found = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint8_t* answer = part.bits.data() + i * stride;
        // One more than all, which is written but not kept.
        if (part.members.size() <= found + 8 * stride) part.members.resize(2 * found + 9 * stride);
        std::uint32_t* to = part.members.data();
        for (std::size_t b = 0; b < stride; b += sizeof(std::uint64_t)) {
          std::uint64_t word = 0;
          std::memcpy(&word, answer + b, std::min(stride - b, sizeof word));
          // Most words have none, one or two: these without a branch to mispredict.
          for (int twice = 0; twice < 2; ++twice, word &= word - 1) {
            to[found] = static_cast<std::uint32_t>(8 * b) + lowest(word);
            found += word != 0;
          }
          for (; word != 0; word &= word - 1) {
            to[found++] = static_cast<std::uint32_t>(8 * b) + lowest(word);
          }
        }
        part.ends.push_back(found);
      }
    };
    run_tasks(options, threads, parts.size(), ask_part);
    for (const Part& part : parts) {
      const std::uint64_t before = lists.members.size();
      if (part.ends.empty()) continue;
      lists.members.insert(lists.members.end(), part.members.data(),
                           part.members.data() + part.ends.back());
      for (const std::uint64_t end : part.ends) lists.offsets.push_back(before + end);
    }
  }
  return {keys.nulls()};
}

namespace {

template <class Key>
std::vector<std::uint32_t> find_one(const FilterBank& bank, const Key& key) {
  MemberLists lists;
  bank.find(std::span<const Key>(&key, 1), lists, {.threads = 1});
  return std::move(lists.members);
}

}  // namespace

std::vector<std::uint32_t> FilterBank::find(std::uint64_t key) const {
  return find_one(*this, key);
}
std::vector<std::uint32_t> FilterBank::find(std::string_view key) const {
  return find_one(*this, key);
}

std::optional<std::string> BankCheck::difference(const FilterBank& bank) {
  const FilterBank::State& state = *bank.state_;
  std::vector<Column> columns;
  for (std::uint32_t slot = 0; slot < state.members.size(); ++slot) {
    columns.push_back(state.column(slot));
  }
  return state.rows.difference(columns);
}

}  // namespace scbf
