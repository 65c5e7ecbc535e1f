// SPDX-License-Identifier: Apache-2.0
// BulkRemover: passes the keys of many batches to the backend's removal in bulk. Where there is
// none, it gathers their hashes, and removes a window of them at a time.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "filter/state.hpp"
#include "kit/hash_keys.hpp"
#include "kit/host_memory.hpp"
#include "kit/row_kernels.hpp"
#include "kit/word_ops.hpp"
#include "scbf/filter.hpp"

namespace scbf {

namespace {

/// A window holds so many keys for each cache line of the filter, so that a pass over it pays; more
/// would gain nothing. But it has at least as many as stay in cache. Tried on one machine only, an
/// Emerald Rapids.
constexpr double kKeysPerLine = 1.25;
constexpr std::size_t kLeastKeys = std::size_t{1} << 17;
/// The limits of its memory, whatever the filter's size.
constexpr std::size_t kLeastBytes = std::size_t{4} << 10, kMostBytes = std::size_t{1} << 30;

std::size_t window_keys(std::uint64_t filter_bytes, std::size_t scratch_bytes) noexcept {
  constexpr std::size_t kLineBytes = 64;
  const auto wanted =
      static_cast<std::size_t>(kKeysPerLine * static_cast<double>(filter_bytes / kLineBytes));
  const std::size_t most =
      scratch_bytes > 0 ? std::clamp(scratch_bytes, kLeastBytes, kMostBytes) : kMostBytes;
  return std::min(std::max(wanted, kLeastKeys), most / sizeof(std::uint64_t));
}

}  // namespace

struct BulkRemover::State {
  static constexpr const char* kOwner = "BulkRemover";

  FilterState& filter;
  BatchOptions options;
  RemoveReport total = {};
  std::unique_ptr<BulkRemoval> open = {};  ///< of the only stage; null: none
  std::uint64_t accepted = 0;              ///< keys that `open` has accepted
  detail::KnownCount nonzero = {};         ///< counters of that stage, before these
  HostMemory window = {};                  ///< of hashes, if there is no `open`
  std::size_t waiting = 0;                 ///< hashes in the window

  static std::unique_ptr<State> of(FilterState& filter, const BatchOptions& options) {
    filter.check_writable();
    if (options.most_absent != kAnyNumber) {
      throw InvalidArgument(
          fmt::format("BulkRemover: most_absent {}: a limit needs all keys at once, in one remove",
                      options.most_absent));
    }
    return std::unique_ptr<State>(new State{filter, options});
  }

  Stage& stage() const noexcept { return filter.stages[0]; }
  std::size_t room() const noexcept { return window.bytes() / sizeof(std::uint64_t); }

  void remove(const KeyBatch& keys) {
    const std::size_t nulls = keys.nulls();
    if (nulls < keys.size()) remove_valid(keys, keys.size() - nulls);
    total.nulls += nulls;
  }

  void remove_valid(const KeyBatch& keys, std::size_t valid) {
    if (open == nullptr && room() == 0) begin();
    if (open != nullptr) {
      open->accept(keys);
      accepted += valid;
    } else if (room() > 0) {
      gather(keys);
    } else {
      try {
        add(remove_keys(filter.stages, keys, {}, options));
      } catch (const RemovalStopped& stopped) {
        add(stopped.done());
        total.nulls += stopped.done().nulls;
        throw;
      }
    }
  }

  void begin() {
    filter.begin_change();
    if (filter.stages.size() == 1 && !has_ranked_counts(stage().geometry())) {
      open = filter.backend->begin_bulk_removal(stage().view(), options);
      if (open != nullptr) {
        nonzero = stage().known_nonzero;
        stage().known_nonzero.forget();
        return;
      }
    }
    // A device takes batches as they come, and so does a filter of several stages, which is asked
    // for a few keys at a time in any case, or one for which there is no memory left.
    if (!filter.on_host() || filter.stages.size() > 1) return;
    try {
      window = HostMemory(window_keys(filter.bytes(), beside_window().scratch_bytes) *
                          sizeof(std::uint64_t));
    } catch (const std::bad_alloc&) {
    }
  }

  /// The window may take half of the memory, and the removal of its keys the other half.
  BatchOptions beside_window() const noexcept {
    BatchOptions half = options;
    if (half.scratch_bytes > 1) half.scratch_bytes /= 2;  // 0 means the default
    return half;
  }

  /// Adds a report but for its nulls, which remove() counts itself.
  void add(RemoveReport report) noexcept {
    report.nulls = 0;
    total += report;
  }

  void gather(const KeyBatch& keys) noexcept {
    const HashKernels& kernels = filter.backend->rows().hashes;
    for (std::size_t first = 0; first < keys.size();) {
      const std::size_t n = std::min(keys.size() - first, room() - waiting);
      waiting += hash_keys(keys, first, n, filter.seed, kernels, window.words() + waiting);
      first += n;
      if (waiting == room()) remove_waiting();
    }
  }

  /// Removes the keys of the window. Where memory is short, the rest goes key by key, which needs
  /// none.
  void remove_waiting() noexcept {
    const std::span<const std::uint64_t> hashes(window.words(), std::exchange(waiting, 0));
    std::size_t done = 0;
    try {
      add(remove_keys(filter.stages, KeyBatch::from_hashes(hashes), {}, beside_window()));
      return;
    } catch (const RemovalStopped& stopped) {
      add(stopped.done());
      done = stopped.processed();
    } catch (const std::bad_alloc&) {  // before the first change
    }
    for (const std::uint64_t hash : hashes.subspan(done)) {
      const Removal verdict = filter.remove_hash(hash);
      total.removed += verdict == Removal::removed;
      total.absent += verdict == Removal::absent;
      total.ambiguous += verdict == Removal::ambiguous;
      total.kept += verdict == Removal::kept;
    }
  }

  void finish() noexcept {
    if (open != nullptr) {
      const RemovalChange change = open->finish();
      nonzero.subtract(change.emptied);
      stage().known_nonzero = nonzero;
      stage().keys_removed += change.keys;
      total.removed += change.keys;
      total.absent += std::exchange(accepted, 0) - change.keys;
      open.reset();
    } else if (waiting > 0) {
      remove_waiting();
    }
    window = {};
  }

  ~State() { finish(); }
};

BulkRemover::BulkRemover(Filter& filter, const BatchOptions& options)
    : state_(State::of(FilterAccess::state(filter), options)) {}
BulkRemover::BulkRemover(BulkRemover&&) noexcept = default;
BulkRemover& BulkRemover::operator=(BulkRemover&&) noexcept = default;
BulkRemover::~BulkRemover() = default;

void BulkRemover::remove(const KeyBatch& keys) { state_->remove(keys); }

RemoveReport BulkRemover::finish() {
  state_->finish();
  return state_->total;
}

BulkRemover Filter::bulk_remove(const BatchOptions& options) { return BulkRemover(*this, options); }

}  // namespace scbf
