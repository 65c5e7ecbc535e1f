// SPDX-License-Identifier: Apache-2.0
// A level: stages and their slots; batches that change stages, cut into pieces, shared among
// threads, with rows kept in step with counters; queries.
#include "bank/level.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

#include "kit/executor.hpp"
#include "kit/piece_room.hpp"

namespace scbf {

namespace {

// Keys hashed at once: large enough for the partitioned path, 32 MiB of hashes.
constexpr std::size_t kKeysAtOnce = std::size_t{4} << 20;
// Rows of keys located at once for a query; they stay in cache.
constexpr std::size_t kQueryRows = 4096;
// Fewer keys say little about what marking takes, and reading the clock costs time. Chosen, not
// measured.
constexpr std::size_t kTimedKeys = 256;

/// What is known of the bits of a stage, without the bits.
Stage bits_without_words(const Stage& stage, const Backend& on) {
  Stage bits(stage.shape.with(Cell::bit), stage.index, stage.seed, on, nullptr);
  bits.take_records_of(stage);
  return bits;
}

}  // namespace

Level::Level(std::uint32_t in_growth, const StageShape& of_stages, std::uint64_t with_seed,
             const Backend& on, std::uint32_t capacity, Cell of_stage)
    : Level(in_growth, of_stages, with_seed, on, MemberRows(of_stages.geometry, capacity),
            of_stage) {}

Level::Level(std::uint32_t in_growth, const StageShape& of_stages, std::uint64_t with_seed,
             const Backend& on, MemberRows with_rows, Cell of_stage)
    : index(in_growth),
      shape(of_stages),
      cell(of_stage),
      seed(with_seed),
      backend(&on),
      kernels(&on.rows()),
      rows(std::move(with_rows)),
      always(rows.stride()) {}

Level::Level(const Level& other, Cell of_copy, const Backend& on, MemberRows with_rows)
    : index(other.index),
      shape(other.shape),
      cell(of_copy),
      seed(other.seed),
      backend(&on),
      kernels(&on.rows()),
      rows(std::move(with_rows)),
      size(other.size),
      lowest_free(other.lowest_free),
      always(other.always),
      owners_(other.owners_) {
  const auto copied = [&](const std::optional<Stage>& stage) -> std::optional<Stage> {
    if (!stage || cell == Cell::counter) return stage;
    return bits_without_words(*stage, on);
  };
  stages.reserve(other.stages.size());
  for (const std::optional<Stage>& stage : other.stages) stages.push_back(copied(stage));
}

Level Level::copy_as(Cell of_copy, const Backend& on) const {
  return Level(*this, of_copy, on, rows.copy());
}

void Level::drop_counters(const Backend& on) noexcept {
  cell = Cell::bit;
  backend = &on;
  kernels = &on.rows();
  for (std::optional<Stage>& stage : stages) {
    if (!stage) continue;
    stage->shape = stage->shape.with(Cell::bit);
    stage->use(on);
    stage->store.reset();
  }
}

// ---- stages come and go -------------------------------------------------------------------------

MemberColumn Level::column(std::uint32_t slot) const noexcept {
  return {slot, has(slot) ? at(slot).view().words : nullptr};
}

void Level::rebuild(std::uint32_t slot, const BatchOptions& options) noexcept {
  const MemberColumn one = column(slot);
  rows.rebuild(*kernels, cell, {&one, 1}, options);
}

void Level::reserve(std::uint32_t capacity, const BatchOptions& options) {
  always.resize(std::max(rows.stride(), row_stride(capacity)));
  rows.grow(capacity, options);
}

void Level::make_room(std::size_t slots, const BatchOptions& options) {
  if (slots > kMaxBankMembers) {
    throw InvalidArgument(fmt::format("{} members: a bank has at most {}", slots, kMaxBankMembers));
  }
  if (slots <= rows.capacity()) return;
  const std::size_t half_more = rows.capacity() + rows.capacity() / 2;
  reserve(static_cast<std::uint32_t>(
              std::min<std::size_t>(std::max(slots, half_more), kMaxBankMembers)),
          options);
}

std::vector<std::uint32_t> Level::free_slots(std::size_t n) const {
  std::vector<std::uint32_t> free;
  free.reserve(n);
  for (std::size_t slot = lowest_free; free.size() < n; ++slot) {
    if (!has(static_cast<std::uint32_t>(slot))) free.push_back(static_cast<std::uint32_t>(slot));
  }
  return free;
}

std::uint32_t Level::add(const BatchOptions& options) {
  const std::uint32_t slot = free_slots(1).front();
  make_room(slot + std::size_t{1}, options);
  room_for_owners(slot + std::size_t{1});
  Stage stage = Stage::empty(shape, index, seed, *backend);
  if (slot == stages.size()) stages.emplace_back();
  stages[slot] = std::move(stage);  // its column is zero: see take
  ++size;
  lowest_free = slot + std::size_t{1};
  return slot;
}

Level::Arrivals::Arrivals(Level& level, std::span<const std::uint32_t> slots,
                          std::vector<Stage*> stages, const BatchOptions& options)
    : level_(level), stages_(std::move(stages)) {
  if (slots.empty()) return;
  columns_.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    columns_.push_back({slots[i], std::as_const(*stages_[i]).view().words});
  }
  const std::size_t most = slots.back() + std::size_t{1};
  level.stages.reserve(most);
  level.room_for_owners(most);
  level.make_room(most, options);
}

