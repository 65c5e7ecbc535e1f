// SPDX-License-Identifier: Apache-2.0
// The Highway backends: one per compiled target, and "simd" for the best of them.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "cpu_simd/bulk.hpp"
#include "cpu_simd/change.hpp"
#include "cpu_simd/choose.hpp"
#include "cpu_simd/deposit.hpp"
#include "cpu_simd/kernel_table.hpp"
#include "cpu_simd/lookup.hpp"
#include "cpu_simd/path_times.hpp"
#include "kit/executor.hpp"
#include "kit/few_keys.hpp"
#include "kit/known_backends.hpp"
#include "kit/removal.hpp"
#include "kit/unavailable_backend.hpp"
#include "kit/word_ops.hpp"

namespace scbf {

namespace {

// Parts that threads share: 1 MiB each.
constexpr std::size_t kStretchWords = 128 * 1024;
// Units of histogram_units() per task.
constexpr std::uint64_t kHistogramUnits = 16 * 1024;

class SimdBackend final : public Backend {
 public:
  SimdBackend(std::string name, const Kernels& kernels)
      : name_(std::move(name)),
        description_(
            fmt::format("vectors ({}{}), prefetching, radix-partitioned bulk work, threads",
                        kernels.target, kernels.without_deposit ? ", without pdep" : "")),
        kernels_(kernels) {}

  std::string_view name() const noexcept override { return name_; }
  std::string_view description() const noexcept override { return description_; }
  std::string_view target() const noexcept override { return kernels_.target; }
  std::string unavailable_reason() const override { return {}; }
  bool supports(Cell) const noexcept override { return true; }
  bool supports(Layout) const noexcept override { return true; }

  NonzeroChange insert(CounterView view, const KeyBatch& keys,
                       const BatchOptions& options) const override {
    if (are_few(keys, kFewChanges, options)) {
      return insert_few(view, keys, key_by_key(view.geometry));
    }
    const FilterArrays filter(kernels_, view);
    std::uint64_t filled = 0;
    run_faster(Operation::insert, view.geometry, keys, options,
               [&](std::size_t, const KeyBatch& some, Choice& choice) {
                 filled += add_keys(filter, some, choice, options);
               });
    return filled;
  }

  NewKeys insert_new(CounterView view, const KeyBatch& keys, std::uint8_t* out,
                     const BatchOptions& options) const override {
    if (are_few(keys, kFewChanges, options)) {
      return insert_new_few(view, keys, key_by_key(view.geometry), out);
    }
    const FilterArrays filter(kernels_, view);
    BatchOptions how = options;
    if (filter.arrays > kMostArraysByPosition) how.path = Path::direct;
    ChangedKeys added;
    run_faster(Operation::insert_new, view.geometry, keys, how,
               [&](std::size_t first, const KeyBatch& some, Choice& choice) {
                 added += add_new_keys(filter, some, out + first, choice, how);
               });
    return {added.keys, added.turned};
  }

  std::unique_ptr<BulkInsertion> begin_bulk(CounterView view,
                                            const BatchOptions& options) const override {
    return begin_bulk_insertion(FilterArrays(kernels_, view), options);
  }

  std::uint64_t contains(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                         std::uint8_t* out, const BatchOptions& options) const override {
    if (!filters.empty() && are_few(keys, kFewKeys, options)) {
      return contains_few(filters, keys, key_by_key(filters[0].geometry), out);
    }
    return with_arrays(filters, keys, out, [&](std::span<const ConstFilterArrays> arrays) {
      if (arrays.size() > 1) {
        Choice choice = choose_lookup(arrays, keys.size(), options);
        return look_up(arrays, keys, out, choice, options);
      }
      std::uint64_t hits = 0;
      run_faster(Operation::lookup, filters[0].geometry, keys, options,
                 [&](std::size_t first, const KeyBatch& some, Choice& way) {
                   hits += look_up(arrays, some, out + first, way, options);
                 });
      return hits;
    });
  }

  std::uint64_t count_present(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                              const BatchOptions& options) const override {
    if (filters.size() != 1 || filters[0].geometry.cache_lines_per_key() > 1 ||
        are_few(keys, kFewKeys, options)) {
      return Backend::count_present(filters, keys, options);
    }
    const ConstFilterArrays filter(kernels_, filters[0]);
    std::uint64_t present = 0;
    run_faster(Operation::count_present, filters[0].geometry, keys, options,
               [&](std::size_t, const KeyBatch& some, Choice& choice) {
                 present += scbf::count_present(filter, some, choice, options);
               });
    return present;
  }

