// SPDX-License-Identifier: Apache-2.0
// A stage: the counters of one geometry on one backend, and the numbers of keys inserted and
// removed. Filters and banks are made of stages. A stage knows only its own keys; walk.hpp decides
// which stage a key goes to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "scbf/detail/known_count.hpp"
#include "scbf/filter.hpp"
#include "scbf/store.hpp"

namespace scbf {

/// Index of a stage that merge took from a filter with another growth.
inline constexpr std::uint32_t kForeignStage = 0xFFFF'FFFFu;

/// What is recorded of the keys and counters of a stage.
struct StageRecords {
  std::uint64_t keys_inserted = 0;
  std::uint64_t keys_removed = 0;
  /// An upper bound on the number of non-zero counters, which costs nothing. Maintained by
  /// walk.hpp; for a stage that is never full it is the number of all counters.
  std::uint64_t nonzero_at_most;
  /// The exact number of non-zero counters; unknown after a change that did not count them.
  detail::KnownCount known_nonzero{};
};

/// Movable. Copying copies the counters, within the memory of the same backend.
struct Stage : StageRecords {
  StageShape shape;
  std::uint32_t index;  ///< in the growth, or kForeignStage
  std::uint64_t seed;
  const Backend* backend;
  std::unique_ptr<CounterStore> store;  ///< in the memory of `backend`
  const OneKey* one_key;                ///< of `backend`, for the stage's geometry
  /// Metadata in the stage's own header in a container; kept when it is saved again.
  std::string metadata = {};

  /// Takes over existing counters; how many of them are non-zero is not known.
  Stage(const StageShape& of_shape, std::uint32_t at, std::uint64_t with_seed, const Backend& on,
        std::unique_ptr<CounterStore> counters) noexcept
      : StageRecords{.nonzero_at_most = of_shape.geometry.counters()},
        shape(of_shape),
        index(at),
        seed(with_seed),
        backend(&on),
        store(std::move(counters)),
        one_key(&on.one_key(of_shape.geometry)) {}
  /// Makes an empty stage.
  static Stage empty(const StageShape& shape, std::uint32_t index, std::uint64_t seed,
                     const Backend& backend);
  /// A writable copy on another backend. Throws what that backend throws if there is too little
  /// memory.
  Stage copy_on(const Backend& other) const;
  Stage(const Stage& other) : Stage(other.copy_on(*other.backend)) {}
  Stage& operator=(const Stage& other) { return *this = Stage(other); }
  Stage(Stage&&) noexcept = default;
  Stage& operator=(Stage&&) noexcept = default;
  ~Stage() = default;
  /// Switches to a backend that shares the memory. To be called again when the geometry changes.
  void use(const Backend& other) noexcept {
    backend = &other;
    one_key = &other.one_key(geometry());
  }
  StageRecords& records() noexcept { return *this; }
  const StageRecords& records() const noexcept { return *this; }
  /// Takes over what is recorded of another stage with the same content, and its metadata.
  void take_records_of(const Stage& other);

  const Geometry& geometry() const noexcept { return shape.geometry; }
  detail::StageNumbers numbers() noexcept {
    return {&keys_inserted, &keys_removed, &known_nonzero};
  }
  bool read_only() const noexcept { return !store->writable(); }
  CounterView view() noexcept { return {shape.geometry, seed, store->words()}; }
  ConstCounterView view() const noexcept { return {shape.geometry, seed, store->words()}; }
  std::span<const std::uint64_t> words() const;
  void read_words(std::uint64_t first, std::span<std::uint64_t> out) const;

  // Batches, with the contracts of Filter. The caller has checked the arguments and that the stage
  // is writable.

  InsertReport insert(const KeyBatch& keys, const BatchOptions& options);
  /// Inserts the keys that this stage does not hold at their turn; out[i] = 1 for these, else 0.
  /// Returns how many there are. CutShort passes through.
  std::uint64_t insert_new(const KeyBatch& keys, std::uint8_t* out, const BatchOptions& options);
  /// Accounts for keys that the backend has inserted.
  InsertReport book(const KeyBatch& inserted) noexcept;
  // One key, by its hash, in counters on the host. Inline, because a function call would cost a
  // noticeable share.
  bool holds_one(std::uint64_t hash) const noexcept {
    return one_key->holds(geometry(), store->words(), hash);
  }
  unsigned count_one(std::uint64_t hash) const noexcept {
    return one_key->count(geometry(), store->words(), hash);
  }
  void insert_one(std::uint64_t hash) noexcept {
    known_nonzero.add(one_key->add(geometry(), store->words(), hash));
    ++keys_inserted;
  }
  /// What became of the key if no other stage claims it: never ambiguous.
  Removal remove_one(std::uint64_t hash) noexcept {
    const std::uint32_t emptied = one_key->take(geometry(), store->words(), hash);
    if (emptied == OneKey::kNotThere) return Removal::absent;
    if (emptied == 0 && keeps(hash)) [[unlikely]]
      return Removal::kept;
    known_nonzero.subtract(emptied);
    ++keys_removed;
    return Removal::removed;
  }
  /// Is the key in a stuck block of `ranked`, from which no removal takes it?
  bool keeps(std::uint64_t hash) const noexcept;
  /// Inserts keys that were removed just before, in ever smaller pieces if memory is short.
  void insert_again(const KeyBatch& keys, BatchOptions options);

  /// Adds the other's counters, which have the same geometry and seed, and its numbers of keys.
  void merge(const Stage& other, const BatchOptions& options);
  /// Whether each counter is at least the other's: then the other can be subtracted.
  bool contains_stage(const Stage& other, const BatchOptions& options) const;
  /// Subtracts them. Throws Incompatible, changing nothing, unless this stage contains the other.
  SubtractReport subtract(const Stage& other, const BatchOptions& options);
  /// Bits only: keeps those that the other has too.
  void intersect(const Stage& other, const BatchOptions& options);
  void clear();
  /// As Filter::assign.
  void assign(std::span<const std::uint64_t> words, std::uint64_t inserted, std::uint64_t removed);

  std::uint64_t nonzero(const BatchOptions& options) const;
  /// Makes the bound on the number of non-zero counters exact.
  void tighten(const BatchOptions& options) { nonzero_at_most = nonzero(options); }
  /// Bits only: how many are 1 here or in the other.
  std::uint64_t nonzero_with(const Stage& other, const BatchOptions& options) const;
  StageStatistics statistics(const BatchOptions& options) const;
  /// The same but for histogram and slice_fill, where the number of saturated counters is known. If
  /// that of non-zero ones is known, too, no counter is looked at.
  StageStatistics summary(std::uint64_t saturated, const BatchOptions& options) const;
  /// Compares shape, seed and counters, not the numbers of keys.
  bool equals(const Stage& other) const;

 private:
  /// Records that all counters are zero.
  void set_empty() noexcept;
  /// Fills in what follows from the number of non-zero counters.
  void complete(StageStatistics& statistics) const;
  /// A view of the counters in the memory of `other`: the counters themselves if they are there,
  /// otherwise a copy that lives as long as `copy`.
  ConstCounterView view_on(const Backend& other, std::unique_ptr<CounterStore>& copy) const;
};

/// Filter::remove for writable stages of one backend. `verdicts` is empty or has one byte for each
/// key.
RemoveReport remove_keys(std::span<Stage> stages, const KeyBatch& keys,
                         std::span<std::uint8_t> verdicts, const BatchOptions& options);

}  // namespace scbf
