// SPDX-License-Identifier: Apache-2.0
// Inserts the keys of a batch that are absent at their turn.
//
// A key is absent if one of its counters is 0, in whichever array. So each array by itself adds, in
// batch order, the keys that have a counter there which is 0: these are new. A new key that some
// array does not add so is added there at last, in any order. None of its counters in that array is
// 0, so no other key's answer depends on them.
#include <algorithm>
#include <array>
#include <new>
#include <optional>

#include "cpu_simd/change.hpp"
#include "cpu_simd/fetch_distance.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/answer_forms.hpp"

namespace scbf {

namespace {

/// Adds the new keys of a strip to all arrays of a filter. Returns how many counters, or bits,
/// became non-zero.
std::uint64_t add_new_strip(const FilterArrays& filter, const std::uint64_t* hashes, std::size_t n,
                            const Fetch& fetch, std::uint8_t* answers) noexcept {
  const Geometry& geometry = filter.view.geometry;
  const ArrayKernels& kernels = filter.array_kernels;
  alignas(64) std::array<std::uint64_t, kStripKeys> positions;
  if (filter.arrays == 1) {
    kernels.locate(filter.array(0), hashes, n, positions.data());
    return kernels.add_new(geometry, filter.view.words, positions.data(), n, fetch, answers);
  }
  std::uint64_t filled = 0;
  std::array<std::uint64_t, kStripKeys> added = {};  // by which arrays: a bit for each
  static_assert(kMaxProbes <= 64);
  for (std::uint32_t a = 0; a < filter.arrays; ++a) {
    const Array array = filter.array(a);
    kernels.locate(array, hashes, n, positions.data());
    filled += kernels.add_new(geometry, filter.words(array), positions.data(), n, fetch, answers);
    for (std::size_t i = 0; i < n; ++i) added[i] |= std::uint64_t{answers[i]} << a;
  }
  for (std::size_t i = 0; i < n; ++i) answers[i] = added[i] != 0;
  if (geometry.cell() == Cell::bit) return filled;  // bits that are 1 already stay
  alignas(64) std::array<std::uint64_t, kStripKeys> lacking;
  for (std::uint32_t a = 0; a < filter.arrays; ++a) {
    const Array array = filter.array(a);
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; ++i) {
      lacking[count] = hashes[i];
      count += is_lacking(added[i], array);  // branch-free: it cannot be predicted
    }
    kernels.locate(array, lacking.data(), count, positions.data());
    kernels.add(geometry, filter.words(array), positions.data(), count, fetch);
  }
  return filled;
}

ChangedKeys add_new_directly(const FilterArrays& filter, const KeyBatch& keys,
                             std::uint8_t* answers) noexcept {
  ChangedKeys added;
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  const auto add = [&](std::size_t first, std::size_t end, const Fetch& fetch) noexcept {
    for (std::size_t i = first; i < end; i += kStripKeys) {
      const std::size_t n = std::min(kStripKeys, end - i);
      const std::size_t valid = filter.hash(keys, i, n, hashes.data());
      added.turned += add_new_strip(filter, hashes.data(), valid, fetch, answers + i);
      added.keys += count_hits({answers + i, valid});
      spread_answers(keys, i, n, answers + i);
    }
  };
  at_best_distance(Operation::insert_new, filter.view.geometry, 0, keys.size(), add);
  return added;
}

/// The same for a window of the partitioned path.
ChangedKeys add_new_by_position(const FilterArrays& filter, ChangePass& pass, const KeyBatch& keys,
                                std::uint8_t* answers) {
  const Geometry& geometry = filter.view.geometry;
  const ArrayKernels& kernels = filter.array_kernels;
  ChangedKeys added;
  pass.scatter_all(keys);
  for (std::uint32_t a = 0; a < filter.arrays; ++a) {
    const Array array = filter.array(a);
    if (a > 0) pass.scatter_kept(array);
    added.turned += pass.drain<AnswerWriter<kYesOrNo>>(
        array,
        [&](const std::uint64_t* positions, std::size_t n, const Fetch& fetch, std::uint8_t* part) {
          return kernels.add_new(geometry, filter.words(array), positions, n, fetch, part);
        });
    if (filter.arrays > 1) pass.note_added(array);
  }
  if (filter.arrays == 1) {
    added.keys = pass.bring_back<kYesOrNo>(filter.array(0), answers);
  } else {
    added.keys = pass.bring_back_added(answers);
    for (std::uint32_t a = 0; a < filter.arrays && geometry.cell() == Cell::counter; ++a) {
      const Array array = filter.array(a);
      pass.scatter_lacking(array);
      pass.drain<NoAnswers>(array, [&](const std::uint64_t* positions, std::size_t n,
                                       const Fetch& fetch, std::uint8_t*) {
        return kernels.add(geometry, filter.words(array), positions, n, fetch);
      });
    }
  }
  pass.spread(keys, answers);
  return added;
}

}  // namespace

ChangedKeys add_new_keys(const FilterArrays& filter, const KeyBatch& keys, std::uint8_t* answers,
                         Choice& choice, const BatchOptions& options) noexcept {
  if (choice.way == Way::direct) return add_new_directly(filter, keys, answers);
  std::optional<ChangePass> pass;
  try {
    pass.emplace(filter, choice, options);
  } catch (const std::bad_alloc&) {
    choice.way = Way::direct;
    return add_new_directly(filter, keys, answers);
  }
  ChangedKeys added;
  pass->for_each_window(keys, [&] { added += add_new_by_position(filter, *pass, keys, answers); });
  return added;
}

}  // namespace scbf
