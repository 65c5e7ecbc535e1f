// SPDX-License-Identifier: Apache-2.0
// The Highway backends: one per compiled target, and "simd" for the best. Chooses the path.
#include "kit/known_backends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "cpu_simd/any.hpp"
#include "cpu_simd/direct.hpp"
#include "cpu_simd/kernel_table.hpp"
#include "cpu_simd/partitioned.hpp"
#include "cpu_simd/row_engine.hpp"
#include "cpu_simd/shards.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/executor.hpp"
#include "kit/few_keys.hpp"
#include "kit/key_windows.hpp"
#include "kit/unavailable_backend.hpp"
#include "kit/word_ops.hpp"

namespace scbf {

namespace {

// Stretches of words that threads share: 1 MiB each.
constexpr std::size_t kStretchWords = 128 * 1024;
// Units of histogram_units() per task.
constexpr std::uint64_t kHistogramUnits = 16 * 1024;

enum class Operation : std::uint8_t { ask, insert, remove };

/// Is one pass over the filter, stage by stage, cheaper than one cache miss per probe?
bool worth_partitioning(Operation operation, const Geometry& geometry, std::size_t keys,
                        unsigned threads, const BatchOptions& options) noexcept {
  if (options.path != Path::automatic) return options.path == Path::partitioned;
  // Partitioned, keys of several stages are looked up first and taken away then: twice the work,
  // which pays only if it is shared.
  const bool staged = geometry.cache_lines_per_key() > 1;
  if (operation == Operation::remove && staged && threads == 1) return false;
  // Threads that change counters must own them, so only partitions let them share the work.
  const bool share = operation != Operation::ask && threads > 1;
  const std::uint64_t share_above = threads > 2 ? kNearBytes
                                    : operation == Operation::remove && staged
                                        ? kShareStagedRemoveBytes
                                        : kShareBytes;
  const std::uint64_t alone_above =
      operation == Operation::insert ? kDirectInsertBytes : kDirectAnswerBytes;
  if (geometry.bytes() <= (share ? share_above : alone_above)) return false;
  const double lines_per_stage = static_cast<double>(geometry.bytes()) / 64 /
                                 static_cast<double>(geometry.cache_lines_per_key());
  const auto enough = static_cast<std::size_t>(lines_per_stage * kKeysPerLine);
  if (keys < enough) return false;
  const PartitionPlan plan =
      plan_partitions(geometry, keys, threads, scratch_budget(geometry.bytes(), options),
                      {.answers = operation != Operation::insert,
                       .hashes = staged,
                       .index = staged && operation != Operation::insert});
  return plan.keys_per_shard * threads >= std::min(enough, keys);
}

/// Lookups that are over sooner one by one.
bool are_few(const KeyBatch& keys, const BatchOptions& options) noexcept {
  return keys.size() <= kFewKeys && options.path != Path::partitioned;
}

class SimdBackend final : public Backend {
 public:
  SimdBackend(std::string name, const Kernels& kernels, const RowKernels& row_kernels)
      : name_(std::move(name)),
        description_(fmt::format("vectors ({}), prefetching, radix-partitioned bulk work, threads",
                                 kernels.target)),
        kernels_(kernels),
        row_engine_(kernels, row_kernels) {}

  std::string_view name() const noexcept override { return name_; }
  std::string_view description() const noexcept override { return description_; }
  std::string_view target() const noexcept override { return kernels_.target; }
  std::string unavailable_reason() const override { return {}; }

  NonzeroChange insert(CounterView view, const KeyBatch& keys,
                       const BatchOptions& options) const override {
    const WriteWork work(kernels_, view);
    const unsigned threads = thread_count(options);
    if (worth_partitioning(Operation::insert, view.geometry, keys.size(), threads, options)) {
      return partitioned_add(work, keys, threads, options);
    }
    return direct_add(work, keys);
  }

  void contains(ConstCounterView view, const KeyBatch& keys, std::uint8_t* out,
                const BatchOptions& options) const override {
    if (are_few(keys, options))
      return few_any({&view, 1}, keys, kernels_.hash_u64, kernels_.holds_key, out);
    const ReadWork work(kernels_, view);
    const unsigned threads = thread_count(options);
    if (worth_partitioning(Operation::ask, view.geometry, keys.size(), threads, options)) {
      partitioned_ask(work, work.is_present(), keys, out, threads, options);
    } else if (work.stages > 1) {
      direct_any({&work, 1}, keys, out, options);
    } else {
      direct_ask(work, work.is_present(), keys, out, options);
    }
  }

