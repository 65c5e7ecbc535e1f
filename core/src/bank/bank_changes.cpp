// SPDX-License-Identifier: Apache-2.0
// Batches that change members of a FilterBank: cut, shared among threads, counters and rows kept in
// step.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bank/bank_state.hpp"
#include "kit/executor.hpp"

namespace scbf {

namespace {

// Keys hashed at once: large enough for the partitioned path, 32 MiB of hashes.
constexpr std::size_t kPieceKeys = std::size_t{4} << 20;

InsertReport insert_report(const ChangeCounts& counts) { return {counts.changed, counts.nulls}; }
RemoveReport remove_report(const ChangeCounts& counts) {
  return {counts.changed, counts.absent, counts.nulls};
}

}  // namespace

ChangeCounts FilterBank::State::change(Change what, std::uint32_t slot, const KeyBatch& keys,
                                       std::span<std::uint8_t> verdicts, bool mark,
                                       const BatchOptions& options) {
  Filter& filter = *members[slot];
  if (!mark) {
    if (what == Change::insert) {
      const InsertReport report = filter.insert(keys, options);
      return {report.inserted, 0, report.nulls};
    }
    const RemoveReport report = filter.remove(keys, verdicts, options);
    return {report.removed, report.absent, report.nulls};
  }
  const std::uint64_t* words = filter.words().data();
  const std::size_t most = std::min(keys.size(), kPieceKeys);
  std::vector<std::uint64_t> hashes(most);
  std::vector<std::uint8_t> own_verdicts(what == Change::remove && verdicts.empty() ? most : 0);
  ChangeCounts counts;
  for (std::size_t first = 0; first < keys.size(); first += kPieceKeys) {
    const std::size_t n = std::min(kPieceKeys, keys.size() - first);
    const std::size_t valid = hash_keys(keys, first, n, seed, engine->hash_u64(), hashes.data());
    const KeyBatch located = KeyBatch::from_hashes({hashes.data(), valid});
    counts.nulls += n - valid;
    if (what == Change::insert) {
      rows.mark_zeros(*engine, words, slot, hashes.data(), valid, true);
      counts.changed += filter.insert(located, options).inserted;
      continue;
    }
    const std::span<std::uint8_t> answers =
        verdicts.empty() ? std::span(own_verdicts) : verdicts.subspan(first, n);
    const RemoveReport report = filter.remove(located, answers.first(valid), options);
    counts.changed += report.removed;
    counts.absent += report.absent;
    std::size_t removed = 0;
    for (std::size_t i = 0; i < valid; ++i) {
      hashes[removed] = hashes[i];
      removed += answers[i];
    }
    rows.mark_zeros(*engine, words, slot, hashes.data(), removed, false);
    if (!verdicts.empty()) spread_answers(keys, first, n, answers.data());
  }
  return counts;
}

ChangeCounts FilterBank::State::change_one(Change what, std::uint32_t slot, const KeyBatch& keys,
                                           std::span<std::uint8_t> verdicts,
                                           const BatchOptions& options) {
  changeable(slot);
  if (!verdicts.empty() && verdicts.size() != keys.size()) {
    throw InvalidArgument(
        fmt::format("verdicts has room for {}: must be {}", verdicts.size(), keys.size()));
  }
  const bool mark = !rows.worth_rebuilding(keys.size(), 1);
  try {
    const ChangeCounts counts = change(what, slot, keys, verdicts, mark, options);
    if (!mark) rebuild(slot, options);
    return counts;
  } catch (...) {
    rebuild(slot, {.threads = 1});
    throw;
  }
}

ChangeCounts FilterBank::State::change_many(Change what, std::span<const MemberKeys> batches,
                                            const BatchOptions& options) {
  std::uint64_t keys = 0;
  for (const MemberKeys& batch : batches) {
    changeable(batch.member);
    keys += batch.keys.size();
  }
  // By member, those of one in order.
  std::vector<std::size_t> order(batches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return batches[a].member < batches[b].member;
  });
  std::vector<std::uint32_t> touched;
  for (const std::size_t i : order) {
    if (touched.empty() || touched.back() != batches[i].member) {
      touched.push_back(batches[i].member);
    }
  }
  if (touched.empty()) return {};
  const bool mark = !rows.worth_rebuilding(keys, touched.size());
  // Marks: members whose bits share a word of a row are one thread's.
  const std::uint32_t together = mark ? kGatherMembers : 1;
  std::vector<std::size_t> starts;  // of tasks, in `order`
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto unit = [&](std::size_t j) { return batches[order[j]].member / together; };
    if (i == 0 || unit(i) != unit(i - 1)) starts.push_back(i);
  }
  starts.push_back(order.size());
  const std::size_t tasks = starts.size() - 1;
  const unsigned threads = thread_count(options);
  BatchOptions inner = options;
  if (tasks >= threads) inner.threads = 1;  // else few members: their filters take the threads
  std::vector<ChangeCounts> parts(tasks);
  try {
    run_tasks(options, tasks >= threads ? threads : 1, tasks, [&](std::size_t task) {
      for (std::size_t i = starts[task]; i < starts[task + 1]; ++i) {
        const MemberKeys& batch = batches[order[i]];
        const ChangeCounts part = change(what, batch.member, batch.keys, {}, mark, inner);
        parts[task] += part;
      }
    });
    if (!mark) rebuild_all(touched, options);
  } catch (...) {
    rebuild_all(touched, {.threads = 1});
    throw;
  }
  ChangeCounts total;
  for (const ChangeCounts& part : parts) total += part;
  return total;
}

InsertReport FilterBank::insert(std::uint32_t member, const KeyBatch& keys,
                                const BatchOptions& options) {
  return insert_report(state_->change_one(Change::insert, member, keys, {}, options));
}

RemoveReport FilterBank::remove(std::uint32_t member, const KeyBatch& keys,
                                std::span<std::uint8_t> verdicts, const BatchOptions& options) {
  return remove_report(state_->change_one(Change::remove, member, keys, verdicts, options));
}

InsertReport FilterBank::insert(std::span<const MemberKeys> batches, const BatchOptions& options) {
  return insert_report(state_->change_many(Change::insert, batches, options));
}

RemoveReport FilterBank::remove(std::span<const MemberKeys> batches, const BatchOptions& options) {
  return remove_report(state_->change_many(Change::remove, batches, options));
}

void FilterBank::merge(std::uint32_t member, const Filter& other, const BatchOptions& options) {
  Filter& filter = state_->changeable(member);
  state_->check(other);
  state_->and_rebuild(member, options, [&] { filter.merge(other, options); });
}

SubtractReport FilterBank::subtract(std::uint32_t member, const Filter& other,
                                    const BatchOptions& options) {
  Filter& filter = state_->changeable(member);
  state_->check(other);
  SubtractReport report;
  state_->and_rebuild(member, options, [&] { report = filter.subtract(other, options); });
  return report;
}

void FilterBank::clear(std::uint32_t member, const BatchOptions& options) {
  Filter& filter = state_->changeable(member);
  state_->and_rebuild(member, options, [&] { filter.clear(); });
}

}  // namespace scbf
