// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/change.hpp"

#include <algorithm>
#include <array>
#include <memory_resource>
#include <mutex>
#include <optional>

#include "cpu_simd/conflicts.hpp"
#include "cpu_simd/fetch_distance.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/answer_forms.hpp"
#include "kit/host_memory.hpp"

namespace scbf {

namespace {

// ---- directly -----------------------------------------------------------------------------------

std::uint64_t add_directly(const FilterArrays& filter, const KeyBatch& keys) noexcept {
  std::uint64_t filled = 0;
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  alignas(64) std::array<std::uint64_t, kStripKeys> positions;
  const auto add = [&](std::size_t first, std::size_t end, const Fetch& fetch) noexcept {
    for (std::size_t i = first; i < end; i += kStripKeys) {
      const std::size_t valid = filter.hash(keys, i, std::min(kStripKeys, end - i), hashes.data());
      for (std::uint32_t a = 0; a < filter.arrays; ++a) {
        const Array array = filter.array(a);
        filter.array_kernels.locate(array, hashes.data(), valid, positions.data());
        filled += filter.array_kernels.add(filter.view.geometry, filter.words(array),
                                           positions.data(), valid, fetch);
      }
    }
  };
  at_best_distance(Operation::insert, filter.view.geometry, 0, keys.size(), add);
  return filled;
}

/// Takes keys away one by one, each from all arrays, so that verdicts are those of sequential
/// removal. `verdicts` may be null.
ChangedKeys take_directly(const FilterArrays& filter, const KeyBatch& keys,
                          std::uint8_t* verdicts) noexcept {
  ChangedKeys removed;
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  alignas(64) std::array<std::uint64_t, kStripPositions> positions;
  std::array<std::uint8_t, kStripKeys> counted;
  // A multiple of 8, so that each array's positions begin on a cache line.
  const std::size_t most = std::min(kStripKeys, kStripPositions / filter.arrays / 8 * 8);
  const auto take = [&](std::size_t first, std::size_t end, const Fetch& fetch) noexcept {
    for (std::size_t i = first; i < end; i += most) {
      const std::size_t n = std::min(most, end - i);
      const std::size_t valid = filter.hash(keys, i, n, hashes.data());
      for (std::uint32_t a = 0; a < filter.arrays; ++a) {
        filter.array_kernels.locate(filter.array(a), hashes.data(), valid,
                                    positions.data() + a * most);
      }
      const Located located = {positions.data(), most, valid, filter.arrays, filter.array_words};
      std::uint8_t* const answers = verdicts == nullptr ? counted.data() : verdicts + i;
      removed.turned += filter.array_kernels.take_present(filter.view.geometry, filter.view.words,
                                                          located, fetch, answers);
      removed.keys += count_hits({answers, valid});
      if (verdicts != nullptr) spread_answers(keys, i, n, answers);
    }
  };
  at_best_distance(Operation::remove, filter.view.geometry, 0, keys.size(), take);
  return removed;
}

// ---- partition by partition ---------------------------------------------------------------------

/// Are nearly all keys of this window present? Looks up some of them, one per stretch. The hash of
/// the one before says which, so that no order of the batch is always missed.
bool are_present(const FilterArrays& filter, const KeyBatch& window) noexcept {
  const std::size_t step = std::max<std::size_t>(1, window.size() / kRemovalSample);
  const OneKey& one_key = filter.kernels.one_key.of(filter.view.geometry);
  std::uint64_t hash = 0;
  std::size_t asked = 0, absent = 0;
  for (std::size_t first = 0; first + step <= window.size(); first += step) {
    const std::size_t i = first + (hash >> 32) % step;
    if (filter.hash(window, i, 1, &hash) == 0) continue;  // null
    ++asked;
    absent += !one_key.holds(filter.view.geometry, filter.view.words, hash);
  }
  return static_cast<double>(absent) <= kFewAbsent * static_cast<double>(asked);
}

/// Keeps only those keys in play that may be contested.
void keep_contested(const FilterArrays& filter, const ConflictResolver& resolver,
                    Shard& shard) noexcept {
  alignas(64) std::array<std::uint64_t, kStripKeys> positions;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < shard.kept; i += kStripKeys) {
    const std::size_t n = std::min(kStripKeys, shard.kept - i);
    std::array<bool, kStripKeys> contested = {};
    for (std::uint32_t a = 0; a < filter.arrays; ++a) {
      const Array array = filter.array(a);
      filter.array_kernels.locate(array, shard.hashes + i, n, positions.data());
      for (std::size_t j = 0; j < n; ++j) contested[j] |= resolver.may_touch(array, positions[j]);
    }
    for (std::size_t j = 0; j < n; ++j) {
      if (!contested[j]) continue;
      shard.hashes[kept] = shard.hashes[i + j];
      shard.index[kept++] = shard.index[i + j];
    }
  }
  shard.kept = kept;
}

/// Takes away the keys in play, then settles the contested ones: the verdicts of keys that were not
/// present at their turn become 0.
ChangedKeys take_kept(const FilterArrays& filter, ChangePass& pass, const HostMemory& conflicts,
                      std::uint8_t* verdicts) {
  std::pmr::monotonic_buffer_resource memory(conflicts.words(), conflicts.bytes(),
                                             std::pmr::null_memory_resource());
  std::size_t kept = 0;
  for (std::size_t t = 0; t < pass.shards().size(); ++t) kept += pass.shards()[t].kept;
  Underflows underflows(kept * filter.view.geometry.probes(), memory);
  std::mutex mutex;
  ChangedKeys removed;
  for (std::uint32_t a = 0; a < filter.arrays; ++a) {
    const Array array = filter.array(a);
    pass.scatter_kept(array);
    removed.turned += pass.drain<NoAnswers>(
        array,
        [&](const std::uint64_t* positions, std::size_t n, const Fetch& fetch, std::uint8_t*) {
          std::array<std::uint64_t, kSegmentEntries * kWordsPerBlock> room;
          const Taken taken =
              filter.array_kernels.take(filter.words(array), positions, n, fetch, room.data());
          if (taken.underflows > 0) {
            const std::scoped_lock lock(mutex);
            underflows.append(array.first_word, {room.data(), taken.underflows});
          }
          return taken.emptied;
        });
  }
  Shards& shards = pass.shards();
  removed.keys = kept;
  if (underflows.empty()) return removed;
  ConflictResolver resolver(filter.view, underflows, memory);
  pass.for_each_shard([&](Shard& shard) { keep_contested(filter, resolver, shard); });
  for (std::size_t t = 0; t < shards.size(); ++t) {
    for (std::size_t i = 0; i < shards[t].kept; ++i) resolver.survey(shards[t].hashes[i]);
  }
  for (std::size_t t = 0; t < shards.size(); ++t) {
    const Shard& shard = shards[t];
    for (std::size_t i = 0; i < shard.kept; ++i) {
      if (resolver.settle(shard.hashes[i])) continue;
      verdicts[shard.first + shard.index[i]] = 0;
      --removed.keys;
    }
  }
  removed.turned -= resolver.finish();
  return removed;
}

ChangedKeys take_by_position(const FilterArrays& filter, ChangePass& pass, const KeyBatch& keys,
                             const HostMemory& conflicts, std::uint8_t* verdicts) {
  ChangedKeys removed;
  if (filter.arrays > 1) {
    // The more keys are contested, the more there is to settle. So keys are taken away without a
    // lookup only if nearly all of them are present; otherwise they are looked up first.
    if (are_present(filter, pass.window_of(keys))) {
      pass.keep_all(keys, verdicts);
    } else {
      pass.ask<kYesOrNo>(keys, filter.is_present(), verdicts);
    }
    removed = take_kept(filter, pass, conflicts, verdicts);
  } else {
    const Array array = filter.array(0);
    pass.scatter_all(keys);
    removed.turned =
        pass.drain<AnswerWriter<kYesOrNo>>(array, [&](const std::uint64_t* positions, std::size_t n,
                                                      const Fetch& fetch, std::uint8_t* answers) {
          return filter.array_kernels.take_present(filter.view.geometry, filter.words(array),
                                                   {positions, n, n, 1, 0}, fetch, answers);
        });
    removed.keys = pass.bring_back<kYesOrNo>(array, verdicts);
  }
  pass.spread(keys, verdicts);
  return removed;
}

}  // namespace

