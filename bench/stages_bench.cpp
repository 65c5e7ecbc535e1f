// SPDX-License-Identifier: Apache-2.0
// Filters of several stages against one filter for the same keys and rate ("one"), and against
// their stages as separate filters ("apart"). First come large batches, then keys asked one by one
// or a few at a time.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driver/driver.hpp"
#include "driver/keys.hpp"
#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"

namespace {

using namespace scbf;
using namespace scbf::bench;
using Column = std::span<const std::uint64_t>;

constexpr const char* kUsage =
    "usage: stages_bench [keys ...] [Google Benchmark's flags]\n"
    "       by default 100000 and 20000000 keys, at least 100000\n";

constexpr double kRate = 0.01;
constexpr std::size_t kMostAsked = 4'000'000;
constexpr std::size_t kFewAsked = 1 << 17;
constexpr BatchOptions kAlone{.threads = 1};

enum class Question { miss, hit, mix };

Column column(const KeyList& keys) { return {keys.span().words, keys.span().size}; }

/// Keys of one question.
struct Batch {
  Batch(Question kind, std::uint64_t number, std::size_t n, std::size_t asked)
      : present(kind == Question::hit ? asked : 0),
        keys(kind == Question::miss  ? absent_keys(number, asked)
             : kind == Question::hit ? hit_keys(number, n, asked)
                                     : mixed_keys(number, n, asked, present)) {}
  std::size_t present;
  KeyList keys;
};

/// Checks that there are no more false positives than the rate allows for this many keys.
void verify_hits(const std::string& what, const Batch& batch, std::uint64_t hits) {
  const double absent = static_cast<double>(batch.keys.size() - batch.present);
  const double false_hits = static_cast<double>(hits) - static_cast<double>(batch.present);
  if (false_hits < 0 || false_hits > 1.5 * kRate * absent + 5) {
    throw WrongAnswer(fmt::format("{}: {} hits, {} of {} keys are present", what, hits,
                                  batch.present, batch.keys.size()));
  }
}

/// The geometry with the fewest groups that keeps this rate and is half full with n keys. Beyond
/// that, a next stage begins.
Geometry half_full(std::uint64_t n, double fpr) {
  const auto blocks =
      static_cast<std::uint64_t>(static_cast<double>(n) / keys_for_fill(0.5, kCountersPerWord)) + 1;
  for (std::uint32_t groups = 1;; ++groups) {
    const Geometry geometry = Geometry::split_block(groups, blocks);
    if (predicted_fpr(geometry, static_cast<double>(n)) <= fpr) return geometry;
  }
}

Growth growth_for(Growth::Policy policy, std::size_t n, std::uint32_t stages) {
  // A little more room, so that no further stage begins after the last.
  const std::uint64_t room = n * 102 / 100;
  if (policy == Growth::Policy::fixed) {
    return Growth::fixed(half_full(room / stages, stage_fpr_for(kRate, stages)), stages);
  }
  return Growth::tightening(std::max<std::uint64_t>(room / ((std::uint64_t{1} << stages) - 1), 1),
                            kRate);
}

/// Waits until all instructions before it are done.
void wait() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_lfence();
#elif defined(__aarch64__)
  asm volatile("dsb sy\n\tisb" ::: "memory");
#else
#error "how does a core wait here?"
#endif
}

/// Asks `size` keys at a time and returns the number of hits. 0: asks by contains(key), and begins
/// a key only when the last has its answer; otherwise the core would work on two or three at once.
std::uint64_t ask_few(const Filter& filter, Column keys, std::size_t size,
                      std::span<std::uint8_t> out) {
  std::uint64_t hits = 0;
  if (size <= 1) {
    for (const std::uint64_t key : keys) {
      if (size == 0) wait();
      hits += filter.contains(key);
    }
    return hits;
  }
  for (std::size_t i = 0; i < keys.size(); i += size) {
    hits += filter.contains(keys.subspan(i, size), out.subspan(i, size), kAlone).hits;
  }
  return hits;
}

class StagesFixture final : public Fixture {
 public:
  StagesFixture(std::size_t n, Growth::Policy policy, std::uint32_t stages)
      : n_(n), stages_(stages), one_(n, kRate), growing_(growth_for(policy, n, stages)) {
    const KeyList keys = present_keys(0, n);
    one_.insert(column(keys), kAlone);
    growing_.insert(column(keys), kAlone);
    for (std::size_t s = growing_.stages(); s-- > 0;) {  // copies, newest first
      const StageView stage = growing_.stage(s);
      apart_.emplace_back(stage.geometry())
          .assign(stage.words(), stage.keys_inserted(), stage.keys_removed());
    }
  }

  void verify() override {
    if (growing_.stages() != stages_) {
      throw WrongAnswer(fmt::format("{} stages, must be {}", growing_.stages(), stages_));
    }
    for (const Question kind : {Question::hit, Question::miss, Question::mix}) {
      check(Batch(kind, 0, n_, std::min(n_, kMostAsked)));
    }
  }

