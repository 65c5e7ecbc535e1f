// SPDX-License-Identifier: Apache-2.0
#include "filter_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "driver.hpp"
#include "floors.hpp"
#include "machine.hpp"
#include "our_subjects.hpp"
#include "scbf/backend.hpp"

namespace scbf::bench {

namespace {

constexpr std::size_t kProbes = 1'000'000;  // absent keys for measuring the false-positive rate
constexpr std::uint64_t kProbeBatch = 1 << 11;
constexpr std::uint64_t kAllNumbersApart = 1 << 8;  // batches of misses begin here

/// The keys of one n. Lists are made when first needed and live until n changes.
class Keys {
 public:
  Keys(std::size_t n, KeyShape shape) : n_(n), shape_(shape) {}

  /// The keys of a case. Only those of one n are kept.
  static Keys& of(const FilterCase& c) {
    static std::unique_ptr<Keys> keys;
    if (!keys || keys->n_ != c.n || keys->shape_ != c.keys) {
      keys.reset();  // before the next ones take memory
      keys = std::make_unique<Keys>(c.n, c.keys);
    }
    return *keys;
  }

  /// The number of different lists. With so many, a branch predictor sees no list again soon: it
  /// learns some 50,000 keys, and not 400,000.
  std::size_t variety() const {
    const std::size_t most = n_ < 50'000 ? 2'000'000 : 8;
    return std::clamp<std::size_t>(2'000'000 / n_, 1, most);
  }

  KeySpan present(std::size_t set) {
    return cached("present", set, [&] { return present_keys(set, n_, shape_); });
  }
  KeySpan hits(std::size_t i, std::size_t queries) {
    return cached(fmt::format("hits {}", queries), i,
                  [&] { return hit_keys(i, n_, queries, shape_); });
  }
  KeySpan misses(std::size_t i, std::size_t queries) {
    return cached(fmt::format("misses {}", queries), i,
                  [&] { return absent_keys(kAllNumbersApart + i, queries, shape_); });
  }
  KeySpan mix(std::size_t i, std::size_t queries, std::size_t& hits) {
    const std::string name = fmt::format("mix {}", queries);
    std::size_t& known = mix_hits_[{name, i}];
    const KeySpan keys = cached(name, i, [&] { return mixed_keys(i, n_, queries, known, shape_); });
    hits = known;
    return keys;
  }
  KeySpan probes() {
    return cached("probes", 0, [&] { return absent_keys(kProbeBatch, kProbes, shape_); });
  }

 private:
  template <class Make>
  KeySpan cached(const std::string& name, std::size_t i, Make make) {
    auto at = lists_.find({name, i});
    if (at == lists_.end()) at = lists_.emplace(std::pair(name, i), make()).first;
    return at->second.span();
  }

  std::size_t n_;
  KeyShape shape_;
  std::map<std::pair<std::string, std::size_t>, KeyList> lists_;
  std::map<std::pair<std::string, std::size_t>, std::size_t> mix_hits_;
};

void expect(const char* what, std::uint64_t got, std::uint64_t wanted) {
  if (got != wanted) throw WrongAnswer(fmt::format("{}: {}, must be {}", what, got, wanted));
}

/// A subject and its contents.
class FilterFixture final : public Fixture {
 public:
  explicit FilterFixture(const FilterCase& c)
      : case_(c),
        keys_(Keys::of(c)),
        make_(subject_of(c)),
        subject_(make_()),
        answers_(std::max(c.n, kProbes)) {}

  void verify() override {
    hold(0);
    bytes_ = subject_->bytes();
    const KeySpan hits = keys_.hits(0, verified());
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
    verify_contents();
    if (subject_->can_remove()) {
      verify_changes();
    } else if (case_.ours()) {
      verify_insertion();
    }
  }

  std::map<std::string, double> counters() const override {
    std::map<std::string, double> all{{"fpr_measured", fpr_measured_},
                                      {"bits_per_key", bytes_ * 8 / static_cast<double>(case_.n)}};
    if (const auto predicted = subject_->predicted_fpr(case_.n)) all["fpr_predicted"] = *predicted;
    return all;
  }

