// SPDX-License-Identifier: Apache-2.0
// Filter::insert_new: inserts the keys that are absent at their turn.
//
// A filter of a single stage leaves that to its backend. In one that grows, the *candidates* are
// the keys that no stage holds beforehand. Insertions only add, so any other key is found at its
// turn, too. Candidates go to the stage with room, in steps as of every insertion, and the backend
// tells which of them that stage does not hold at their turn. What a stage has taken needs no room
// in the next one. So when it is full, it is asked about the candidates that are left; before that
// only if many small steps would cost more.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "filter/insertion.hpp"
#include "filter/state.hpp"
#include "kit/answer_forms.hpp"
#include "kit/hash_keys.hpp"
#include "kit/piece_room.hpp"

namespace scbf {

namespace {

// These numbers are chosen, not measured. Answers do not depend on them.

// Keys whose candidates are found at once: enough for a pass over a large stage, by all threads.
constexpr std::size_t kPieceKeys = 1u << 22;
// The same if there is no memory for so many.
constexpr std::size_t kFewerKeys = 1u << 16;
// What a step costs besides its keys, in keys.
constexpr std::size_t kStepCost = 256;

/// The candidates of a piece: their hashes, and which keys of it they are.
struct Candidates {
  explicit Candidates(std::size_t keys)
      : most(keys),
        hashes(std::make_unique_for_overwrite<std::uint64_t[]>(keys)),
        index(std::make_unique_for_overwrite<std::uint32_t[]>(keys)),
        answers(std::make_unique_for_overwrite<std::uint8_t[]>(keys)) {}

  /// Begins a piece: all valid keys are candidates.
  void take(const KeyBatch& piece, std::uint64_t seed) noexcept {
    begin = 0;
    end = hash_keys(piece, 0, piece.size(), seed, plain_hash_u64, hashes.get());
    std::uint32_t* next = index.get();
    for (std::size_t i = 0; i < piece.size(); ++i) {
      if (piece.valid(i)) *next++ = static_cast<std::uint32_t>(i);
    }
  }
  /// Those that are left.
  KeyBatch keys() const noexcept {
    return KeyBatch::from_hashes({hashes.get() + begin, end - begin});
  }
  bool empty() const noexcept { return begin == end; }
  std::size_t size() const noexcept { return end - begin; }
  /// Drops those whose answers are not 0.
  void drop_present() noexcept {
    std::size_t kept = begin;
    for (std::size_t i = begin; i < end; ++i) {
      hashes[kept] = hashes[i];
      index[kept] = index[i];
      kept += answers[i - begin] == 0;  // branch-free: answers are unpredictable
    }
    end = kept;
  }

  std::size_t most;  ///< keys of a piece
  std::unique_ptr<std::uint64_t[]> hashes;
  std::unique_ptr<std::uint32_t[]> index;
  std::unique_ptr<std::uint8_t[]> answers;  ///< to the last question, of keys()
  std::size_t begin = 0, end = 0;
};

/// One insertion. `out` is empty or has an answer for each key.
class NewInsertion {
 public:
  NewInsertion(FilterState& state, const KeyBatch& keys, std::span<std::uint8_t> out,
               const BatchOptions& options) noexcept
      : state_(state), keys_(keys), out_(out), options_(options) {}

  InsertNewReport run() {
    try {
      if (state_.growth.policy() == Growth::Policy::one) {
        insert_into_only_stage();
      } else {
        insert_into_stages();
      }
    } catch (const std::bad_alloc&) {  // the step that threw has changed nothing
      if (processed_ == 0) throw;
      throw_full("memory is short", processed_, done());
    }
    return {inserted_, keys_.size() - nulls_ - inserted_, nulls_};
  }

 private:
  /// What became of the keys processed so far.
  InsertReport done() const noexcept { return {inserted_, nulls_}; }
  void processed_to(std::size_t end) {
    nulls_ += keys_.slice(processed_, end - processed_).nulls();
    processed_ = end;
  }

