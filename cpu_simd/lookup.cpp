// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/lookup.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "cpu_simd/fetch_distance.hpp"
#include "cpu_simd/pass.hpp"
#include "cpu_simd/path_times.hpp"
#include "cpu_simd/strip.hpp"
#include "cpu_simd/tuning.hpp"
#include "kit/answer_forms.hpp"
#include "kit/executor.hpp"

namespace scbf {

namespace {

// ---- directly -----------------------------------------------------------------------------------

/// Calls ask(first, end), which returns hits, for stretches of the batch, shared among threads.
template <class Ask>
std::uint64_t share_keys(std::size_t keys, unsigned threads, const BatchOptions& options, Ask ask) {
  if (threads == 1 || keys <= kTaskKeys) return ask(std::size_t{0}, keys);
  std::atomic<std::uint64_t> hits{0};
  run_tasks(options, threads, (keys + kTaskKeys - 1) / kTaskKeys, [&](std::size_t task) {
    hits += ask(task * kTaskKeys, std::min(keys, (task + 1) * kTaskKeys));
  });
  return hits;
}

/// A strip of keys on its way through the arrays.
struct Strip {
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  alignas(64) std::array<std::uint64_t, kStripKeys> positions;
  std::array<std::uint16_t, kStripKeys> index;   // of hashes[i] among the strip's valid keys
  std::array<std::uint8_t, kStripKeys> least;    // smallest answer to hashes[i] so far
  std::array<std::uint8_t, kStripKeys> answers;  // of the current array
  std::size_t keys = 0;
  bool complete = true;  // no key has been dropped: index[i] would be i
};
static_assert(kStripKeys <= 1u << 16);
static_assert(kStripKeys <= kMostKeys);

/// Drops the keys of the strip that are known to be absent. Branch-free, since answers are
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

/// Is it worth dropping the absent keys? That saves their probes but moves the other keys. It pays
/// for filters in memory if an eighth of the keys is absent; in cache, a probe costs less than the
/// move.
bool worth_dropping(const Strip& strip, const Fetch& fetch) noexcept {
  if (fetch.distance == 0) return false;
  std::size_t absent = 0;
  for (std::size_t i = 0; i < strip.keys; ++i) absent += strip.least[i] == 0;
  return absent * 8 >= strip.keys;
}

/// Writes the smallest answer over all arrays for each of the strip's valid keys, without gaps.
void ask_strip(const ConstFilterArrays& filter, Question question, const Fetch& fetch, Strip& strip,
               std::uint8_t* out) noexcept {
  const std::size_t valid = strip.keys;
  strip.complete = true;
  for (std::uint32_t a = 0; a < filter.arrays && strip.keys > 0; ++a) {
    const Array array = filter.array(a);
    filter.array_kernels.locate(array, strip.hashes.data(), strip.keys, strip.positions.data());
    std::uint8_t* answers = filter.arrays == 1 ? out
                            : a == 0           ? strip.least.data()
                                               : strip.answers.data();
    question(filter.view.geometry, filter.words(array), strip.positions.data(), strip.keys, fetch,
             answers);
    if (filter.arrays == 1) return;
    if (a > 0) {
      for (std::size_t i = 0; i < strip.keys; ++i) {
        strip.least[i] = std::min(strip.least[i], strip.answers[i]);
      }
    }
    if (a + 1 < filter.arrays && worth_dropping(strip, fetch)) keep_present(strip);
  }
  if (strip.complete) {
    std::copy_n(strip.least.data(), valid, out);
  } else {
    std::fill_n(out, valid, std::uint8_t{0});
    for (std::size_t i = 0; i < strip.keys; ++i) out[strip.index[i]] = strip.least[i];
  }
}

/// Looks keys up in a single filter, array after array; the smallest answer counts. If `out` is
/// null, answers are counted only.
std::uint64_t ask_one(const ConstFilterArrays& filter, Question question, const KeyBatch& keys,
                      std::size_t first, std::size_t end, std::uint8_t* out) noexcept {
  Strip strip;
  std::array<std::uint8_t, kStripKeys> counted;
  std::uint64_t hits = 0;
  const auto ask = [&](std::size_t from, std::size_t to, const Fetch& fetch) noexcept {
    for (std::size_t i = from; i < to; i += kStripKeys) {
      const std::size_t n = std::min(kStripKeys, to - i);
      const std::size_t valid = strip.keys = filter.hash(keys, i, n, strip.hashes.data());
      std::uint8_t* const answers = out == nullptr ? counted.data() : out + i;
      ask_strip(filter, question, fetch, strip, answers);
      hits += count_hits({answers, valid});
      if (out != nullptr) spread_answers(keys, i, n, answers);
    }
  };
  at_best_distance(Operation::lookup, filter.view.geometry, first, end, ask);
  return hits;
}

/// Sums the smallest counters in several filters; keys are hashed once.
std::uint64_t count_in_all(std::span<const ConstFilterArrays> filters, const KeyBatch& keys,
                           std::size_t first, std::size_t end, std::uint8_t* out) noexcept {
  Strip strip;
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  std::array<std::uint8_t, kStripKeys> counts;
  std::uint64_t hits = 0;
  for (std::size_t i = first; i < end; i += kStripKeys) {
    const std::size_t n = std::min(kStripKeys, end - i);
    const std::size_t valid = filters[0].hash(keys, i, n, hashes.data());
    std::fill_n(out + i, valid, std::uint8_t{0});
    for (const ConstFilterArrays& filter : filters) {
      strip.hashes = hashes;
      strip.keys = valid;
      ask_strip(filter, filter.how_often(),
                {.distance = distance_for(filter.view.geometry.bytes())}, strip, counts.data());
      add_counts({counts.data(), valid}, out + i);
    }
    hits += count_hits({out + i, valid});
    spread_answers(keys, i, n, out + i);
  }
  return hits;
}

/// Looks keys up in several filters, or in one filter of several arrays.
std::uint64_t find_in_any(std::span<const ConstFilterArrays> filters, const KeyBatch& keys,
                          std::size_t first, std::size_t end, std::uint8_t* out) {
  const auto distance_of = [](const ConstFilterArrays& filter) {
    return distance_for(filter.view.geometry.bytes());
  };
  // For one filter nothing is allocated: removal looks keys up after it has begun.
  Asked only(filters[0], distance_of(filters[0]));
  std::vector<Asked> several;
  if (filters.size() > 1) {
    several.reserve(filters.size());
    for (const ConstFilterArrays& filter : filters)
      several.emplace_back(filter, distance_of(filter));
  }
  const std::span<Asked> asked = several.empty() ? std::span(&only, 1) : std::span(several);
  const bool far = std::ranges::any_of(asked, [](const Asked& a) { return a.first_distance > 0; });
  LookupStrip strip(filters[0].kernels, asked, far && filters.size() > 1);
  alignas(64) std::array<std::uint64_t, kStripKeys> hashes;
  std::uint64_t hits = 0;
  const auto ask = [&](std::size_t from, std::size_t to) noexcept {
    for (std::size_t i = from; i < to; i += kStripKeys) {
      const std::size_t n = std::min(kStripKeys, to - i);
      const std::size_t valid = filters[0].hash(keys, i, n, hashes.data());
      strip.ask(hashes.data(), valid, {}, out + i);
      hits += count_hits({out + i, valid});
      spread_answers(keys, i, n, out + i);
    }
  };
  if (several.empty()) {
    at_best_distance(Operation::lookup, filters[0].view.geometry, first, end,
                     [&](std::size_t from, std::size_t to, const Fetch& fetch) noexcept {
                       only.first_distance = only.next_distance = fetch.distance;
                       ask(from, to);
                     });
  } else {
    ask(first, end);
  }
  return hits;
}

// ---- partition by partition ---------------------------------------------------------------------

/// Looks keys up in one filter by partitions. If there is no memory for them, it does nothing, sets
/// choice.way to direct and returns 0.
template <unsigned bits>
std::uint64_t ask_by_position(const ConstFilterArrays& filter, Question question,
                              const KeyBatch& keys, std::uint8_t* out, Choice& choice,
                              const BatchOptions& options) {
  std::optional<ArrayPass<const std::uint64_t>> pass;
  if (!make_pass(choice, [&] { pass.emplace(filter, choice, options); })) return 0;
  std::uint64_t hits = 0;
  pass->for_each_window(keys, [&] {
    hits += pass->ask<bits>(keys, question, out);
    pass->spread(keys, out);
  });
  return hits;
}

/// Counts the keys that are in a filter of one array, by partitions. If there is no memory, as
/// ask_by_position.
std::uint64_t count_by_position(const ConstFilterArrays& filter, const KeyBatch& keys,
                                Choice& choice, const BatchOptions& options) {
  std::optional<ArrayPass<const std::uint64_t>> pass;
  if (!make_pass(choice, [&] { pass.emplace(filter, choice, options); })) return 0;
  std::uint64_t present = 0;
  pass->for_each_window(keys, [&] { present += pass->count_present(keys, filter.is_present()); });
  return present;
}

/// Looks keys up in one filter after another and joins the answers: ask(f, keys, answers) writes
/// the answers of filter f, join(answers, out) combines them with those before. Temporary memory:
/// kAnswerWindow bytes.
template <class Ask, class Join>
std::uint64_t ask_one_by_one(std::size_t filters, const KeyBatch& keys, std::uint8_t* out, Ask ask,
                             Join join) {
  std::uint64_t hits = 0;
  std::vector<std::uint8_t> answers(std::min(keys.size(), kAnswerWindow));
  for (std::size_t first = 0; first < keys.size(); first += kAnswerWindow) {
    const std::size_t n = std::min(kAnswerWindow, keys.size() - first);
    std::fill_n(out + first, n, std::uint8_t{0});
    for (std::size_t f = 0; f < filters; ++f) {
      ask(f, keys.slice(first, n), answers.data());
      join(std::span<const std::uint8_t>(answers).first(n), out + first);
    }
    hits += count_hits({out + first, n});
  }
  return hits;
}

std::uint64_t count_in_one(const ConstFilterArrays& filter, const KeyBatch& keys, std::uint8_t* out,
                           const BatchOptions& options) {
  std::uint64_t hits = 0;
  run_faster(Operation::lookup, filter.view.geometry, keys, options,
             [&](std::size_t from, const KeyBatch& some, Choice& choice) {
               std::uint8_t* answers = out + from;
               if (choice.way == Way::by_position) {
                 hits += ask_by_position<kCounterBits>(filter, filter.how_often(), some, answers,
                                                       choice, options);
               }
               if (choice.way == Way::by_position) return;
               hits += share_keys(
                   some.size(), choice.threads, options, [&](std::size_t first, std::size_t end) {
                     return ask_one(filter, filter.how_often(), some, first, end, answers);
                   });
             });
  return hits;
}

}  // namespace

std::uint64_t look_up(std::span<const ConstFilterArrays> filters, const KeyBatch& keys,
                      std::uint8_t* out, Choice& choice, const BatchOptions& options) {
  if (choice.way == Way::by_position) {
    const std::uint64_t hits =
        ask_by_position<kYesOrNo>(filters[0], filters[0].is_present(), keys, out, choice, options);
    if (choice.way == Way::by_position) return hits;
  }
  switch (choice.way) {
    case Way::by_hash:
      return look_up_by_hash(filters, keys, out, choice, options);
    case Way::one_by_one:
      return ask_one_by_one(
          filters.size(), keys, out,
          [&](std::size_t f, const KeyBatch& some, std::uint8_t* answers) {
            Choice one = choose(Operation::lookup, filters[f].view.geometry, some.size(), options);
            look_up(filters.subspan(f, 1), some, answers, one, options);
          },
          [](std::span<const std::uint8_t> answers, std::uint8_t* joined) {
            for (std::size_t i = 0; i < answers.size(); ++i) joined[i] |= answers[i];
          });
    case Way::by_position:
    case Way::direct:
      break;
  }
  return share_keys(keys.size(), choice.threads, options, [&](std::size_t first, std::size_t end) {
    return filters.size() == 1 && filters[0].arrays == 1
               ? ask_one(filters[0], filters[0].is_present(), keys, first, end, out)
               : find_in_any(filters, keys, first, end, out);
  });
}

std::uint64_t count_present(const ConstFilterArrays& filter, const KeyBatch& keys, Choice& choice,
                            const BatchOptions& options) {
  if (choice.way == Way::by_position) {
    const std::uint64_t present = count_by_position(filter, keys, choice, options);
    if (choice.way == Way::by_position) return present;
  }
  return share_keys(keys.size(), choice.threads, options, [&](std::size_t first, std::size_t end) {
    return ask_one(filter, filter.is_present(), keys, first, end, nullptr);
  });
}

std::uint64_t count_keys(std::span<const ConstFilterArrays> filters, const KeyBatch& keys,
                         std::uint8_t* out, const BatchOptions& options) {
  if (filters.size() == 1) return count_in_one(filters[0], keys, out, options);
  std::vector<Choice> choices;
  choices.reserve(filters.size());
  for (const ConstFilterArrays& filter : filters) {
    choices.push_back(choose(Operation::lookup, filter.view.geometry, keys.size(), options));
  }
  if (std::ranges::all_of(choices, [](const Choice& c) { return c.way == Way::direct; })) {
    return share_keys(keys.size(), choices[0].threads, options,
                      [&](std::size_t first, std::size_t end) {
                        return count_in_all(filters, keys, first, end, out);
                      });
  }
  return ask_one_by_one(
      filters.size(), keys, out,
      [&](std::size_t f, const KeyBatch& some, std::uint8_t* answers) {
        count_in_one(filters[f], some, answers, options);
      },
      [](std::span<const std::uint8_t> counts, std::uint8_t* sums) { add_counts(counts, sums); });
}

}  // namespace scbf
