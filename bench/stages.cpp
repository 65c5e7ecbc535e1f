// SPDX-License-Identifier: Apache-2.0
#include "stages.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keys.hpp"
#include "scbf/scalable_filter.hpp"

namespace scbf::bench {

namespace {

constexpr double kRate = 0.01;
constexpr std::size_t kMostAsked = 4'000'000;
constexpr BatchOptions kAlone{.threads = 1};

enum class Question { miss, hit, mix };
enum class Form {
  one,     ///< a single filter
  stages,  ///< a ScalableFilter
  apart,   ///< copies of its stages, each asked about all keys
};

std::span<const std::uint64_t> column(const KeyList& keys) {
  return {keys.span().words, keys.span().size};
}

/// The same keys in one form.
class Holder {
 public:
  Holder(Form form, std::size_t n, unsigned stages) : form_(form) {
    const KeyList keys = present_keys(0, n, 1);
    if (form == Form::one) {
      one_.emplace(n, kRate);
      one_->insert(column(keys), kAlone);
      return;
    }
    // A little room, so that the last stage need not be followed by another.
    const std::uint64_t first = n * 102 / 100 / ((std::uint64_t{1} << stages) - 1);
    growing_.emplace(std::max<std::uint64_t>(first, 1), kRate);
    growing_->insert(column(keys), kAlone);
    if (form == Form::stages) return;
    for (std::size_t s = growing_->stages(); s-- > 0;) apart_.push_back(growing_->stage(s));
  }

  std::uint64_t contains(std::span<const std::uint64_t> keys, std::span<std::uint8_t> out) {
    switch (form_) {
      case Form::one:
        return one_->contains(keys, out, kAlone).hits;
      case Form::stages:
        return growing_->contains(keys, out, kAlone).hits;
      default:
        break;
    }
    answers_.resize(keys.size());
    std::ranges::fill(out, std::uint8_t{0});
    for (const Filter& filter : apart_) {
      filter.contains(keys, answers_, kAlone);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] |= answers_[i];
    }
    std::uint64_t hits = 0;
    for (const std::uint8_t answer : out) hits += answer;
    return hits;
  }
  /// Answers of separate filters are those of the whole.
  bool agrees(std::span<const std::uint64_t> keys, std::span<const std::uint8_t> answers) const {
    if (form_ != Form::apart) return true;
    std::vector<std::uint8_t> want(keys.size());
    growing_->contains(keys, want, kAlone);
    return std::ranges::equal(want, answers);
  }
  double stages() const { return growing_ ? static_cast<double>(growing_->stages()) : 1; }
  double bytes() const {
    return static_cast<double>(growing_ ? growing_->bytes() : one_->geometry().bytes());
  }

 private:
  Form form_;
  std::optional<Filter> one_;
  std::optional<ScalableFilter> growing_;
  std::vector<Filter> apart_;
  std::vector<std::uint8_t> answers_;
};

void ask(benchmark::State& state, Question kind, std::size_t n, Form form, unsigned stages) {
  Holder holder(form, n, stages);
  const std::size_t asked = std::min(n, kMostAsked);
  std::vector<std::uint8_t> answers(asked);
  std::uint64_t batch = 0;
  std::size_t present = 0;
  // Other keys each time: the last ones' lines are in cache.
  const auto next = [&] {
    ++batch;
    present = kind == Question::hit ? asked : 0;
    return kind == Question::miss  ? absent_keys(batch, asked, 1)
           : kind == Question::hit ? hit_keys(batch, n, asked, 1)
                                   : mixed_keys(batch, n, asked, 1, present);
  };
  const auto right = [&](const KeyList& keys, std::uint64_t hits) {
    const double absent = static_cast<double>(asked - present);
    const double false_hits = static_cast<double>(hits) - static_cast<double>(present);
    return false_hits >= 0 && false_hits <= 1.5 * kRate * absent &&
           holder.agrees(column(keys), answers);
  };
  {
    const KeyList all = present_keys(0, asked, 1), other = next();
    if (holder.contains(column(all), answers) != asked ||
        !right(other, holder.contains(column(other), answers))) {
      state.SkipWithError("wrong answers");
      return;
    }
  }
  std::uint64_t hits = 0;
  std::vector<double> ns_per_key;
  for (auto _ : state) {
    const KeyList keys = next();
    const auto begin = std::chrono::steady_clock::now();
    hits = holder.contains(column(keys), answers);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    state.SetIterationTime(seconds);
    ns_per_key.push_back(seconds * 1e9 / static_cast<double>(asked));
  }
  std::ranges::sort(ns_per_key);
  // Of the calls, not their mean: a neighbour's minute is not the filter's.
  state.counters["ns_per_key"] = ns_per_key[ns_per_key.size() / 2];
  state.counters["ns_fastest"] = ns_per_key[0];
  state.counters["hits"] = static_cast<double>(hits) / static_cast<double>(asked);
  state.counters["stages"] = holder.stages();
  state.counters["bits_per_key"] = 8 * holder.bytes() / static_cast<double>(n);
}

void add(Size size, Question kind, std::size_t n, Form form, unsigned stages) {
  const std::string as =
      form == Form::one ? "one"
                        : (form == Form::stages ? "stages:" : "apart:") + std::to_string(stages);
  const std::string name = std::string("stages/") +
                           (kind == Question::miss  ? "miss"
                            : kind == Question::hit ? "hit"
                                                    : "mix") +
                           "/n:" + std::to_string(n) + "/" + as;
  benchmark::RegisterBenchmark(name.c_str(), ask, kind, n, form, stages)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(size == Size::smoke ? 1
                   : n > 1'000'000     ? 3
                                       : 30);
}

}  // namespace

void add_stages(Size size) {
  for (const std::size_t n : {std::size_t{100'000}, std::size_t{20'000'000}}) {
    if (size == Size::smoke && n > 100'000) continue;
    for (const Question kind : {Question::miss, Question::hit, Question::mix}) {
      add(size, kind, n, Form::one, 1);
      for (const unsigned stages : {1u, 2u, 4u, 10u}) {
        add(size, kind, n, Form::stages, stages);
        if (stages > 1) add(size, kind, n, Form::apart, stages);
      }
    }
  }
}

}  // namespace scbf::bench
