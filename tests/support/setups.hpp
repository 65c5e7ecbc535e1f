// SPDX-License-Identifier: Apache-2.0
// The parameters of the contract suite (backends, shapes, threads, paths, scratch sizes), and
// comparisons of filters.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "scbf/filter.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"

namespace scbf_test {

/// Runs tasks on its own threads, as many as it is told, whatever the machine has. The thread
/// sanitizer understands these threads, but not those of oneTBB as packaged. Threads are reused,
/// because starting one takes longer than most of the tests' tasks.
class ThreadExecutor final : public scbf::Executor {
 public:
  explicit ThreadExecutor(unsigned threads) : threads_(threads) {}
  unsigned concurrency() const noexcept override { return threads_; }
  void run(std::size_t count, const std::function<void(std::size_t)>& task) const override {
    if (count > 1) ++parallel_runs;
    const std::size_t used = std::min<std::size_t>(threads_, count);
    std::atomic<std::size_t> next{0};
    std::exception_ptr error;
    std::mutex guard;
    const auto caller = std::this_thread::get_id();
    const std::function<void()> work = [&] {
      // The thread sanitizer sees races only between threads that work. So under it each thread
      // gets its fixed share of the tasks.
      for (std::size_t i = next++; i < count; i = kThreadSanitizer ? i + used : next++) {
        // Relaxed, so that counting does not order the tasks.
        helped.fetch_add(std::this_thread::get_id() != caller, std::memory_order_relaxed);
        try {
          task(i);
        } catch (...) {
          const std::scoped_lock lock(guard);
          if (!error) error = std::current_exception();
        }
      }
    };
    std::vector<std::unique_ptr<Worker>> helpers;
    for (std::size_t t = 1; t < used; ++t) {
      helpers.push_back(idle_worker());
      helpers.back()->start(&work);
    }
    if (kThreadSanitizer) {
      for (auto& helper : helpers) helper->await_begin();
    }
    work();
    for (auto& helper : helpers) helper->finish();
    const std::scoped_lock lock(mutex_);
    for (auto& helper : helpers) idle_.push_back(std::move(helper));
    if (error) std::rethrow_exception(error);
  }

  /// The number of runs with more than one task, and of tasks that ran on other threads than the
  /// caller's.
  mutable std::atomic<std::size_t> parallel_runs{0}, helped{0};

 private:
  /// A thread that waits for work.
  class Worker {
   public:
    ~Worker() {
      {
        const std::scoped_lock lock(mutex_);
        ends_ = true;
      }
      changed_.notify_all();
      thread_.join();
    }
    void start(const std::function<void()>* work) {
      {
        const std::scoped_lock lock(mutex_);
        work_ = work;
      }
      changed_.notify_all();
    }
    void await_begin() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return work_ == nullptr; });
    }
    /// Waits until work that has begun is done, and cancels work that has not.
    void finish() {
      std::unique_lock lock(mutex_);
      work_ = nullptr;
      changed_.wait(lock, [&] { return !busy_; });
    }

   private:
    void loop() {
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [&] { return work_ != nullptr || ends_; });
        if (ends_) return;
        const std::function<void()>& work = *std::exchange(work_, nullptr);
        busy_ = true;
        if (kThreadSanitizer) changed_.notify_all();
        lock.unlock();
        work();
        lock.lock();
        busy_ = false;
        changed_.notify_all();
      }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()>* work_ = nullptr;
    bool busy_ = false, ends_ = false;
    std::thread thread_{[this] { loop(); }};
  };

  /// Concurrent and nested calls of run() get different workers.
  std::unique_ptr<Worker> idle_worker() const {
    const std::scoped_lock lock(mutex_);
    if (idle_.empty()) return std::make_unique<Worker>();
    auto worker = std::move(idle_.back());
    idle_.pop_back();
    return worker;
  }

  unsigned threads_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Worker>> idle_;
};

inline const ThreadExecutor& two_threads() {
  static const ThreadExecutor executor(2);
  return executor;
}

/// Calls work(t) on this many threads at once. Each call returns its number of wrong answers; the
/// result is their sum.
template <class Work>
int wrong_at_once(unsigned threads, const Work& work) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) all.emplace_back([&, t] { wrong += work(t); });
  for (auto& thread : all) thread.join();
  return wrong;
}

inline std::vector<const scbf::Backend*> available_backends() {
  std::vector<const scbf::Backend*> available;
  for (const scbf::Backend* backend : scbf::backends()) {
    if (backend->unavailable_reason().empty()) available.push_back(backend);
  }
  return available;
}

