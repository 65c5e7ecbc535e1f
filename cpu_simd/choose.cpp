// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/choose.hpp"

#include <algorithm>
#include <cmath>

#include "cpu_simd/caches.hpp"
#include "cpu_simd/path_times.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/executor.hpp"
#include "kit/scratch.hpp"

namespace scbf {

namespace {

std::uint64_t bytes_of(std::span<const ConstFilterArrays> filters) noexcept {
  std::uint64_t bytes = 0;
  for (const ConstFilterArrays& filter : filters) bytes += filter.view.geometry.bytes();
  return bytes;
}
/// Size of the first arrays, in which every key is looked up.
std::uint64_t first_array_bytes(std::span<const ConstFilterArrays> filters) noexcept {
  std::uint64_t bytes = 0;
  for (const ConstFilterArrays& filter : filters)
    bytes += filter.array_words * sizeof(std::uint64_t);
  return bytes;
}

/// The temporary memory that suits an operation. A filter is often built once, by a process that
/// has no scratch memory yet, and fresh memory is slow: the first insertion takes a quarter of the
/// filter's size, later ones half.
std::uint64_t suitable_scratch(Operation operation, const Geometry& geometry) noexcept {
  if (operation != Operation::insert) return geometry.bytes();
  return std::clamp(2 * kept_scratch(), geometry.bytes() / 4, geometry.bytes() / 2);
}

/// The fewest keys for which a pass over the filter pays.
std::size_t enough_keys(const Geometry& geometry) noexcept {
  return static_cast<std::size_t>(lines_per_array(geometry) * kKeysPerLine);
}

/// A thread must own the counters that it changes, so threads can share changes only by partition.
bool shares_changes(Operation operation, unsigned threads) noexcept {
  return !is_lookup(operation) && threads > 1;
}

/// Do keys drop out of play when an array shows them to be absent?
bool asks_first(Operation operation) noexcept {
  return is_lookup(operation) || is_removal(operation);
}

/// Can one pass over the filter, array by array, be cheaper than one cache miss per probe?
bool may_pay(Operation operation, const Geometry& geometry, std::size_t keys,
             unsigned threads) noexcept {
  const std::uint64_t near = shares_changes(operation, threads) ? kNearBytes : l2_bytes();
  return geometry.bytes() > near && keys >= enough_keys(geometry);
}

/// Is it likely to be? By the sizes alone.
bool is_likely_to_pay(Operation operation, const Geometry& geometry, unsigned threads) noexcept {
  const bool several = geometry.cache_lines_per_key() > 1;
  // A pass over all arrays reads lines that a direct lookup does not need: an absent key touches
  // two on average.
  if (is_lookup(operation) && several) return false;
  return geometry.bytes() > (shares_changes(operation, threads) ? 2 * l2_bytes() : l3_bytes());
}

/// Is it cheaper to look keys up in all filters, in blocks, in the order of the hashes?
bool worth_ordering(std::span<const ConstFilterArrays> filters, std::size_t keys,
                    std::size_t& enough) noexcept {
  const auto far = static_cast<std::size_t>(std::ranges::count_if(filters, [](const auto& filter) {
    return filter.array_words * sizeof(std::uint64_t) > kFarBytes;
  }));
  const double lines = static_cast<double>(first_array_bytes(filters)) / 64;
  enough = static_cast<std::size_t>(lines * any_keys_per_line(far));
  return far >= 2 && keys >= enough;
}

}  // namespace

double lines_per_array(const Geometry& geometry) noexcept {
  return static_cast<double>(geometry.bytes()) / 64 /
         static_cast<double>(geometry.cache_lines_per_key());
}

std::size_t scratch_for(Operation operation, const Geometry& geometry,
                        const BatchOptions& options) noexcept {
  return scratch_budget(suitable_scratch(operation, geometry), options);
}

Choice choose(Operation operation, const Geometry& geometry, std::size_t keys,
              const BatchOptions& options) noexcept {
  const unsigned threads = thread_count(options);
  const bool several = geometry.cache_lines_per_key() > 1;
  Choice choice = {Way::direct,
                   threads,
                   {.answers = has_answers(operation),
                    .hashes = several,
                    .index = several && asks_first(operation),
                    .added_by = several && operation == Operation::insert_new}};
  const bool automatic = options.path == Path::automatic;
  if (automatic ? !may_pay(operation, geometry, keys, threads) : options.path == Path::direct) {
    return choice;
  }
  choice.plan = plan_partitions(geometry, keys, threads, scratch_for(operation, geometry, options),
                                choice.needs);
  if (!automatic) {
    choice.way = Way::by_position;
    return choice;
  }
  // The scratch memory must hold enough keys at once for the pass to pay.
  const std::size_t enough = enough_keys(geometry), window = choice.plan.keys_per_shard * threads;
  if (window < enough) return choice;
  choice.enough = enough;
  choice.lines = lines_per_array(geometry) *
                 std::ceil(static_cast<double>(keys) / static_cast<double>(window));
  const auto likely =
      is_likely_to_pay(operation, geometry, threads) ? Way::by_position : Way::direct;
  choice.way = path_times(operation, geometry, threads).faster(keys, choice.lines).value_or(likely);
  return choice;
}

Choice choose_bulk(Operation operation, const Geometry& geometry,
                   const BatchOptions& options) noexcept {
  constexpr std::size_t no_end = std::size_t{1} << 40;
  BatchOptions how = options;
  how.scratch_bytes = scratch_for(Operation::insert, geometry, options);
  return choose(operation, geometry, no_end, how);
}

Choice choose_lookup(std::span<const ConstFilterArrays> filters, std::size_t keys,
                     const BatchOptions& options) noexcept {
  const bool automatic = options.path == Path::automatic;
  const unsigned threads = thread_count(options);
  Choice choice = {Way::direct, threads, {.answers = true, .hashes = false, .index = false}};
  if (options.path == Path::direct) return choice;
  const bool blocks = std::ranges::all_of(
      filters, [](const ConstFilterArrays& filter) { return filter.view.geometry.in_blocks(); });
  if (!blocks) {
    if (!automatic) choice.way = Way::one_by_one;
    return choice;
  }
  std::size_t enough = 0;
  if (automatic && !worth_ordering(filters, keys, enough)) return choice;
  choice.plan = plan_hash_partitions(first_array_bytes(filters), keys, threads,
                                     scratch_budget(bytes_of(filters), options), choice.needs);
  if (choice.plan.keys_per_shard * threads >= enough) choice.way = Way::by_hash;
  return choice;
}

}  // namespace scbf
