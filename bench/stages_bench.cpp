// SPDX-License-Identifier: Apache-2.0
// Filters of several stages, asked as one, against one filter for the same keys and rate, and
// against their stages as separate filters. Answers are verified before anything is timed; the exit
// code is 1 when they are wrong.
//
//   stages_bench [keys …]        default: 100000 and 20000000
//
// --out FILE keeps the tables as JSON. They have ns per key of absent keys and of present ones (and
// of both by the toss of a coin); one thread; medians. All forms of a row are asked in turn. The
// first table is about large batches, the second about keys asked one by one or a few at a time.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "keys.hpp"
#include "report.hpp"
#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"

namespace {

using namespace scbf;
using namespace scbf::bench;
using Column = std::span<const std::uint64_t>;

constexpr double kRate = 0.01;
constexpr std::size_t kMostAsked = 4'000'000;
constexpr BatchOptions kAlone{.threads = 1};

enum class Question { miss, hit, mix };

Column column(const KeyList& keys) { return {keys.span().words, keys.span().size}; }

/// Keys of one question, other ones each time: the last ones' lines are in cache.
struct Batch {
  Batch(Question kind, std::uint64_t round, std::size_t n, std::size_t asked) : keys(1) {
    present = kind == Question::hit ? asked : 0;
    keys = kind == Question::miss  ? absent_keys(round, asked, 1)
           : kind == Question::hit ? hit_keys(round, n, asked, 1)
                                   : mixed_keys(round, n, asked, 1, present);
  }
  KeyList keys;
  std::size_t present = 0;
};

/// False positives at no more than the rate, as far as so many keys can tell.
void verify(const std::string& what, const Batch& batch, std::uint64_t hits) {
  const double absent = static_cast<double>(batch.keys.size() - batch.present);
  const double false_hits = static_cast<double>(hits) - static_cast<double>(batch.present);
  if (false_hits < 0 || false_hits > 1.5 * kRate * absent + 5) {
    wrong(fmt::format("{}: {} hits, {} of {} keys are present", what, hits, batch.present,
                      batch.keys.size()));
  }
}

/// The fewest groups that hold n keys at this rate, half full: then a next stage begins.
Geometry half_full(std::uint64_t n, double fpr) {
  const auto blocks =
      static_cast<std::uint64_t>(static_cast<double>(n) / keys_for_fill(0.5, kCountersPerWord)) + 1;
  for (std::uint32_t groups = 1;; ++groups) {
    const Geometry geometry = Geometry::split_block(groups, blocks);
    if (predicted_fpr(geometry, static_cast<double>(n)) <= fpr) return geometry;
  }
}

Growth growth_for(Growth::Policy policy, std::size_t n, std::uint32_t stages) {
  // A little room, so that the last stage need not be followed by another.
  const std::uint64_t room = n * 102 / 100;
  if (policy == Growth::Policy::fixed) {
    return Growth::fixed(half_full(room / stages, stage_fpr_for(kRate, stages)), stages);
  }
  return Growth::tightening(std::max<std::uint64_t>(room / ((std::uint64_t{1} << stages) - 1), 1),
                            kRate);
}

/// ns per key, by Question.
struct Times {
  std::vector<double> of[3];

