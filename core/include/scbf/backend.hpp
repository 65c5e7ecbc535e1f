// SPDX-License-Identifier: Apache-2.0
// The interface between filters and backends, and the table of backends. A backend reads keys and
// updates counters; it knows nothing of files, filters or statistics beyond the histogram. Adding
// one: docs/adding_a_backend.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/geometry.hpp"
#include "scbf/key_batch.hpp"
#include "scbf/store.hpp"

namespace scbf {

/// How a batch goes through the filter. Answers and counters do not depend on it.
enum class Path : std::uint8_t {
  automatic,    ///< the faster one, as learned from large batches (docs/performance_notes.md)
  direct,       ///< key by key with prefetching
  partitioned,  ///< keys radix-partitioned, then worked on in cache, partition by partition
};
std::string_view to_string(Path path) noexcept;
/// Throws InvalidArgument for an unknown name.
Path path_from_string(std::string_view name);

/// Runs tasks in parallel; lets a caller lend its own thread pool. scbf/tbb.hpp wraps a
/// tbb::task_arena.
class Executor {
 public:
  virtual ~Executor() = default;
  /// The largest number of tasks that run at once; ≥ 1.
  virtual unsigned concurrency() const noexcept = 0;
  /// Calls task(0) … task(count − 1), possibly at the same time, and returns when all have
  /// returned. It may throw if it has no threads or no memory, but then no task may be running or
  /// begin later: the calling thread does what is left, and the exception goes no further. It must
  /// pass on what a task throws. A task may run batches on other filters.
  virtual void run(std::size_t count, const std::function<void(std::size_t)>& task) const = 0;
};

/// BatchOptions::most_absent of a removal that leaves absent keys alone and removes the others.
inline constexpr std::uint64_t kAnyNumber = ~std::uint64_t{0};

/// Options of one batch operation. The defaults suit most callers.
struct BatchOptions {
  /// Threads to use; 0 = as many as the executor (by default: the machine) has.
  unsigned threads = 0;
  Path path = Path::automatic;
  /// The limit of the partitioned path's temporary memory. 0 = the filter's size; for `insert` and
  /// changes in bulk half of it, or a quarter if no scratch memory is kept yet; at least 1 MiB, at
  /// most 1 GiB. Each thread takes about 64 KiB, even if the limit is lower. A removal takes more
  /// if many of its keys are absent, or occur in the batch more often than in the filter. Kept for
  /// the next batch; see release_scratch.
  std::size_t scratch_bytes = 0;
  /// Where threads come from; null = oneTBB's default arena.
  const Executor* executor = nullptr;
  /// For removals only: if more keys than this are absent, nothing is removed; see Filter::remove.
  std::uint64_t most_absent = kAnyNumber;
};

/// The counters, or bits, that a backend works on: shape, seed and memory. A small value, passed by
/// copy.
template <class Word>
struct BasicCounterView {
  Geometry geometry;
  std::uint64_t seed;
  Word* words;  ///< geometry.words() of them, 64-byte aligned, in the memory of the backend
};
using CounterView = BasicCounterView<std::uint64_t>;
using ConstCounterView = BasicCounterView<const std::uint64_t>;

/// values[v] = how many counters, or bits, are v, padding not included.
using Histogram = std::array<std::uint64_t, kCounterMax + 1>;

/// What Backend::check_subtract found.
struct SubtractCounts {
  std::uint64_t below = 0;    ///< counters smaller than what is to be taken away
  std::uint64_t inexact = 0;  ///< counters left at 15 although something was to be taken away
};

/// How many counters an operation made non-zero (insert) or zero (remove). Empty from a backend
/// that does not count as it goes; the number then comes from count_nonzero.
using NonzeroChange = std::optional<std::uint64_t>;

/// What became of a key that was to be removed.
enum class Removal : std::uint8_t {
  absent = 0,     ///< no filter claimed it
  removed = 1,    ///< from the one filter that claimed it
  ambiguous = 2,  ///< several claimed it: nothing changed, it is still there
  /// One claimed it, in a block of `ranked` that is stuck (Geometry): nothing changed, it is still
  /// there. Backends say `removed`; filters and banks find these keys afterwards.
  kept = 3,
};

/// What Backend::remove did to one filter.
struct RemovalChange {
  std::uint64_t keys = 0;     ///< removed
  NonzeroChange emptied = 0;  ///< counters that became zero
};
/// What Backend::insert_new did.
struct NewKeys {
  std::uint64_t keys = 0;    ///< inserted
  NonzeroChange filled = 0;  ///< counters that became non-zero
};
/// What Backend::remove did to all filters together.
struct RemoveCounts {
  std::uint64_t removed = 0, ambiguous = 0;  ///< keys
  std::uint64_t kept = 0;                    ///< keys; 0 from a backend, see Removal::kept
};

/// One insertion into one filter in many batches; see Backend::begin_bulk.
class BulkInsertion {
 public:
  virtual ~BulkInsertion() = default;
  BulkInsertion() = default;
  BulkInsertion(const BulkInsertion&) = delete;
  BulkInsertion& operator=(const BulkInsertion&) = delete;

