// SPDX-License-Identifier: Apache-2.0
#include "bench_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace scbf::bench {

namespace {

constexpr std::size_t kAround = 10'000'000;  // about the size of an L3
constexpr std::size_t kMemory = 100'000'000;
/// Most keys per timed call where the time per key does not depend on the size of the batch.
constexpr std::size_t kSample = 4'000'000;

using Operations = std::vector<Operation>;
const Operations kAll = {Operation::insert, Operation::miss,  Operation::hit,
                         Operation::mix,    Operation::count, Operation::remove};
const Operations kMain = {Operation::insert, Operation::miss, Operation::hit, Operation::remove};
const Operations kFew = {Operation::insert, Operation::hit};
const Operations kPlain = {Operation::insert, Operation::miss, Operation::hit, Operation::mix};

class Matrix {
 public:
  explicit Matrix(Size size) : size_(size) {}

  void add(Case c, Operations operations) {
    const bool batched = c.ours() && c.backend != "scalar";
    c.batch = batched ? c.n : std::min(c.n, kSample);
    const std::size_t keys = size_ == Size::smoke   ? c.n
                             : size_ == Size::quick ? (batched ? 4'000'000 : 1'000'000)
                                                    : (batched ? 8'000'000 : 2'000'000);
    c.batches = std::max<std::size_t>(1, keys / c.batch);
    c.repetitions = size_ == Size::smoke                                ? 1
                    : c.n >= (size_ == Size::quick ? kAround : kMemory) ? 3
                                                                        : 5;
    c.operations = std::move(operations);
    cases_.push_back(std::move(c));
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  Size size_;
  std::vector<Case> cases_;
};

/// Of the CPU: filters in the memory of a device are measured by bench/cuda.
std::vector<std::string> available_backends() {
  std::vector<std::string> names;
  for (const Backend* backend : backends()) {
    if (backend->memory() != kHostMemory) continue;
    if (backend->unavailable_reason().empty()) names.emplace_back(backend->name());
  }
  return names;
}

bool two_threads() { return std::thread::hardware_concurrency() >= 2; }

void add_smoke(Matrix& m) {
  const std::size_t n = 20'000;
  for (const Kind kind : {Kind::split_block, Kind::split}) {
    for (const std::string& backend : available_backends()) {
      for (const Path path : {Path::direct, Path::partitioned}) {
        m.add({.kind = kind, .n = n, .backend = backend, .path = path, .threads = 2}, kAll);
      }
    }
  }
  m.add({.kind = Kind::split_block, .n = n, .fpr = 0.001, .words_each = 2}, kAll);
  m.add({.kind = Kind::textbook, .n = n}, kAll);
  m.add({.kind = Kind::libbloom, .n = n}, kPlain);
  m.add({.kind = Kind::unordered_set, .n = n}, kMain);
}

void add_comparators(Matrix& m, std::size_t n) {
  m.add({.kind = Kind::textbook, .n = n}, kAll);
  m.add({.kind = Kind::libbloom, .n = n}, kPlain);
  if (n <= 1'000'000) m.add({.kind = Kind::unordered_set, .n = n}, kMain);
}

void add_targets(Matrix& m, std::size_t n) {
  for (const std::string& backend : available_backends()) {
    if (backend == "simd") continue;  // is one of the others, and timed as itself
    m.add({.kind = Kind::split_block, .n = n, .backend = backend}, kMain);
    if (backend == "scalar") m.add({.kind = Kind::split, .n = n, .backend = backend}, kMain);
  }
}

void add_paths(Matrix& m, Kind kind, std::size_t n, const Operations& operations) {
  for (const Path path : {Path::direct, Path::partitioned}) {
    m.add({.kind = kind, .n = n, .path = path}, operations);
  }
}

void add_caches(Matrix& m, bool thorough) {
  // The filter of 10^5 keys is a little larger than an L2 of 512 KiB; half of it fits everywhere.
  m.add({.kind = Kind::split_block, .n = 50'000}, kAll);
  for (const std::size_t n : {std::size_t{100'000}, std::size_t{1'000'000}, kAround}) {
    for (const Kind kind : {Kind::split_block, Kind::split}) {
      m.add({.kind = kind, .n = n}, kAll);
      if (n == 100'000 || (!thorough && kind == Kind::split)) continue;
      add_paths(m, kind, n, kMain);
      if (two_threads()) m.add({.kind = kind, .n = n, .threads = 2}, kMain);
    }
    if (thorough || n == 100'000) {
      m.add({.kind = Kind::split_block, .n = n, .fpr = 0.001}, kMain);
      if (n != 1'000'000) add_targets(m, n);
    }
    if (n == 1'000'000) {
      for (const char* backend : {"scalar", "simd"}) {
        m.add({.kind = Kind::split_block, .n = n, .words_each = 2, .backend = backend}, kMain);
      }
      m.add({.kind = Kind::split_block, .n = n, .backend = "scalar"}, kMain);
    }
    add_comparators(m, n);
  }
}

void add_memory(Matrix& m) {
  const std::size_t n = kMemory;
  m.add({.kind = Kind::split_block, .n = n}, kAll);
  add_paths(m, Kind::split_block, n, kMain);
  m.add({.kind = Kind::split, .n = n}, kMain);
  add_paths(m, Kind::split, n, kFew);
  for (const Kind kind : {Kind::split_block, Kind::split}) {
    if (two_threads()) m.add({.kind = kind, .n = n, .threads = 2}, kMain);
  }
  m.add({.kind = Kind::split_block, .n = n, .fpr = 0.001}, kMain);
  m.add({.kind = Kind::split_block, .n = n, .backend = "scalar"}, kFew);
  add_comparators(m, n);
}

std::string to_string(Path path) {
  switch (path) {
    case Path::direct:
      return "direct";
    case Path::partitioned:
      return "partitioned";
    case Path::automatic:
      break;
  }
  return "automatic";
}

}  // namespace

std::string to_string(Operation operation) {
  switch (operation) {
    case Operation::insert:
      return "insert";
    case Operation::miss:
      return "miss";
    case Operation::hit:
      return "hit";
    case Operation::mix:
      return "mix";
    case Operation::count:
      return "count";
    case Operation::remove:
      break;
  }
  return "remove";
}

std::string to_string(Kind kind) {
  switch (kind) {
    case Kind::split_block:
      return "split_block";
    case Kind::split:
      return "split";
    case Kind::textbook:
      return "textbook";
    case Kind::libbloom:
      return "libbloom";
    case Kind::unordered_set:
      break;
  }
  return "unordered_set";
}

std::string Case::name() const {
  std::string name = fmt::format("filter:{}/n:{}", to_string(kind), n);
  if (kind != Kind::unordered_set) name += fmt::format("/fpr:{:g}", fpr);
  name += fmt::format("/keys:{}", words_each == 1 ? "u64" : "bytes16");
  if (ours()) name += fmt::format("/backend:{}/path:{}", backend, to_string(path));
  return name + fmt::format("/threads:{}", threads);
}

std::unique_ptr<Subject> Case::make() const {
  switch (kind) {
    case Kind::split_block:
    case Kind::split: {
      const Layout layout = kind == Kind::split ? Layout::split : Layout::split_block;
      return make_scbf(geometry_for(layout, n, fpr), backend, path, threads);
    }
    case Kind::textbook:
      return make_textbook(n, fpr);
    case Kind::libbloom:
      return make_libbloom(n, fpr);
    case Kind::unordered_set:
      break;
  }
  return make_unordered_set(n);
}

std::vector<Case> matrix(Size size) {
  Matrix m(size);
  if (size == Size::smoke) {
    add_smoke(m);
  } else {
    add_caches(m, size == Size::full);
    if (size == Size::full) add_memory(m);
  }
  std::vector<Case> cases = m.take();
#if !SCBF_BENCH_LIBBLOOM
  std::erase_if(cases, [](const Case& c) { return c.kind == Kind::libbloom; });
#endif
  return cases;
}

}  // namespace scbf::bench
