// SPDX-License-Identifier: Apache-2.0
// The compare-and-swap update of packed words (scbf/cuda/words.hpp), the source that GPUs run: one
// thread against the model, many threads on few words, and every interleaving of a few updates.
#include "scbf/cuda/words.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "support/keys.hpp"
#include "support/scale.hpp"

namespace scbf_test::cuda_words_test {
namespace {

namespace cuda = scbf::cuda;
using Word = std::uint64_t;

/// Memory access for one thread.
struct Plain {
  Word load(const Word* word) const { return *word; }
  bool exchange(Word* word, Word& seen, Word next) const {
    if (*word != seen) {
      seen = *word;
      return false;
    }
    *word = next;
    return true;
  }
  Word load_cached(const Word* word) const { return *word; }
  Word swap(Word* word, Word seen, Word next) const {
    exchange(word, seen, next);
    return seen;
  }
};

/// Memory access for many threads.
struct HostAtomic {
  Word load(Word* word) const { return std::atomic_ref(*word).load(std::memory_order_relaxed); }
  bool exchange(Word* word, Word& seen, Word next) const {
    return std::atomic_ref(*word).compare_exchange_weak(seen, next, std::memory_order_relaxed);
  }
  Word load_cached(Word* word) const { return load(word); }
  Word swap(Word* word, Word seen, Word next) const {
    std::atomic_ref(*word).compare_exchange_strong(seen, next, std::memory_order_relaxed);
    return seen;
  }
};

Word with_counter(Word word, unsigned shift, Word value) {
  return (word & ~(Word{15} << shift)) | value << shift;
}

TEST(WordUpdate, OfOneThreadIsThatOfTheModel) {
  for (Word word : random_keys(1000, 1)) {
    for (unsigned shift = 0; shift < 64; shift += 4) {
      for (Word value = 0; value < 16; ++value) {
        word = with_counter(word, shift, value);
        Word changed = word;
        ASSERT_EQ(cuda::add_one(Plain(), &changed, shift), value);
        ASSERT_EQ(changed, with_counter(word, shift, std::min<Word>(value + 1, 15)));
        changed = word;
        ASSERT_EQ(cuda::take_one(Plain(), &changed, shift), value);
        const Word left = value == 0 || value == 15 ? value : value - 1;
        ASSERT_EQ(changed, with_counter(word, shift, left));
      }
    }
  }
}

TEST(WordUpdate, OfSeveralAtOnceIsThatOfEach) {
  constexpr unsigned kWords = 4;
  Random random(2);
  const auto value = [&]() -> Word {  // mostly one that can change
    if (random.below(4) == 0) return random.below(2) * 15;
    return 1 + random.below(random.below(2) == 0 ? 2 : 14);  // many are filled and emptied
  };
  for (std::size_t round = 0; round < 20'000; ++round) {
    Word words[kWords], want[kWords];
    Word* at[kWords];
    unsigned shifts[kWords];
    for (unsigned i = 0; i < kWords; ++i) {
      shifts[i] = static_cast<unsigned>(random.below(16)) * 4;
      words[i] = want[i] = with_counter(random(), shifts[i], value());
      at[i] = &words[i];
    }
    const auto wanted = static_cast<std::uint32_t>(round % 2 == 0 ? (1u << kWords) - 1
                                                                  : random.below(1u << kWords));
    std::uint32_t filled = cuda::add_ones(Plain(), at, shifts, wanted);
    for (unsigned i = 0; i < kWords; ++i) {
      if (wanted >> i & 1) filled -= cuda::add_one(Plain(), &want[i], shifts[i]) == 0;
      ASSERT_EQ(words[i], want[i]);
      words[i] = want[i] = with_counter(words[i], shifts[i], value());
    }
    ASSERT_EQ(filled, 0u);
    cuda::Taken want_taken{0, 0};
    for (unsigned i = 0; i < kWords; ++i) {
      if (!(wanted >> i & 1)) continue;
      const unsigned was = cuda::take_one(Plain(), &want[i], shifts[i]);
      want_taken.missing |= std::uint32_t{was == 0} << i;
      want_taken.emptied += was == 1;
    }
    const cuda::Taken taken = cuda::take_ones(Plain(), at, shifts, wanted);
    ASSERT_EQ(taken.missing, want_taken.missing);
    ASSERT_EQ(taken.emptied, want_taken.emptied);
    for (unsigned i = 0; i < kWords; ++i) ASSERT_EQ(words[i], want[i]);
  }
}

/// Before some of the swaps, one bit for each, another thread stores a word of its own.
struct Interrupted : Plain {
  const Word* others;
  std::uint32_t which;
  unsigned* swaps;

