// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/direct.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/src/executor.hpp"
#include "cpu_simd/conflicts.hpp"
#include "cpu_simd/tuning.hpp"

namespace scbf {

namespace {

/// A strip of keys on its way through the stages.
struct Strip {
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  alignas(64) std::array<std::uint64_t, kStripKeys> positions;
  std::array<std::uint16_t, kStripKeys> index;  // of hashes[i], among the strip's valid keys
  std::array<std::uint8_t, kStripKeys> answers;
  std::size_t keys = 0;
};
static_assert(kStripKeys <= 1u << 16);

bool is_far(const Geometry& geometry) noexcept { return geometry.bytes() > kNearBytes; }

/// Keeps the keys of the strip whose answer is not 0. Branch-free: answers are unpredictable.
template <bool first_stage>
void keep_present(Strip& strip) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < strip.keys; ++i) {
    strip.hashes[kept] = strip.hashes[i];
    strip.index[kept] = first_stage ? static_cast<std::uint16_t>(i) : strip.index[i];
    kept += strip.answers[i] != 0;
  }
  strip.keys = kept;
}

/// Answers for the strip's valid keys, densely. Afterwards the strip holds the present ones only,
/// if there is more than one stage.
template <class Word>
void ask_strip(const Work<Word>& work, Question question, bool far, Strip& strip,
               std::uint8_t* out) noexcept {
  for (std::uint32_t s = 0; s < work.stages; ++s) {
    const Stage stage = work.stage(s);
    work.stage_kernels.locate(stage, strip.hashes.data(), strip.keys, strip.positions.data());
    std::uint8_t* answers = s == 0 ? out : strip.answers.data();
    question(work.words(stage), strip.positions.data(), strip.keys, far, answers);
    if (work.stages == 1) return;
    if (s == 0) {
      std::memcpy(strip.answers.data(), out, strip.keys);
      keep_present<true>(strip);
    } else {
      for (std::size_t i = 0; i < strip.keys; ++i) {
        std::uint8_t& answer = out[strip.index[i]];
        answer = std::min(answer, strip.answers[i]);
      }
      keep_present<false>(strip);
    }
    if (strip.keys == 0) return;
  }
}

void ask_range(const ReadWork& work, Question question, const KeyBatch& keys, std::size_t first,
               std::size_t count, std::uint8_t* out) noexcept {
  Strip strip;
  const bool far = is_far(work.view.geometry);
  for (std::size_t i = first; i < first + count; i += kStripKeys) {
    const std::size_t n = std::min(kStripKeys, first + count - i);
    strip.keys = work.hash(keys, i, n, strip.hashes.data());
    ask_strip(work, question, far, strip, out + i);
    spread_answers(keys, i, n, out + i);
  }
}

/// Takes the strip's keys, all present a moment ago, away; sets the verdict of those that were
/// not there at their turn back to 0.
void take_strip(const WriteWork& work, bool far, Strip& strip, std::uint8_t* verdicts) {
  std::array<std::uint64_t, kWordsPerBlock * 64> room;
  Underflows underflows;
  for (std::uint32_t s = 0; s < work.stages; ++s) {
    const Stage stage = work.stage(s);
    work.stage_kernels.locate(stage, strip.hashes.data(), strip.keys, strip.positions.data());
    constexpr std::size_t step = room.size() / kWordsPerBlock;
    for (std::size_t i = 0; i < strip.keys; i += step) {
      const std::size_t found =
          work.stage_kernels.take(work.words(stage), strip.positions.data() + i,
                                  std::min(step, strip.keys - i), far, room.data());
      if (found > 0) underflows.append(stage.first_word, {room.data(), found});
    }
  }
  if (underflows.empty()) return;
  ConflictResolver resolver(work.view, underflows);
  for (std::size_t i = 0; i < strip.keys; ++i) resolver.survey(strip.hashes[i]);
  for (std::size_t i = 0; i < strip.keys; ++i) {
    if (!resolver.settle(strip.hashes[i])) verdicts[strip.index[i]] = 0;
  }
  resolver.finish();
}

}  // namespace

void direct_ask(const ReadWork& work, Question question, const KeyBatch& keys, std::uint8_t* out,
                const BatchOptions& options) {
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

void direct_add(const WriteWork& work, const KeyBatch& keys) noexcept {
  Strip strip;
  const bool far = is_far(work.view.geometry);
  for (std::size_t i = 0; i < keys.size(); i += kStripKeys) {
    strip.keys = work.hash(keys, i, std::min(kStripKeys, keys.size() - i), strip.hashes.data());
    for (std::uint32_t s = 0; s < work.stages; ++s) {
      const Stage stage = work.stage(s);
      work.stage_kernels.locate(stage, strip.hashes.data(), strip.keys, strip.positions.data());
      work.stage_kernels.add(work.words(stage), strip.positions.data(), strip.keys, far);
    }
  }
}

void direct_remove(const WriteWork& work, const KeyBatch& keys, std::uint8_t* verdicts) {
  Strip strip;
  const bool far = is_far(work.view.geometry);
  for (std::size_t i = 0; i < keys.size(); i += kStripKeys) {
    const std::size_t n = std::min(kStripKeys, keys.size() - i);
    strip.keys = work.hash(keys, i, n, strip.hashes.data());
    if (work.stages == 1) {
      const Stage stage = work.stage(0);
      work.stage_kernels.locate(stage, strip.hashes.data(), strip.keys, strip.positions.data());
      work.stage_kernels.take_present(work.words(stage), strip.positions.data(), strip.keys, far,
                                      verdicts + i);
    } else {
      ask_strip(work, work.stage_kernels.test, far, strip, verdicts + i);
      take_strip(work, far, strip, verdicts + i);
    }
    spread_answers(keys, i, n, verdicts + i);
  }
}

}  // namespace scbf
