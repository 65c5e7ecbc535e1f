// SPDX-License-Identifier: Apache-2.0
// Timing is by hand (UseManualTime, one "iteration" per repetition that holds all timed calls of
// it), because between two timed inserts the filter must be emptied, and between two removes
// filled, outside of the clock.
#include "driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>

#include "machine.hpp"

namespace scbf::bench {

namespace {

constexpr std::size_t kProbes = 1'000'000;  // absent keys that the false-positive rate is taken of
constexpr std::uint64_t kProbeBatch = 1 << 11;
constexpr std::uint64_t kAllNumbersApart = 1 << 8;  // batches of misses begin here

bool failed = false;

struct WrongAnswer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The keys of one n; all lists are made when first asked for and live until n changes.
class Keys {
 public:
  Keys(std::size_t n, unsigned words_each) : n_(n), words_each_(words_each) {}

  /// As many different lists as it takes for a branch predictor to see nothing twice soon.
  std::size_t variety() const { return std::clamp<std::size_t>(2'000'000 / n_, 1, 8); }

  KeySpan present(std::size_t set) {
    return cached("present", set, [&] { return present_keys(set, n_, words_each_); });
  }
  KeySpan hits(std::size_t i, std::size_t queries) {
    return cached(fmt::format("hits {}", queries), i,
                  [&] { return hit_keys(i, n_, queries, words_each_); });
  }
  KeySpan misses(std::size_t i, std::size_t queries) {
    return cached(fmt::format("misses {}", queries), i,
                  [&] { return absent_keys(kAllNumbersApart + i, queries, words_each_); });
  }
  KeySpan mix(std::size_t i, std::size_t queries, std::size_t& hits) {
    const std::string name = fmt::format("mix {}", queries);
    const KeySpan keys = cached(name, i, [&] {
      return mixed_keys(i, n_, queries, words_each_, mix_hits_[{name, i}]);
    });
    hits = mix_hits_.at({name, i});
    return keys;
  }
  KeySpan probes() {
    return cached("probes", 0, [&] { return absent_keys(kProbeBatch, kProbes, words_each_); });
  }

  std::size_t n() const { return n_; }
  unsigned words_each() const { return words_each_; }

 private:
  template <class Make>
  KeySpan cached(const std::string& name, std::size_t i, Make make) {
    auto at = lists_.find({name, i});
    if (at == lists_.end()) at = lists_.emplace(std::pair(name, i), make()).first;
    return at->second.span();
  }

  std::size_t n_;
  unsigned words_each_;
  std::map<std::pair<std::string, std::size_t>, KeyList> lists_;
  std::map<std::pair<std::string, std::size_t>, std::size_t> mix_hits_;
};

/// A subject, what is in it, and its verified properties.
class Fixture {
 public:
  Fixture(const Case& c, Keys& keys) : case_(c), keys_(keys), subject_(c.make()) {
    answers_.resize(std::max(c.n, kProbes));
    try {
      verify();
    } catch (const std::exception& e) {
      error_ = e.what();
    }
  }

  const std::string& error() const { return error_; }
  Subject& subject() { return *subject_; }
  std::uint8_t* answers() { return answers_.data(); }
  double fpr_measured() const { return fpr_measured_; }
  std::optional<double> fpr_predicted() const { return subject_->predicted_fpr(case_.n); }
  double bytes() const { return bytes_; }

  /// Makes the subject hold this set of present keys, or nothing.
  void hold(std::optional<std::size_t> set) {
    if (held_ == set) return;
    if (held_) {
      subject_->reset(keys_.present(*held_));
      held_.reset();
    }
    if (!set) return;
    const KeySpan all = keys_.present(*set);
    if (!subject_->can_remove() && case_.batch < case_.n) {
      const std::size_t before = case_.n - case_.batch;
      subject_->insert({all.words, before, all.words_each});
      subject_->mark();
      subject_->insert({all.words + before * all.words_each, case_.batch, all.words_each});
    } else {
      subject_->insert(all);
    }
    held_ = set;
  }
  /// For a timed call that has itself changed what the subject holds.
  void holds_now(std::optional<std::size_t> set) { held_ = set; }