void Level::Arrivals::come_in(const BatchOptions& options) noexcept {
  if (columns_.empty()) return;
  std::vector<std::optional<Stage>>& there = level_.stages;
  there.resize(std::max<std::size_t>(there.size(), columns_.back().slot + std::size_t{1}));
  level_.rows.rebuild(*level_.kernels, level_.cell, columns_, options);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    stages_[i]->use(*level_.backend);
    level_.keep_rows_only(*stages_[i]);
    there[columns_[i].slot] = std::move(*stages_[i]);
  }
  level_.size += stages_.size();
  while (level_.has(static_cast<std::uint32_t>(level_.lowest_free))) ++level_.lowest_free;
}

void Level::adopt(std::uint32_t slot, Stage stage) {
  room_for_owners(slot + std::size_t{1});
  if (slot >= stages.size()) stages.resize(slot + std::size_t{1});
  stages[slot] = std::move(stage);
  ++size;
  while (has(static_cast<std::uint32_t>(lowest_free))) ++lowest_free;
}

Stage Level::replace(std::uint32_t slot, Stage stage, const BatchOptions& options) noexcept {
  const MemberColumn other = {slot, std::as_const(stage).view().words};
  rows.rebuild(*kernels, cell, {&other, 1}, options);
  stage.use(*backend);
  keep_rows_only(stage);
  std::swap(stage, at(slot));
  set_always(slot, false);
  return stage;
}

void Level::blank(std::uint32_t slot, const BatchOptions& options) noexcept {
  const MemberColumn zeros = {slot, nullptr};
  rows.rebuild(*kernels, cell, {&zeros, 1}, options);
}

Stage Level::take(std::uint32_t slot) noexcept {
  Stage stage = std::move(at(slot));
  stages[slot].reset();
  owners_[slot] = kNoMember;
  set_always(slot, false);
  --size;
  lowest_free = std::min<std::size_t>(lowest_free, slot);
  return stage;
}

void Level::set_always(std::uint32_t slot, bool ask) noexcept {
  const auto bit = static_cast<std::uint8_t>(1u << slot % 8);
  always[slot / 8] = static_cast<std::uint8_t>((always[slot / 8] & ~bit) | (ask ? bit : 0));
}

// ---- counters change ----------------------------------------------------------------------------

class Level::MarkTimes {
 public:
  /// Calls mark(), which marks what changed of n keys, and books how long that took.
  template <class Mark>
  void book(std::size_t n, Mark mark) {
    if (n < kTimedKeys) return mark();
    const auto began = std::chrono::steady_clock::now();
    mark();
    const auto took = std::chrono::steady_clock::now() - began;
    keys_.fetch_add(n, std::memory_order_relaxed);
    ns_.fetch_add(static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count()),
                  std::memory_order_relaxed);
  }
  /// Per key of a batch, absent and null ones included; 0 if nothing was booked.
  double ns() const noexcept {
    const auto keys = keys_.load(std::memory_order_relaxed);
    return keys == 0 ? 0
                     : static_cast<double>(ns_.load(std::memory_order_relaxed)) /
                           static_cast<double>(keys);
  }

 private:
  std::atomic<std::uint64_t> keys_{0}, ns_{0};
};