  void contains_any(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                    std::uint8_t* out, const BatchOptions& options) const override {
    if (filters.empty()) {
      std::fill_n(out, keys.size(), std::uint8_t{0});
      return;
    }
    if (are_few(keys, options))
      return few_any(filters, keys, kernels_.hash_u64, kernels_.holds_key, out);
    std::vector<ReadWork> works;
    works.reserve(filters.size());
    for (const ConstCounterView& filter : filters) works.emplace_back(kernels_, filter);
    const bool blocks = std::ranges::all_of(filters, [](const ConstCounterView& filter) {
      return filter.geometry.layout() == Layout::split_block;
    });
    std::uint64_t largest = 0;
    for (const ConstCounterView& filter : filters) {
      largest = std::max(largest, filter.geometry.bytes());
    }
    const unsigned threads = thread_count(options);
    if (!blocks && ask_in_bulk(*this, largest, keys, options)) {
      Backend::contains_any(filters, keys, out, options);
    } else if (options.path == Path::partitioned ||
               (options.path == Path::automatic &&
                worth_partitioning_any(works, keys.size(), threads, options))) {
      partitioned_any(works, keys, out, threads, options);
    } else {
      direct_any(works, keys, out, options);
    }
  }

  void count(ConstCounterView view, const KeyBatch& keys, std::uint8_t* out,
             const BatchOptions& options) const override {
    const ReadWork work(kernels_, view);
    ask(work, work.how_often(), keys, out, options);
  }

  NonzeroChange remove(CounterView view, const KeyBatch& keys, std::uint8_t* verdicts,
                       const BatchOptions& options) const override {
    const WriteWork work(kernels_, view);
    const unsigned threads = thread_count(options);
    if (worth_partitioning(Operation::remove, view.geometry, keys.size(), threads, options)) {
      return partitioned_remove(work, keys, verdicts, threads, options);
    }
    return direct_remove(work, keys, verdicts);
  }

  void merge(CounterView into, ConstCounterView from, const BatchOptions& options) const override {
    for_each_stretch(into.geometry, options, [&](std::size_t first, std::size_t words) {
      merge_words(into.words + first, from.words + first, words);
    });
  }

  SubtractCounts check_subtract(ConstCounterView from, ConstCounterView what,
                                const BatchOptions& options) const override {
    SubtractCounts total;
    std::mutex mutex;
    for_each_stretch(from.geometry, options, [&](std::size_t first, std::size_t words) {
      const SubtractCounts part =
          check_subtract_words(from.words + first, what.words + first, words);
      const std::scoped_lock lock(mutex);
      total.below += part.below;
      total.inexact += part.inexact;
    });
    return total;
  }

  void subtract(CounterView from, ConstCounterView what,
                const BatchOptions& options) const override {
    for_each_stretch(from.geometry, options, [&](std::size_t first, std::size_t words) {
      subtract_words(from.words + first, what.words + first, words);
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

  std::size_t hash(const KeyBatch& keys, std::size_t first, std::size_t count, std::uint64_t seed,
                   std::uint64_t* hashes) const override {
    return hash_keys(keys, first, count, seed, kernels_.hash_u64, hashes);
  }

  std::uint64_t count_nonzero(ConstCounterView view, const BatchOptions& options) const override {
    std::atomic<std::uint64_t> total{0};
    for_each_stretch(view.geometry, options, [&](std::size_t first, std::size_t words) {
      total += nonzero_in_words(view.words + first, words);
    });
    return total;
  }
  HoldsKey holds_key() const noexcept override { return kernels_.holds_key; }
  const RowEngine& row_engine() const noexcept override { return row_engine_; }

 private:
  void ask(const ReadWork& work, const Question& question, const KeyBatch& keys, std::uint8_t* out,
           const BatchOptions& options) const {
    const unsigned threads = thread_count(options);
    if (worth_partitioning(Operation::ask, work.view.geometry, keys.size(), threads, options)) {
      partitioned_ask(work, question, keys, out, threads, options);
    } else {
      direct_ask(work, question, keys, out, options);
    }
  }

  template <class Task>
  static void for_each_stretch(const Geometry& geometry, const BatchOptions& options, Task task) {
    const std::size_t words = geometry.words();
    run_tasks(options, thread_count(options), (words + kStretchWords - 1) / kStretchWords,
              [&](std::size_t i) {
                const std::size_t first = i * kStretchWords;
                task(first, std::min(kStretchWords, words - first));
              });
  }

  std::string name_, description_;
  const Kernels& kernels_;
  SimdRowEngine row_engine_;
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
    const std::vector<const Kernels*> tables = kernel_tables();
    const std::vector<const RowKernels*> row_tables = row_kernel_tables();
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const auto add = [&](std::string name) {
        all.push_back(std::make_unique<SimdBackend>(std::move(name), *tables[i], *row_tables[i]));
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