  /// One timed call.
  void measure(Repetition& r, Operation operation) {
    r.label(subject_->target());
    if (r.pass() == 0 && case_.against_floor && beyond_caches(bytes_)) {
      floor_ns_ = measure_floor(changes(operation) ? Floor::line_update : Floor::line_read,
                                Where::memory, case_.options.threads)
                      .ns_per_line;
    }
    const std::size_t list = r.pass() % keys_.variety();
    if (is_build(operation)) {
      time_build(r, list, operation == Operation::first_build);
    } else if (operation == Operation::insert) {
      time_insert(r, list);
    } else if (operation == Operation::remove) {
      time_remove(r, list);
    } else {
      time_lookup(r, list, operation);
    }
    if (floor_ns_ > 0) {
      r.counter("floor_ns", floor_ns_);
      r.counter("ratio_to_floor", r.ns_per_item() / floor_ns_);
    }
  }

 private:
  std::uint8_t* answers() { return answers_.data(); }

  /// How many keys are looked up and removed to verify. Comparators, and our filter with one key a
  /// call, would take minutes for all: only as many as in a timed call. At smaller n that is all.
  std::size_t verified() const {
    return case_.ours() && !is_key_by_key(case_.calls) ? case_.n : case_.batch;
  }

  /// The keys that a timed call inserts last, or removes from the full structure.
  KeySpan last_of(KeySpan all) const {
    return {all.words + (case_.n - case_.batch) * all.words_each, case_.batch, all.words_each};
  }

  /// Makes the subject hold this set of present keys, or nothing.
  void hold(std::optional<std::size_t> set) {
    if (held_ == set) return;
    if (held_) {
      subject_->reset(keys_.present(*held_));
      held_.reset();
    }
    if (!set) return;
    const KeySpan all = keys_.present(*set);
    if (subject_->uses_marks() && case_.batch < case_.n) {
      subject_->fill({all.words, case_.n - case_.batch, all.words_each});
      subject_->mark();
      subject_->fill(last_of(all));
    } else {
      subject_->fill(all);
    }
    held_ = set;
  }

  void time_build(Repetition& r, std::size_t set, bool first) {
    const KeySpan all = keys_.present(set);
    subject_.reset();
    held_.reset();
    if (first) release_scratch();
    r.time("", all.size, [&] {
      subject_ = make_();
      subject_->insert(all);
    });
    held_ = set;
    expect("present keys found", subject_->contains(all, answers()), all.size);
  }

  void time_insert(Repetition& r, std::size_t set) {
    const KeySpan last = last_of(keys_.present(set));
    if (case_.batch == case_.n) {
      hold({});
    } else {
      hold(set);
      if (subject_->uses_marks()) {
        subject_->return_to_mark();
      } else {
        expect("keys removed", subject_->remove(last, answers()), last.size);
      }
    }
    r.time("", last.size, [&] { subject_->insert(last); });
    held_ = set;
  }

  void time_remove(Repetition& r, std::size_t set) {
    const KeySpan last = last_of(keys_.present(set));
    hold(set);
    const auto removed = r.time("", last.size, [&] { return subject_->remove(last, answers()); });
    expect("keys removed", removed, last.size);
    if (case_.batch == case_.n) {
      held_.reset();
    } else {
      subject_->fill(last);
    }
  }

  void time_lookup(Repetition& r, std::size_t list, Operation operation) {
    hold(0);
    std::size_t present = operation == Operation::hit ? case_.batch : 0;
    const KeySpan queries = operation == Operation::miss  ? keys_.misses(list, case_.batch)
                            : operation == Operation::mix ? keys_.mix(list, case_.batch, present)
                                                          : keys_.hits(list, case_.batch);
    if (operation == Operation::count) {
      r.time("", queries.size, [&] { subject_->count(queries, answers()); });
      if (std::ranges::count(std::span(answers_).first(queries.size), 0) > 0) {
        throw WrongAnswer("a present key has the count 0");
      }
      return;
    }
    const auto hits =
        r.time("", queries.size, [&] { return subject_->contains(queries, answers()); });
    if (hits < present) throw WrongAnswer(fmt::format("{} of {} keys found", hits, present));
  }

  void verify_fpr() {
    const auto positives = static_cast<double>(subject_->contains(keys_.probes(), answers()));
    fpr_measured_ = positives / static_cast<double>(kProbes);
    const std::optional<double> predicted = subject_->predicted_fpr(case_.n);
    if (!predicted) return;
    // Chance has two sources: which keys are asked, and which are in the filter. At these rates,
    // the true rate varies between filters by a relative 1.3/√n (split, computed), 3.2/√n (one
    // group) and 3.3/√n (two groups, both simulated).
    const double asked = *predicted * (1 - *predicted) / static_cast<double>(kProbes);
    const double held = *predicted * 3.5 / std::sqrt(static_cast<double>(case_.n));
    // A few more hits are allowed, because small numbers of them are not normally distributed.
    const double few = 3 / static_cast<double>(kProbes);
    const double tolerance = 5 * std::sqrt(asked + held * held) + few;
    if (!(std::abs(fpr_measured_ - *predicted) <= tolerance)) {
      throw WrongAnswer(fmt::format("false-positive rate {:.6g}: must be {:.6g} ± {:.2g}",
                                    fpr_measured_, *predicted, tolerance));
    }
  }

