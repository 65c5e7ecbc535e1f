// SPDX-License-Identifier: Apache-2.0
// Filters in device memory. Answers are verified first, then operations are timed with CUDA events.
// The same run measures the floors of that memory and two baselines. Rows are named as those of
// filter_bench.
//
// Without a device, the program says so and exits with 77, which ctest counts as skipped.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
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
constexpr std::size_t kBatch = std::size_t{1} << 28;  // keys per timed call, 2 GiB

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
  /// The device's own time. A kernel keeps it busy while `work` is enqueued, so that no time is
  /// spent waiting for the host.
  template <class Work>
  double seconds(Work work) {
    occupy(nullptr);
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

/// The number of answers that are 1.
std::uint64_t count_positives(const std::uint8_t* answers, std::size_t n) {
  const Memory sum(sizeof(unsigned long long));
  sum_answers(answers, n, sum.as<unsigned long long>(), nullptr);
  unsigned long long total = 0;
  must(cudaMemcpy(&total, sum.as<void>(), sizeof total, cudaMemcpyDeviceToHost));
  return total;
}

/// A filter to be timed, which holds n keys at 1 %.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void insert(const std::uint64_t* keys, std::size_t n) = 0;
  virtual void insert_new(const std::uint64_t*, std::size_t, std::uint8_t*) {
    throw std::logic_error("does not say what is new");
  }
  virtual void contains(const std::uint64_t* keys, std::size_t n, std::uint8_t* out) = 0;
  virtual void remove(const std::uint64_t*, std::size_t, std::uint8_t*) {
    throw std::logic_error("removes nothing");
  }
  virtual void clear() = 0;
  virtual double bytes() const = 0;
};

class Ours final : public Subject {
 public:
  Ours(Layout layout, Cell cell, std::uint64_t n, Path path, bool alone)
      : filter_(geometry_for(layout, n, 0.01).with(cell), 1),
        options_{.path = path, .alone = alone} {}
  void insert(const std::uint64_t* keys, std::size_t n) override {
    filter_.insert_async({keys, n}, options_);
  }
  void insert_new(const std::uint64_t* keys, std::size_t n, std::uint8_t* verdicts) override {
    filter_.insert_new_async({keys, n}, verdicts, options_);
  }
  void contains(const std::uint64_t* keys, std::size_t n, std::uint8_t* out) override {
    filter_.contains_async({keys, n}, out, options_);
  }
  void remove(const std::uint64_t* keys, std::size_t n, std::uint8_t* verdicts) override {
    filter_.remove_async({keys, n}, verdicts, options_);
  }
  void clear() override { filter_.clear_async(); }
  double bytes() const override { return static_cast<double>(filter_.geometry().bytes()); }

 private:
  cuda::DeviceFilter filter_;
  cuda::DeviceOptions options_;
};

/// 10.5 bits per key, about 1 %.
class BitFilter final : public Subject {
 public:
  explicit BitFilter(std::uint64_t n) : blocks_(n * 21 / 512 + 1), words_(blocks_ * 32) {}
  void insert(const std::uint64_t* keys, std::size_t n) override {
    bit_filter_insert(words_.as<std::uint32_t>(), blocks_, keys, n, nullptr);
  }
  void contains(const std::uint64_t* keys, std::size_t n, std::uint8_t* out) override {
    bit_filter_contains(words_.as<std::uint32_t>(), blocks_, keys, n, out, nullptr);
  }
  void clear() override { must(cudaMemsetAsync(words_.as<void>(), 0, blocks_ * 32)); }
  double bytes() const override { return static_cast<double>(blocks_) * 32; }

 private:
  std::uint64_t blocks_;
  Memory words_;
};

/// 9.6 counters of 32 bits per key: 1 % with seven probes.
class Textbook final : public Subject {
 public:
  explicit Textbook(std::uint64_t n) : m_(n * 96 / 10 + 1), counters_(m_ * 4) {}
  void insert(const std::uint64_t* keys, std::size_t n) override {
    textbook_insert(counters_.as<std::uint32_t>(), m_, keys, n, nullptr);
  }
  void contains(const std::uint64_t* keys, std::size_t n, std::uint8_t* out) override {
    textbook_contains(counters_.as<std::uint32_t>(), m_, keys, n, out, nullptr);
  }
  void clear() override { must(cudaMemsetAsync(counters_.as<void>(), 0, m_ * 4)); }
  double bytes() const override { return static_cast<double>(m_) * 4; }

