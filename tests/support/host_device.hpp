// SPDX-License-Identifier: Apache-2.0
// Runs the CUDA engine (cuda/src/engine) on the host: its sequences of kernels and the kernels
// themselves, on memory that is poisoned first, on several threads if asked for. Only the thin
// layer that launches kernels is left to be tested on a GPU.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace scbf_test {

/// The lanes of a warp run one after another.
class HostWarp {
 public:
  static constexpr unsigned kLanes = 32;
  template <class T>
  using PerLane = std::array<T, kLanes>;

  template <class Work>
  auto each(Work work) const {
    using Result = std::invoke_result_t<Work, unsigned>;
    if constexpr (std::is_void_v<Result>) {
      for (unsigned l = 0; l < kLanes; ++l) work(l);
    } else {
      PerLane<Result> results;
      for (unsigned l = 0; l < kLanes; ++l) results[l] = work(l);
      return results;
    }
  }
  template <unsigned width, class T>
  PerLane<T> of_neighbour(const PerLane<T>& values, unsigned which) const {
    PerLane<T> results;
    for (unsigned l = 0; l < kLanes; ++l) results[l] = values[l / width * width + which];
    return results;
  }
  template <unsigned distance, class T>
  PerLane<T> across(const PerLane<T>& values) const {
    PerLane<T> results;
    for (unsigned l = 0; l < kLanes; ++l) results[l] = values[l ^ distance];
    return results;
  }
  template <unsigned width, class T, class Join>
  PerLane<T> joined_among(const PerLane<T>& values, Join join) const {
    PerLane<T> results;
    for (unsigned l = 0; l < kLanes; ++l) {
      const auto first = values.begin() + l / width * width;
      results[l] = std::reduce(first + 1, first + width, *first, join);
    }
    return results;
  }
  template <class T>
  std::uint32_t ballot(const PerLane<T>& values) const {
    std::uint32_t bits = 0;
    for (unsigned l = 0; l < kLanes; ++l) bits |= std::uint32_t{values[l] != 0} << l;
    return bits;
  }
  template <class T>
  T sum(const PerLane<T>& values) const {
    return std::accumulate(values.begin(), values.end(), T{0});
  }
  void sync() const {}
};

/// The threads of a block run one after another: a phase ends where `each` does.
class HostThreads {
 public:
  explicit HostThreads(unsigned threads) : threads_(threads) {}
  unsigned size() const { return threads_; }
  template <class Work>
  void each(Work work) const {
    for (unsigned rank = 0; rank < threads_; ++rank) work(rank);
  }
  template <class Work>
  auto kept(Work work) const {
    std::vector<std::invoke_result_t<Work, unsigned>> results;
    for (unsigned rank = 0; rank < threads_; ++rank) results.push_back(work(rank));
    return results;
  }
  template <class Work>
  void add_up(std::uint64_t* total, Work work) const {
    for (unsigned rank = 0; rank < threads_; ++rank) {
      std::atomic_ref(*total).fetch_add(work(rank), std::memory_order_relaxed);
    }
  }
  template <class Amount, class Place>
  void allot(std::uint32_t* next, Amount amount, Place place) const {
    for (unsigned rank = 0; rank < threads_; ++rank) {
      place(rank, std::exchange(*next, *next + amount(rank)));
    }
  }
  template <class Work>
  void each_warp(Work work) const {
    for (unsigned index = 0; index < threads_ / HostWarp::kLanes; ++index) work(HostWarp(), index);
  }
  void sync() const {}

 private:
  unsigned threads_;
};

class HostDevice {
 public:
  explicit HostDevice(unsigned threads = 1, unsigned threads_of_block = 64)
      : threads_(threads), threads_of_block_(threads_of_block) {}

  template <class Work>
  void for_each(std::size_t n, Work work) const {
    share(n, [&](std::size_t i) { work(i); });
  }
  template <class Work>
  void for_warps(std::size_t n, Work work) const {
    share((n + HostWarp::kLanes - 1) / HostWarp::kLanes,
          [&](std::size_t i) { work(HostWarp(), i * HostWarp::kLanes); });
  }
  template <class Work>
  void for_thread_blocks(std::size_t n, std::size_t bytes, Work work) const {
    share(n, [&](std::size_t i) {
      const auto shared = poisoned<std::uint64_t>(bytes / sizeof(std::uint64_t));
      work(HostThreads(threads_of_block_), i, shared.get());
    });
  }
  std::size_t thread_blocks_at_once(std::size_t) const { return 3; }
  template <class Work>
  void for_grid(Work work) const {
    work(Grid{*this});
  }

  void exclusive_sum(const std::uint64_t* in, std::uint64_t* out, std::size_t n) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t value = in[i];
      out[i] = sum;
      sum += value;
    }
  }
  template <class Index, class Wanted>
  void select(Index n, Wanted wanted, Index* out, std::uint64_t* count) const {
    *count = 0;
    for (Index i = 0; i < n; ++i) {
      if (wanted(i)) out[(*count)++] = i;
    }
  }
  template <class Value>
  auto reduce(std::size_t n, Value value) const {
    decltype(value(0)) sum{};
    for (std::size_t i = 0; i < n; ++i) sum = sum + value(i);
    return sum;
  }
  void fill(std::uint64_t* words, std::size_t n, std::uint64_t value) const {
    std::fill_n(words, n, value);
  }

  template <class T>
  auto temporary(std::size_t n) const {
    return poisoned<T>(n);
  }
  // The algorithms above need no memory of their own.
  std::size_t sum_bytes(std::size_t) const { return 1; }
  template <class Index, class Wanted>
  std::size_t select_bytes(Index, Wanted) const {
    return 1;
  }
  void reserve(std::size_t) const {}

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <class T>
  static std::unique_ptr<T[], Free> poisoned(std::size_t n) {
    void* memory = std::malloc(std::max<std::size_t>(n * sizeof(T), 1));
    std::memset(memory, 0xCC, n * sizeof(T));
    return std::unique_ptr<T[], Free>(static_cast<T*>(memory));
  }

  /// Threads that can wait for each other. Here too, a phase ends where `each` does.
  struct Grid {
    const HostDevice& device;
    template <class Work>
    void each(std::size_t n, Work work) const {
      device.share(n, work);
    }
    void sync() const {}
  };

  /// Calls work(0) … work(n − 1); the threads take turns.
  template <class Work>
  void share(std::size_t n, Work work) const {
    constexpr std::size_t kAtOnce = 16;
    if (threads_ <= 1 || n <= kAtOnce) {
      for (std::size_t i = 0; i < n; ++i) work(i);
      return;
    }
    std::atomic<std::size_t> next{0};
    const auto take = [&] {
      for (std::size_t i = next.fetch_add(kAtOnce); i < n; i = next.fetch_add(kAtOnce)) {
        for (std::size_t j = i; j < std::min(n, i + kAtOnce); ++j) work(j);
      }
    };
    std::vector<std::thread> others;
    for (unsigned t = 1; t < threads_; ++t) others.emplace_back(take);
    take();
    for (std::thread& thread : others) thread.join();
  }

  unsigned threads_, threads_of_block_;
};

}  // namespace scbf_test
