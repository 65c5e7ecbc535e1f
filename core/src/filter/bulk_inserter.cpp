// SPDX-License-Identifier: Apache-2.0
// BulkInserter: passes the keys of many batches to the stages that Filter::insert would choose. One
// stage at a time has an insertion of its own in the backend. That insertion is finished when the
// number of the stage's non-zero counters must be known, and when another stage takes over.
#include <memory>

#include "filter/insertion.hpp"
#include "filter/state.hpp"
#include "scbf/filter.hpp"

namespace scbf {

struct BulkInserter::State {
  static constexpr const char* kOwner = "BulkInserter";

  FilterState& filter;
  BatchOptions options;
  InsertReport total = {};
  std::unique_ptr<BulkInsertion> open = {};  ///< into stage `number`; null: none yet
  std::size_t number = 0;
  detail::KnownCount nonzero = {};  ///< counters of that stage, before what `open` has taken

  static std::unique_ptr<State> of(FilterState& filter, const BatchOptions& options) {
    filter.check_writable();
    return std::unique_ptr<State>(new State{filter, options});
  }

  Stage& stage() const noexcept { return filter.stages[number]; }

  void begin(std::size_t stage_number) {
    finish();
    filter.begin_change();
    Stage& next = filter.stages[stage_number];
    open = next.backend->begin_bulk(next.view(), options);
    number = stage_number;
    nonzero = next.known_nonzero;
  }

  void finish() noexcept {
    if (open == nullptr) return;
    nonzero.add(open->finish());
    stage().known_nonzero = nonzero;
    open.reset();
  }

  /// If the open stage may fill, finishes first: the walk then needs its exact count.
  void prepare(const KeyBatch& rest) noexcept {
    if (open != nullptr && surely_taken(stage()) < rest.size()) finish();
  }

  InsertReport insert(std::size_t stage_number, const KeyBatch& keys) {
    if (open == nullptr || number != stage_number) begin(stage_number);
    stage().known_nonzero.forget();
    try {
      open->accept(keys);
    } catch (const CutShort& cut) {
      stage().book(keys.slice(0, cut.keys));
      throw;
    }
    return stage().book(keys);
  }

  ~State() { finish(); }
};

BulkInserter::BulkInserter(FilterBase& filter, const BatchOptions& options)
    : state_(State::of(FilterAccess::state(filter), options)) {}
BulkInserter::BulkInserter(BulkInserter&&) noexcept = default;
BulkInserter& BulkInserter::operator=(BulkInserter&&) noexcept = default;
BulkInserter::~BulkInserter() = default;

InsertReport BulkInserter::insert(const KeyBatch& keys) {
  State& state = *state_;
  const auto account_for = [&](const InsertReport& accepted) {
    state.total += accepted;
    return accepted;
  };
  if (keys.nulls() == keys.size()) return account_for({0, keys.size()});  // no change of bits
  try {
    return account_for(insert_in_steps(
        state.filter, keys, state.options, [&](const KeyBatch& rest) { state.prepare(rest); },
        [&](std::size_t stage, const KeyBatch& some) { return state.insert(stage, some); }));
  } catch (const FilterFull& full) {
    account_for(full.done());
    throw;
  }
}

InsertReport BulkInserter::finish() {
  state_->finish();
  return state_->total;
}

InsertReport BulkInserter::so_far() const { return state_->total; }

}  // namespace scbf
