// SPDX-License-Identifier: Apache-2.0
// Inserts the keys of a batch that are absent at their turn.
//
// A key is absent if one of its counters is 0, in whichever array. So each array adds, in batch
// order, the keys that have a counter of 0 there: these are new. A new key that an array does not
// add this way is added there later, in any order: none of its counters in that array is 0, so no
// other key's answer depends on them.
#include <algorithm>
#include <array>
#include <optional>

#include "cpu_simd/change.hpp"
#include "cpu_simd/fetch_distance.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/answer_forms.hpp"

namespace scbf {

namespace {

/// Keys of a strip, and how many arrays had to be asked before one found that a key is new.
struct FoundLate {
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  std::array<std::uint8_t, kStripKeys> after;
  std::size_t keys = 0;

  /// Keeps the keys that were found after more than so many arrays.
  void keep_after(std::uint32_t arrays) noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < keys; ++i) {
      hashes[kept] = hashes[i];
      after[kept] = after[i];
      kept += after[i] > arrays;  // branch-free: it cannot be predicted
    }
    keys = kept;
  }
};

/// Adds the new keys of a strip to all arrays of a filter. Returns how many counters, or bits,
/// became non-zero.
std::uint64_t add_new_strip(const FilterArrays& filter, const std::uint64_t* hashes, std::size_t n,
                            const Fetch& fetch, std::uint8_t* answers) noexcept {
  const Geometry& geometry = filter.view.geometry;
  const ArrayKernels& kernels = filter.array_kernels;
  alignas(64) std::array<std::uint64_t, kStripKeys> positions;
  if (filter.arrays == 1) {
    kernels.locate(filter.array(0), hashes, n, positions.data());
    std::fill_n(answers, n, std::uint8_t{0});
    return kernels.add_new(geometry, filter.view.words, positions.data(), n, fetch, answers);
  }
  std::array<std::uint8_t, kStripKeys> is_new = {}, asked = {};
  std::uint64_t filled = 0;
  // Each array adds what it, or one before it, finds to be new.
  for (std::uint32_t a = 0; a < filter.arrays; ++a) {
    const Array array = filter.array(a);
    kernels.locate(array, hashes, n, positions.data());
    filled +=
        kernels.add_new(geometry, filter.words(array), positions.data(), n, fetch, is_new.data());
    for (std::size_t i = 0; i < kStripKeys; ++i) asked[i] += is_new[i] == 0;
  }
  std::copy_n(is_new.data(), n, answers);
  if (geometry.cell() == Cell::bit) return filled;  // bits that are 1 already stay
  FoundLate late;
  for (std::size_t first = 0; first < n; first += kAnswersPerWord) {
    if (eight_answers(&asked[first]) == 0) continue;  // the first array found all of them
    for (std::size_t i = first; i < std::min(n, first + kAnswersPerWord); ++i) {
      late.hashes[late.keys] = hashes[i];
      late.after[late.keys] = asked[i];
      late.keys += asked[i] > 0 && asked[i] < filter.arrays;
    }
  }
  for (std::uint32_t a = 0; late.keys > 0; late.keep_after(++a)) {
    const Array array = filter.array(a);
    kernels.locate(array, late.hashes.data(), late.keys, positions.data());
    kernels.add(geometry, filter.words(array), positions.data(), late.keys, fetch);
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
          std::fill_n(part, n, std::uint8_t{0});  // not known of any yet
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
  std::optional<ChangePass> pass;
  if (!make_pass(choice, [&] { pass.emplace(filter, choice, options); })) {
    return add_new_directly(filter, keys, answers);
  }
  ChangedKeys added;
  pass->for_each_window(keys, [&] { added += add_new_by_position(filter, *pass, keys, answers); });
  return added;
}

}  // namespace scbf
