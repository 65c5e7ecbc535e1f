// SPDX-License-Identifier: Apache-2.0
// Which path is faster depends on the machine, so the library finds out: it books what large
// batches took on either path, per kind of work, and lets the next ones take the one that costs
// less. Answers and counters do not depend on the path.
//
// A try is booked if later batches will find the same scratch memory. So the first batch, which
// pays for fresh memory, tries both ways for itself alone. The first try with kept memory is not
// booked either if the whole batch needs more than is kept; all later tries are. Where the sizes
// say direct, the memory never grows, so a try uses what is kept, if that is enough for a pass.
//
// A key that goes directly costs the same in any large batch. A pass by partition costs something
// per key, and something per cache line of the filter, of which it reads all: half of what a key
// costs directly, which is a random line. That is a guess, but it matters little: with eleven keys
// per line, as at 1 %, an error of one nanosecond is a tenth of one per key.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cpu_simd/choose.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/scratch.hpp"

namespace scbf {

/// What is known about one kind of work. Any number of threads may use it.
class PathTimes {
 public:
  /// Books a try: what both ways took for parts of one batch, in nanoseconds per key. The pass read
  /// `lines_per_key` lines of each array for a key.
  void book(double direct_ns, double pass_ns, double lines_per_key) noexcept;

  /// The faster way for this many keys, if a pass reads `lines` lines of each array; empty until
  /// there was a try. It is the way that won two of the last three tries. After one try it is the
  /// way that won it; after two, one win is enough for the pass, because its first try may have met
  /// memory that was never touched before.
  std::optional<Way> faster(std::size_t keys, double lines) const noexcept;

  /// Whether this batch should try both ways: every batch until three have, later a few, more of
  /// them if a try is `cheap`. Counts the batches that ask.
  bool are_due(bool cheap) noexcept;
  /// Counts a batch that tries both.
  void count_try() noexcept { begun_.fetch_add(1, std::memory_order_relaxed); }
  /// Has no batch tried both yet? Only the first pays for scratch memory in order to do so.
  bool is_first() const noexcept { return begun_.load(std::memory_order_relaxed) == 0; }

