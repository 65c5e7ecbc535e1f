// SPDX-License-Identifier: Apache-2.0
// The matrix of cases for filters of one stage, their comparators, and the floors of this machine's
// memory. A row's name holds its operation and configuration as key:value pairs, so that
// --benchmark_filter can pick by any of them.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comparators.hpp"
#include "driver/driver.hpp"
#include "driver/filter_case.hpp"
#include "driver/floors.hpp"

namespace {

using namespace scbf;
using namespace scbf::bench;

constexpr const char* kUsage =
    "usage: filter_bench [--matrix=smoke|quick|full] [Google Benchmark's flags]\n";

constexpr std::size_t kAround = 10'000'000;  // about the size of an L3
constexpr std::size_t kMemory = 100'000'000;
/// The most keys per timed call if the time per key does not depend on the size of the batch.
constexpr std::size_t kSample = 4'000'000;

using Operations = std::vector<Operation>;
const Operations kAll = {Operation::insert, Operation::hit,   Operation::miss,
                         Operation::mix,    Operation::count, Operation::remove};
const Operations kMain = {Operation::insert, Operation::miss, Operation::hit, Operation::remove};
const Operations kFew = {Operation::insert, Operation::hit};
const Operations kPlain = {Operation::insert, Operation::miss, Operation::hit, Operation::mix};

enum class Size {
  smoke,  ///< everything once, on tiny filters, to see that it works
  quick,  ///< filters that fit into caches, up to about L3
  full,   ///< also 10^8 keys, in memory
};

bool two_threads() { return std::thread::hardware_concurrency() >= 2; }

/// The backends of the CPU. bench/cuda measures filters in device memory.
std::vector<std::string> available_backends() {
  std::vector<std::string> names;
  for (const Backend* backend : backends()) {
    if (backend->memory() != kHostMemory) continue;
    if (backend->unavailable_reason().empty()) names.emplace_back(backend->name());
  }
  return names;
}

/// Adds cases in the order in which they run. They are ordered by n, so that keys are made once per
/// n.
class Matrix {
 public:
  explicit Matrix(Size size) : size_(size) {}

  void add_all() {
    add_floors();
    if (size_ == Size::smoke) return add_smoke();
    add_caches(size_ == Size::full);
    if (size_ == Size::full) add_memory();
  }

 private:
  void add(FilterCase c, Operations operations) {
    const bool batched = c.ours() && c.backend != "scalar" && !is_key_by_key(c.calls);
    c.batch = batched ? c.n : std::min(c.n, kSample);
    const std::size_t keys = size_ == Size::smoke   ? c.n
                             : size_ == Size::quick ? (batched ? 4'000'000 : 1'000'000)
                                                    : (batched ? 8'000'000 : 2'000'000);
    c.batches = std::max<std::size_t>(1, keys / c.batch);
    c.repetitions = size_ == Size::smoke                                ? 1
                    : c.n >= (size_ == Size::quick ? kAround : kMemory) ? 3
                                                                        : 5;
    c.operations = std::move(operations);
    add_filter_case(std::move(c));
  }

  void add_floors() const {
    const std::pair<Floor, const char*> floors[] = {{Floor::line_read, "line_read"},
                                                    {Floor::line_update, "line_update"},
                                                    {Floor::stream_read, "stream_read"},
                                                    {Floor::stream_copy, "stream_copy"}};
    std::vector<Row> rows;
    for (const Where where : {Where::cache, Where::memory}) {
      if (size_ == Size::smoke && where == Where::memory) continue;
      for (const auto& [floor, name] : floors) {
        for (const unsigned threads : {1u, 2u}) {
          if (threads == 2 && !two_threads()) continue;
          const double bytes =
              floor == Floor::line_update || floor == Floor::stream_copy ? 128 : 64;
          rows.push_back({.name = fmt::format("floor/access:{}/where:{}/threads:{}", name,
                                              where == Where::cache ? "l2" : "memory", threads),
                          .repetitions = size_ == Size::smoke ? 1 : 5,
                          .measure =
                              [=, floor = floor](Fixture&, Repetition& r) {
                                const FloorResult result = measure_floor(floor, where, threads);
                                r.add("", 1, result.ns_per_line * 1e-9);
                                r.counter("gb_per_second", bytes / result.ns_per_line);
                                r.label(result.variant);
                              },
                          .item = "line"});
        }
      }
    }
    add_case([] { return std::make_unique<Fixture>(); }, std::move(rows));
  }

  void add_smoke() {
    const std::size_t n = 20'000;
    for (const char* layout : {"split_block", "split", "ranked"}) {
      for (const std::string& backend : available_backends()) {
        for (const Path path : {Path::direct, Path::partitioned}) {
          add({.structure = layout,
               .n = n,
               .backend = backend,
               .options = {.threads = 2, .path = path}},
              kAll);
        }
      }
    }
    add({.n = n, .fpr = 0.001, .keys = {.words_each = 2}}, kAll);
    add_calls("split_block", n);
    add_bits("split_block", n);
    add_bits("split", n);
    add_single_bits(n);
    add_comparators(n);
  }

