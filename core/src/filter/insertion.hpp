// SPDX-License-Identifier: Apache-2.0
// Inserts a batch into a filter: step by step, each into the stage that walk.hpp chooses, and with
// an exception that says how far it got.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>

#include "filter/state.hpp"
#include "filter/walk.hpp"
#include "kit/cut_short.hpp"

namespace scbf {

/// The stages of a filter, in the form that walk.hpp asks for.
struct OwnStages {
  FilterState& of;

  std::size_t size() const noexcept { return of.stages.size(); }
  const Growth& growth() const noexcept { return of.growth; }
  Stage& operator[](std::size_t i) const noexcept { return of.stages[i]; }
  void add(std::uint32_t index) { of.stages.push_back(of.make_stage(index)); }
};

/// Calls insert(stage number, keys), which returns an InsertReport, for the keys of a batch, in
/// order, and before each step prepare(keys that are left). Throws FilterFull, or what insert
/// throws if nothing of the batch was inserted before. `options`: for the counting that this may
/// need.
template <class Prepare, class Insert>
InsertReport insert_in_steps(FilterState& state, const KeyBatch& keys, const BatchOptions& options,
                             Prepare prepare, Insert insert) {
  InsertReport report;
  std::size_t first = 0;
  bool planned = false;
  const auto insert_next = [&] {
    planned = false;
    const KeyBatch rest = keys.slice(first, keys.size() - first);
    prepare(rest);
    InsertStep step{0, rest.size(), 0};
    if (state.growth.policy() != Growth::Policy::one) {
      OwnStages stages{state};
      step = next_insert_step(stages, rest, first, report, options);
    }
    planned = true;
    const InsertReport done = step.stage == InsertStep::kNowhere
                                  ? InsertReport{0, step.count}
                                  : insert(step.stage, rest.slice(0, step.count));
    report += done;
    first += step.count;
  };
  while (first < keys.size()) {
    try {
      insert_next();
    } catch (const FilterFull&) {
      throw;
    } catch (const CutShort& cut) {
      if (first + cut.keys == 0) std::rethrow_exception(cut.cause);
      const std::uint64_t nulls = keys.slice(first, cut.keys).nulls();
      report.inserted += cut.keys - nulls;
      report.nulls += nulls;
      throw_full(cut.what(), first + cut.keys, report);
    } catch (const std::bad_alloc&) {  // this step has changed no counter
      if (first == 0) throw;
      throw_full("memory is short", first, report);
    } catch (const Error& error) {
      if (planned || first == 0) throw;
      throw_full(error.what(), first, report);
    }
  }
  return report;
}

}  // namespace scbf
