// SPDX-License-Identifier: Apache-2.0
#include "cuda_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "device_store.hpp"
#include "devices.hpp"
#include "kit/cut_short.hpp"
#include "kit/known_backends.hpp"
#include "kit/unavailable_backend.hpp"
#include "limits.hpp"
#include "runs.hpp"
#include "scbf/cuda/errors.hpp"
#include "staging.hpp"

namespace scbf {

namespace cuda {

namespace {

/// Kernels that only read counters take a FilterRef as well: there is no const version of it.
FilterRef ref_to(const ConstCounterView& view) noexcept {
  return {view.geometry, view.seed, const_cast<std::uint64_t*>(view.words)};
}
FilterRef ref_to(const CounterView& view) noexcept {
  return {view.geometry, view.seed, view.words};
}
template <class View>
std::vector<FilterRef> refs_to(std::span<const View> views) {
  std::vector<FilterRef> refs;
  refs.reserve(views.size());
  for (const View& view : views) refs.push_back(ref_to(view));
  return refs;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(int device, std::string name, std::size_t window)
      : device_(device),
        name_(std::move(name)),
        memory_(fmt::format("cuda:{}", device)),
        target_(device_name(device)),
        description_(fmt::format("{}, {}", target_, device_memory(device))),
        stagings_(window) {}

  std::string_view name() const noexcept override { return name_; }
  std::string_view description() const noexcept override { return description_; }
  std::string_view target() const noexcept override { return target_; }
  std::string_view memory() const noexcept override { return memory_; }

  std::string unavailable_reason() const override {
    // Checked until the device is found available, and then never again: a device that is full now
    // may have memory later.
    const std::scoped_lock lock(mutex_);
    if (available_) return {};
    const std::string reason = why_unavailable();
    available_ = reason.empty();
    return reason;
  }

  using Backend::supports;
  bool supports(Cell) const noexcept override { return true; }

  std::unique_ptr<CounterStore> allocate(std::uint64_t words) const override {
    return std::make_unique<DeviceStore>(device_, words);
  }

  NonzeroChange insert(CounterView view, const KeyBatch& keys,
                       const BatchOptions& options) const override {
    std::uint64_t filled = 0;
    send_windows(keys, view.seed, nullptr, {&filled, 1}, true, options,
                 [&](const DeviceKeys& sent, std::uint8_t*, std::uint64_t* sums, const Run& run) {
                   run_insert(ref_to(view), sent, sums, run);
                 });
    return filled;
  }
  NewKeys insert_new(CounterView view, const KeyBatch& keys, std::uint8_t* out,
                     const BatchOptions& options) const override {
    std::array<std::uint64_t, 2> sums{};  // inserted; filled
    try {
      send_windows(keys, view.seed, out, sums, true, options,
                   [&](const DeviceKeys& sent, std::uint8_t* answers, std::uint64_t* sums_there,
                       const Run& run) {
                     run_insert_new(ref_to(view), sent, answers, sums_there, sums_there + 1, run);
                   });
    } catch (CutShort& cut) {
      cut.inserted = sums[0];
      throw;
    }
    return {sums[0], sums[1]};
  }
  std::uint64_t contains(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                         std::uint8_t* out, const BatchOptions& options) const override {
    return ask(filters, keys, out, options, run_contains);
  }
  std::uint64_t count(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                      std::uint8_t* out, const BatchOptions& options) const override {
    return ask(filters, keys, out, options, run_count);
  }
  RemoveCounts remove(std::span<const CounterView> filters, const KeyBatch& keys,
                      std::uint8_t* verdicts, std::span<RemovalChange> changes,
                      const BatchOptions& options) const override {
    const std::vector<FilterRef> refs = refs_to(filters);
    const std::size_t n = filters.size();
    std::vector<std::uint64_t> sums(2 * n + 1);  // removed from each; emptied in each; ambiguous
    const auto counted = [&] {
      RemoveCounts counts{0, sums.back()};
      for (std::size_t f = 0; f < n; ++f) {
        changes[f] = {sums[f], sums[n + f]};
        counts.removed += sums[f];
      }
      return counts;
    };
    try {
      send_windows(keys, filters[0].seed, verdicts, sums, true, options,
                   [&](const DeviceKeys& sent, std::uint8_t* answers, std::uint64_t* sums_there,
                       const Run& run) {
                     run_remove(refs, sent, answers, sums_there, sums_there + n, sums_there + 2 * n,
                                run);
                   });
    } catch (CutShort& cut) {
      cut.removed = counted();
      throw;
    }
    return counted();
  }

  void merge(CounterView into, ConstCounterView from, const BatchOptions& options) const override {
    alone(options, [&](const Run& run) { run_merge(into.geometry, into.words, from.words, run); });
  }
  void intersect(CounterView into, ConstCounterView from,
                 const BatchOptions& options) const override {
    alone(options, [&](const Run& run) {
      run_intersect(into.words, from.words, into.geometry.words(), run);
    });
  }
  std::uint64_t count_joined(ConstCounterView a, ConstCounterView b,
                             const BatchOptions& options) const override {
    std::uint64_t ones = 0;
    alone(options, [&](const Run& run) {
      ones = run_count_joined(a.words, b.words, a.geometry.words(), run);
    });
    return ones;
  }
  void project(CounterView bits, ConstCounterView counters,
               const BatchOptions& options) const override {
    alone(options, [&](const Run& run) {
      run_project(bits.words, counters.words, bits.geometry.words(), run);
    });
  }
  SubtractCounts check_subtract(ConstCounterView from, ConstCounterView what,
                                const BatchOptions& options) const override {
    SubtractCounts counts;
    alone(options, [&](const Run& run) {
      counts = run_check_subtract(from.words, what.words, from.geometry.words(), run);
    });
    return counts;
  }
  void subtract(CounterView from, ConstCounterView what,
                const BatchOptions& options) const override {
    alone(options, [&](const Run& run) {
      run_subtract(from.words, what.words, from.geometry.words(), run);
    });
  }
  std::vector<Histogram> histograms(ConstCounterView view,
                                    const BatchOptions& options) const override {
    std::vector<Histogram> result;
    alone(options, [&](const Run& run) { result = run_histograms(ref_to(view), run); });
    return result;
  }

 private:
  std::string why_unavailable() const {
    try {
      const OnDevice on(device_);
      check_kernels();
      return {};
    } catch (const CudaError& error) {
      return fmt::format("{}: {}", target_, error.what());
    }
  }

  static Tuning tuning_of(const BatchOptions& options) {
    Tuning tuning = tuning_of_current_device();
    tuning.path = options.path;
    tuning.scratch_bytes = options.scratch_bytes;
    return tuning;
  }

  std::uint64_t ask(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                    std::uint8_t* out, const BatchOptions& options,
                    decltype(run_contains) run_question) const {
    if (filters.empty()) {
      std::fill_n(out, keys.size(), std::uint8_t{0});
      return 0;
    }
    const std::vector<FilterRef> refs = refs_to(filters);
    std::uint64_t hits = 0;
    try {
      send_windows(keys, filters[0].seed, out, {&hits, 1}, false, options,
                   [&](const DeviceKeys& sent, std::uint8_t* answers, std::uint64_t* hits_there,
                       const Run& run) { run_question(refs, sent, answers, hits_there, run); });
    } catch (const CutShort& cut) {
      std::rethrow_exception(cut.cause);
    }
    return hits;
  }

  template <class Work>
  void send_windows(const KeyBatch& keys, std::uint64_t seed, std::uint8_t* answers,
                    std::span<std::uint64_t> sums, bool in_order, const BatchOptions& options,
                    Work work) const {
    if (keys.empty()) return;
    const OnDevice on(device_);
    const Tuning tuning = tuning_of(options);
    MemoryResource& memory = pool_memory();
    const auto staging = [&] {
      try {
        return stagings_.borrow();
      } catch (const OutOfDeviceMemory& why) {
        throw CutShort(why, 0, std::current_exception());
      }
    }();
    staging->run(keys, seed, answers, sums, in_order, options,
                 [&](const DeviceKeys& sent, std::uint8_t* answers_there, std::uint64_t* sums_there,
                     cudaStream_t stream) {
                   work(sent, answers_there, sums_there, Run{stream, memory, tuning});
                 });
  }

  template <class Work>
  void alone(const BatchOptions& options, Work work) const {
    const OnDevice on(device_);
    const auto staging = stagings_.borrow();
    work(Run{staging->stream(), pool_memory(), tuning_of(options)});
    check(cudaStreamSynchronize(staging->stream()), "waiting for the device");
  }

  int device_;
  std::string name_, memory_, target_, description_;
  mutable std::mutex mutex_;
  mutable bool available_ = false;
  mutable StagingPool stagings_;
};

}  // namespace

}  // namespace cuda

std::unique_ptr<Backend> make_cuda_backend(int device, std::string name, std::size_t window) {
  return std::make_unique<cuda::CudaBackend>(device, std::move(name), window);
}

const std::vector<const Backend*>& cuda_backends() {
  // Never destroyed: at the end of the program the driver may be gone before they are.
  static const auto* table = [] {
    auto* all = new std::vector<const Backend*>;
    const auto add_unavailable = [&](std::string name, std::string reason) {
      all->push_back(new UnavailableBackend(std::move(name), "filters in the memory of a GPU",
                                            "CUDA", std::move(reason)));
    };
    std::string reason;
    const int devices = cuda::count_devices(reason);
    if (devices == 0) add_unavailable("cuda", reason);
    for (int device = 0; device < devices; ++device) {
      const std::string name = device == 0 ? "cuda" : fmt::format("cuda:{}", device);
      try {
        all->push_back(make_cuda_backend(device, name, cuda::Staging::kWindow).release());
      } catch (const cuda::CudaError& error) {
        add_unavailable(name, error.what());
      }
    }
    return all;
  }();
  return *table;
}

}  // namespace scbf