  template <class Ask>
  void take(Question kind, std::size_t keys, const Ask& ask) {
    const auto begin = std::chrono::steady_clock::now();
    ask();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    of[static_cast<int>(kind)].push_back(time.count() / static_cast<double>(keys));
  }
  double ns(Question kind) const { return median(of[static_cast<int>(kind)]); }
};

Report report;

void row(std::size_t n, const std::string& policy, std::size_t stages, std::uint64_t bytes,
         const Times& times, const Times* apart, const Times& one) {
  std::vector<Report::Cell> cells{
      static_cast<double>(n), policy, static_cast<double>(stages),
      std::round(80.0 * static_cast<double>(bytes) / static_cast<double>(n)) / 10};
  for (const Question kind : {Question::miss, Question::hit, Question::mix}) {
    cells.emplace_back(times.ns(kind));
  }
  for (const Question kind : {Question::miss, Question::hit, Question::mix}) {
    cells.push_back(apart == nullptr ? Report::Cell("") : Report::Cell(apart->ns(kind)));
  }
  cells.emplace_back(times.ns(Question::miss) / one.ns(Question::miss));
  report.row(std::move(cells));
}

void measure(std::size_t n, Growth::Policy policy, std::uint32_t stages) {
  const std::size_t asked = std::min(n, kMostAsked);
  const KeyList keys = present_keys(0, n, 1);
  Filter one(n, kRate);
  one.insert(column(keys), kAlone);
  Filter growing(growth_for(policy, n, stages));
  growing.insert(column(keys), kAlone);
  if (growing.stages() != stages) wrong(fmt::format("{} stages", growing.stages()));
  std::vector<Filter> apart;  // copies, newest first
  for (std::size_t s = growing.stages(); s-- > 0;) {
    const StageView stage = growing.stage(s);
    apart.emplace_back(stage.geometry())
        .assign(stage.words(), stage.keys_inserted(), stage.keys_removed());
  }

  std::vector<std::uint8_t> answers(asked), together(asked), part(asked);
  const auto ask_apart = [&](Column batch) {
    std::ranges::fill(answers, std::uint8_t{0});
    for (const Filter& filter : apart) {
      filter.contains(batch, part, kAlone);
      for (std::size_t i = 0; i < answers.size(); ++i) answers[i] |= part[i];
    }
  };
  // Each form twice, with other keys: what fits into cache is there again the second time.
  Times of_one, of_growing, of_apart;
  const int rounds = n > 1'000'000 ? 5 : 31;
  for (int round = 0; round < rounds; ++round) {
    for (const Question kind : {Question::miss, Question::hit, Question::mix}) {
      const auto number = static_cast<std::uint64_t>(round);
      const Batch before(kind, 2 * number + 1, n, asked), batch(kind, 2 * number + 2, n, asked);
      const Column first = column(before.keys), words = column(batch.keys);
      verify("one filter", before, one.contains(first, answers, kAlone).hits);
      of_one.take(kind, asked, [&] { one.contains(words, answers, kAlone); });
      ask_apart(first);
      verify(growing.growth().describe(), before, growing.contains(first, together, kAlone).hits);
      if (!std::ranges::equal(together, answers)) wrong("together and apart differ");
      of_growing.take(kind, asked, [&] { growing.contains(words, together, kAlone); });
      ask_apart(first);
      of_apart.take(kind, asked, [&] { ask_apart(words); });
    }
  }
  if (stages == 1) row(n, "one filter", 1, one.geometry().bytes(), of_one, nullptr, of_one);
  row(n, std::string(to_string(policy)), stages, growing.bytes(), of_growing,
      stages == 1 ? nullptr : &of_apart, of_one);
}

// ---- few keys -----------------------------------------------------------------------------------

/// Of a batch; 0: one key by contains(key), and none is looked at before the last has its answer.
/// Without that, the core works on two or three at once.
constexpr std::size_t kFewSizes[] = {0, 1, 8, 64};
constexpr std::size_t kFewAsked = 1 << 17;

/// Until all that was begun is done.
void wait() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_lfence();
#elif defined(__aarch64__)
  asm volatile("dsb sy\n\tisb" ::: "memory");
#else
#error "how does a core wait here?"
#endif
}

/// Returns the hits.
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

void few_row(std::size_t n, const std::string& what, std::span<const Times> times,
             std::span<const Times> one) {
  std::vector<Report::Cell> cells{static_cast<double>(n), what};
  for (std::size_t s = 0; s < std::size(kFewSizes); ++s) {
    cells.emplace_back(times[s].ns(Question::miss));
    cells.emplace_back(times[s].ns(Question::hit));
    cells.emplace_back(times[s].ns(Question::miss) / one[s].ns(Question::miss));
  }
  report.row(std::move(cells));
}