 private:
  void verify() {
    hold(0);
    bytes_ = subject_->bytes();
    // Ours are asked for every key; slow comparators for as many as one timed call has.
    const KeySpan hits = keys_.hits(0, case_.ours() ? case_.n : case_.batch);
    expect("present keys found", subject_->contains(hits, answers()), hits.size);
    for (std::size_t i = 0; i < hits.size; ++i) {
      if (answers_[i] != 1) throw WrongAnswer("a present key is reported absent");
    }
    verify_fpr();
    if (subject_->can_count()) {
      const std::size_t counted = std::min(hits.size, kProbes);
      subject_->count({hits.words, counted, hits.words_each}, answers());
      for (std::size_t i = 0; i < counted; ++i) {
        if (answers_[i] < 1) throw WrongAnswer("a present key has the count 0");
      }
    }
    if (subject_->can_remove()) verify_remove();
  }

  void verify_fpr() {
    const auto positives = static_cast<double>(subject_->contains(keys_.probes(), answers()));
    fpr_measured_ = positives / static_cast<double>(kProbes);
    const std::optional<double> predicted = fpr_predicted();
    if (!predicted) return;
    // Two sources of chance: which keys are asked, and which are in the filter. Between filters the
    // true rate varies by a relative 1.3/√n (split, computed), 3.2/√n (one group) and 3.3/√n
    // (two groups, both simulated) at these rates.
    const double asked = *predicted * (1 - *predicted) / static_cast<double>(kProbes);
    const double held = *predicted * 3.5 / std::sqrt(static_cast<double>(case_.n));
    const double tolerance = 5 * std::sqrt(asked + held * held);
    if (!(std::abs(fpr_measured_ - *predicted) <= tolerance)) {
      throw WrongAnswer(fmt::format("false-positive rate {:.6g}: must be {:.6g} ± {:.2g}",
                                    fpr_measured_, *predicted, tolerance));
    }
  }

  void verify_remove() {
    // Comparators that take minutes for it are emptied completely at smaller n only; it is the
    // same code.
    const std::size_t removed = case_.ours() ? case_.n : case_.batch;
    const KeySpan all = keys_.present(0);
    const KeySpan last = {all.words + (case_.n - removed) * all.words_each, removed,
                          all.words_each};
    expect("keys removed", subject_->remove(last, answers()), removed);
    if (removed == case_.n) {
      held_.reset();
      if (!subject_->empty()) throw WrongAnswer("counters are left after all keys were removed");
    } else {
      subject_->insert(last);
    }
  }

  static void expect(const char* what, std::uint64_t got, std::uint64_t wanted) {
    if (got != wanted) throw WrongAnswer(fmt::format("{}: {}, must be {}", what, got, wanted));
  }