 private:
  std::uint64_t m_;
  Memory counters_;
};

struct Kind {
  std::string name;
  bool removes = false;
  std::unique_ptr<Subject> (*make)(std::uint64_t n);
  bool takes_repeated = true;  ///< is it for keys that repeat?
  bool says_new = false;       ///< has it rows for insert_new?
};

template <Layout layout, Path path, Cell cell = Cell::counter, bool alone = false>
std::unique_ptr<Subject> ours(std::uint64_t n) {
  return std::make_unique<Ours>(layout, cell, n, path, alone);
}
template <class Filter>
std::unique_ptr<Subject> usual(std::uint64_t n) {
  return std::make_unique<Filter>(n);
}

std::vector<Kind> kinds() {
  return {{"split_block_direct", true, ours<Layout::split_block, Path::direct>, true, true},
          {"split_block_partitioned", true, ours<Layout::split_block, Path::partitioned>},
          {"split_block_partitioned_alone", true,
           ours<Layout::split_block, Path::partitioned, Cell::counter, true>},
          {"split_direct", true, ours<Layout::split, Path::direct>, true, true},
          {"split_partitioned", true, ours<Layout::split, Path::partitioned>},
          {"split_block_bits_direct", false, ours<Layout::split_block, Path::direct, Cell::bit>,
           true, true},
          {"split_block_bits_partitioned", false,
           ours<Layout::split_block, Path::partitioned, Cell::bit>},
          {"split_bits_direct", false, ours<Layout::split, Path::direct, Cell::bit>},
          {"split_bits_partitioned", false, ours<Layout::split, Path::partitioned, Cell::bit>},
          {"ranked", false, ours<Layout::ranked, Path::automatic>, false, true},
          {"bit_filter", false, usual<BitFilter>},
          {"textbook", false, usual<Textbook>}};
}

enum class Keys { uniform, zipf, one };
const char* name_of(Keys keys) {
  return keys == Keys::uniform ? "uniform" : keys == Keys::zipf ? "zipf1.2" : "one";
}

/// A full filter and a batch of keys, kept for consecutive rows of the same filter.
class Fixture {
 public:
  Fixture(const Kind& kind, std::uint64_t n)
      : subject(kind.make(n)),
        batch(std::min<std::size_t>(n, kBatch)),
        n_(n),
        keys_(batch * sizeof(std::uint64_t)),
        answers_(batch) {
    verify(kind);
  }

  /// Makes the batch. Uniform keys are numbered; the batch begins with number `first`. Keys from
  /// kAbsent on are absent.
  void make(Keys which, std::uint64_t first = 0) {
    if (which == Keys::uniform) {
      make_keys(keys(), batch, first, nullptr);
    } else {
      make_skewed_keys(keys(), batch, which == Keys::one ? 1 : n_, nullptr);
    }
  }
  void insert() { insert(batch); }
  void ask() { subject->contains(keys(), batch, answers()); }
  void remove() { remove(batch); }
  void insert_new() { subject->insert_new(keys(), batch, answers()); }
  /// Inserts only the first keys of the batch.
  void insert(std::size_t count) { subject->insert(keys(), count); }
  void remove(std::size_t count) { subject->remove(keys(), count, answers()); }
  /// Makes the filter full again, with its original keys.
  void refill() {
    subject->clear();
    for (std::uint64_t first = 0; first < n_; first += batch) {
      const std::size_t count = std::min<std::size_t>(batch, n_ - first);
      make_keys(keys(), count, first, nullptr);
      subject->insert(keys(), count);
    }
  }

  static constexpr std::uint64_t kAbsent = std::uint64_t{1} << 40;

  std::unique_ptr<Subject> subject;
  std::size_t batch;
  double fpr = 0;

 private:
  std::uint64_t* keys() const { return keys_.as<std::uint64_t>(); }
  std::uint8_t* answers() const { return answers_.as<std::uint8_t>(); }