  std::uint64_t count(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                      std::uint8_t* out, const BatchOptions& options) const override {
    if (!filters.empty() && are_few(keys, few_in(filters.size()), options)) {
      return count_few(filters, keys, key_by_key(filters[0].geometry), out);
    }
    return with_arrays(filters, keys, out, [&](std::span<const ConstFilterArrays> arrays) {
      return count_keys(arrays, keys, out, options);
    });
  }

  RemoveCounts remove(std::span<const CounterView> filters, const KeyBatch& keys,
                      std::uint8_t* verdicts, std::span<RemovalChange> changes,
                      const BatchOptions& options) const override {
    if (are_few(keys, few_in(filters.size()), options)) {
      return remove_few(filters, keys, key_by_key(filters[0].geometry), verdicts, changes);
    }
    if (filters.size() > 1) return remove_from_several(*this, filters, keys, verdicts, changes);
    const FilterArrays filter(kernels_, filters[0]);
    ChangedKeys removed;
    run_faster(Operation::remove, filters[0].geometry, keys, options,
               [&](std::size_t first, const KeyBatch& some, Choice& choice) {
                 removed += take_keys(filter, some, verdicts + first, choice, options);
               });
    changes[0] = {removed.keys, removed.turned};
    return {removed.keys, 0};
  }

  std::optional<RemovalChange> remove_without_verdicts(CounterView view, const KeyBatch& keys,
                                                       const BatchOptions& options) const override {
    if (view.geometry.cache_lines_per_key() > 1 || are_few(keys, kFewChanges, options)) {
      return std::nullopt;
    }
    const FilterArrays filter(kernels_, view);
    ChangedKeys removed;
    run_faster(Operation::remove_without_verdicts, view.geometry, keys, options,
               [&](std::size_t, const KeyBatch& some, Choice& choice) {
                 removed += take_keys(filter, some, nullptr, choice, options);
               });
    return RemovalChange{removed.keys, removed.turned};
  }

  std::unique_ptr<BulkRemoval> begin_bulk_removal(CounterView view,
                                                  const BatchOptions& options) const override {
    if (view.geometry.cache_lines_per_key() > 1) return nullptr;
    return scbf::begin_bulk_removal(FilterArrays(kernels_, view), options);
  }

  void merge(CounterView into, ConstCounterView from, const BatchOptions& options) const override {
    const auto parts = [&](auto work) { for_each_part(into.geometry, options, work); };
    merge_filters(into, from, parts, &kernels_.ranked_lists);
  }

  void intersect(CounterView into, ConstCounterView from,
                 const BatchOptions& options) const override {
    for_each_part(into.geometry, options, [&](FilterPart part) {
      intersect_words(into.words + part.first, from.words + part.first, part.last - part.first);
    });
  }

  std::uint64_t count_joined(ConstCounterView a, ConstCounterView b,
                             const BatchOptions& options) const override {
    std::atomic<std::uint64_t> ones{0};
    for_each_part(a.geometry, options, [&](FilterPart part) {
      ones += ones_in_either(a.words + part.first, b.words + part.first, part.last - part.first);
    });
    return ones;
  }

  void project(CounterView bits, ConstCounterView counters,
               const BatchOptions& options) const override {
    for_each_part(bits.geometry, options, [&](FilterPart part) {
      const WordRange words = {part.first, part.last - part.first};
      project_words(counters.geometry,
                    counters.words + counter_words_of(counters.geometry, words).first, words,
                    bits.words + part.first);
    });
  }

  SubtractCounts check_subtract(ConstCounterView from, ConstCounterView what,
                                const BatchOptions& options) const override {
    SubtractCounts total;
    std::mutex mutex;
    for_each_part(from.geometry, options, [&](FilterPart part) {
      const SubtractCounts met = check_subtract_part(from, what, part, &kernels_.ranked_lists);
      const std::scoped_lock lock(mutex);
      total.below += met.below;
      total.inexact += met.inexact;
    });
    return total;
  }

  void subtract(CounterView from, ConstCounterView what,
                const BatchOptions& options) const override {
    for_each_part(from.geometry, options, [&](FilterPart part) {
      subtract_part(from, what, part, &kernels_.ranked_lists);
    });
  }

