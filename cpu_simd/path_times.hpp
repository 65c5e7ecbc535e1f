// SPDX-License-Identifier: Apache-2.0
// Which path is faster depends on the machine, so the library finds out: it books what large
// batches took on either path, per kind of work, and lets the next ones take the one that costs
// less. Answers and counters do not depend on the path.
//
// A key that goes directly costs the same in any large batch. A pass by partition costs something
// per key, and something per cache line of the filter, of which it reads all: half of what a key
// costs directly, which is a random line. That is a guess, but it matters little: with eleven keys
// per line, as at 1 %, an error of one nanosecond is a tenth of one per key.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cpu_simd/choose.hpp"
#include "cpu_simd/tuning.hpp"

namespace scbf {

/// What is known about one kind of work. Any number of threads may use it.
class PathTimes {
 public:
  /// Books `seconds` for `keys` keys in a filter of `lines` lines per array; `way` is direct or
  /// by_position. The least time counts: whatever else the machine does only adds. What is booked
  /// grows by a tenth at every later booking, in case the machine changes.
  void book(Way way, std::size_t keys, double lines, double seconds) noexcept;

  /// The faster way for so many keys; empty until both are known.
  std::optional<Way> faster(std::size_t keys, double lines) const noexcept;

  /// Whether this batch should try both ways: every batch until three have, later a few. Counts the
  /// batches that ask.
  bool are_due() noexcept;
  /// Counts a batch that tried both.
  void count_try() noexcept { tried_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<float> direct_{0};       // ns per key; 0: not known
  std::atomic<float> by_position_{0};  // ns per key, less what the lines cost
  std::atomic<std::uint32_t> asked_{0}, tried_{0};
};

/// The times of one kind of work (work_kinds.hpp).
PathTimes& path_times(Operation operation, const Geometry& geometry, unsigned threads) noexcept;

/// Works on a batch in the way that is known to be faster. Of some large batches, a few keys go
/// directly and others by position, to find that out. Only these batches are booked: the first keys
/// that go directly pay for memory that was never touched before, and theirs is not the least time,
/// so both ways are measured on the same terms. Calls work(first, keys, choice) for stretches of
/// the batch, in order. If there is no memory for partitions, `work` goes directly and sets
/// choice.way to that.
template <class Work>
void run_faster(Operation operation, const Geometry& geometry, const KeyBatch& keys,
                BatchOptions options, Work work) {
  // One size for all stretches: otherwise the next would plan with what the first has left behind.
  options.scratch_bytes = scratch_for(operation, geometry, options);
  const auto chosen = [&](std::size_t n) { return choose(operation, geometry, n, options); };
  Choice choice = chosen(keys.size());
  // Keys whose time is taken at once: a task for each thread.
  const std::size_t sample = operation == Operation::lookup && choice.threads > 1
                                 ? kTaskKeys * choice.threads
                                 : kSampleKeys;
  if (choice.enough == 0 || keys.size() < kBatchOfSamples * sample) {
    return work(std::size_t{0}, keys, choice);
  }
  // A batch of which the samples leave too little for a pass by position does not count as a try.
  // Otherwise a first pass, which pays for fresh scratch memory, could be the only one booked.
  PathTimes& times = path_times(operation, geometry, choice.threads);
  if (keys.size() < kSamples * sample + choice.enough || !times.are_due()) {
    return work(std::size_t{0}, keys, choice);
  }
  times.count_try();
  std::size_t done = 0;
  const auto run = [&](std::size_t n, Choice& way) {
    const auto began = std::chrono::steady_clock::now();
    work(done, keys.slice(done, n), way);
    done += n;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  double least = 1e9;
  Choice direct = choice;
  direct.way = Way::direct;
  for (unsigned i = 0; i < kSamples; ++i) least = std::min(least, run(sample, direct));
  times.book(Way::direct, sample, choice.lines, least);
  std::size_t left = keys.size() - done;
  Choice rest = chosen(left);
  if (rest.enough != 0 && rest.way == Way::direct) {
    // The other way gets a part that pays for a pass, or all of a small batch.
    const std::size_t some = left < 4 * rest.enough ? left : std::max(2 * rest.enough, left / 4);
    // An executor may have another number of threads than a moment ago.
    if (Choice other = chosen(some); other.enough != 0) {
      other.way = Way::by_position;
      const double seconds = run(some, other);
      times.book(other.way, some, other.lines, seconds);
      left = keys.size() - done;
      if (left == 0) return;
      rest = chosen(left);
    }
  }
  const double seconds = run(left, rest);
  times.book(rest.way, left, rest.lines, seconds);
}

}  // namespace scbf