  /// Accepts the valid keys of a batch, which need not outlive the call. Any of the keys accepted
  /// so far may be in the counters already. Throws as Backend::insert; then it has accepted no key
  /// of this batch or, with CutShort, as many as that says.
  virtual void accept(const KeyBatch&) = 0;
  /// Adds what is not in the counters yet. Returns how many counters became non-zero since the
  /// last call. May be called again, and more keys may be accepted afterwards. Throws nothing.
  virtual NonzeroChange finish() noexcept = 0;
};

/// One removal from one filter in many batches; see Backend::begin_bulk_removal. Throws nothing.
class BulkRemoval {
 public:
  virtual ~BulkRemoval() = default;
  BulkRemoval() = default;
  BulkRemoval(const BulkRemoval&) = delete;
  BulkRemoval& operator=(const BulkRemoval&) = delete;

  /// Accepts the valid keys of a batch, which need not outlive the call. Any of the keys accepted
  /// so far may have had their turn already.
  virtual void accept(const KeyBatch&) noexcept = 0;
  /// Removes the keys that have not had their turn yet. Returns what was changed since the last
  /// call. May be called again, and more keys may be accepted afterwards.
  virtual RemovalChange finish() noexcept = 0;
};

/// Backend::memory() of all backends that work in the memory of the process.
inline constexpr std::string_view kHostMemory = "host";

struct RowKernels;  // core/src/kit/row_kernels.hpp: internal

/// The operations on a single key, given by its hash, in counters on the host: the words of a
/// filter of this geometry, 64-byte aligned. One thread may change the counters while others look
/// keys up. In bits, a key that is there counts 1 and cannot be taken away: `take` is null.
struct OneKey {
  /// Are all of its counters non-zero?
  bool (*holds)(const Geometry&, const std::uint64_t* words, std::uint64_t hash) noexcept;
  /// The smallest of its counters.
  unsigned (*count)(const Geometry&, const std::uint64_t* words, std::uint64_t hash) noexcept;
  /// Adds 1 to each of its counters, saturating. Returns how many became non-zero.
  std::uint32_t (*add)(const Geometry&, std::uint64_t* words, std::uint64_t hash) noexcept;
  /// If all of its counters are non-zero, takes 1 from each that is not 15 and returns how many
  /// became zero. Otherwise changes nothing and returns kNotThere.
  std::uint32_t (*take)(const Geometry&, std::uint64_t* words, std::uint64_t hash) noexcept;

  static constexpr std::uint32_t kNotThere = ~std::uint32_t{0};
};

/// One way to execute batches. Stateless and thread-safe; instances live as long as the program.
/// All operations have the contract of the scalar backend, byte for byte.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual std::string_view name() const noexcept = 0;
  virtual std::string_view description() const noexcept = 0;
  /// Instruction set or device that it runs on, for reports: "AVX2".
  virtual std::string_view target() const noexcept = 0;
  /// Empty when it can run here; otherwise why not.
  virtual std::string unavailable_reason() const = 0;

  /// The memory that its counters live in: kHostMemory, or that of a device, such as "cuda:0".
  /// Backends that share a memory exchange views and stores without copying.
  virtual std::string_view memory() const noexcept { return kHostMemory; }
  /// Allocates counters for a filter, all zero; by default on the host. Throws std::bad_alloc, or
  /// an Error that says how much was asked for and how much is free.
  virtual std::unique_ptr<CounterStore> allocate(std::uint64_t words) const;

  // insert and remove throw std::bad_alloc, if at all, before they change a counter. A device that
  // runs out of memory later throws CutShort (core/src/kit/cut_short.hpp), saying how far it got.

  // Filters have counters or bits: see Geometry::cell. All filters of one call have the same cell.

  /// Whether it works on filters of these cells. Every backend does on counters.
  virtual bool supports(Cell cell) const noexcept { return cell == Cell::counter; }
  /// Whether it works on filters of this layout. Every backend does on `split` and `split_block`.
  virtual bool supports(Layout layout) const noexcept { return layout != Layout::ranked; }