/// The same strings in every form that a batch takes.
inline std::vector<scbf::KeyBatch> batches_of(const StringColumn& column) {
  return {column.strings, column.views, scbf::KeyBatch::from_offsets(column.data, column.offsets32),
          scbf::KeyBatch::from_offsets(column.data, column.offsets64)};
}

/// Replaces what a test's name must not contain: only letters, digits and underscores are allowed.
inline std::string identifier(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

struct Shape {
  std::string name;
  scbf::Geometry geometry;
};
inline std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name; }

/// The shapes of the contract suite, each with about this many counters in all. Sizes are odd
/// numbers, powers of two and their neighbours.
inline std::vector<Shape> contract_shapes(std::uint64_t counters) {
  using scbf::Geometry;
  std::uint64_t power = 1;
  while (power * 2 <= counters) power *= 2;
  const auto odd = [](std::uint64_t n) { return n | 1; };
  return {
      {"split_block_g1", Geometry::split_block(1, odd(counters / 128 - 3))},
      {"split_block_g2", Geometry::split_block(2, power / 256)},
      {"split_block_g3", Geometry::split_block(3, power / 256 - 1)},
      {"split_k1", Geometry::split(1, odd(counters))},
      {"split_k7", Geometry::split(7, power / 8)},
      {"split_k10", Geometry::split(10, power / 16 + 1)},
      {"split_k20", Geometry::split(20, odd(counters / 20))},
  };
}

/// The same for `ranked`, with shapes of which some, and many, blocks spill and are stuck when
/// there is a key for every seven counters. Sanitizers, which are slow, get one.
inline std::vector<Shape> ranked_shapes(std::uint64_t counters) {
  using scbf::Geometry;
  const auto blocks = [&](std::uint64_t positions) { return counters / 4 / positions | 1; };
  if (kSanitized) return {{"ranked_s112", Geometry::ranked(112, blocks(112), blocks(112) / 3)}};
  return {
      {"ranked_s82", Geometry::ranked(82, blocks(82), blocks(82) / 2)},
      {"ranked_s112", Geometry::ranked(112, blocks(112), blocks(112) / 3)},
      {"ranked_s72_no_table", Geometry::ranked(72, 256, 0)},
  };
}
/// All layouts.
inline std::vector<Shape> all_shapes(std::uint64_t counters) {
  std::vector<Shape> all = contract_shapes(counters);
  for (const Shape& shape : ranked_shapes(counters)) all.push_back(shape);
  return all;
}

struct Mode {
  unsigned threads = 1;
  scbf::Path path = scbf::Path::direct;
  std::size_t scratch_bytes = 0;

  scbf::BatchOptions options() const {
    return {.threads = threads,
            .path = path,
            .scratch_bytes = scratch_bytes,
            .executor = threads > 1 ? &two_threads() : nullptr};
  }
  std::string name() const {
    std::string name = threads == 1 ? "1_thread" : std::to_string(threads) + "_threads";
    name += path == scbf::Path::direct        ? "_direct"
            : path == scbf::Path::partitioned ? "_partitioned"
                                              : "_automatic";
    if (scratch_bytes > 0) name += "_scratch_" + std::to_string(scratch_bytes);
    return name;
  }
};
inline std::ostream& operator<<(std::ostream& out, const Mode& mode) { return out << mode.name(); }

inline std::vector<Mode> contract_modes() {
  using scbf::Path;
  return {{1, Path::direct},
          {2, Path::direct},
          {1, Path::partitioned},
          {2, Path::partitioned},
          {1, Path::automatic},
          {2, Path::partitioned, 1},  // less than one key needs
          {1, Path::partitioned, 1u << 20}};
}

/// Backend × shape × mode.
struct Case {
  const scbf::Backend* backend;
  Shape shape;
  Mode mode;

  scbf::Filter filter(std::uint64_t seed) const {
    return scbf::Filter(shape.geometry, {.seed = seed, .backend = backend->name()});
  }
  scbf::Filter model(std::uint64_t seed) const {
    return scbf::Filter(shape.geometry, {.seed = seed, .backend = "scalar"});
  }
};
inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.backend->name() << ' ' << c.shape << ' ' << c.mode;
}
struct CaseName {
  std::string operator()(const ::testing::TestParamInfo<Case>& info) const {
    return identifier(info.param.backend->name()) + "_" + info.param.shape.name + "_" +
           info.param.mode.name();
  }
};