  std::vector<Histogram> histograms(ConstCounterView view,
                                    const BatchOptions& options) const override {
    std::vector<Histogram> total(view.geometry.probes(), Histogram{});
    std::mutex mutex;
    const std::uint64_t units = histogram_units(view.geometry);
    const std::uint64_t tasks = (units + kHistogramUnits - 1) / kHistogramUnits;
    run_tasks(options, thread_count(options), tasks, [&](std::size_t task) {
      const auto part =
          histograms_of(view, task * kHistogramUnits, std::min(units, (task + 1) * kHistogramUnits),
                        kernels_.count_values);
      const std::scoped_lock lock(mutex);
      for (std::size_t slice = 0; slice < total.size(); ++slice) {
        for (std::size_t v = 0; v < total[slice].size(); ++v) total[slice][v] += part[slice][v];
      }
    });
    return total;
  }

  std::uint64_t count_nonzero(ConstCounterView view, const BatchOptions& options) const override {
    std::atomic<std::uint64_t> total{0};
    for_each_part(view.geometry, options,
                  [&](FilterPart part) { total += nonzero_in_part(view, part); });
    return total;
  }
  const OneKey& one_key(const Geometry& geometry) const noexcept override {
    return one_keys(geometry).of(geometry);
  }
  const RowKernels& rows() const noexcept override { return kernels_.rows; }

 private:
  /// Too few keys for strips and their buffers to pay?
  static bool are_few(const KeyBatch& keys, std::size_t most,
                      const BatchOptions& options) noexcept {
    return keys.size() <= most && options.path != Path::partitioned;
  }
  const OneKeys& one_keys(const Geometry& geometry) const noexcept {
    return geometry.cell() == Cell::bit ? kernels_.one_key_of_bits : kernels_.one_key;
  }
  KeyByKey key_by_key(const Geometry& geometry) const noexcept {
    return {kernels_.hashes, one_keys(geometry)};
  }

  /// Calls look(arrays) with the filters as arrays; without filters, all answers are 0.
  template <class Look>
  std::uint64_t with_arrays(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                            std::uint8_t* out, Look look) const {
    if (filters.empty()) {
      std::fill_n(out, keys.size(), std::uint8_t{0});
      return 0;
    }
    if (filters.size() == 1) {
      const ConstFilterArrays only(kernels_, filters[0]);
      return look(std::span(&only, 1));
    }
    std::vector<ConstFilterArrays> arrays;
    arrays.reserve(filters.size());
    for (const ConstCounterView& filter : filters) arrays.emplace_back(kernels_, filter);
    return look(std::span<const ConstFilterArrays>(arrays));
  }

  template <class Task>
  static void for_each_part(const Geometry& geometry, const BatchOptions& options, Task task) {
    const std::uint64_t end = whole(geometry).last;
    const std::uint64_t stretch =
        has_ranked_counts(geometry) ? kStretchWords / kWordsPerBlock : kStretchWords;
    run_tasks(options, thread_count(options), (end + stretch - 1) / stretch, [&](std::size_t i) {
      task(FilterPart{i * stretch, std::min(end, (i + 1) * stretch)});
    });
  }

  std::string name_, description_;
  const Kernels& kernels_;
};

/// A target that was compiled but that this machine does not run.
std::unique_ptr<const Backend> unsupported(std::string_view target) {
  return std::make_unique<UnavailableBackend>(
      fmt::format("simd:{}", target), "vectors of another machine", std::string(target),
      fmt::format("this machine does not run {} instructions", target));
}

}  // namespace

const std::vector<const Backend*>& simd_backends() {
  static const auto owned = [] {
    std::vector<std::unique_ptr<const Backend>> all;
    const std::vector<const Kernels*> tables = kernel_tables(deposit_is_fast());
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const auto add = [&](std::string name) {
        all.push_back(std::make_unique<SimdBackend>(std::move(name), *tables[i]));
      };
      if (i == 0) add("simd");
      add(fmt::format("simd:{}", tables[i]->target));
    }
    for (const std::string_view target : unsupported_targets()) {
      all.push_back(unsupported(target));
    }
    return all;
  }();
  static const auto table = [] {
    std::vector<const Backend*> pointers;
    for (const auto& backend : owned) pointers.push_back(backend.get());
    return pointers;
  }();
  return table;
}

}  // namespace scbf