  /// Adds 1 to the k counters of every valid key, saturating, or sets its bits. Returns how many
  /// became non-zero.
  virtual NonzeroChange insert(CounterView, const KeyBatch&, const BatchOptions&) const = 0;
  /// Inserts keys one after another, each only if the filter does not hold it at its turn. out[i] =
  /// 1 if key i was inserted, else 0. Throws as `insert`. By default key by key, by the functions
  /// of `one_key`, for counters on the host only: otherwise it throws NotOnHost.
  virtual NewKeys insert_new(CounterView, const KeyBatch&, std::uint8_t* out,
                             const BatchOptions&) const;
  /// Begins an insertion in many batches, which ends with the same counters as one `insert` of all.
  /// By default every batch is inserted as it comes. The view and the executor must outlive it, and
  /// nothing else may use the counters until it is finished. Throws std::bad_alloc.
  virtual std::unique_ptr<BulkInsertion> begin_bulk(CounterView, const BatchOptions&) const;
  /// out[i] = 1 if valid key i may be present in at least one of the filters, else 0. Returns how
  /// many are 1. All filters have the same seed. There may be no filters. A key found in one filter
  /// need not be looked up in the next, so the filter likely to hold most keys should come first.
  virtual std::uint64_t contains(std::span<const ConstCounterView> filters, const KeyBatch&,
                                 std::uint8_t* out, const BatchOptions&) const = 0;
  /// How many valid keys may be present in at least one of the filters: `contains` without its
  /// answers. By default these are asked for, a window at a time, and forgotten.
  virtual std::uint64_t count_present(std::span<const ConstCounterView> filters, const KeyBatch&,
                                      const BatchOptions&) const;
  /// out[i] = the smallest counter of key i, summed over the filters, at most 15; 0 for null keys.
  /// Returns how many are not 0. All filters have counters and the same seed; there may be none.
  virtual std::uint64_t count(std::span<const ConstCounterView> filters, const KeyBatch&,
                              std::uint8_t* out, const BatchOptions&) const = 0;
  /// Removes keys one after another, each from the one filter that claims it at its turn. If no
  /// filter or several filters claim a key, nothing is changed for it. verdicts[i] = what became of
  /// key i, as a Removal (absent for null keys); changes[f] = what was changed in filter f. There
  /// is at least one filter; all have counters and the same seed. Returns how many keys were
  /// removed and how many were ambiguous.
  virtual RemoveCounts remove(std::span<const CounterView> filters, const KeyBatch&,
                              std::uint8_t* verdicts, std::span<RemovalChange> changes,
                              const BatchOptions&) const = 0;

  /// `remove` from one filter without verdicts, where that costs less; otherwise, and by default,
  /// it does nothing and returns nothing. Never called for counters of `ranked`. If it throws
  /// std::bad_alloc, no counter has changed: a device that may run out of memory later leaves it to
  /// `remove`.
  virtual std::optional<RemovalChange> remove_without_verdicts(CounterView, const KeyBatch&,
                                                               const BatchOptions&) const;
  /// Begins a removal in many batches, which ends with the same counters as one removal of all.
  /// Returns null, as by default, where removing windows of keys costs no more, and on a device
  /// that may run out of memory later. Never called for counters of `ranked`, nor for one of
  /// several stages. Otherwise as begin_bulk.
  virtual std::unique_ptr<BulkRemoval> begin_bulk_removal(CounterView, const BatchOptions&) const;

  /// into += from, saturating; for bits, into |= from.
  virtual void merge(CounterView into, ConstCounterView from, const BatchOptions&) const = 0;
  /// Bits only: into &= from. By default on the host, with one thread.
  virtual void intersect(CounterView into, ConstCounterView from, const BatchOptions&) const;
  /// Bits only: how many are 1 in one or both. By default on the host, with one thread.
  virtual std::uint64_t count_joined(ConstCounterView a, ConstCounterView b,
                                     const BatchOptions&) const;
  /// Writes the bits of `counters`, which has the same positions. By default on the host, with one
  /// thread.
  virtual void project(CounterView bits, ConstCounterView counters, const BatchOptions&) const;
  /// Reports what subtract would meet. Changes nothing.
  virtual SubtractCounts check_subtract(ConstCounterView from, ConstCounterView what,
                                        const BatchOptions&) const = 0;
  /// from −= what; counters at 15 stay. Requires check_subtract(…).below == 0.
  virtual void subtract(CounterView from, ConstCounterView what, const BatchOptions&) const = 0;
  /// One histogram per slice, in slice order.
  virtual std::vector<Histogram> histograms(ConstCounterView, const BatchOptions&) const = 0;
  /// How many counters are not 0. Cost: one pass over the counters. By default computed from the
  /// histograms.
  virtual std::uint64_t count_nonzero(ConstCounterView, const BatchOptions&) const;

  /// The functions that look up and change a single key in a filter of this geometry on the host;
  /// plain ones by default. Filter's functions for one key call them, not those for batches.
  /// The functions may be called only with geometries of this layout, cell and number of groups.
  /// Filters keep the reference, so it must stay valid, and its functions the same, as long as the
  /// backend lives.
  virtual const OneKey& one_key(const Geometry& geometry) const noexcept;
  /// The kernels for the rows of a bank, on the host; plain ones by default.
  virtual const RowKernels& rows() const noexcept;
};

/// Returns to the system the temporary memory that is kept from one large batch to the next: one
/// block per process, at most 1 GiB.
void release_scratch() noexcept;

/// All backends known, available or not: "scalar", "simd", one per vector target ("simd:AVX2"),
/// then "cuda" and, for further devices, "cuda:1", … "cuda" is listed even if the library was built
/// without it; its unavailable_reason() then says so.
std::span<const Backend* const> backends() noexcept;

/// The backend of this name. "auto" means the value of the environment variable SCBF_BACKEND or, if
/// that is unset, the best available CPU backend; a device is chosen only by name. Throws
/// BackendUnavailable if the name is unknown (the message lists the known ones) or the backend
/// cannot run here (the message says why).
const Backend& find_backend(std::string_view name = "auto");

}  // namespace scbf