  std::map<std::string, double> counters() const override {
    const auto bits = [&](std::uint64_t bytes) {
      return 8 * static_cast<double>(bytes) / static_cast<double>(n_);
    };
    return {{"bits_per_key", bits(growing_.bytes())},
            {"bits_per_key_one", bits(one_.geometry().bytes())}};
  }

  /// Asks each form twice, with different keys. The second time, which is timed, everything that
  /// fits into cache is there again.
  void ask_all(Repetition& r, Question kind) {
    const std::size_t asked = std::min(n_, kMostAsked);
    const Batch before(kind, ++number_, n_, asked), batch(kind, ++number_, n_, asked);
    const Column first = column(before.keys), words = column(batch.keys);
    answers_.resize(asked);
    one_.contains(first, answers_, kAlone);
    r.time("one", asked, [&] { one_.contains(words, answers_, kAlone); });
    check(before);  // asks the growing filter last
    r.time("", asked, [&] { growing_.contains(words, answers_, kAlone); });
    if (apart_.size() == 1) return;
    ask_apart(first);
    r.time("apart", asked, [&] { ask_apart(words); });
  }

  /// Asks different keys each time, because those of the last batch are in cache.
  void ask_few(Repetition& r, Question kind, std::size_t size) {
    answers_.resize(kFewAsked);
    const auto ask = [&](const std::string& form, const Filter& filter) {
      const Batch batch(kind, ++number_, n_, kFewAsked);
      const Column words = column(batch.keys);
      const auto hits =
          r.time(form, kFewAsked, [&] { return ::ask_few(filter, words, size, answers_); });
      verify_hits(filter.growth().describe(), batch, hits);
      if (filter.contains(words, answers_, kAlone).hits != hits) {
        throw WrongAnswer(fmt::format("{} hits, others in one batch", hits));
      }
    };
    ask("one", one_);
    ask("", growing_);
  }

 private:
  void ask_apart(Column keys) {
    together_.assign(keys.size(), 0);
    part_.resize(keys.size());
    const std::span together(together_), part(part_);  // local, so that the loop can be unrolled
    for (const Filter& filter : apart_) {
      filter.contains(keys, part, kAlone);
      for (std::size_t i = 0; i < part.size(); ++i) together[i] |= part[i];
    }
  }

  void check(const Batch& batch) {
    answers_.resize(batch.keys.size());
    const Column keys = column(batch.keys);
    verify_hits("one filter", batch, one_.contains(keys, answers_, kAlone).hits);
    ask_apart(keys);
    verify_hits(growing_.growth().describe(), batch,
                growing_.contains(keys, answers_, kAlone).hits);
    if (together_ != answers_) throw WrongAnswer("together and apart differ");
  }

  std::size_t n_;
  std::uint32_t stages_;
  Filter one_, growing_;
  std::vector<Filter> apart_;
  std::vector<std::uint8_t> answers_, together_, part_;
  std::uint64_t number_ = 0;
};

void add_stages(std::size_t n, Growth::Policy policy, std::uint32_t stages) {
  const std::string what = fmt::format("growth:{}/stages:{}/n:{}", to_string(policy), stages, n);
  std::vector<Row> rows;
  constexpr const char* names[] = {"miss", "hit", "mix"};
  for (const Question kind : {Question::miss, Question::hit, Question::mix}) {
    rows.push_back({.name = fmt::format("{}/{}/batch:all", names[static_cast<int>(kind)], what),
                    .repetitions = n > 1'000'000 ? 5 : 31,
                    .measure = by(&StagesFixture::ask_all, kind)});
  }
  if (policy == Growth::Policy::tightening) {
    for (const Question kind : {Question::miss, Question::hit}) {
      for (const std::size_t size : {0, 1, 8, 64}) {
        rows.push_back({.name = fmt::format("{}/{}/batch:{}", names[static_cast<int>(kind)], what,
                                            size == 0 ? "alone" : std::to_string(size)),
                        .repetitions = 7,
                        .measure = by(&StagesFixture::ask_few, kind, size)});
      }
    }
  }
  add_case([=] { return std::make_unique<StagesFixture>(n, policy, stages); }, std::move(rows));
}

void add_cases(const std::vector<std::string>& arguments) {
  std::vector<std::size_t> sizes;
  for (const std::string& argument : arguments) {
    // The first of ten stages has a thousandth of the keys.
    sizes.push_back(parse_number(argument, 100'000));
  }
  if (sizes.empty()) sizes = {100'000, 20'000'000};
  for (const std::size_t n : sizes) {
    add_stages(n, Growth::Policy::tightening, 1);
    for (const std::uint32_t stages : {2u, 4u, 10u}) {
      add_stages(n, Growth::Policy::tightening, stages);
      add_stages(n, Growth::Policy::fixed, stages);
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, kUsage, add_cases); }