ChangeCounts Level::change_counters(Change what, std::uint32_t slot, const KeyBatch& keys,
                                    std::span<std::uint8_t> verdicts, const BatchOptions& options) {
  Stage& stage = at(slot);
  if (what == Change::insert) {
    const InsertReport report = stage.insert(keys, options);
    return {report.inserted, 0, report.nulls};
  }
  const RemoveReport report = remove_keys({&stage, 1}, keys, verdicts, options);
  return {report.removed, report.absent, report.nulls, report.kept};
}

ChangeCounts Level::change_and_mark(Change what, std::uint32_t slot, const KeyBatch& keys,
                                    std::span<std::uint8_t> verdicts, MarkTimes& times,
                                    const BatchOptions& options) {
  Stage& stage = at(slot);
  const std::uint64_t* words = stage.words().data();
  const std::size_t most = std::min(keys.size(), kKeysAtOnce);
  PieceRoom<std::uint64_t> hashes(most);
  PieceRoom<std::uint8_t> own_verdicts(what == Change::remove && verdicts.empty() ? most : 0);
  const std::size_t piece = verdicts.empty() && what == Change::remove
                                ? std::min(hashes.size(), own_verdicts.size())
                                : hashes.size();
  ChangeCounts counts;
  for (std::size_t first = 0, n = 0; first < keys.size(); first += n) {
    n = std::min(piece, keys.size() - first);
    const std::size_t valid = hash_keys(keys, first, n, seed, kernels->hashes, hashes.data());
    const KeyBatch located = KeyBatch::from_hashes({hashes.data(), valid});
    counts.nulls += n - valid;
    if (what == Change::insert) {
      times.book(n, [&] { rows.mark_zeros(*kernels, words, slot, hashes.data(), valid, true); });
      counts.changed += stage.insert(located, options).inserted;
      continue;
    }
    const std::span<std::uint8_t> answers =
        verdicts.empty() ? std::span(own_verdicts.data(), n) : verdicts.subspan(first, n);
    const RemoveReport report = remove_keys({&stage, 1}, located, answers.first(valid), options);
    counts.changed += report.removed;
    counts.absent += report.absent;
    counts.kept += report.kept;
    std::size_t removed = 0;
    for (std::size_t i = 0; i < valid; ++i) {
      hashes.data()[removed] = hashes.data()[i];
      removed += answers[i] == static_cast<std::uint8_t>(Removal::removed);
    }
    times.book(n, [&] { rows.mark_zeros(*kernels, words, slot, hashes.data(), removed, false); });
    if (!verdicts.empty()) spread_answers(keys, first, n, answers.data());
  }
  return counts;
}

ChangeCounts Level::change_one(Change what, std::uint32_t slot, const KeyBatch& keys,
                               std::span<std::uint8_t> verdicts, const BatchOptions& options) {
  ChangeCounts counts;
  if (rows.worth_rebuilding(keys.size(), 1)) {
    and_rebuild(slot, options,
                [&] { counts = change_counters(what, slot, keys, verdicts, options); });
  } else {
    MarkTimes times;
    counts = change_and_mark(what, slot, keys, verdicts, times, options);
  }
  return counts;
}

struct Level::ChangePlan {
  struct Task {
    std::size_t begin = 0, end = 0;  // in `order`
    std::uint64_t keys = 0, members = 0;
    bool marks = false;
    ChangeCounts counts = {};
  };
  std::vector<std::size_t> order;  ///< the batches, sorted by slot; those of one slot stay in order
  std::vector<std::uint32_t> slots = {};  ///< of the batches, in that order
  std::vector<Task> tasks = {};
  std::vector<MemberColumn> columns = {};  ///< room for those that are rebuilt
  std::uint64_t keys = 0, members = 0;
  bool marks = true;  ///< keys are marked; otherwise the columns are rebuilt at the end

  bool is_first_of_slot(std::size_t i) const noexcept { return i == 0 || slots[i] != slots[i - 1]; }
};

ChangeCounts Level::change_many(Change what, std::span<const MemberKeys> batches,
                                const BatchOptions& options) {
  std::optional<ChangePlan> plan;
  try {
    plan.emplace(plan_changes(batches));
  } catch (const std::bad_alloc&) {
    ChangeCounts total;
    for (const MemberKeys& batch : batches) {
      total += change_one(what, batch.member, batch.keys, {}, options);
    }
    return total;
  }
  return carry_out(*plan, what, batches, options);
}