/// The backends to be compared with the model: all except the model itself and "simd", which is one
/// of its targets ("simd:AVX2") under another name. With SCBF_TEST_DEVICES_ONLY in the
/// environment, only those whose counters are on a device.
inline std::vector<const scbf::Backend*> backends_to_compare() {
  const bool only_devices = std::getenv("SCBF_TEST_DEVICES_ONLY") != nullptr;
  std::vector<const scbf::Backend*> all;
  for (const scbf::Backend* backend : available_backends()) {
    if (only_devices && backend->memory() == scbf::kHostMemory) continue;
    if (backend->name() != "scalar" && backend->name() != "simd") all.push_back(backend);
  }
  return all;
}

/// Whether "simd" uses this target here.
inline bool is_best_target(const scbf::Backend& backend) {
  return backend.target() == scbf::find_backend("simd").target();
}

/// Whether a suite runs with this backend in this mode. Sanitizers are slow, and vector targets
/// differ in the width of their vectors only: under them the best one runs in all modes. With the
/// others, the address sanitizer sees direct changes by two threads and partitioned ones by one;
/// the thread sanitizer sees nothing.
inline bool is_worthwhile(const scbf::Backend& backend, const Mode& mode) {
  if (!kSanitized || !backend.name().starts_with("simd:") || is_best_target(backend)) return true;
  if (kThreadSanitizer) return false;
  const bool once = mode.path == scbf::Path::direct        ? mode.threads == 2
                    : mode.path == scbf::Path::partitioned ? mode.threads == 1
                                                           : false;
  return once && mode.scratch_bytes == 0;
}

inline std::vector<Case> cases_of(const std::vector<Shape>& shapes) {
  std::vector<Case> cases;
  for (const scbf::Backend* backend : backends_to_compare()) {
    for (const Shape& shape : shapes) {
      if (!backend->supports(shape.geometry.layout())) continue;
      for (const Mode& mode : contract_modes()) {
        if (is_worthwhile(*backend, mode)) cases.push_back({backend, shape, mode});
      }
    }
  }
  return cases;
}

/// The same with one of the far memories (far_backend.hpp), in one mode: the model computes there.
inline std::vector<Case> cases_with_one_far(const std::vector<Shape>& shapes) {
  std::vector<Case> cases = cases_of(shapes);
  std::erase_if(cases, [](const Case& c) {
    const bool far = c.backend->target() == "far";
    return far && (c.backend->name() != "far" || c.mode.name() != "1_thread_direct");
  });
  return cases;
}

/// A copy of the counters, also of those on a device.
template <class FilterOrStage>
inline std::vector<std::uint64_t> words_of(const FilterOrStage& filter) {
  // Not zeros, so that a word that is not read is noticed.
  std::vector<std::uint64_t> words(filter.geometry().words(), 0xCCCC'CCCC'CCCC'CCCCu);
  filter.read_words(0, words);
  return words;
}

/// Equal word for word; otherwise says where they first differ.
inline ::testing::AssertionResult same_words(std::span<const std::uint64_t> got,
                                             std::span<const std::uint64_t> want) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " words, expected " << want.size();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != want[i]) {
      return ::testing::AssertionFailure()
             << "word " << i << " is " << std::hex << got[i] << ", expected " << want[i];
    }
  }
  return ::testing::AssertionSuccess();
}

/// How many counters, or bits, are not 0 in the words of `split` or `split_block`.
inline std::uint64_t nonzero_in(scbf::Cell cell, std::span<const std::uint64_t> words) {
  // Tests of all backends do this all the time: word by word.
  std::uint64_t sum = 0;
  for (std::uint64_t word : words) {
    if (cell == scbf::Cell::counter) {
      word |= word >> 1 | word >> 2 | word >> 3;
      word &= 0x1111'1111'1111'1111u;  // a bit for each counter that is not 0
    }
    sum += static_cast<std::uint64_t>(__builtin_popcountll(word));
  }
  return sum;
}

