// SPDX-License-Identifier: Apache-2.0
// Filters in device memory: answers verified first, then timed by CUDA events, beside the floors of
// that memory and two baselines in the same run. Rows are named as those of filter_bench.
//
// Without a device it says so and exits with 77, which ctest takes for "skipped".
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gpu_kernels.hpp"
#include "scbf/cuda/device_filter.hpp"
#include "scbf/sizing.hpp"

namespace scbf::bench {

namespace {

constexpr int kSkipped = 77;
constexpr std::size_t kBatch = std::size_t{1} << 26;  // keys per timed call: 512 MiB of them

void must(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

/// Device memory, zeroed.
class Memory {
 public:
  explicit Memory(std::size_t bytes) {
    must(cudaMalloc(&data_, bytes));
    must(cudaMemset(data_, 0, bytes));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { cudaFree(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

class Events {
 public:
  Events() {
    must(cudaEventCreate(&begin_));
    must(cudaEventCreate(&end_));
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  template <class Work>
  double seconds(Work work) {
    must(cudaEventRecord(begin_));
    work();
    must(cudaEventRecord(end_));
    must(cudaEventSynchronize(end_));
    float milliseconds = 0;
    must(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// A filter to be timed; n keys fit at 1 %.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void insert(const std::uint64_t* keys, std::size_t n) = 0;
  virtual void contains(const std::uint64_t* keys, std::size_t n, std::uint8_t* out) = 0;
  virtual void clear() = 0;
  virtual double bits_per_key() const = 0;
};

class Ours final : public Subject {
 public:
  Ours(Layout layout, std::uint64_t n) : filter_(geometry_for(layout, n, 0.01), 1), n_(n) {}
  void insert(const std::uint64_t* keys, std::size_t n) override {
    filter_.insert_async(keys, n, nullptr);
  }
  void contains(const std::uint64_t* keys, std::size_t n, std::uint8_t* out) override {
    filter_.contains_async(keys, n, out, nullptr);
  }
  void clear() override { filter_.clear_async(nullptr); }
  double bits_per_key() const override {
    return static_cast<double>(filter_.geometry().bytes()) * 8 / static_cast<double>(n_);
  }

 private:
  cuda::DeviceFilter filter_;
  std::uint64_t n_;
};

/// 10.5 bits per key, about 1 %.
class BitFilter final : public Subject {
 public:
  explicit BitFilter(std::uint64_t n) : blocks_(n * 21 / 512 + 1), words_(blocks_ * 32), n_(n) {}
  void insert(const std::uint64_t* keys, std::size_t n) override {
    bit_filter_insert(words_.as<std::uint32_t>(), blocks_, keys, n, nullptr);
  }
  void contains(const std::uint64_t* keys, std::size_t n, std::uint8_t* out) override {
    bit_filter_contains(words_.as<std::uint32_t>(), blocks_, keys, n, out, nullptr);
  }
  void clear() override { must(cudaMemsetAsync(words_.as<void>(), 0, blocks_ * 32)); }
  double bits_per_key() const override {
    return static_cast<double>(blocks_) * 256 / static_cast<double>(n_);
  }

 private:
  std::uint64_t blocks_;
  Memory words_;
  std::uint64_t n_;
};

/// 9.6 counters of 32 bits per key: 1 % with seven probes.
class Textbook final : public Subject {
 public:
  explicit Textbook(std::uint64_t n) : m_(n * 96 / 10 + 1), counters_(m_ * 4), n_(n) {}
  void insert(const std::uint64_t* keys, std::size_t n) override {
    textbook_insert(counters_.as<std::uint32_t>(), m_, keys, n, nullptr);
  }
  void contains(const std::uint64_t* keys, std::size_t n, std::uint8_t* out) override {
    textbook_contains(counters_.as<std::uint32_t>(), m_, keys, n, out, nullptr);
  }
  void clear() override { must(cudaMemsetAsync(counters_.as<void>(), 0, m_ * 4)); }
  double bits_per_key() const override {
    return static_cast<double>(m_) * 32 / static_cast<double>(n_);
  }

 private:
  std::uint64_t m_;
  Memory counters_;
  std::uint64_t n_;
};

std::unique_ptr<Subject> make(std::string_view kind, std::uint64_t n) {
  if (kind == "split_block") return std::make_unique<Ours>(Layout::split_block, n);
  if (kind == "split") return std::make_unique<Ours>(Layout::split, n);
  if (kind == "bit_filter") return std::make_unique<BitFilter>(n);
  return std::make_unique<Textbook>(n);
}

/// One filter with its keys; kept while rows of it follow each other.
struct Fixture {
  Fixture(std::string_view kind, std::uint64_t n)
      : subject(make(kind, n)),
        batch(std::min<std::size_t>(n, kBatch)),
        keys(batch * 8),
        answers(batch),
        sum(8) {
    verify(n);
  }

  std::uint64_t positives() {
    must(cudaMemset(sum.as<void>(), 0, 8));
    sum_answers(answers.as<std::uint8_t>(), batch, sum.as<unsigned long long>(), nullptr);
    unsigned long long total = 0;
    must(cudaMemcpy(&total, sum.as<void>(), 8, cudaMemcpyDeviceToHost));
    return total;
  }
  void fill(std::uint64_t n) {
    for (std::uint64_t first = 0; first < n; first += batch) {
      const std::size_t count = std::min<std::size_t>(batch, n - first);
      make_keys(keys.as<std::uint64_t>(), count, first, nullptr);
      subject->insert(keys.as<std::uint64_t>(), count);
    }
  }
  void ask(std::uint64_t first) {
    make_keys(keys.as<std::uint64_t>(), batch, first, nullptr);
    subject->contains(keys.as<std::uint64_t>(), batch, answers.as<std::uint8_t>());
    must(cudaDeviceSynchronize());
  }
  void verify(std::uint64_t n) {
    fill(n);
    ask(0);
    if (positives() != batch) throw std::runtime_error("a present key is reported absent");
    ask(kAbsent);
    fpr = static_cast<double>(positives()) / static_cast<double>(batch);
    if (!(fpr > 0.002 && fpr < 0.02)) {
      throw std::runtime_error(fmt::format("false-positive rate {}: must be near 0.01", fpr));
    }
  }

  static constexpr std::uint64_t kAbsent = std::uint64_t{1} << 40;  // keys from here on are absent

  std::unique_ptr<Subject> subject;
  std::size_t batch;
  Memory keys, answers, sum;
  double fpr = 0;
};

Fixture& fixture_for(const std::string& kind, std::uint64_t n) {
  static std::unique_ptr<Fixture> fixture;
  static std::string name;
  const std::string wanted = fmt::format("{} {}", kind, n);
  if (name != wanted) {
    fixture.reset();
    name.clear();
    fixture = std::make_unique<Fixture>(kind, n);
    name = wanted;
  }
  return *fixture;
}

void report(benchmark::State& state, double seconds, double items) {
  state.SetIterationTime(seconds);
  state.counters["ns_per_key"] = seconds * 1e9 / items;
  state.counters["keys_per_second"] = items / seconds;
}

void run_filter(benchmark::State& state, const std::string& operation, const std::string& kind,
                std::uint64_t n, bool skewed) {
  try {
    Fixture& f = fixture_for(kind, n);
    Events events;
    for (auto _ : state) {
      if (skewed) {
        make_skewed_keys(f.keys.as<std::uint64_t>(), f.batch, n, nullptr);
      } else {
        make_keys(f.keys.as<std::uint64_t>(), f.batch, operation == "miss" ? f.kAbsent : 0,
                  nullptr);
      }
      const auto work = [&] {
        if (operation == "insert") {
          f.subject->insert(f.keys.as<std::uint64_t>(), f.batch);
        } else {
          f.subject->contains(f.keys.as<std::uint64_t>(), f.batch, f.answers.as<std::uint8_t>());
        }
      };
      if (operation == "insert") f.subject->clear();
      report(state, events.seconds(work), static_cast<double>(f.batch));
      if (operation == "insert") {  // as it was: full
        f.subject->clear();
        f.fill(n);
      }
    }
    state.counters["n"] = static_cast<double>(n);
    state.counters["bits_per_key"] = f.subject->bits_per_key();
    state.counters["fpr_measured"] = f.fpr;
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

void run_floor(benchmark::State& state, const std::string& access, std::size_t bytes) {
  try {
    const Memory memory(bytes), sink(8);
    Events events;
    const std::size_t n = access == "stream_copy" ? bytes / 128 : kBatch;
    for (auto _ : state) {
      const auto work = [&] {
        if (access == "line_update") {
          update_lines(memory.as<void>(), bytes, n, nullptr);
        } else if (access == "stream_copy") {
          must(cudaMemcpyAsync(memory.as<std::byte>() + bytes / 2, memory.as<void>(), bytes / 2,
                               cudaMemcpyDeviceToDevice));
        } else {
          read_sectors(memory.as<void>(), bytes, n, access == "sector_read" ? 32 : 64,
                       sink.as<unsigned long long>(), nullptr);
        }
      };
      work();  // once to warm up
      report(state, events.seconds(work), static_cast<double>(n));
    }
    must(cudaGetLastError());
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

template <class Run>
void add(const std::string& name, Run run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->UseManualTime()
      ->Iterations(1)
      ->Repetitions(5)
      ->ComputeStatistics(
          "min", [](const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); })
      ->ComputeStatistics(
          "max", [](const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); })
      ->Unit(benchmark::kMillisecond);
}

void add_all() {
  // In L2 (50 MB on Hopper), around it, and in memory.
  for (const std::size_t mib : {8, 64, 8192}) {
    for (const std::string access : {"sector_read", "line_read", "line_update", "stream_copy"}) {
      add(fmt::format("floor/access:{}/mib:{}", access, mib),
          [=](benchmark::State& state) { run_floor(state, access, mib << 20); });
    }
  }
  for (const std::uint64_t n : {1'500'000ull, 12'000'000ull, 1'000'000'000ull}) {
    for (const std::string kind : {"split_block", "split", "bit_filter", "textbook"}) {
      for (const std::string operation : {"insert", "miss", "hit"}) {
        add(fmt::format("{}/filter:{}/n:{}/keys:uniform", operation, kind, n),
            [=](benchmark::State& state) { run_filter(state, operation, kind, n, false); });
      }
      for (const std::string operation : {"insert", "hit"}) {
        add(fmt::format("{}/filter:{}/n:{}/keys:zipf1.2", operation, kind, n),
            [=](benchmark::State& state) { run_filter(state, operation, kind, n, true); });
      }
    }
  }
}

int run(int argc, char** argv) {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess || devices == 0) {
    fmt::print(stderr, "gpu_bench: no device: {}\n", cudaGetErrorString(result));
    return kSkipped;
  }
  cudaDeviceProp device{};
  must(cudaGetDeviceProperties(&device, 0));
  benchmark::AddCustomContext("device", device.name);
  benchmark::AddCustomContext("device_memory_bytes", std::to_string(device.totalGlobalMem));
  benchmark::AddCustomContext("device_l2_bytes", std::to_string(device.l2CacheSize));
  const char* commit = std::getenv("SCBF_BENCH_COMMIT");
  benchmark::AddCustomContext("commit", commit != nullptr ? commit : SCBF_BENCH_COMMIT);
  add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}

}  // namespace

}  // namespace scbf::bench

int main(int argc, char** argv) {
  try {
    return scbf::bench::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpu_bench: {}\n", e.what());
    return EXIT_FAILURE;
  }
}
