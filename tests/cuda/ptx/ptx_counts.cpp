// SPDX-License-Identifier: Apache-2.0
// How many PTX instructions a key costs, by operation, kernel and layout, as a table in Markdown.
// The order of threads is always the same, so that the numbers are, too. counts.py compares them
// with the documentation.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "fake_runtime.hpp"
#include "ptx_launch.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/cuda/device_filter.hpp"
#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"
#include "support/keys.hpp"

namespace {

using scbf::Cell;
using scbf::Layout;
using scbf::Path;
using scbf::cuda::DeviceFilter;
using scbf::cuda::DeviceOptions;

constexpr std::size_t kKeys = 32'768;

/// Bytes on the device.
class Memory {
 public:
  explicit Memory(std::size_t bytes) {
    if (cudaMalloc(&data_, bytes) != cudaSuccess) throw std::bad_alloc();
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

/// Which kernel this is, without its types: that of the library's functor, or of CUB's algorithm.
std::string short_name(const std::string& kernel) {
  static const std::regex kOwn(R"(_kernel<(?:\d+u, )?scbf::cuda::(\w+))"),
      kCub(R"(Device(Scan|Select|Reduce))");
  std::smatch match;
  if (std::regex_search(kernel, match, kOwn)) return match.format("`$1`");
  if (std::regex_search(kernel, match, kCub)) return match.format("CUB, `Device$1`");
  return "others";
}

using Counts = std::map<std::string, double>;  ///< instructions per key, by kernel
constexpr const char* kAll = "all";

Counts counts_of(const std::function<void()>& operation) {
  ptx::take_counts();
  operation();
  cudaDeviceSynchronize();
  Counts counts;
  for (const auto& [name, count] : ptx::take_counts()) {
    const double per_key = static_cast<double>(count.instructions) / kKeys;
    counts[short_name(name)] += per_key;
    counts[kAll] += per_key;
  }
  return counts;
}

using Numbers = std::vector<std::optional<double>>;  ///< one for each column
using Rows = std::map<std::string, Numbers>;         ///< by kernel

constexpr double kLeast = 5;  ///< in a column
/// Kernels that hardly count are added up.
void join_small(Rows& rows) {
  Numbers others;
  for (auto row = rows.begin(); row != rows.end();) {
    const auto& [kernel, numbers] = *row;
    if (std::any_of(numbers.begin(), numbers.end(),
                    [](const auto& n) { return n && *n >= kLeast; })) {
      ++row;
      continue;
    }
    others.resize(numbers.size());
    for (std::size_t c = 0; c < numbers.size(); ++c) {
      if (numbers[c]) others[c] = others[c].value_or(0) + *numbers[c];
    }
    row = rows.erase(row);
  }
  if (!others.empty()) rows["others"] = others;
}

struct Column {
  std::string name;
  scbf::Geometry geometry;
};

/// Adds, for each operation, the counts of a column.
void count(const scbf::Geometry& geometry,
           std::vector<std::pair<std::string, Counts>>& operations) {
  const Memory keys(kKeys * 8), asked(kKeys * 8), answers(kKeys);
  const auto upload = [](const Memory& to, const std::vector<std::uint64_t>& from) {
    cudaMemcpy(to.as<void>(), from.data(), from.size() * 8, cudaMemcpyHostToDevice);
  };
  const auto inserted = scbf_test::random_keys(kKeys, 1);
  upload(keys, inserted);
  auto batch = inserted;
  const auto absent = scbf_test::random_keys(kKeys / 2, 2);
  std::copy(absent.begin(), absent.end(), batch.begin());  // half of those asked for are there
  upload(asked, batch);
  const bool ranked = geometry.layout() == Layout::ranked;
  for (const auto& [name, path] :
       {std::pair("direct", Path::direct), std::pair("partitioned", Path::partitioned)}) {
    if (ranked && path == Path::direct) continue;  // insertions are always partitioned
    const DeviceOptions options{.path = path};
    DeviceFilter filter(geometry, 1);
    const auto add = [&, path_name = name](const char* operation, bool has_paths,
                                           const std::function<void()>& run) {
      operations.emplace_back(has_paths ? fmt::format("{}, {}", operation, path_name) : operation,
                              counts_of(run));
    };
    add("insert", true, [&] { filter.insert_async({keys.as<std::uint64_t>(), kKeys}, options); });
    const auto look_up = [&] {
      add("look up", false, [&] {
        filter.contains_async({asked.as<std::uint64_t>(), kKeys}, answers.as<std::uint8_t>(),
                              options);
      });
    };
    if (path == Path::direct || ranked) {
      DeviceFilter empty(geometry, 1);
      add("insert new", false, [&] {
        empty.insert_new_async({keys.as<std::uint64_t>(), kKeys}, answers.as<std::uint8_t>());
      });
      add("insert new, again", false, [&] {
        empty.insert_new_async({keys.as<std::uint64_t>(), kKeys}, answers.as<std::uint8_t>());
      });
    }
    if (ranked) return look_up();
    scbf::Filter of_host(geometry.with(Cell::counter), {.seed = 1, .backend = "cuda"});
    if (geometry.cell() == Cell::bit) {
      scbf::BloomFilter bits(geometry, {.seed = 1, .backend = "cuda"});
      add("insert and count", true, [&] { bits.insert(inserted, {.path = options.path}); });
    } else {
      add("insert and count", true, [&] { of_host.insert(inserted, {.path = options.path}); });
    }
    if (path == Path::direct) look_up();
    if (geometry.cell() == Cell::bit) continue;
    if (path == Path::direct) {
      add("count", false, [&] {
        filter.count_async({asked.as<std::uint64_t>(), kKeys}, answers.as<std::uint8_t>(), options);
      });
    }
    add("remove", true, [&] {
      filter.remove_async({keys.as<std::uint64_t>(), kKeys}, answers.as<std::uint8_t>(), options);
    });
    add("remove and count", true, [&] { of_host.remove(inserted, {}, {.path = options.path}); });
  }
}

int print() {
  fake_cuda::set_machine({});
  ptx::set_settings({.races = false, .stale_loads = false, .scatter = false});
  const auto block = scbf::geometry_for(Layout::split_block, kKeys, 0.01);
  const std::vector<Column> columns = {
      {"`split_block`", block},
      {"`split`", scbf::geometry_for(Layout::split, kKeys, 0.01)},
      {"`split_block`, bits", block.with(Cell::bit)},
      {"`ranked`", scbf::geometry_for(Layout::ranked, kKeys, 0.01)}};
  // By operation and kernel, in the order of the first column: the counts of each column.
  std::vector<std::string> order;
  std::map<std::string, Rows> table;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::vector<std::pair<std::string, Counts>> operations;
    count(columns[c].geometry, operations);
    for (const auto& [operation, counts] : operations) {
      if (!table.contains(operation)) order.push_back(operation);
      for (const auto& [kernel, per_key] : counts) {
        auto& row = table[operation][kernel];
        row.resize(columns.size());
        row[c] = per_key;
      }
    }
  }
  fmt::print("| operation | kernel |");
  for (const Column& column : columns) fmt::print(" {} |", column.name);
  fmt::print("\n|---|---|");
  for (std::size_t c = 0; c < columns.size(); ++c) fmt::print("--:|");
  fmt::print("\n");
  for (const std::string& operation : order) {
    const auto print_row = [&](const std::string& kernel, const Numbers& row) {
      fmt::print("| {} | {} |", kernel == kAll ? operation : "", kernel);
      for (const auto& per_key : row)
        fmt::print(" {} |",
                   per_key ? fmt::format("{:.{}f}", *per_key, *per_key < 10 ? 1 : 0) : "n/a");
      fmt::print("\n");
    };
    join_small(table[operation]);
    print_row(kAll, table[operation][kAll]);
    for (const auto& [kernel, row] : table[operation]) {
      if (kernel != kAll) print_row(kernel, row);
    }
  }
  const auto problems = fake_cuda::take_problems();
  for (const std::string& problem : problems) fmt::print(stderr, "{}\n", problem);
  return problems.empty() ? 0 : 1;
}

}  // namespace

int main() { return print(); }
