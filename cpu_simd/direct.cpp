// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/direct.hpp"

#include <algorithm>
#include <array>

#include "cpu_simd/tuning.hpp"
#include "kit/executor.hpp"

namespace scbf {

namespace {

/// A strip of keys on its way through the stages.
struct Strip {
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  alignas(64) std::array<std::uint64_t, kStripKeys> positions;
  std::array<std::uint16_t, kStripKeys> index;   // of hashes[i], among the strip's valid keys
  std::array<std::uint8_t, kStripKeys> least;    // smallest answer to hashes[i] so far
  std::array<std::uint8_t, kStripKeys> answers;  // of the current stage
  std::size_t keys = 0;
  bool complete = true;  // no key has been dropped: index[i] would be i
};
static_assert(kStripKeys <= 1u << 16);
static_assert(kStripKeys <= kMostKeys);

Fetch fetch_for(const Geometry& geometry) noexcept {
  return {.distance = geometry.bytes() > kFarBytes    ? kFarDistance
                      : geometry.bytes() > kNearBytes ? kNearDistance
                                                      : 0};
}

/// Drops the keys of the strip that are known to be absent. Branch-free: answers are
/// unpredictable.
void keep_present(Strip& strip) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < strip.keys; ++i) {
    strip.hashes[kept] = strip.hashes[i];
    strip.least[kept] = strip.least[i];
    strip.index[kept] = strip.complete ? static_cast<std::uint16_t>(i) : strip.index[i];
    kept += strip.least[kept] != 0;
  }
  strip.keys = kept;
  strip.complete = false;
}

/// Dropping absent keys spares their probes but moves the others: worth it in memory, when an
/// eighth is absent. In cache, a probe costs less than the move.
bool worth_dropping(const Strip& strip, const Fetch& fetch) noexcept {
  if (fetch.distance == 0) return false;
  std::size_t absent = 0;
  for (std::size_t i = 0; i < strip.keys; ++i) absent += strip.least[i] == 0;
  return absent * 8 >= strip.keys;
}

/// Smallest answers over all stages for the strip's valid keys, densely.
void ask_strip(const ReadWork& work, const Question& question, const Fetch& fetch, Strip& strip,
               std::uint8_t* out) noexcept {
  const std::size_t valid = strip.keys;
  strip.complete = true;
  for (std::uint32_t s = 0; s < work.stages && strip.keys > 0; ++s) {
    const Stage stage = work.stage(s);
    work.stage_kernels.locate(stage, strip.hashes.data(), strip.keys, strip.positions.data());
    std::uint8_t* answers = work.stages == 1 ? out
                            : s == 0         ? strip.least.data()
                                             : strip.answers.data();
    question.ask(work.words(stage), strip.positions.data(), strip.keys, fetch, answers);
    if (work.stages == 1) return;
    if (s > 0) {
      for (std::size_t i = 0; i < strip.keys; ++i) {
        strip.least[i] = std::min(strip.least[i], strip.answers[i]);
      }
    }
    if (s + 1 < work.stages && worth_dropping(strip, fetch)) keep_present(strip);
  }
  if (strip.complete) {
    std::copy_n(strip.least.data(), valid, out);
  } else {
    std::fill_n(out, valid, std::uint8_t{0});
    for (std::size_t i = 0; i < strip.keys; ++i) out[strip.index[i]] = strip.least[i];
  }
}

void ask_range(const ReadWork& work, const Question& question, const KeyBatch& keys,
               std::size_t first, std::size_t count, std::uint8_t* out) noexcept {
  Strip strip;
  const Fetch fetch = fetch_for(work.view.geometry);
  for (std::size_t i = first; i < first + count; i += kStripKeys) {
    const std::size_t n = std::min(kStripKeys, first + count - i);
    strip.keys = work.hash(keys, i, n, strip.hashes.data());
    ask_strip(work, question, fetch, strip, out + i);
    spread_answers(keys, i, n, out + i);
  }
}

}  // namespace

void direct_ask(const ReadWork& work, const Question& question, const KeyBatch& keys,
                std::uint8_t* out, const BatchOptions& options) {
  const unsigned threads = keys.size() <= kTaskKeys ? 1 : thread_count(options);
  if (threads == 1) {
    ask_range(work, question, keys, 0, keys.size(), out);
    return;
  }
  run_tasks(options, threads, (keys.size() + kTaskKeys - 1) / kTaskKeys, [&](std::size_t task) {
    const std::size_t first = task * kTaskKeys;
    ask_range(work, question, keys, first, std::min(kTaskKeys, keys.size() - first), out);
  });
}

std::uint64_t direct_add(const WriteWork& work, const KeyBatch& keys) noexcept {
  std::uint64_t filled = 0;
  Strip strip;
  const Fetch fetch = fetch_for(work.view.geometry);
  for (std::size_t i = 0; i < keys.size(); i += kStripKeys) {
    strip.keys = work.hash(keys, i, std::min(kStripKeys, keys.size() - i), strip.hashes.data());
    for (std::uint32_t s = 0; s < work.stages; ++s) {
      const Stage stage = work.stage(s);
      work.stage_kernels.locate(stage, strip.hashes.data(), strip.keys, strip.positions.data());
      filled +=
          work.stage_kernels.add(work.words(stage), strip.positions.data(), strip.keys, fetch);
    }
  }
  return filled;
}

std::uint64_t direct_remove(const WriteWork& work, const KeyBatch& keys,
                            std::uint8_t* verdicts) noexcept {
  std::uint64_t emptied = 0;
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  alignas(64) std::array<std::uint64_t, kStripPositions> positions;
  const Fetch fetch = fetch_for(work.view.geometry);
  // A multiple of 8: each stage's positions begin on a cache line, which vectors fill.
  const std::size_t most = std::min(kStripKeys, kStripPositions / work.stages / 8 * 8);
  for (std::size_t i = 0; i < keys.size(); i += most) {
    const std::size_t n = std::min(most, keys.size() - i);
    const std::size_t valid = work.hash(keys, i, n, hashes.data());
    for (std::uint32_t s = 0; s < work.stages; ++s) {
      work.stage_kernels.locate(work.stage(s), hashes.data(), valid, positions.data() + s * most);
    }
    const Located located = {positions.data(), most, valid, work.stages, work.stage_words};
    emptied += work.stage_kernels.take_present(work.view.words, located, fetch, verdicts + i);
    spread_answers(keys, i, n, verdicts + i);
  }
  return emptied;
}

}  // namespace scbf