  Word swap(Word* word, Word seen, Word next) const {
    const unsigned i = (*swaps)++;
    if (which >> i & 1) *word = others[i];
    return Plain::swap(word, seen, next);
  }
};

TEST(WordUpdate, OfSeveralAtOnceCountsWhatItSwapsAndWhatItRepeats) {
  constexpr unsigned kWords = 4;
  constexpr std::uint32_t kAll = (1u << kWords) - 1;
  Random random(3);
  for (std::size_t round = 0; round < 20'000; ++round) {
    const bool add = round % 2 == 0;
    Word words[kWords], want[kWords], others[kWords];
    Word* at[kWords];
    unsigned shifts[kWords];
    const auto which = static_cast<std::uint32_t>(random.below(kAll + 1));
    for (unsigned i = 0; i < kWords; ++i) {
      shifts[i] = static_cast<unsigned>(random.below(16)) * 4;
      words[i] = with_counter(random(), shifts[i], random.below(3) + !add);  // all can change
      others[i] = with_counter(random(), shifts[i], random.below(3));
      want[i] = which >> i & 1 ? others[i] : words[i];
      at[i] = &words[i];
    }
    std::uint32_t turned = 0, missing = 0;
    for (unsigned i = 0; i < kWords; ++i) {
      if (add) {
        turned += cuda::add_one(Plain(), &want[i], shifts[i]) == 0;
        continue;
      }
      const unsigned was = cuda::take_one(Plain(), &want[i], shifts[i]);
      turned += was == 1;
      missing |= std::uint32_t{was == 0} << i;
    }
    unsigned swaps = 0;
    const Interrupted interrupted{{}, others, which, &swaps};
    if (add) {
      ASSERT_EQ(cuda::add_ones(interrupted, at, shifts, kAll), turned);
    } else {
      const cuda::Taken taken = cuda::take_ones(interrupted, at, shifts, kAll);
      ASSERT_EQ(taken.emptied, turned);
      ASSERT_EQ(taken.missing, missing);
    }
    ASSERT_EQ(swaps, kWords);
    for (unsigned i = 0; i < kWords; ++i) ASSERT_EQ(words[i], want[i]);
  }
}

TEST(WordUpdate, OfManyThreadsLosesAndCarriesNothing) {
  constexpr unsigned kThreads = 8;
  constexpr std::size_t kWords = 4;
  const std::size_t each = scaled(200'000, 20'000);
  // Counter 0 of each word is incremented far beyond 15. Counters 1 to 14 keep the values set here,
  // so that a carry from a neighbour is noticed. Counter 15 is incremented and decremented.
  std::array<Word, kWords> words;
  for (Word& word : words) word = 0x7EDC'BA98'7654'3210u;
  std::atomic<std::uint64_t> refused = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < each; ++i) {
        Word* word = &words[(i + t) % kWords];
        cuda::add_one(HostAtomic(), word, 0);
        // Each of these threads decrements and then increments, so the counter stays in 3 … 7.
        if (t % 2 == 0) {
          refused += cuda::take_one(HostAtomic(), word, 60) == 0;
          cuda::add_one(HostAtomic(), word, 60);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 0u) << "four threads took at most four of seven";
  for (const Word word : words) EXPECT_EQ(word, 0x7EDC'BA98'7654'321Fu);
}

TEST(WordUpdate, OfManyThreadsCountsExactly) {
  // Each counter is incremented 14 times, by all threads in turn.
  constexpr unsigned kThreads = 7;
  std::vector<Word> words(scaled(20'000, 2'000));
  const auto run = [&](auto update) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (Word& word : words) {
          for (unsigned i = 0; i < 32; ++i) update(&word, (i + t) % 16 * 4);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  std::atomic<std::uint64_t> refused = 0, filled = 0, emptied = 0;
  run([&](Word* word, unsigned shift) { filled += cuda::add_one(HostAtomic(), word, shift) == 0; });
  for (const Word word : words) ASSERT_EQ(word, 0xEEEE'EEEE'EEEE'EEEEu);
  run([&](Word* word, unsigned shift) {
    const unsigned was = cuda::take_one(HostAtomic(), word, shift);
    refused += was == 0;
    emptied += was == 1;
  });
  EXPECT_EQ(refused, 0u);
  for (const Word word : words) ASSERT_EQ(word, 0u);
  EXPECT_EQ(filled, 16 * words.size());
  EXPECT_EQ(emptied, 16 * words.size());
  EXPECT_EQ(cuda::take_one(HostAtomic(), &words[0], 0), 0u);

  // The same, the word and its neighbour at once; so each counter is changed twice as often.
  const auto with_neighbour = [&](Word* word, auto use) {
    Word* at[] = {word, word + 1 == words.data() + words.size() ? words.data() : word + 1};
    use(at);
  };
  run([&](Word* word, unsigned shift) {
    if (shift % 8 == 0) return;  // each of these counters 14 times, in two words
    with_neighbour(word, [&](auto& at) {
      const unsigned shifts[] = {shift, shift - 4};
      filled += cuda::add_ones(HostAtomic(), at, shifts, 3);
    });
  });
  for (const Word word : words) ASSERT_EQ(word, 0xEEEE'EEEE'EEEE'EEEEu);
  run([&](Word* word, unsigned shift) {
    if (shift % 8 == 0) return;
    with_neighbour(word, [&](auto& at) {
      const unsigned shifts[] = {shift, shift - 4};
      const cuda::Taken taken = cuda::take_ones(HostAtomic(), at, shifts, 3);
      refused += taken.missing != 0;
      emptied += taken.emptied;
    });
  });
  EXPECT_EQ(refused, 0u);
  for (const Word word : words) ASSERT_EQ(word, 0u);
  EXPECT_EQ(filled, 32 * words.size());
  EXPECT_EQ(emptied, 32 * words.size());
}

// ---- every interleaving -------------------------------------------------------------------------
//
// An update is deterministic: its next access depends only on what its earlier accesses returned.
// So one step runs the update from the start and replays the recorded results, up to the first
// access without a record. That access is carried out on the word and recorded. A depth-first
// search over whose turn it is visits all interleavings, and over all values that the word has had
// where a load may return any of them.

struct Access {
  Word loaded = 0;     // what load, or a failed exchange, returned
  bool stored = true;  // of an exchange only
};

struct OutOfRecord {};

struct Replay {
  std::vector<Access>* record;
  std::size_t* at;
  std::vector<Word>* values;  // that the word has had, the present one last
  bool* may_step;             // one new access is allowed
  std::size_t choice;         // which value load_cached returns
  bool* chose;

  Access next(bool is_exchange, Word seen, Word desired, bool cached = false) const {
    if (*at < record->size()) return (*record)[(*at)++];
    if (!*may_step) throw OutOfRecord();
    *may_step = false;
    *chose = cached;
    const Word now = values->back();
    Access access{.loaded = cached ? (*values)[choice] : now, .stored = is_exchange && now == seen};
    if (access.stored) values->push_back(desired);
    record->push_back(access);
    ++*at;
    return access;
  }
  Word load(const Word*) const { return next(false, 0, 0).loaded; }
  Word load_cached(const Word*) const { return next(false, 0, 0, true).loaded; }
  bool exchange(Word*, Word& seen, Word desired) const {
    const Access access = next(true, seen, desired);
    seen = access.loaded;
    return access.stored;
  }
  Word swap(Word* word, Word seen, Word desired) const {
    exchange(word, seen, desired);
    return seen;
  }
};

struct Update {
  bool add;
  unsigned shift;
  bool at_once;  // as several at once are updated, here one
};

struct State {
  std::vector<Word> values;  // that the word has had
  std::vector<std::vector<Access>> records;
  std::vector<int> verdicts;  // −1: not done
};

/// What an update says of its counter: filled or emptied, changed otherwise or saturated, or, if 1
/// was to be taken, that it is 0.
enum Verdict : int { kMissing, kTurned, kOther };
int verdict_of(bool add, unsigned counter) {
  if (add) return counter == 0 ? kTurned : kOther;
  return counter == 0 ? kMissing : counter == 1 ? kTurned : kOther;
}

/// Makes one step of update i. Returns whether it loaded the value of this choice.
bool step(State& state, const std::vector<Update>& updates, std::size_t i, std::size_t choice) {
  std::size_t at = 0;
  bool may_step = true, chose = false;
  const Replay replay{&state.records[i], &at, &state.values, &may_step, choice, &chose};
  Word* const nowhere[1] = {nullptr};  // the policy has the word
  const unsigned shifts[1] = {updates[i].shift};
  try {
    if (updates[i].add) {
      if (updates[i].at_once) {
        const std::uint32_t filled = cuda::add_ones(replay, nowhere, shifts, 1);
        state.verdicts[i] = filled == 1 ? kTurned : kOther;
      } else {
        state.verdicts[i] = verdict_of(true, cuda::add_one(replay, nowhere[0], updates[i].shift));
      }
    } else if (updates[i].at_once) {
      const cuda::Taken taken = cuda::take_ones(replay, nowhere, shifts, 1);
      state.verdicts[i] = taken.missing != 0 ? kMissing : taken.emptied == 1 ? kTurned : kOther;
    } else {
      state.verdicts[i] = verdict_of(false, cuda::take_one(replay, nowhere[0], updates[i].shift));
    }
  } catch (const OutOfRecord&) {
    // The update is not done yet.
  }
  return chose;
}

using Outcome = std::pair<Word, std::vector<int>>;

void explore(const State& state, const std::vector<Update>& updates, std::set<Outcome>& outcomes,
             std::size_t& interleavings) {
  bool done = true;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (state.verdicts[i] >= 0) continue;
    done = false;
    bool chose = true;
    for (std::size_t choice = 0; chose && choice < state.values.size(); ++choice) {
      State next = state;
      chose = step(next, updates, i, choice);
      explore(next, updates, outcomes, interleavings);
    }
  }
  if (!done) return;
  ++interleavings;
  outcomes.insert({state.values.back(), state.verdicts});
}

/// The outcomes of the updates when they run one after another, in every order.
std::set<Outcome> sequential(Word word, const std::vector<Update>& updates) {
  std::set<Outcome> outcomes;
  std::vector<std::size_t> order(updates.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  do {
    Word changed = word;
    std::vector<int> verdicts(updates.size());
    for (const std::size_t i : order) {
      verdicts[i] = verdict_of(
          updates[i].add, updates[i].add ? cuda::add_one(Plain(), &changed, updates[i].shift)
                                         : cuda::take_one(Plain(), &changed, updates[i].shift));
    }
    outcomes.insert({changed, verdicts});
  } while (std::next_permutation(order.begin(), order.end()));
  return outcomes;
}

class WordUpdates : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(All, WordUpdates, ::testing::Bool(), [](const auto& at_once) {
  return at_once.param ? "at_once" : "one_by_one";
});

TEST_P(WordUpdates, InAnyInterleavingAreThoseOfSomeOrder) {
  std::size_t interleavings = 0;
  const Word others = 0xF0E1'F0E1'F0E1'F00Fu;  // full and empty neighbours
  for (const std::size_t count : {2u, 3u}) {
    // Each update increments or decrements one of two neighbouring counters.
    for (std::size_t kinds = 0; kinds < std::size_t{1} << 2 * count; ++kinds) {
      std::vector<Update> updates;
      for (std::size_t i = 0; i < count; ++i) {
        updates.push_back({(kinds >> 2 * i & 1) != 0, kinds >> 2 * i & 2 ? 4u : 8u, GetParam()});
      }
      for (const Word value : {0u, 1u, 2u, 13u, 14u, 15u}) {
        for (const Word beside : {0u, 1u, 14u, 15u}) {
          const Word word = with_counter(with_counter(others, 8, value), 4, beside);
          const State start{
              {word}, std::vector<std::vector<Access>>(count), std::vector<int>(count, -1)};
          std::set<Outcome> outcomes;
          explore(start, updates, outcomes, interleavings);
          const std::set<Outcome> allowed = sequential(word, updates);
          for (const Outcome& outcome : outcomes) {
            ASSERT_TRUE(allowed.contains(outcome))
                << std::hex << word << " became " << outcome.first << " by kinds " << kinds;
          }
          // The search must also find every outcome.
          ASSERT_EQ(outcomes.size(), allowed.size());
        }
      }
    }
  }
  EXPECT_GT(interleavings, 10'000u);
}

}  // namespace
}  // namespace scbf_test::cuda_words_test
