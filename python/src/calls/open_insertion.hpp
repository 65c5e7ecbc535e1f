// SPDX-License-Identifier: Apache-2.0
// Insertions that go on from one call, or one block of an iterator, to the next: the keys are
// partitioned as they come, as if all came at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "gate.hpp"
#include "held.hpp"
#include "outside.hpp"
#include "scbf/filter_base.hpp"

namespace scbf::python {

/// With fewer keys, a change in bulk is not worth its temporary memory.
inline constexpr std::size_t kFewForBulk = std::size_t{1} << 18;

/// Keys of one filter, in many batches. The first few, which are not worth a BulkInserter, go into
/// the filter one batch after another; and so they do if others use the filter between the batches.
class OpenInsertion final : public Unfinished {
 public:
  OpenInsertion(FilterBase& filter, const BatchOptions& options)
      : filter_(filter), options_(options) {}

  // Call these within a Turn, or while no other thread can reach the object.

  /// So many keys are about to come.
  void expect(std::size_t keys) noexcept { expected_ += keys; }
  /// As FilterBase::insert, but the keys may be added later.
  InsertReport insert(const KeyBatch& keys) {
    if (!bulk_ && expected_ > kFewForBulk) bulk_.emplace(filter_, options_);
    try {
      const InsertReport done = bulk_ ? bulk_->insert(keys) : filter_.insert(keys, options_);
      so_far_ += done;
      filter_keys_ = filter_.keys_inserted();
      return done;
    } catch (const FilterFull& full) {
      so_far_ += full.done();
      throw;
    }
  }
  void finish() noexcept override {
    bulk_.reset();  // which adds what it has
    expected_ = 0;
  }
  /// The turn ends. `goes_on`: without finishing it.
  void leave(bool goes_on) noexcept { goes_on_ = goes_on; }
  bool goes_on() const noexcept { return goes_on_; }
  /// Whether there may be keys that have not been added.
  bool is_open() const noexcept { return bulk_.has_value(); }
  /// What has been accepted since it was made.
  const InsertReport& so_far() const noexcept { return so_far_; }
  /// keys_inserted() of the filter after the last batch; 0 if there was none.
  std::uint64_t filter_keys() const noexcept { return filter_keys_; }

 private:
  FilterBase& filter_;
  BatchOptions options_;
  std::optional<BulkInserter> bulk_;
  std::size_t expected_ = 0;
  InsertReport so_far_;
  std::uint64_t filter_keys_ = 0;
  bool goes_on_ = false;
};

/// A thread's turn to insert keys. With Python's global lock, as Passage.
class Turn {
 public:
  /// Then: whether the insertion goes on after this turn, with keys that may not be in the filter
  /// yet, or is finished by the destructor.
  enum class Then { goes_on, finish };
  Turn(Gate& gate, std::shared_ptr<OpenInsertion> insertion, Then then)
      : gate_(gate), inside_(gate, Passage::To::change, insertion.get()), then_(then) {
    gate.unfinished = insertion;
    insertion_ = std::move(insertion);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    insertion_->leave(then_ == Then::goes_on);
    if (then_ == Then::goes_on) return;
    if (insertion_->is_open()) {
      Outside others_may_run;
      insertion_->finish();
    }
    gate_.unfinished = nullptr;
  }

 private:
  Gate& gate_;
  Passage inside_;
  Then then_;
  std::shared_ptr<OpenInsertion> insertion_;
};

}  // namespace scbf::python
