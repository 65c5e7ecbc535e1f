// SPDX-License-Identifier: Apache-2.0
// Removal that changes nothing if too many keys are absent: removes, and undoes it. Inserting a
// removed key again into the stage it came from is its exact inverse: a counter below 15 was
// lowered and returns to what it was, a counter at 15 stays in both.
//
// `Stages` has size() and Stage& operator[](s), oldest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "filter/stage.hpp"
#include "kit/error_text.hpp"
#include "kit/piece_room.hpp"
#include "kit/removal.hpp"

namespace scbf {

/// The removals of one batch, and how to undo them. All memory is allocated at the beginning.
class RemovalLog {
 public:
  RemovalLog(std::size_t stages, std::size_t keys)
      : several_(stages > 1),
        removed_(several_ ? 0 : (keys + 7) / 8),
        hashes_(several_ ? keys : 0),
        from_(several_ ? keys : 0) {}

  /// Notes which keys of a batch were removed from the only stage.
  void note(std::span<const std::uint8_t> verdicts) noexcept {
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      if (verdicts[i] == static_cast<std::uint8_t>(Removal::removed)) {
        removed_[i / 8] |= std::byte{1} << i % 8;
      }
    }
  }
  /// Notes which of these keys, as hashes, were removed from a stage.
  void note(std::size_t stage, const KeyBatch& run,
            std::span<const std::uint8_t> answers) noexcept {
    static_assert(kMaxStages <= 256);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i] != static_cast<std::uint8_t>(Removal::removed)) continue;
      hashes_[size_] = run.values()[i];
      from_[size_++] = static_cast<std::uint8_t>(stage);
    }
  }
  /// Calls insert(stage, keys) for all keys noted.
  template <class Insert>
  void undo(const KeyBatch& keys, std::size_t stages, Insert insert) {
    if (!several_) return insert(std::size_t{0}, keys.with_validity(removed_));
    PieceRoom<std::uint64_t> room(0);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      std::size_t n = 0;
      for (std::size_t i = 0; i <= size_; ++i) {
        if (n > 0 && (i == size_ || n == room.size())) {
          insert(stage, KeyBatch::from_hashes({room.data(), n}));
          n = 0;
        }
        if (i < size_ && from_[i] == stage) room.data()[n++] = hashes_[i];
      }
    }
  }

 private:
  bool several_;
  std::vector<std::byte> removed_;  // a bit per key
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint8_t> from_;  // their stages
  std::size_t size_ = 0;
};

/// Filter::remove if BatchOptions::most_absent limits it. remove(s, keys, verdicts, options)
/// removes keys from one stage and returns how many; insert(s, keys) inserts them.
template <class Stages, class Remove, class Insert>
RemoveReport remove_all_or_nothing(const Stages& stages, const KeyBatch& keys,
                                   std::span<std::uint8_t> verdicts, const BatchOptions& options,
                                   Remove remove, Insert insert) {
  struct Views {
    const Stages& stages;
    std::size_t size() const noexcept { return stages.size(); }
    ConstCounterView operator[](std::size_t i) const noexcept {
      return std::as_const(stages[i]).view();
    }
  };
  std::vector<StageRecords> before;
  for (std::size_t s = 0; s < stages.size(); ++s) before.push_back(stages[s].records());
  std::vector<std::uint8_t> own(verdicts.empty() ? keys.size() : 0);
  const std::span<std::uint8_t> out = verdicts.empty() ? std::span(own) : verdicts;
  RemovalLog log(stages.size(), keys.size());
  const auto undo = [&] {
    log.undo(keys, stages.size(), insert);
    for (std::size_t s = 0; s < stages.size(); ++s) stages[s].records() = before[s];
  };
  RemoveReport report;
  report.nulls = keys.nulls();
  try {
    if (stages.size() == 1) {
      report.removed = remove(std::size_t{0}, keys, out, options);
      report.kept = count_kept(out);
      log.note(out);
    } else {
      const RemoveCounts counts =
          remove_claimed(*stages[0].backend, Views{stages}, keys, out.data(),
                         [&](std::size_t s, const KeyBatch& run, std::span<std::uint8_t> answers) {
                           std::uint64_t removed = 0;
                           try {
                             removed = remove(s, run, answers, kOnThisThread);
                           } catch (const RemovalStopped& stopped) {
                             log.note(s, run, answers.first(stopped.processed()));
                             throw;
                           }
                           log.note(s, run, answers);
                           return removed;
                         });
      report.removed = counts.removed;
      report.ambiguous = counts.ambiguous;
      report.kept = counts.kept;
    }
  } catch (const RemovalStopped& stopped) {
    if (stages.size() == 1) log.note(out.first(stopped.processed()));
    undo();
    throw RemovalStopped(stopped, 0, {});
  } catch (...) {
    undo();
    throw;
  }
  report.absent = keys.size() - report.nulls - report.removed - report.ambiguous - report.kept;
  if (report.absent <= options.most_absent) return report;
  undo();
  throw KeysAbsent(
      error_text("{} of {} {} absent: at most {} may be (most_absent); nothing was "
                 "removed",
                 report.absent, keys.size() - report.nulls,
                 keys.size() - report.nulls == 1 ? "key is" : "keys are", options.most_absent),
      report);
}

}  // namespace scbf