  std::uint64_t positives() const { return count_positives(answers(), batch); }
  void must_all_be_positive(const char* what) {
    if (positives() != batch) throw std::runtime_error(what);
  }
  void verify(const Kind& kind) {
    if (kind.says_new) {
      make(Keys::uniform);
      insert_new();
      const std::uint64_t inserted = positives();
      if (inserted < batch - batch / 50) {
        throw std::runtime_error(
            fmt::format("{} of {} new keys are said to be new", inserted, batch));
      }
      insert_new();
      if (positives() != 0) throw std::runtime_error("a present key is said to be new");
    }
    refill();
    make(Keys::uniform);
    ask();
    must_all_be_positive("a present key is reported absent");
    make(Keys::uniform, kAbsent);
    ask();
    fpr = static_cast<double>(positives()) / static_cast<double>(batch);
    if (!(fpr > 0.002 && fpr < 0.02)) {
      throw std::runtime_error(fmt::format("false-positive rate {}: must be near 0.01", fpr));
    }
    if (!kind.removes) return;
    make(Keys::uniform);
    remove();
    must_all_be_positive("a present key is not removed");
    if (batch == n_) {
      ask();
      if (positives() != 0) throw std::runtime_error("the filter is not empty after removal");
    }
    insert();
    ask();
    must_all_be_positive("a key that was inserted again is reported absent");
  }

  std::uint64_t n_;
  Memory keys_, answers_;
};

/// Holds one object at a time, because the largest fill much of a device.
template <class Object, class Make>
Object& only(const std::string& name, Make make) {
  static std::unique_ptr<Object> object;
  static std::string current;
  if (current != name) {
    object.reset();
    current.clear();
    object = make();
    current = name;
  }
  return *object;
}

void report(benchmark::State& state, double seconds, double items) {
  state.SetIterationTime(seconds);
  state.counters["ns_per_key"] = seconds * 1e9 / items;
  state.counters["keys_per_second"] = items / seconds;
}

