// SPDX-License-Identifier: Apache-2.0
// How batches that change a filter in stages go through them: which stage takes the next keys, how
// many of them, and from which stage keys are removed. Knows stages, not who keeps them: a filter
// (filter.cpp) or a bank (bank/changes.cpp).
//
// `Stages` is a view of the stages of one filter, oldest first:
//   std::size_t size() const;               const Growth& growth() const;
//   Stage& operator[](i);
//   void add();                             // one more, empty; throws when it cannot be had
//   RemoveReport remove(i, keys, verdicts, options);
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "filter/stage.hpp"
#include "kit/answer_forms.hpp"
#include "kit/hash_keys.hpp"

namespace scbf {

// ---- insertion ----------------------------------------------------------------------------------

/// The next keys of a batch, and where they go.
struct InsertStep {
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::size_t stage;    ///< kNowhere: all of them are null
  std::size_t count;    ///< keys, nulls included
  std::uint64_t valid;  ///< of them
};

/// Throws FilterFull.
[[noreturn]] void throw_full(const std::string& reason, std::uint64_t processed,
                             const InsertReport& done);

/// The oldest stage with room, which may have to be added first. Throws FilterFull.
template <class Stages>
std::size_t stage_with_room(Stages& stages, std::uint64_t processed, const InsertReport& done) {
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Stage& stage = stages[s];
    if (stage.at_most < stage.shape.full_at) return s;
    stage.at_most = stage.nonzero();
    if (stage.at_most < stage.shape.full_at) return s;
  }
  if (stages.size() >= stages.growth().most_stages()) {
    throw_full(fmt::format("all {} stages are full ({}): begin another filter, or plan for more "
                           "keys or stages",
                           stages.size(), stages.growth().describe()),
               processed, done);
  }
  try {
    stages.add();
  } catch (const Error& error) {
    throw_full(fmt::format("stage {} cannot be had: {}", stages.size(), error.what()), processed,
               done);
  } catch (const std::bad_alloc&) {
    throw_full(fmt::format("stage {} cannot be had: memory is short", stages.size()), processed,
               done);
  }
  return stages.size() - 1;
}

/// Keys that a stage takes before it can be full: each adds at most k.
inline std::uint64_t surely_taken(const Stage& stage) noexcept {
  const std::uint64_t probes = stage.geometry().probes(), full_at = stage.shape.full_at;
  if (full_at == kNeverFull) return ~std::uint64_t{0};
  return stage.at_most < full_at ? (full_at - stage.at_most + probes - 1) / probes : 0;
}

/// Books the first `count` keys of `rest` on a stage.
inline InsertStep book_insert(Stage& stage, std::size_t number, const KeyBatch& rest,
                              std::size_t count) {
  const std::uint64_t valid = count - rest.slice(0, count).nulls();
  const Geometry& geometry = stage.geometry();
  stage.at_most = std::min(stage.at_most + valid * geometry.probes(), geometry.counters());
  return {number, count, valid};
}

/// The first keys of `rest`, as many as surely go to one stage; they are booked, and must be
/// inserted there before the next step is asked for. `rest` is not empty; `processed` keys of the
/// batch were dealt with before. Throws FilterFull.
template <class Stages>
InsertStep next_insert_step(Stages& stages, const KeyBatch& rest, std::uint64_t processed,
                            const InsertReport& done) {
  if (rest.nulls() == rest.size()) return {InsertStep::kNowhere, rest.size(), 0};  // need no room
  const std::size_t s = stage_with_room(stages, processed, done);
  Stage& stage = stages[s];
  // What the stage is after these keys is known exactly; the last of its room goes in ever smaller
  // pieces.
  if (surely_taken(stage) < rest.size()) stage.at_most = std::min(stage.at_most, stage.nonzero());
  return book_insert(
      stage, s, rest,
      static_cast<std::size_t>(std::min<std::uint64_t>(surely_taken(stage), rest.size())));
}

// ---- removal ------------------------------------------------------------------------------------

// Keys that are removed together: enough to hide the latency of their counters, few enough that
// these are still in the second-level cache when it is their turn.
inline constexpr std::size_t kRemoveKeys = 4096;

