// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/choose.hpp"

#include <algorithm>

#include "cpu_simd/tuning.hpp"
#include "kit/executor.hpp"
#include "kit/few_keys.hpp"

namespace scbf {

namespace {

bool is_blocks(const Geometry& geometry) noexcept {
  return geometry.layout() == Layout::split_block;
}

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

PartitionPlan plan_for(const Geometry& geometry, std::size_t keys, unsigned threads,
                       ScratchNeeds needs, const BatchOptions& options) noexcept {
  return plan_partitions(geometry, keys, threads, scratch_budget(geometry.bytes(), options), needs);
}

/// The fewest keys for which a pass over the filter pays.
std::size_t enough_keys(const Geometry& geometry) noexcept {
  const double lines_per_array = static_cast<double>(geometry.bytes()) / 64 /
                                 static_cast<double>(geometry.cache_lines_per_key());
  return static_cast<std::size_t>(lines_per_array * kKeysPerLine);
}

/// Judging by sizes, is one pass over the filter, array by array, cheaper than one cache miss per
/// probe?
bool worth_partitioning(Operation operation, const Geometry& geometry, std::size_t keys,
                        unsigned threads) noexcept {
  const bool several = geometry.cache_lines_per_key() > 1;
  // A pass over all slices is slower than the direct path: an absent key touches two lines on
  // average, and for present keys the lines of all slices are fetched ahead
  // (docs/performance_notes.md).
  if (operation == Operation::lookup && !is_blocks(geometry)) return false;
  // With several arrays, partitioned removal first looks keys up and then takes them away. That is
  // twice the work, which pays only if threads share it.
  if (operation == Operation::remove && several && threads == 1) return false;
  // A thread must own the counters that it changes, so threads can share changes only by partition.
  const bool share = operation != Operation::lookup && threads > 1;
  const std::uint64_t share_above = threads > 2 ? kNearBytes
                                    : operation == Operation::remove && several
                                        ? kShareRemoveOfSeveralBytes
                                        : kShareBytes;
  const std::uint64_t alone_above =
      operation == Operation::insert ? kDirectInsertBytes : kDirectAnswerBytes;
  return geometry.bytes() > (share ? share_above : alone_above) && keys >= enough_keys(geometry);
}

/// Is it cheaper to look keys up in all filters, of split_block, in the order of the hashes?
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

Choice choose(Operation operation, const Geometry& geometry, std::size_t keys,
              const BatchOptions& options) noexcept {
  const unsigned threads = thread_count(options);
  const bool several = geometry.cache_lines_per_key() > 1;
  Choice choice = {Way::direct,
                   threads,
                   {.answers = operation != Operation::insert,
                    .hashes = several,
                    .index = several && operation != Operation::insert}};
  const bool automatic = options.path == Path::automatic;
  if (automatic ? !worth_partitioning(operation, geometry, keys, threads)
                : options.path == Path::direct) {
    return choice;
  }
  choice.plan = plan_for(geometry, keys, threads, choice.needs, options);
  // The scratch memory must hold enough keys at once for the pass to pay.
  if (!automatic || choice.plan.keys_per_shard * threads >= std::min(enough_keys(geometry), keys)) {
    choice.way = Way::by_position;
  }
  return choice;
}

Choice choose_lookup(std::span<const ConstFilterArrays> filters, std::size_t keys,
                     const BatchOptions& options) noexcept {
  const bool automatic = options.path == Path::automatic;
  if (keys <= kFewKeys && options.path != Path::partitioned) return {Way::few, 1};
  if (filters.size() == 1) {
    return choose(Operation::lookup, filters[0].view.geometry, keys, options);
  }
  const unsigned threads = thread_count(options);
  Choice choice = {Way::direct, threads, {.answers = true, .hashes = false, .index = false}};
  if (options.path == Path::direct) return choice;
  const bool blocks = std::ranges::all_of(
      filters, [](const ConstFilterArrays& filter) { return is_blocks(filter.view.geometry); });
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