  void insert_into_only_stage() {
    Stage& stage = state_.stages[0];
    if (!out_.empty()) {
      inserted_ = stage.insert_new(keys_, out_.data(), options_);
      return processed_to(keys_.size());
    }
    PieceRoom<std::uint8_t> room(std::min(keys_.size(), answer_window(stage.geometry())));
    while (processed_ < keys_.size()) {
      const std::size_t n = std::min(room.size(), keys_.size() - processed_);
      inserted_ += stage.insert_new(keys_.slice(processed_, n), room.data(), options_);
      processed_to(processed_ + n);
    }
  }

  void insert_into_stages() {
    std::optional<Candidates> room;
    try {
      room.emplace(std::min(keys_.size(), kPieceKeys));
    } catch (const std::bad_alloc&) {
      room.emplace(std::min(keys_.size(), kFewerKeys));
    }
    while (processed_ < keys_.size()) {
      insert_piece(processed_, std::min(room->most, keys_.size() - processed_), *room);
    }
  }

  void insert_piece(std::size_t first, std::size_t count, Candidates& left) {
    left.take(keys_.slice(first, count), state_.seed);
    if (!out_.empty()) std::fill_n(&out_[first], count, std::uint8_t{0});
    const auto note_processed = [&] {
      processed_to(first + (left.empty() ? count : left.index[left.begin]));
    };
    // A single stage with room need not be asked: it tests the keys as they are inserted.
    std::vector<Stage>& stages = state_.stages;
    if (stages.size() > 1 || is_full(stages[0])) {
      state_.contains(left.keys(), left.answers.get(), options_);
      left.drop_present();
    }
    note_processed();
    std::size_t work = 0;  // in the steps since a stage was asked
    while (!left.empty()) {
      OwnStages own{state_};
      const InsertStep step = next_insert_step(own, left.keys(), processed_, done(), options_);
      Stage& stage = stages[step.stage];
      inserted_ += stage.insert_new(left.keys().slice(0, step.count), left.answers.get(), options_);
      if (!out_.empty()) {
        for (std::size_t i = 0; i < step.count; ++i) {
          out_[first + left.index[left.begin + i]] = left.answers[i];
        }
      }
      left.begin += step.count;
      note_processed();
      // Repeated keys make many small steps. Before these cost more than a lookup of all that is
      // left, what is present is dropped.
      work += step.count + kStepCost;
      if (left.empty() || (work < left.size() && !is_full(stage))) continue;
      const ConstCounterView view = std::as_const(stage).view();
      state_.backend->contains({&view, 1}, left.keys(), left.answers.get(), options_);
      left.drop_present();
      note_processed();
      work = 0;
    }
  }

  bool is_full(const Stage& stage) const {
    return stage.shape.full_at != kNeverFull && stage.nonzero(options_) >= stage.shape.full_at;
  }

  FilterState& state_;
  const KeyBatch& keys_;
  std::span<std::uint8_t> out_;
  const BatchOptions& options_;
  std::size_t processed_ = 0;   ///< keys that had their turn
  std::uint64_t inserted_ = 0;  ///< of those
  std::uint64_t nulls_ = 0;     ///< of those
};

}  // namespace

void FilterState::check_insert_new() const {
  check_writable();
  if (on_host()) return;
  throw NotOnHost(fmt::format(
      "insert_new: the counters are in the memory of {}: move the filter with to(\"simd\"), or use "
      "contains and insert",
      backend->memory()));
}

InsertNewReport FilterState::insert_new(const KeyBatch& keys, std::span<std::uint8_t> out,
                                        const BatchOptions& options) {
  check_insert_new();
  if (!out.empty()) check_answers(keys.size(), out.size(), "out");
  if (keys.empty()) return {};
  // If nothing is inserted, whatever is thrown, the bits stay at their epoch.
  struct Unchanged {
    FilterState& state;
    Epoch epoch = state.epoch;
    std::uint64_t keys = state.keys_inserted();
    ~Unchanged() {
      if (state.keys_inserted() == keys) state.epoch = epoch;
    }
  };
  const Unchanged unchanged{*this};
  begin_change();
  return NewInsertion(*this, keys, out, options).run();
}

}  // namespace scbf