/// Keys to be removed one after another, and from which stages.
///
/// Removals only lower counters, so a key's claims only become fewer until it is its turn. A key
/// claimed by no stage beforehand is absent. One claimed by a single stage is, at its turn, still
/// claimed by that stage or by none, which is what removal from that stage decides: such keys go to
/// their stages in runs. One claimed by several ends the run, and is asked again at its turn.
class RemovalWindow {
 public:
  /// For at most so many keys.
  explicit RemovalWindow(std::size_t keys);

  /// An empty window for these stages. They must not be moved while it is used.
  void begin(std::span<const Stage* const> stages);
  /// Valid keys among keys first … first + count − 1.
  void append(const Backend& backend, std::uint64_t seed, const KeyBatch& keys, std::size_t first,
              std::size_t count);
  /// Asks all stages for all keys: what next_run goes by. Once, before the first run.
  void ask();
  /// Plans the next run, after the last one was removed; false if no key is left.
  bool next_run();
  /// The keys of the run that are to be removed from a stage, as hashes, in order.
  std::span<const std::uint64_t> run(std::size_t stage) const noexcept {
    return std::span(run_hashes_).subspan(starts_[stage], starts_[stage + 1] - starts_[stage]);
  }
  /// Room for what the stage says to each of them.
  std::span<std::uint8_t> run_answers(std::size_t stage) noexcept {
    return std::span(answers_).subspan(starts_[stage], starts_[stage + 1] - starts_[stage]);
  }
  /// Makes verdicts of it.
  void take_answers(std::size_t stage) noexcept;

  std::size_t stages() const noexcept { return stages_.size(); }
  std::size_t keys() const noexcept { return keys_; }
  /// A Removal for each key appended.
  std::span<const std::uint8_t> verdicts() const noexcept {
    return std::span(verdicts_).first(keys_);
  }
  /// Among the keys of all runs so far.
  std::uint64_t ambiguous() const noexcept { return ambiguous_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFFu, kSeveral = kNone - 1;
  std::uint32_t claimer_now(std::size_t key) const;

  std::vector<const Stage*> stages_;
  std::size_t keys_ = 0;
  std::size_t run_end_ = 0;  ///< keys before it have had their turn
  std::uint64_t ambiguous_ = 0;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint32_t> claimers_;  ///< stage, kNone or kSeveral
  std::vector<std::uint8_t> verdicts_;
  // The run, ordered by stage.
  std::vector<std::size_t> starts_;  ///< stages + 1
  std::vector<std::uint64_t> run_hashes_;
  std::vector<std::uint32_t> run_keys_;
  std::vector<std::uint8_t> answers_;
};

/// Filter::remove for one filter's stages; `verdicts` has been checked.
template <class Stages>
RemoveReport remove_from_stages(Stages& stages, const Backend& backend, std::uint64_t seed,
                                const KeyBatch& keys, std::span<std::uint8_t> verdicts,
                                const BatchOptions& options) {
  if (stages.size() == 1) return stages.remove(0, keys, verdicts, options);
  RemoveReport report;
  report.nulls = keys.nulls();
  std::vector<const Stage*> pointers;
  for (std::size_t s = 0; s < stages.size(); ++s) pointers.push_back(&stages[s]);
  RemovalWindow window(std::min(keys.size(), kRemoveKeys));
  for (std::size_t first = 0; first < keys.size(); first += kRemoveKeys) {
    const std::size_t count = std::min(kRemoveKeys, keys.size() - first);
    window.begin(pointers);
    window.append(backend, seed, keys, first, count);
    window.ask();
    while (window.next_run()) {
      for (std::size_t s = 0; s < stages.size(); ++s) {
        if (window.run(s).empty()) continue;
        report.removed +=
            stages.remove(s, KeyBatch::from_hashes(window.run(s)), window.run_answers(s), kOneKey)
                .removed;
        window.take_answers(s);
      }
    }
    report.ambiguous += window.ambiguous();
    if (verdicts.empty()) continue;
    std::ranges::copy(window.verdicts(), verdicts.begin() + static_cast<std::ptrdiff_t>(first));
    spread_answers(keys, first, count, &verdicts[first]);
  }
  report.absent = keys.size() - report.nulls - report.removed - report.ambiguous;
  return report;
}

}  // namespace scbf