void measure_few(std::size_t n, std::uint32_t stages) {
  const KeyList keys = present_keys(0, n, 1);
  Filter one(n, kRate);
  one.insert(column(keys), kAlone);
  Filter growing(growth_for(Growth::Policy::tightening, n, stages));
  growing.insert(column(keys), kAlone);
  if (growing.stages() != stages) wrong(fmt::format("{} stages", growing.stages()));
  Times of_one[std::size(kFewSizes)], of_growing[std::size(kFewSizes)];
  std::vector<std::uint8_t> answers(kFewAsked);
  std::uint64_t number = 0;  // other keys each time: those of the last batch are in cache
  for (int round = 0; round < 7; ++round) {
    for (const Question kind : {Question::miss, Question::hit}) {
      for (std::size_t s = 0; s < std::size(kFewSizes); ++s) {
        const auto ask = [&](const Filter& filter, const std::string& what, Times& times) {
          const Batch batch(kind, ++number, n, kFewAsked);
          const Column words = column(batch.keys);
          std::uint64_t hits = 0;
          times.take(kind, kFewAsked,
                     [&] { hits = ask_few(filter, words, kFewSizes[s], answers); });
          verify(what, batch, hits);
          if (filter.contains(words, answers, kAlone).hits != hits) {
            wrong(fmt::format("{}: {} hits, others in one batch", what, hits));
          }
        };
        ask(one, "one filter", of_one[s]);
        ask(growing, growing.growth().describe(), of_growing[s]);
      }
    }
  }
  if (stages == 1) few_row(n, "one filter", of_one, of_one);
  few_row(n, fmt::format("{} stage{}", stages, stages == 1 ? "" : "s"), of_growing, of_one);
}

}  // namespace

int main(int argc, char** argv) {
  const auto output = take_output(argc, argv);
  std::vector<std::size_t> sizes{100'000, 20'000'000};
  if (argc > 1) sizes.clear();
  for (int i = 1; i < argc; ++i) {
    sizes.push_back(std::strtoull(argv[i], nullptr, 10));
    if (sizes.back() < 100'000) {  // ten stages, of which the first has a thousandth
      fmt::print(stderr, "stages_bench: {}: must be a number of keys, at least 100000\n", argv[i]);
      return 2;
    }
  }
  report.table("stages",
               {"keys", "policy", "stages", "bits per key", "ns, absent", "present", "both",
                "stages apart: absent", "present ", "both ", "absent, to one filter"});
  for (const std::size_t n : sizes) {
    measure(n, Growth::Policy::tightening, 1);
    for (const std::uint32_t stages : {2u, 4u, 10u}) {
      measure(n, Growth::Policy::tightening, stages);
      measure(n, Growth::Policy::fixed, stages);
    }
  }
  std::vector<std::string> columns{"keys", "of"};
  for (const char* how : {"alone", "one by one", "8", "64"}) {
    for (const char* what : {"absent", "present", "absent, to one filter"}) {
      columns.push_back(fmt::format("{}: {}", how, what));
    }
  }
  report.table("few_keys", columns);
  for (const std::size_t n : sizes) {
    for (const std::uint32_t stages : {1u, 2u, 4u, 10u}) measure_few(n, stages);
  }
  report.note(
      "`tightening`: each stage twice as large as the one before and stricter; `fixed`: "
      "stages alike, half full. Rate 1 % of all together; batches of all keys, at most "
      "4 · 10<sup>6</sup>; one thread, medians; each row's forms asked in turn. Few keys: "
      "`tightening`; with contains(key), each alone (begun when the last has its answer) or one by "
      "one in a loop, and in batches of 8 and of 64.");
  report.write(output);
  return 0;
}