  /// All backends must make the same counters from the same keys.
  void verify_contents() {
    static std::map<std::string, std::uint64_t> known;
    const auto print = subject_->fingerprint();
    if (!print) return;
    const std::string what =
        fmt::format("{} {} {} {} {} {}", case_.structure, to_string(case_.cell), case_.n, case_.fpr,
                    case_.keys.words_each, case_.keys.seed);
    if (known.emplace(what, *print).first->second != *print) {
      throw WrongAnswer("counters differ from those of the backend before it");
    }
  }

  /// Inserts all keys as timed calls do, which must give the same bits as one batch.
  void verify_insertion() {
    const auto before = subject_->fingerprint();
    subject_->reset(keys_.present(0));
    if (!subject_->empty()) throw WrongAnswer("bits are left after a reset");
    subject_->insert(keys_.present(0));
    if (subject_->fingerprint() != before) {
      throw WrongAnswer("keys inserted again give other bits than one batch");
    }
  }

  /// Removes the last keys and inserts them as timed calls do, which must give the same counters.
  void verify_changes() {
    const std::size_t removed = verified();
    const auto before = subject_->fingerprint();
    const KeySpan all = keys_.present(0);
    const KeySpan last = {all.words + (case_.n - removed) * all.words_each, removed,
                          all.words_each};
    const bool leaves_some = subject_->saturated();
    expect("keys removed", subject_->remove(last, answers()), removed);
    if (removed == case_.n && !leaves_some && !subject_->empty()) {
      throw WrongAnswer("counters are left after all keys were removed");
    }
    subject_->insert(last);
    if (subject_->fingerprint() != before) {
      throw WrongAnswer("keys inserted again give other counters than one batch");
    }
  }

  FilterCase case_;
  Keys& keys_;
  MakeSubject make_;
  std::unique_ptr<Subject> subject_;
  std::vector<std::uint8_t> answers_;
  std::optional<std::size_t> held_;
  double fpr_measured_ = 0, bytes_ = 0, floor_ns_ = 0;
};

}  // namespace

bool beyond_caches(double bytes) {
  const std::size_t l3 = cache_bytes(3);
  return bytes >= 4.0 * (l3 > 0 ? static_cast<double>(l3) : 32.0 * 1024 * 1024);
}

std::string_view to_string(Operation operation) noexcept {
  switch (operation) {
    case Operation::insert:
      return "insert";
    case Operation::miss:
      return "miss";
    case Operation::hit:
      return "hit";
    case Operation::mix:
      return "mix";
    case Operation::count:
      return "count";
    case Operation::remove:
      return "remove";
    case Operation::build:
      return "build";
    case Operation::first_build:
      return "first_build";
  }
  return "";
}

std::string_view to_string(Calls calls) noexcept {
  switch (calls) {
    case Calls::one:
      return "one";
    case Calls::small:
      return "small";
    case Calls::bulk:
      return "bulk";
    case Calls::key:
      return "key";
    case Calls::view:
      return "view";
    case Calls::ahead:
      return "ahead";
  }
  return "";
}

std::string FilterCase::name() const {
  std::string name = fmt::format("filter:{}/n:{}", structure, n);
  if (fpr > 0) name += fmt::format("/fpr:{:g}", fpr);
  name += fmt::format("/keys:{}", keys.words_each == 1 ? "u64" : "bytes16");
  if (ours()) name += fmt::format("/backend:{}/path:{}", backend, to_string(options.path));
  if (cell == Cell::bit) name += "/cells:bit";
  if (calls != Calls::one) name += fmt::format("/calls:{}", to_string(calls));
  return name + fmt::format("/threads:{}", options.threads);
}

void add_filter_case(FilterCase c) {
  if (c.batch == 0) c.batch = c.n;
  std::vector<Row> rows;
  for (const Operation operation : c.operations) {
    rows.push_back({.name = fmt::format("{}/{}", to_string(operation), c.name()),
                    .repetitions = c.repetitions,
                    .measure = by(&FilterFixture::measure, operation),
                    .passes = c.batches,
                    .seconds = c.seconds});
  }
  add_case([c] { return std::make_unique<FilterFixture>(c); }, std::move(rows));
}

}  // namespace scbf::bench