 private:
  static constexpr std::uint32_t kTries = 3;
  struct Try {
    std::atomic<float> direct{0};  // ns per key; 0: there was no try
    std::atomic<float> pass{0};    // ns per key, less what the lines cost
  };
  std::array<Try, kTries> tries_;
  std::atomic<std::uint32_t> asked_{0}, begun_{0}, booked_{0};
};

/// The times of one kind of work (work_kinds.hpp).
PathTimes& path_times(Operation operation, const Geometry& geometry, unsigned threads) noexcept;

/// How many samples of `sample` keys go directly at either end of a batch of `keys` keys: a few.
/// If the last cache can hold the filter, as many as bring it there, up to an eighth of the batch.
std::size_t samples_for(const Geometry& geometry, std::size_t keys, std::size_t sample) noexcept;

/// Works on a batch in the way that is known to be faster. Some large batches try both: keys at the
/// beginning and the end go directly, and others between them by position. Calls work(first, keys,
/// choice) for stretches of the batch, in order. If there is no memory for partitions, `work` goes
/// directly and sets choice.way to that.
template <class Work>
void run_faster(Operation operation, const Geometry& geometry, const KeyBatch& keys,
                BatchOptions options, Work work) {
  // One size for all stretches: otherwise the next would plan with what the first has left behind.
  options.scratch_bytes = scratch_for(operation, geometry, options);
  const auto chosen = [&](std::size_t n) { return choose(operation, geometry, n, options); };
  Choice choice = chosen(keys.size());
  // Keys whose time is taken at once: a task for each thread.
  const std::size_t sample =
      is_lookup(operation) && choice.threads > 1
          ? kTaskKeys * choice.threads
          : std::clamp(keys.size() / kBatchOfSamples, kLeastSampleKeys, kSampleKeys);
  if (choice.enough == 0 || keys.size() < kBatchOfSamples * sample) {
    return work(std::size_t{0}, keys, choice);
  }
  const std::size_t samples = samples_for(geometry, keys.size(), sample);
  // A batch of which the samples leave too little for a pass by position does not count as a try.
  PathTimes& times = path_times(operation, geometry, choice.threads);
  if (keys.size() < 2 * samples * sample + choice.enough) {
    return work(std::size_t{0}, keys, choice);
  }
  // A part that pays for a pass, or all of a small batch; then the rest in the faster way. If the
  // pass won before, all at once: parts read the lines of the filter more often.
  const bool has_won = times.faster(keys.size(), choice.lines) == Way::by_position;
  const auto part_of = [&](std::size_t left, bool is_first) {
    return is_first && !has_won && left >= 4 * choice.enough ? std::max(2 * choice.enough, left / 4)
                                                             : left;
  };
  const bool is_first_try = times.is_first();
  const auto is_to_pay = [&] {
    const PartitionPlan first = chosen(part_of(keys.size() - 2 * samples * sample, true)).plan;
    return pays_once_for_scratch(first.shard_bytes * choice.threads);
  };
  bool pays = is_to_pay();
  const std::size_t kept = kept_scratch();
  if (pays && !is_first_try && choice.way == Way::direct && kept > 0) {
    options.scratch_bytes = std::min(options.scratch_bytes, kept);
    const Choice frugal = chosen(keys.size());
    if (frugal.enough != 0) choice = frugal, pays = is_to_pay();
  }
  // Where keys go by partition, only the samples of a try go in the slower way.
  const bool cheap = choice.way == Way::by_position && keys.size() >= 16 * samples * sample;
  if (!(pays ? is_first_try : times.are_due(cheap))) return work(std::size_t{0}, keys, choice);
  const bool may_book =
      !pays && !(is_first_try && choice.plan.shard_bytes * choice.threads > kept_scratch());
  times.count_try();
  std::size_t done = 0;
  const auto run = [&](std::size_t n, Choice& way) {
    const auto began = std::chrono::steady_clock::now();
    work(done, keys.slice(done, n), way);
    done += n;
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began)
        .count();
  };
  // Of the later half, or of the last 64, the median counts: the first keys may pay for memory that
  // was never touched before, or bring the filter to a cache, and of many samples the fastest was
  // lucky.
  const auto run_samples = [&] {
    Choice direct = choice;
    direct.way = Way::direct;
    std::array<double, 64> later{};
    std::size_t n = 0;
    for (std::size_t i = 0; i < samples; ++i) {
      const double ns = run(sample, direct);
      if (i >= samples / 2) later[n++ % later.size()] = ns;
    }
    const auto end = later.begin() + static_cast<std::ptrdiff_t>(std::min(n, later.size()));
    const auto median = later.begin() + (end - later.begin() - 1) / 2;  // the lower one
    std::nth_element(later.begin(), median, end);
    return *median / static_cast<double>(sample);
  };
  const double direct_ns = run_samples();
  double pass_ns = 0, lines = 0;
  std::size_t passed = 0;
  for (std::size_t left = keys.size() - done - samples * sample; left > 0;) {
    const bool is_first = passed == 0;
    const std::size_t n = part_of(left, is_first);
    Choice way = chosen(n);
    // An executor may have another number of threads than a moment ago.
    const bool may_pass = way.enough != 0;
    way.way = may_pass && (is_first || pass_ns < direct_ns * static_cast<double>(passed))
                  ? Way::by_position
                  : Way::direct;
    const double ns = run(n, way);
    if (is_first && way.way != Way::by_position) {
      Choice rest = chosen(keys.size() - done);
      return work(done, keys.slice(done, keys.size() - done), rest);
    }
    if (way.way == Way::by_position) pass_ns += ns, passed += n, lines += way.lines;
    left -= n;
  }
  // Only a removal becomes cheaper as it goes on. Otherwise the lower time counts again.
  const double end_ns = run_samples();
  const double both_ends =
      is_removal(operation) ? (direct_ns + end_ns) / 2 : std::min(direct_ns, end_ns);
  if (!may_book) return;
  const auto each = static_cast<double>(passed);
  times.book(both_ends, pass_ns / each, lines / each);
}

}  // namespace scbf