  void add_comparators(std::size_t n) {
    constexpr double fpr = 0.01;
    add({.structure = "textbook", .n = n, .other = [=] { return make_textbook(n, fpr); }}, kAll);
#if SCBF_BENCH_LIBBLOOM
    add({.structure = "libbloom", .n = n, .other = [=] { return make_libbloom(n, fpr); }}, kPlain);
#endif
    for (const Calls calls : {Calls::one, Calls::key}) {
      add({.structure = "blocked",
           .n = n,
           .calls = calls,
           .other = [=] { return make_blocked(n, fpr, calls); }},
          {Operation::insert, Operation::miss, Operation::hit});
    }
    if (n > 1'000'000) return;
    add({.structure = "unordered_set",
         .n = n,
         .fpr = 0,
         .other = [=] { return make_unordered_set(n); }},
        kMain);
  }

  void add_targets(std::size_t n) {
    for (const std::string& backend : available_backends()) {
      if (backend == "simd") continue;  // one of the others under another name
      add({.n = n, .backend = backend}, kMain);
      if (backend == "scalar") add({.structure = "split", .n = n, .backend = backend}, kMain);
      if (backend != "scalar") add({.structure = "ranked", .n = n, .backend = backend}, kMain);
    }
  }

  void add_paths(const char* layout, std::size_t n, const Operations& operations) {
    for (const Path path : {Path::direct, Path::partitioned}) {
      add({.structure = layout, .n = n, .options = {.threads = 1, .path = path}}, operations);
    }
  }

  /// Filters of n keys, built, and worked on in every form of calls except one batch.
  void add_calls(const char* layout, std::size_t n) {
    add({.structure = layout, .n = n}, {Operation::first_build, Operation::build});
    add({.structure = layout, .n = n, .calls = Calls::bulk},
        {Operation::first_build, Operation::build, Operation::insert, Operation::remove});
    for (const Calls calls : {Calls::small, Calls::key, Calls::view, Calls::ahead}) {
      add({.structure = layout, .n = n, .calls = calls}, kMain);
    }
  }

  /// Filters of bits, built and asked.
  void add_bits(const char* layout, std::size_t n) {
    add({.structure = layout, .n = n, .cell = Cell::bit},
        {Operation::first_build, Operation::build, Operation::insert, Operation::miss,
         Operation::hit});
    for (const Path path : {Path::direct, Path::partitioned}) {
      if (n < kAround) break;
      add({.structure = layout, .n = n, .options = {.threads = 1, .path = path}, .cell = Cell::bit},
          kPlain);
    }
    if (two_threads()) {
      add({.structure = layout, .n = n, .options = {.threads = 2}, .cell = Cell::bit},
          {Operation::insert, Operation::miss, Operation::hit});
    }
  }

  /// The default layout's filter of bits, with one key a call.
  void add_single_bits(std::size_t n) {
    for (const Calls calls : {Calls::key, Calls::view, Calls::ahead}) {
      add({.n = n, .calls = calls, .cell = Cell::bit},
          {Operation::insert, Operation::miss, Operation::hit});
    }
  }

  void add_two_threads(const char* layout, std::size_t n) {
    if (two_threads()) add({.structure = layout, .n = n, .options = {.threads = 2}}, kMain);
  }

  void add_caches(bool thorough) {
    // The filter of 10^5 keys is slightly larger than an L2 of 512 KiB; half of it fits everywhere.
    add({.n = 50'000}, kAll);
    for (const std::size_t n : {std::size_t{100'000}, std::size_t{1'000'000}, kAround}) {
      for (const char* layout : {"split_block", "split", "ranked"}) {
        add({.structure = layout, .n = n}, kAll);
        if (n == 100'000 || (!thorough && layout == std::string("split"))) continue;
        add_paths(layout, n, kMain);
        add_two_threads(layout, n);
      }
      if (thorough || n == 100'000) {
        add_calls("split_block", n);
        add_calls("ranked", n);
        add({.n = n, .fpr = 0.001}, kMain);
        if (n != 1'000'000) add_targets(n);
      }
      if (n == 1'000'000) {
        for (const char* backend : {"scalar", "simd"}) {
          add({.n = n, .keys = {.words_each = 2}, .backend = backend}, kMain);
        }
        add({.n = n, .backend = "scalar"}, kMain);
      }
      for (const char* layout : {"split_block", "split"}) add_bits(layout, n);
      add_single_bits(n);
      if (n == kAround) add_bits("ranked", n);
      add_comparators(n);
    }
  }

  void add_memory() {
    const std::size_t n = kMemory;
    add({.n = n}, kAll);
    add_paths("split_block", n, kMain);
    add({.structure = "split", .n = n}, kMain);
    add_paths("split", n, kFew);
    add({.structure = "ranked", .n = n}, kAll);
    add_paths("ranked", n, kMain);
    add_calls("split_block", n);
    add_calls("ranked", n);
    for (const char* layout : {"split_block", "split", "ranked"}) add_two_threads(layout, n);
    add({.n = n, .fpr = 0.001}, kMain);
    add({.n = n, .backend = "scalar"}, kFew);
    for (const char* layout : {"split_block", "split", "ranked"}) add_bits(layout, n);
    add_single_bits(n);
    add_comparators(n);
  }

  Size size_;
};

void add_cases(const std::vector<std::string>& arguments) {
  Size size = Size::quick;
  for (const std::string& argument : arguments) {
    if (argument == "--matrix=smoke") {
      size = Size::smoke;
    } else if (argument == "--matrix=quick") {
      size = Size::quick;
    } else if (argument == "--matrix=full") {
      size = Size::full;
    } else {
      throw UsageError(argument + ": must be --matrix=smoke, quick or full");
    }
  }
  add_context("libbloom",
              SCBF_BENCH_LIBBLOOM ? "compared with" : "not found when configured: left out");
  Matrix(size).add_all();
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, kUsage, add_cases); }
