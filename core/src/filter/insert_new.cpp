// SPDX-License-Identifier: Apache-2.0
// Filter::insert_new: inserts the keys that are absent at their turn.
//
// A filter of a single stage leaves that to its backend. In one that grows, the *candidates* are
// the keys that no stage holds beforehand. Insertions only add, so any other key is found at its
// turn, too. Candidates go to the stage with room, in steps as in every insertion, and the backend
// tells which of them that stage does not hold at their turn. Keys that a stage holds need no room
// in the next one. So when it is full, it is asked about the candidates that are left; before that,
// only if many small steps would cost more.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "filter/insertion.hpp"
#include "filter/state.hpp"
#include "kit/answer_forms.hpp"
#include "kit/cut_short.hpp"
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
    end = hash_keys(piece, 0, piece.size(), seed, kPlainHashes, hashes.get());
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
    } catch (const FilterFull&) {
      throw;
    } catch (const CutShort& cut) {
      if (processed_ == 0) std::rethrow_exception(cut.cause);
      throw_full(cut.what(), processed_, done());
    } catch (const std::bad_alloc&) {
      if (processed_ == 0) throw;
      throw_full("memory is short", processed_, done());
    } catch (const Error& error) {
      if (failed_in_change_ || processed_ == 0) throw;
      throw_full(error.what(), processed_, done());
    }
    return {inserted_, keys_.size() - nulls_ - inserted_, nulls_};
  }
  /// Has a device failed in the middle of a change? Then it is not known what was changed.
  bool failed_in_change() const noexcept { return failed_in_change_; }

 private:
  /// What became of the keys processed so far.
  InsertReport done() const noexcept { return {inserted_, nulls_}; }
  void processed_to(std::size_t end) {
    nulls_ += keys_.slice(processed_, end - processed_).nulls();
    processed_ = end;
  }

  /// Gives the keys to a stage, and calls note(n) when the first n are done: all of them, unless
  /// memory ends on a device.
  template <class Note>
  void insert_into(Stage& stage, const KeyBatch& keys, std::uint8_t* answers, Note note) {
    try {
      inserted_ += stage.insert_new(keys, answers, options_);
    } catch (const CutShort& cut) {
      inserted_ += cut.inserted;
      note(cut.keys);
      throw;
    } catch (const std::bad_alloc&) {  // nothing was changed
      throw;
    } catch (...) {
      failed_in_change_ = true;
      throw;
    }
    note(keys.size());
  }

  void insert_into_only_stage() {
    Stage& stage = state_.stages[0];
    const auto note = [&](std::size_t n) { processed_to(processed_ + n); };
    if (!out_.empty()) return insert_into(stage, keys_, out_.data(), note);
    PieceRoom<std::uint8_t> room(std::min(keys_.size(), answer_window(stage.geometry())));
    while (processed_ < keys_.size()) {
      const std::size_t n = std::min(room.size(), keys_.size() - processed_);
      insert_into(stage, keys_.slice(processed_, n), room.data(), note);
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
      insert_into(stage, left.keys().slice(0, step.count), left.answers.get(), [&](std::size_t n) {
        if (!out_.empty()) {
          for (std::size_t i = 0; i < n; ++i) {
            out_[first + left.index[left.begin + i]] = left.answers[i];
          }
        }
        left.begin += n;
        note_processed();
      });
      // Repeated keys make many small steps. Before these cost more than a lookup of all that are
      // left, those that are present are dropped.
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
  bool failed_in_change_ = false;
};

}  // namespace

InsertNewReport FilterState::insert_new(const KeyBatch& keys, std::span<std::uint8_t> out,
                                        const BatchOptions& options) {
  check_writable();
  if (!out.empty()) check_answers(keys.size(), out.size(), "out");
  if (keys.empty()) return {};
  NewInsertion insertion(*this, keys, out, options);
  // If nothing is inserted, the bits stay at their epoch, also if something is thrown.
  struct Unchanged {
    FilterState& state;
    const NewInsertion& insertion;
    Epoch epoch = state.epoch;
    std::uint64_t keys = state.keys_inserted();
    ~Unchanged() {
      if (state.keys_inserted() == keys && !insertion.failed_in_change()) state.epoch = epoch;
    }
  };
  const Unchanged unchanged{*this, insertion};
  begin_change();
  return insertion.run();
}

}  // namespace scbf