/// Compares the number of non-zero counters that a filter keeps with a count of them.
inline ::testing::AssertionResult knows_its_fill(const scbf::Filter& filter) {
  std::uint64_t counted = 0;
  for (std::size_t s = 0; s < filter.stages(); ++s) {
    const scbf::Geometry& geometry = filter.stage(s).geometry();
    const std::vector<std::uint64_t> words = words_of(filter.stage(s));
    if (geometry.layout() == scbf::Layout::ranked) {
      for (std::uint64_t slice = 0; slice < 4 * geometry.blocks_per_group(); ++slice) {
        const std::uint64_t first = slice / 4 * 8 + slice % 4;
        for (unsigned p = 0; p < geometry.positions(); ++p) {
          counted += words[first + p / 64 * 4] >> p % 64 & 1;
        }
      }
      continue;
    }
    counted += nonzero_in(scbf::Cell::counter, words);
  }
  if (filter.nonzero() == counted) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "nonzero() is " << filter.nonzero() << ", counted: " << counted;
}

/// Equal stages: counters, or bits, numbers of keys inserted, and what is said to be non-zero.
template <class AnyFilter>
::testing::AssertionResult same_stages(const AnyFilter& got, const AnyFilter& want) {
  if (got.stages() != want.stages()) {
    return ::testing::AssertionFailure() << got.stages() << " stages, expected " << want.stages();
  }
  for (std::size_t s = 0; s < got.stages(); ++s) {
    const auto same = same_words(words_of(got.stage(s)), words_of(want.stage(s)));
    if (!same) return ::testing::AssertionFailure() << "stage " << s << ": " << same.message();
    if (got.stage(s).keys_inserted() != want.stage(s).keys_inserted()) {
      return ::testing::AssertionFailure() << "stage " << s << ": " << got.stage(s).keys_inserted()
                                           << " keys, expected " << want.stage(s).keys_inserted();
    }
    if (got.stage(s).nonzero() != want.stage(s).nonzero()) {
      return ::testing::AssertionFailure()
             << "stage " << s << ": nonzero() is " << got.stage(s).nonzero();
    }
  }
  return ::testing::AssertionSuccess();
}

/// Answers equal; otherwise says which key differs first.
template <class Answers>
::testing::AssertionResult same_answers(const Answers& got, const Answers& want) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " answers, expected " << want.size();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != want[i]) {
      return ::testing::AssertionFailure()
             << "key " << i << " of " << got.size() << ": " << +got[i] << ", expected " << +want[i];
    }
  }
  return ::testing::AssertionSuccess();
}

using Answers = std::vector<std::uint8_t>;

// The answers of any filter, with one stage or several.
template <class AnyFilter>
Answers contains(const AnyFilter& filter, const scbf::KeyBatch& keys,
                 const scbf::BatchOptions& options = {.threads = 1}) {
  Answers out(keys.size(), 0xCC);  // so that an answer that is not written is noticed
  filter.contains(keys, out, options);
  return out;
}
/// How many answers of `contains`, or verdicts, are 1.
inline std::uint64_t present_in(const Answers& answers) {
  return static_cast<std::uint64_t>(std::ranges::count(answers, 1));
}
template <class AnyFilter>
Answers count(const AnyFilter& filter, const scbf::KeyBatch& keys,
              const scbf::BatchOptions& options = {.threads = 1}) {
  Answers out(keys.size(), 0xCC);
  filter.count(keys, out, options);
  return out;
}
template <class AnyFilter>
Answers remove(AnyFilter& filter, const scbf::KeyBatch& keys,
               const scbf::BatchOptions& options = {.threads = 1}) {
  Answers out(keys.size(), 0xCC);
  filter.remove(keys, out, options);
  return out;
}

/// A filter whose stages before stage `last` have been emptied by removal, but for few keys that
/// several stages claim.
inline scbf::Filter with_late_stage_only(const scbf::Growth& growth, std::uint32_t last) {
  scbf::Filter filter(growth);
  std::vector<std::uint64_t> older;
  for (std::uint64_t key = 0; filter.stages() <= last || filter.stage(last).fill() < 0.4; ++key) {
    if (filter.stages() <= last) older.push_back(mixed(key));
    filter.insert(mixed(key));
  }
  older.pop_back();  // it is in the last stage
  for (int round = 0; round < 2; ++round) filter.remove(older);
  return filter;
}

/// Expects `statement` to throw `exception` with a message that contains `text`.
#define SCBF_EXPECT_THROW(statement, exception, text)                              \
  do {                                                                             \
    try {                                                                          \
      statement;                                                                   \
      ADD_FAILURE() << #statement " did not throw";                                \
    } catch (const exception& error) {                                             \
      EXPECT_NE(std::string_view(error.what()).find(text), std::string_view::npos) \
          << "message: " << error.what() << "\nmust contain: " << (text);          \
    }                                                                              \
  } while (false)

}  // namespace scbf_test