void run_filter(benchmark::State& state, const std::string& operation, const Kind& kind,
                std::uint64_t n, Keys keys) {
  try {
    Fixture& f = only<Fixture>(fmt::format("{} {}", kind.name, n),
                               [&] { return std::make_unique<Fixture>(kind, n); });
    Events events;
    for (auto _ : state) {
      f.make(keys, operation == "miss" ? Fixture::kAbsent : 0);
      double seconds = 0;
      if (operation == "insert") {
        f.subject->clear();
        seconds = events.seconds([&] { f.insert(); });
        f.refill();
      } else if (operation == "new") {
        f.subject->clear();
        seconds = events.seconds([&] { f.insert_new(); });
        f.refill();
      } else if (operation == "again") {
        seconds = events.seconds([&] { f.insert_new(); });
      } else if (operation == "remove") {
        // Uniform keys are present already. Skewed keys are inserted first, as far as possible.
        if (keys != Keys::uniform) f.insert();
        seconds = events.seconds([&] { f.remove(); });
        f.refill();
      } else {
        seconds = events.seconds([&] { f.ask(); });
      }
      report(state, seconds, static_cast<double>(f.batch));
    }
    state.counters["n"] = static_cast<double>(n);
    state.counters["bytes"] = f.subject->bytes();
    state.counters["bits_per_key"] = f.subject->bytes() * 8 / static_cast<double>(n);
    state.counters["fpr_measured"] = f.fpr;
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

/// Changes a full filter by calls of few or of many keys, to find where one path overtakes the
/// other.
void run_calls(benchmark::State& state, const std::string& operation, const Kind& kind,
               std::uint64_t n, std::size_t keys_per_call) {
  try {
    Fixture& f = only<Fixture>(fmt::format("{} {}", kind.name, n),
                               [&] { return std::make_unique<Fixture>(kind, n); });
    Events events;
    f.make(Keys::uniform);
    for (auto _ : state) {
      double seconds = 0;
      if (operation == "insert") {
        seconds = events.seconds([&] { f.insert(keys_per_call); });
        f.remove(keys_per_call);
      } else {
        seconds = events.seconds([&] { f.remove(keys_per_call); });
        f.insert(keys_per_call);
      }
      report(state, seconds, static_cast<double>(keys_per_call));
    }
    state.counters["n"] = static_cast<double>(n);
    state.counters["keys_per_call"] = static_cast<double>(keys_per_call);
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

/// Byte strings of 24 bytes are hashed on the device and looked up.
void run_strings(benchmark::State& state, std::uint64_t n) {
  constexpr std::size_t kWidth = 24;
  try {
    const std::size_t count = std::min<std::size_t>(n, kBatch / 4);
    const Memory data(count * kWidth), answers(count);
    make_keys(data.as<std::uint64_t>(), count * kWidth / sizeof(std::uint64_t), 0, nullptr);
    cuda::DeviceFilter filter(geometry_for(Layout::split_block, n, 0.01), 1);
    const auto keys = cuda::DeviceKeys::from_fixed(data.as<std::byte>(), kWidth, count);
    filter.insert(keys);
    filter.contains(keys, answers.as<std::uint8_t>());
    if (count_positives(answers.as<std::uint8_t>(), count) != count) {
      throw std::runtime_error("a present string is reported absent");
    }
    Events events;
    for (auto _ : state) {
      const double seconds =
          events.seconds([&] { filter.contains_async(keys, answers.as<std::uint8_t>()); });
      report(state, seconds, static_cast<double>(count));
    }
    state.counters["n"] = static_cast<double>(n);
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

void run_floor(benchmark::State& state, const std::string& access, std::size_t bytes) {
  try {
    const Memory memory(bytes), sink(8);
    Events events;
    // For a copy, an access is one line of 64 bytes, read in one place and written in another.
    const std::size_t copies = std::max<std::size_t>(1, (std::size_t{1} << 30) / bytes);
    const std::size_t n = access == "stream_copy" ? copies * (bytes / 128) : kBatch;
    const double moved = access == "sector_read" ? 32 : access == "line_read" ? 64 : 128;
    for (auto _ : state) {
      const auto work = [&] {
        if (access == "line_update") {
          update_lines(memory.as<void>(), bytes, n, nullptr);
        } else if (access == "stream_copy") {
          for (std::size_t i = 0; i < copies; ++i) {
            must(cudaMemcpyAsync(memory.as<std::byte>() + bytes / 2, memory.as<void>(), bytes / 2,
                                 cudaMemcpyDeviceToDevice));
          }
        } else {
          read_sectors(memory.as<void>(), bytes, n, access == "sector_read" ? 32 : 64,
                       sink.as<unsigned long long>(), nullptr);
        }
      };
      work();  // warms up
      const double seconds = events.seconds(work);
      report(state, seconds, static_cast<double>(n));
      state.counters["bytes_per_second"] = static_cast<double>(n) * moved / seconds;
    }
    must(cudaGetLastError());
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

// ---- batches on the host ------------------------------------------------------------------------
//
// Wall time from end to end, and of the copy of the keys alone.

constexpr std::size_t kHostKeys = std::size_t{1} << 27;

/// Keys and answers on the host, in pinned memory or not.
class HostBatch {
 public:
  explicit HostBatch(bool pinned) : pinned_(pinned) {
    constexpr std::size_t kBytes = kHostKeys * (sizeof(std::uint64_t) + 1);
    if (pinned) {
      must(cudaMallocHost(&memory_, kBytes));
    } else {
      plain_.resize(kBytes);
      memory_ = plain_.data();
    }
    const Memory on_device(kHostKeys * sizeof(std::uint64_t));
    make_keys(on_device.as<std::uint64_t>(), kHostKeys, 0, nullptr);
    must(cudaMemcpy(memory_, on_device.as<void>(), kHostKeys * sizeof(std::uint64_t),
                    cudaMemcpyDeviceToHost));
  }
  HostBatch(const HostBatch&) = delete;
  HostBatch& operator=(const HostBatch&) = delete;
  ~HostBatch() {
    if (pinned_) cudaFreeHost(memory_);
  }
  std::span<const std::uint64_t> keys() const {
    return {static_cast<const std::uint64_t*>(memory_), kHostKeys};
  }
  std::span<std::uint8_t> answers() const {
    return {static_cast<std::uint8_t*>(memory_) + kHostKeys * sizeof(std::uint64_t), kHostKeys};
  }

 private:
  bool pinned_;
  std::vector<std::uint8_t> plain_;
  void* memory_ = nullptr;
};

template <class Work>
double wall_seconds(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void run_host(benchmark::State& state, const std::string& operation, bool pinned) {
  try {
    HostBatch& batch = only<HostBatch>(pinned ? "pinned" : "pageable",
                                       [&] { return std::make_unique<HostBatch>(pinned); });
    if (operation == "copy") {
      const Memory there(kHostKeys * sizeof(std::uint64_t));
      for (auto _ : state) {
        const double seconds = wall_seconds([&] {
          must(cudaMemcpy(there.as<void>(), batch.keys().data(), batch.keys().size_bytes(),
                          cudaMemcpyHostToDevice));
          must(cudaDeviceSynchronize());
        });
        report(state, seconds, static_cast<double>(kHostKeys));
      }
      return;
    }
    Filter filter(geometry_for(Layout::split_block, kHostKeys, 0.01), {.backend = "cuda"});
    filter.insert(batch.keys());
    if (filter.contains(batch.keys(), batch.answers()).hits != kHostKeys) {
      throw std::runtime_error("a present key is reported absent");
    }
    for (auto _ : state) {
      double seconds = 0;
      if (operation == "insert") {
        filter.clear();
        seconds = wall_seconds([&] { filter.insert(batch.keys()); });
      } else if (operation == "remove") {
        seconds = wall_seconds([&] { filter.remove(batch.keys(), batch.answers()); });
        filter.insert(batch.keys());
      } else {
        seconds = wall_seconds([&] { filter.contains(batch.keys(), batch.answers()); });
      }
      report(state, seconds, static_cast<double>(kHostKeys));
    }
    state.counters["n"] = static_cast<double>(kHostKeys);
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

template <class Run>
void add(const std::string& name, Run run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->UseManualTime()
      ->Iterations(1)
      ->ComputeStatistics(
          "min", [](const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); })
      ->ComputeStatistics(
          "max", [](const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); })
      ->Unit(benchmark::kMillisecond);
}

void add_filter(const Kind& kind, std::uint64_t n) {
  const auto row = [&](const std::string& operation, Keys keys) {
    add(fmt::format("{}/filter:{}/n:{}/keys:{}", operation, kind.name, n, name_of(keys)),
        [=](benchmark::State& state) { run_filter(state, operation, kind, n, keys); });
  };
  for (const char* operation : {"insert", "miss", "hit"}) row(operation, Keys::uniform);
  if (kind.says_new) {
    row("new", Keys::uniform);
    row("again", Keys::uniform);
    row("new", Keys::zipf);
  }
  for (const char* operation : {"insert", "hit"}) {
    if (!kind.takes_repeated) break;
    row(operation, Keys::zipf);
    row(operation, Keys::one);
  }
  if (!kind.removes) return;
  for (const Keys keys : {Keys::uniform, Keys::zipf, Keys::one}) row("remove", keys);
  for (const std::string operation : {"insert", "remove"}) {
    for (std::size_t few = std::size_t{1} << 16; few < kBatch && few <= n; few *= 8) {
      add(fmt::format("{}/filter:{}/n:{}/keys:uniform/keys_per_call:{}", operation, kind.name, n,
                      few),
          [=](benchmark::State& state) { run_calls(state, operation, kind, n, few); });
    }
  }
}

void add_all() {
  // Filters in L2 (60 MiB on an H200), around it, and in memory; and floors of memory as large.
  for (const std::size_t mib : {22, 65, 5450}) {
    for (const std::string access : {"sector_read", "line_read", "line_update", "stream_copy"}) {
      add(fmt::format("floor/access:{}/mib:{}", access, mib),
          [=](benchmark::State& state) { run_floor(state, access, mib << 20); });
    }
  }
  for (const std::uint64_t n : {4'000'000ull, 12'000'000ull, 1'000'000'000ull}) {
    for (const Kind& kind : kinds()) add_filter(kind, n);
    add(fmt::format("hit/filter:split_block/n:{}/keys:bytes24", n),
        [=](benchmark::State& state) { run_strings(state, n); });
  }
  for (const bool pinned : {true, false}) {
    for (const std::string operation : {"copy", "insert", "contains", "remove"}) {
      add(fmt::format("host/operation:{}/memory:{}", operation, pinned ? "pinned" : "pageable"),
          [=](benchmark::State& state) { run_host(state, operation, pinned); });
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
  // Before the user's options, so that they can say otherwise.
  std::string repetitions = "--benchmark_repetitions=5";
  std::vector<char*> arguments(argv, argv + argc);
  arguments.insert(arguments.begin() + 1, repetitions.data());
  argc = static_cast<int>(arguments.size());
  benchmark::Initialize(&argc, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(argc, arguments.data())) return EXIT_FAILURE;
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
