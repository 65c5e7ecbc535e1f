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

namespace {

using namespace scbf_test;
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
};

/// Memory access for many threads.
struct HostAtomic {
  Word load(Word* word) const { return std::atomic_ref(*word).load(std::memory_order_relaxed); }
  bool exchange(Word* word, Word& seen, Word next) const {
    return std::atomic_ref(*word).compare_exchange_weak(seen, next, std::memory_order_relaxed);
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
        cuda::add_one(Plain(), &changed, shift);
        ASSERT_EQ(changed, with_counter(word, shift, std::min<Word>(value + 1, 15)));
        changed = word;
        ASSERT_EQ(cuda::take_one(Plain(), &changed, shift), value != 0);
        const Word left = value == 0 || value == 15 ? value : value - 1;
        ASSERT_EQ(changed, with_counter(word, shift, left));
      }
    }
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
          refused += !cuda::take_one(HostAtomic(), word, 60);
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
  run([](Word* word, unsigned shift) { cuda::add_one(HostAtomic(), word, shift); });
  for (const Word word : words) ASSERT_EQ(word, 0xEEEE'EEEE'EEEE'EEEEu);
  std::atomic<std::uint64_t> refused = 0;
  run([&](Word* word, unsigned shift) { refused += !cuda::take_one(HostAtomic(), word, shift); });
  EXPECT_EQ(refused, 0u);
  for (const Word word : words) ASSERT_EQ(word, 0u);
  EXPECT_FALSE(cuda::take_one(HostAtomic(), &words[0], 0));
}

// ---- every interleaving -------------------------------------------------------------------------
//
// An update is deterministic: its next access depends only on what its earlier accesses returned.
// So one step runs the update from the start and replays the recorded results, up to the first
// access without a record. That access is carried out on the word and recorded. A depth-first
// search over whose turn it is visits all interleavings.

struct Access {
  Word loaded = 0;     // what load, or a failed exchange, returned
  bool stored = true;  // of an exchange only
};

struct OutOfRecord {};

struct Replay {
  std::vector<Access>* record;
  std::size_t* at;
  Word* shared;
  bool* may_step;  // one new access is allowed

  Access next(bool is_exchange, Word seen, Word desired) const {
    if (*at < record->size()) return (*record)[(*at)++];
    if (!*may_step) throw OutOfRecord();
    *may_step = false;
    Access access{.loaded = *shared, .stored = is_exchange && *shared == seen};
    if (access.stored) *shared = desired;
    record->push_back(access);
    ++*at;
    return access;
  }
  Word load(const Word*) const { return next(false, 0, 0).loaded; }
  bool exchange(Word*, Word& seen, Word desired) const {
    const Access access = next(true, seen, desired);
    seen = access.loaded;
    return access.stored;
  }
};

struct Update {
  bool add;
  unsigned shift;
};

struct State {
  Word word;
  std::vector<std::vector<Access>> records;
  std::vector<int> verdicts;  // −1: not done; an addition has 1
};

/// Makes one step of update i.
void step(State& state, const std::vector<Update>& updates, std::size_t i) {
  std::size_t at = 0;
  bool may_step = true;
  const Replay replay{&state.records[i], &at, &state.word, &may_step};
  try {
    Word* nowhere = nullptr;  // the policy has the word
    if (updates[i].add) {
      cuda::add_one(replay, nowhere, updates[i].shift);
      state.verdicts[i] = 1;
    } else {
      state.verdicts[i] = cuda::take_one(replay, nowhere, updates[i].shift);
    }
  } catch (const OutOfRecord&) {
    // The update is not done yet.
  }
}

using Outcome = std::pair<Word, std::vector<int>>;

void explore(const State& state, const std::vector<Update>& updates, std::set<Outcome>& outcomes,
             std::size_t& interleavings) {
  bool done = true;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (state.verdicts[i] >= 0) continue;
    done = false;
    State next = state;
    step(next, updates, i);
    explore(next, updates, outcomes, interleavings);
  }
  if (!done) return;
  ++interleavings;
  outcomes.insert({state.word, state.verdicts});
}

/// The outcomes of the updates when they run one after another, in every order.
std::set<Outcome> sequential(Word word, const std::vector<Update>& updates) {
  std::set<Outcome> outcomes;
  std::vector<std::size_t> order(updates.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  do {
    Word changed = word;
    std::vector<int> verdicts(updates.size(), 1);
    for (const std::size_t i : order) {
      if (updates[i].add) {
        cuda::add_one(Plain(), &changed, updates[i].shift);
      } else {
        verdicts[i] = cuda::take_one(Plain(), &changed, updates[i].shift);
      }
    }
    outcomes.insert({changed, verdicts});
  } while (std::next_permutation(order.begin(), order.end()));
  return outcomes;
}

TEST(WordUpdate, InAnyInterleavingIsThatOfSomeOrder) {
  std::size_t interleavings = 0;
  const Word others = 0xF0E1'F0E1'F0E1'F00Fu;  // full and empty neighbours
  for (const std::size_t count : {2u, 3u}) {
    // Each update increments or decrements one of two neighbouring counters.
    for (std::size_t kinds = 0; kinds < std::size_t{1} << 2 * count; ++kinds) {
      std::vector<Update> updates;
      for (std::size_t i = 0; i < count; ++i) {
        updates.push_back({(kinds >> 2 * i & 1) != 0, kinds >> 2 * i & 2 ? 4u : 8u});
      }
      for (const Word value : {0u, 1u, 2u, 13u, 14u, 15u}) {
        for (const Word beside : {0u, 1u, 14u, 15u}) {
          const Word word = with_counter(with_counter(others, 8, value), 4, beside);
          const State start{word, std::vector<std::vector<Access>>(count),
                            std::vector<int>(count, -1)};
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
