// SPDX-License-Identifier: Apache-2.0
// A stage: the counters of one geometry on one backend, and their books. What filters and banks are
// made of. It knows its own keys only; which stage a key goes to is walk.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "scbf/filter.hpp"
#include "scbf/store.hpp"

namespace scbf {

/// A number that is known or not. Const operations may learn it, several at once: all learn the
/// same, and whoever comes later is spared the work.
class KnownCount {
 public:
  KnownCount() noexcept = default;
  explicit KnownCount(std::uint64_t value) noexcept : value_(value) {}
  KnownCount(const KnownCount& other) noexcept : value_(other.value_.load()) {}
  KnownCount& operator=(const KnownCount& other) noexcept {
    value_ = other.value_.load();
    return *this;
  }

  std::optional<std::uint64_t> get() const noexcept {
    const std::uint64_t value = value_.load(std::memory_order_relaxed);
    return value == kUnknown ? std::nullopt : std::optional(value);
  }
  void learn(std::uint64_t value) const noexcept { value_.store(value, std::memory_order_relaxed); }
  void forget() noexcept { value_ = kUnknown; }

 private:
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};  // no stage has so many counters
  mutable std::atomic<std::uint64_t> value_{kUnknown};
};

/// Index of a stage that merge brought from a filter that grows otherwise.
inline constexpr std::uint32_t kForeignStage = 0xFFFF'FFFFu;

/// Movable; copying copies the counters, to the memory of the same backend.
struct Stage {
  StageShape shape;
  std::uint32_t index;  ///< in the growth, or kForeignStage
  std::uint64_t seed;
  const Backend* backend;
  std::unique_ptr<CounterStore> store;  ///< in the memory of `backend`
  std::uint64_t keys_inserted = 0;
  std::uint64_t keys_removed = 0;
  /// Non-zero counters: an upper bound that costs nothing. Booked by walk.hpp; of a stage that is
  /// never full, all there are.
  std::uint64_t at_most;
  /// The same exactly; unknown after whatever changes counters without counting.
  KnownCount known_nonzero{};
  /// Of a stage in a container: text in its own header, which is kept.
  std::string metadata = {};

  /// With counters from elsewhere, whose number is not known.
  Stage(const StageShape& of_shape, std::uint32_t at, std::uint64_t with_seed, const Backend& on,
        std::unique_ptr<CounterStore> counters) noexcept
      : shape(of_shape),
        index(at),
        seed(with_seed),
        backend(&on),
        store(std::move(counters)),
        at_most(of_shape.geometry.counters()) {}
  /// An empty one.
  static Stage empty(const StageShape& shape, std::uint32_t index, std::uint64_t seed,
                     const Backend& backend);
  /// A copy that lives on, and can be changed by, another backend. Throws what it throws when
  /// memory is short.
  Stage copy_on(const Backend& other) const;
  Stage(const Stage& other) : Stage(other.copy_on(*other.backend)) {}
  Stage& operator=(const Stage& other) { return *this = Stage(other); }
  Stage(Stage&&) noexcept = default;
  Stage& operator=(Stage&&) noexcept = default;
  ~Stage() = default;
  /// As Filter::to.
  void move_to(const Backend& other);

  const Geometry& geometry() const noexcept { return shape.geometry; }
  bool read_only() const noexcept { return !store->writable(); }
  CounterView view() noexcept { return {shape.geometry, seed, store->words()}; }
  ConstCounterView view() const noexcept { return {shape.geometry, seed, store->words()}; }
  std::span<const std::uint64_t> words() const;
  void read_words(std::uint64_t first, std::span<std::uint64_t> out) const;

  // Batches, with the contracts of Filter; all have been checked. None throws ReadOnly.

  InsertReport insert(const KeyBatch& keys, const BatchOptions& options);

  /// Adds the other's counters, which have the same geometry and seed; and its books.
  void merge(const Stage& other, const BatchOptions& options);
  /// Takes them away. Throws Incompatible, changing nothing, when a counter would fall below zero.
  SubtractReport subtract(const Stage& other, const BatchOptions& options);
  void clear();
  /// As Filter::assign.
  void assign(std::span<const std::uint64_t> words, std::uint64_t inserted, std::uint64_t removed);

  std::uint64_t nonzero(const BatchOptions& options = {}) const;
  StageStatistics statistics(const BatchOptions& options) const;
  /// Shape, seed and counters, not the books.
  bool equals(const Stage& other) const;

 private:
  /// All counters are zero.
  void set_empty() noexcept;
  /// The counters where a backend can work on them: as they are if they lie in its memory, else a
  /// copy that lives as long as `copy`.
  ConstCounterView view_on(const Backend& other, std::unique_ptr<CounterStore>& copy) const;
};

/// Filter::remove for stages of one backend; they can be changed. `verdicts`, if not empty, has a
/// place for each key.
RemoveReport remove_keys(std::span<Stage> stages, const KeyBatch& keys,
                         std::span<std::uint8_t> verdicts, const BatchOptions& options);

/// What a Filter is made of.
struct FilterState {
  Growth growth;
  std::uint64_t seed;
  const Backend* backend;
  std::vector<Stage> stages = {};  ///< oldest first; not empty
  std::string metadata = {};

  bool read_only() const noexcept;
  /// Throws ReadOnly.
  void check_writable() const;
  /// An empty stage, as the growth has it.
  Stage make_stage(std::uint32_t index) const;
  /// Of the next stage that the growth adds.
  std::uint32_t next_index() const noexcept;
};

/// Filters taken apart and put together, for files and banks.
struct FilterAccess {
  static FilterState& state(Filter& filter) noexcept { return *filter.state_; }
  static const FilterState& state(const Filter& filter) noexcept { return *filter.state_; }
  static Filter make(std::unique_ptr<FilterState> state) noexcept {
    return Filter(std::move(state));
  }
};

/// Throws InvalidArgument when it is longer than metadata may be.
void check_metadata(const std::string& metadata);

}  // namespace scbf