std::uint64_t add_taken_in(const FilterArrays& filter, ChangePass& pass) noexcept {
  std::uint64_t filled = 0;
  for (std::uint32_t a = 0; a < filter.arrays; ++a) {
    const Array array = filter.array(a);
    if (a > 0) pass.scatter_kept(array);
    filled += pass.drain<NoAnswers>(array, [&](const std::uint64_t* positions, std::size_t n,
                                               const Fetch& fetch, std::uint8_t*) {
      return filter.array_kernels.add(filter.view.geometry, filter.words(array), positions, n,
                                      fetch);
    });
  }
  return filled;
}

std::uint64_t add_keys(const FilterArrays& filter, const KeyBatch& keys, Choice& choice,
                       const BatchOptions& options) noexcept {
  std::optional<ChangePass> pass;
  if (!make_pass(choice, [&] { pass.emplace(filter, choice, options); })) {
    return add_directly(filter, keys);
  }
  std::uint64_t filled = 0;
  pass->for_each_window(keys, [&] {
    pass->scatter_all(keys);
    filled += add_taken_in(filter, *pass);
  });
  return filled;
}

ChangedKeys take_keys(const FilterArrays& filter, const KeyBatch& keys, std::uint8_t* verdicts,
                      Choice& choice, const BatchOptions& options) noexcept {
  std::optional<ChangePass> pass;
  HostMemory conflicts;
  const auto make = [&] {
    pass.emplace(filter, choice, options);
    if (filter.arrays > 1) {
      conflicts = HostMemory::sparse(ConflictResolver::bytes_for(
          std::min(keys.size(), pass->keys_per_window()) * filter.view.geometry.probes()));
    }
  };
  if (!make_pass(choice, make)) return take_directly(filter, keys, verdicts);
  ChangedKeys removed;
  pass->for_each_window(keys, [&] {
    if (verdicts != nullptr) {
      removed += take_by_position(filter, *pass, keys, conflicts, verdicts);
      return;
    }
    pass->scatter_all(keys);
    removed += remove_taken_in(filter, *pass);
  });
  return removed;
}

ChangedKeys remove_taken_in(const FilterArrays& filter, ChangePass& pass) noexcept {
  const Array array = filter.array(0);
  return pass.drain<NoAnswers>(array, [&](const std::uint64_t* positions, std::size_t n,
                                          const Fetch& fetch, std::uint8_t*) {
    std::array<std::uint8_t, kSegmentEntries> answers;
    const std::uint64_t turned = filter.array_kernels.take_present(
        filter.view.geometry, filter.words(array), {positions, n, n, 1, 0}, fetch, answers.data());
    return ChangedKeys{count_hits({answers.data(), n}), turned};
  });
}

}  // namespace scbf