  Case case_;
  Keys& keys_;
  std::unique_ptr<Subject> subject_;
  std::vector<std::uint8_t> answers_;
  std::optional<std::size_t> held_;
  std::string error_;
  double fpr_measured_ = 0, bytes_ = 0;
};

Keys& keys_for(const Case& c) {
  static std::unique_ptr<Keys> keys;
  if (!keys || keys->n() != c.n || keys->words_each() != c.words_each) {
    keys.reset();  // before the next ones take memory
    keys = std::make_unique<Keys>(c.n, c.words_each);
  }
  return *keys;
}

/// The fixture of the case, kept while repetitions and operations of that case follow each other.
Fixture& fixture_for(const Case& c) {
  static std::unique_ptr<Fixture> fixture;
  static std::string name;
  if (!fixture || name != c.name()) {
    fixture.reset();
    fixture = std::make_unique<Fixture>(c, keys_for(c));
    name = c.name();
  }
  return *fixture;
}

class Clock {
 public:
  template <class Call>
  auto operator()(Call call) {
    const auto start = std::chrono::steady_clock::now();
    auto result = call();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
};

/// The timed calls of one repetition.
double time_calls(Fixture& fixture, Keys& keys, const Case& c, Operation operation) {
  Clock clock;
  Subject& subject = fixture.subject();
  const std::size_t variety = keys.variety();
  const auto insert = [&](KeySpan batch) {
    clock([&] {
      subject.insert(batch);
      return 0;
    });
  };
  const auto last_of = [&](KeySpan all) {
    return KeySpan{all.words + (c.n - c.batch) * all.words_each, c.batch, all.words_each};
  };
  const auto expect_hits = [&](std::uint64_t hits, std::uint64_t least) {
    if (hits < least) throw WrongAnswer(fmt::format("{} of {} keys found", hits, least));
  };

  for (std::size_t i = 0; i < c.batches; ++i) {
    switch (operation) {
      case Operation::insert: {
        const std::size_t set = i % variety;
        const KeySpan all = keys.present(set);
        if (c.batch == c.n) {
          fixture.hold({});
          insert(all);
        } else if (subject.can_remove()) {
          fixture.hold(set);
          subject.remove(last_of(all), fixture.answers());
          insert(last_of(all));
        } else {
          fixture.hold(set);
          subject.return_to_mark();
          insert(last_of(all));
        }
        fixture.holds_now(set);
        break;
      }
      case Operation::remove: {
        const std::size_t set = i % variety;
        const KeySpan all = keys.present(set);
        fixture.hold(set);
        const std::uint64_t removed =
            clock([&] { return subject.remove(last_of(all), fixture.answers()); });
        if (removed != c.batch) throw WrongAnswer("remove: a present key was reported absent");
        if (c.batch == c.n) {
          fixture.holds_now({});
        } else {
          subject.insert(last_of(all));
        }
        break;
      }
      case Operation::miss:
      case Operation::hit:
      case Operation::mix: {
        fixture.hold(0);
        std::size_t present = 0;
        KeySpan queries{};
        if (operation == Operation::miss) {
          queries = keys.misses(i % variety, c.batch);
        } else if (operation == Operation::hit) {
          queries = keys.hits(i % variety, c.batch);
          present = c.batch;
        } else {
          queries = keys.mix(i % variety, c.batch, present);
        }
        expect_hits(clock([&] { return subject.contains(queries, fixture.answers()); }), present);
        break;
      }
      case Operation::count: {
        fixture.hold(0);
        const KeySpan queries = keys.hits(i % variety, c.batch);
        clock([&] {
          subject.count(queries, fixture.answers());
          return 0;
        });
        break;
      }
    }
  }
  return clock.seconds();
}

/// Too large for any cache, so that the floor of memory is what it should be held against.
bool beyond_caches(double bytes) {
  const std::size_t l3 = cache_bytes(3);
  return bytes >= 4.0 * (l3 > 0 ? static_cast<double>(l3) : 32.0 * 1024 * 1024);
}

void fail(benchmark::State& state, const std::string& message) {
  failed = true;
  state.SkipWithError(message.c_str());
}

}  // namespace

void run_operation(benchmark::State& state, const Case& c, Operation operation) {
  try {
    Keys& keys = keys_for(c);
    Fixture& fixture = fixture_for(c);
    if (!fixture.error().empty()) return fail(state, "wrong answers: " + fixture.error());

    double floor_ns = 0;
    if (beyond_caches(fixture.bytes())) {
      const bool writes = operation == Operation::insert || operation == Operation::remove;
      floor_ns =
          measure_floor(writes ? Floor::line_update : Floor::line_read, Where::memory, c.threads)
              .ns_per_line;
    }
    double seconds = 0;
    for (auto _ : state) {
      seconds = time_calls(fixture, keys, c, operation);
      state.SetIterationTime(seconds);
    }
    const double timed = static_cast<double>(c.batch) * static_cast<double>(c.batches);
    const double ns_per_key = seconds * 1e9 / timed;
    state.SetLabel(fixture.subject().target());
    state.counters["ns_per_key"] = ns_per_key;
    state.counters["keys_per_second"] = timed / seconds;
    state.counters["fpr_measured"] = fixture.fpr_measured();
    if (const auto predicted = fixture.fpr_predicted()) {
      state.counters["fpr_predicted"] = *predicted;
    }
    state.counters["bits_per_key"] = fixture.bytes() * 8 / static_cast<double>(c.n);
    state.counters["n"] = static_cast<double>(c.n);
    state.counters["threads"] = c.threads;
    if (floor_ns > 0) {
      state.counters["floor_ns"] = floor_ns;
      state.counters["ratio_to_floor"] = ns_per_key / floor_ns;
    }
  } catch (const std::exception& e) {
    fail(state, e.what());
  }
}

void run_floor(benchmark::State& state, Floor floor, Where where, unsigned threads) {
  FloorResult result{};
  for (auto _ : state) {
    result = measure_floor(floor, where, threads);
    state.SetIterationTime(result.ns_per_line * 1e-9);
  }
  const bool twice = floor == Floor::line_update || floor == Floor::stream_copy;
  state.SetLabel(result.variant);
  state.counters["ns_per_line"] = result.ns_per_line;
  state.counters["gb_per_second"] = (twice ? 128 : 64) / result.ns_per_line;
  state.counters["threads"] = threads;
}

bool any_failure() noexcept { return failed; }

}  // namespace scbf::bench