Level::ChangePlan Level::plan_changes(std::span<const MemberKeys> batches) const {
  ChangePlan plan{.order = std::vector<std::size_t>(batches.size())};
  std::iota(plan.order.begin(), plan.order.end(), std::size_t{0});
  std::stable_sort(plan.order.begin(), plan.order.end(), [&](std::size_t a, std::size_t b) {
    return batches[a].member < batches[b].member;
  });
  for (const std::size_t i : plan.order) plan.slots.push_back(batches[i].member);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    plan.keys += batches[plan.order[i]].keys.size();
    plan.members += plan.is_first_of_slot(i);
  }
  plan.marks = !rows.worth_rebuilding(plan.keys, plan.members);
  // When marking, one thread owns all members whose bits share a word of a row.
  const std::uint32_t together = plan.marks ? kGatherMembers : 1;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (i == 0 || plan.slots[i] / together != plan.slots[i - 1] / together) {
      plan.tasks.push_back({i});
    }
    ChangePlan::Task& task = plan.tasks.back();
    task.end = i + 1;
    task.keys += batches[plan.order[i]].keys.size();
    task.members += plan.is_first_of_slot(i);
  }
  plan.columns.reserve(plan.members);
  return plan;
}

ChangeCounts Level::carry_out(ChangePlan& plan, Change what, std::span<const MemberKeys> batches,
                              const BatchOptions& options) {
  const unsigned threads = thread_count(options);
  const bool each_alone = plan.tasks.size() >= threads;
  BatchOptions inner = options;
  if (each_alone) inner.threads = 1;  // with fewer tasks than threads, each uses all threads
  // What marking takes depends on the machine, so after each task that marks, the choice is made
  // again for those that have not begun.
  std::atomic<bool> marking{plan.marks};
  std::atomic<std::uint64_t> keys_left{plan.keys}, members_left{plan.members};
  MarkTimes times;
  run_tasks(options, each_alone ? threads : 1, plan.tasks.size(), [&](std::size_t t) {
    ChangePlan::Task& task = plan.tasks[t];
    keys_left -= task.keys;
    members_left -= task.members;
    task.marks = marking;
    for (std::size_t i = task.begin; i < task.end; ++i) {
      const KeyBatch& keys = batches[plan.order[i]].keys;
      task.counts += task.marks ? change_and_mark(what, plan.slots[i], keys, {}, times, inner)
                                : change_counters(what, plan.slots[i], keys, {}, inner);
    }
    const double ns = mark_ns != 0 ? mark_ns : times.ns();
    if (task.marks && rows.worth_rebuilding(keys_left, members_left, ns)) {
      marking = false;
    }
  });
  ChangeCounts total;
  for (const ChangePlan::Task& task : plan.tasks) {
    total += task.counts;
    for (std::size_t i = task.begin; i < task.end && !task.marks; ++i) {
      if (plan.is_first_of_slot(i)) plan.columns.push_back(column(plan.slots[i]));
    }
  }
  rows.rebuild(*kernels, cell, plan.columns, options);
  return total;
}

// ---- questions ----------------------------------------------------------------------------------

void Level::answer(const std::uint64_t* hashes, std::size_t n, std::uint8_t* out) const noexcept {
  std::array<std::uint64_t, kQueryRows> located;
  const std::uint32_t k = shape.geometry.probes();
  const std::size_t per_strip = kQueryRows / k;
  for (std::size_t i = 0; i < n; i += per_strip) {
    const std::size_t strip = std::min(per_strip, n - i);
    kernels->locate(shape.geometry, hashes + i, strip, located.data());
    kernels->intersect(rows.view(), located.data(), k, strip, always.data(),
                       out + i * rows.stride());
  }
  if (present.empty()) return;
  // Local variables, because a store to `out` cannot change them.
  const std::uint8_t* const mask = present.data();
  const std::size_t stride = rows.stride();
  for (std::size_t i = 0; i < n; ++i, out += stride) {
    for (std::size_t b = 0; b < stride; ++b) out[b] &= mask[b];
  }
}

}  // namespace scbf
