// SPDX-License-Identifier: Apache-2.0
// Decides where the keys of an insertion go: which stage takes the next keys, and how many. Works
// on stages, whether a filter (insertion.hpp) or a bank (bank/changes.cpp) owns them.
//
// `Stages` is a view of the stages of one filter, oldest first:
//   std::size_t size() const;               const Growth& growth() const;
//   Stage& operator[](i);
//   void add(index);                        // adds this stage of the growth; throws if it cannot
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "filter/stage.hpp"

namespace scbf {

// ---- insertion ----------------------------------------------------------------------------------

/// The next keys of a batch, and where they go.
struct InsertStep {
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::size_t stage;    ///< kNowhere: all of them are null
  std::size_t count;    ///< keys, nulls included
  std::uint64_t valid;  ///< those of them that are not null
};

/// Throws FilterFull, even if there is no memory for the message.
[[noreturn]] void throw_full(std::string_view reason, std::uint64_t processed,
                             const InsertReport& done);

/// The index of the stage that the growth adds next: one more than the largest in use or, where the
/// growth has none so large, the smallest not in use. (Merge may bring a late stage without those
/// before it; a filter is limited only by how many stages it has.)
template <class Stages>
std::uint32_t next_index(Stages& stages) {
  std::vector<bool> used(stages.growth().most_stages());
  std::uint32_t next = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::uint32_t index = stages[s].index;
    if (index >= used.size()) continue;  // kForeignStage
    used[index] = true;
    next = std::max(next, index + 1);
  }
  if (next < used.size()) return next;
  return static_cast<std::uint32_t>(std::ranges::find(used, false) - used.begin());
}

/// The oldest stage with room; adds one if there is none. Throws FilterFull.
template <class Stages>
std::size_t stage_with_room(Stages& stages, std::uint64_t processed, const InsertReport& done,
                            const BatchOptions& options) {
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Stage& stage = stages[s];
    if (stage.nonzero_at_most < stage.shape.full_at) return s;
    stage.tighten(options);
    if (stage.nonzero_at_most < stage.shape.full_at) return s;
  }
  if (stages.size() >= stages.growth().most_stages()) {
    const std::string which =
        stages.size() == 1 ? "the only stage is" : fmt::format("all {} stages are", stages.size());
    throw_full(fmt::format("{} full ({}): begin another filter, or plan for more keys or stages",
                           which, stages.growth().describe()),
               processed, done);
  }
  try {
    stages.add(next_index(stages));
  } catch (const Error& error) {
    throw_full(fmt::format("stage {} cannot be added: {}", stages.size(), error.what()), processed,
               done);
  } catch (const std::bad_alloc&) {
    throw_full(fmt::format("stage {} cannot be added: memory is short", stages.size()), processed,
               done);
  }
  return stages.size() - 1;
}

/// How many keys a stage surely takes before it is full: each makes at most k counters non-zero.
inline std::uint64_t surely_taken(const Stage& stage) noexcept {
  const std::uint64_t probes = stage.geometry().probes(), full_at = stage.shape.full_at;
  if (full_at == kNeverFull) return ~std::uint64_t{0};
  return stage.nonzero_at_most < full_at ? (full_at - stage.nonzero_at_most + probes - 1) / probes
                                         : 0;
}

/// Accounts for the first `count` keys of `rest` in a stage's bound on its non-zero counters.
inline InsertStep book_insert(Stage& stage, std::size_t number, const KeyBatch& rest,
                              std::size_t count) {
  const std::uint64_t valid = count - rest.slice(0, count).nulls();
  const Geometry& geometry = stage.geometry();
  stage.nonzero_at_most =
      std::min(stage.nonzero_at_most + valid * geometry.probes(), geometry.counters());
  return {number, count, valid};
}

/// The same for one key.
inline void book_key(Stage& stage) noexcept {
  const Geometry& geometry = stage.geometry();
  stage.nonzero_at_most = std::min(stage.nonzero_at_most + geometry.probes(), geometry.counters());
}

/// Chooses the first keys of `rest`, as many as surely go to one stage. The stage accounts for
/// them, and they must be inserted there before the next call. `rest` is not empty; `processed`
/// keys of the batch came before it. Throws FilterFull.
template <class Stages>
InsertStep next_insert_step(Stages& stages, const KeyBatch& rest, std::uint64_t processed,
                            const InsertReport& done, const BatchOptions& options) {
  if (rest.nulls() == rest.size()) return {InsertStep::kNowhere, rest.size(), 0};  // no room needed
  const std::size_t s = stage_with_room(stages, processed, done, options);
  Stage& stage = stages[s];
  // The bound counts k non-zero counters per key, which is often too many. Take the exact number
  // where that lets more keys in; so the last of the room goes in ever smaller pieces.
  if (surely_taken(stage) < rest.size()) {
    stage.nonzero_at_most = std::min(stage.nonzero_at_most, stage.nonzero(options));
  }
  return book_insert(
      stage, s, rest,
      static_cast<std::size_t>(std::min<std::uint64_t>(surely_taken(stage), rest.size())));
}

}  // namespace scbf
