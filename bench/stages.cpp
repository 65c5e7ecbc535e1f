// SPDX-License-Identifier: Apache-2.0
#include "stages.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scbf/scalable_filter.hpp"

namespace scbf::bench {

namespace {

constexpr double kRate = 0.01;
constexpr std::size_t kMostAsked = 1'000'000;
constexpr BatchOptions kAlone{.threads = 1};

/// Pairwise different: SplitMix64's states, times an odd number.
std::vector<std::uint64_t> keys_from(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> keys(count);
  for (std::size_t i = 0; i < count; ++i) keys[i] = (first + i) * 0x9E37'79B9'7F4A'7C15u;
  return keys;
}

/// stages 0 is one plain filter; otherwise the first stage is as small as makes that many.
void ask(benchmark::State& state, std::size_t n, unsigned stages, bool hit) {
  const auto keys = keys_from(1, n);
  std::optional<Filter> plain;
  std::optional<ScalableFilter> growing;
  if (stages == 0) {
    plain.emplace(n, kRate);
    plain->insert(keys, kAlone);
  } else {
    // A little room, so that the last stage need not be followed by another.
    const std::uint64_t first = n * 102 / 100 / ((std::uint64_t{1} << stages) - 1);
    growing.emplace(std::max<std::uint64_t>(first, 1), kRate);
    growing->insert(keys, kAlone);
  }
  const std::size_t asked = std::min(n, kMostAsked);
  const auto questions = keys_from(hit ? n - asked + 1 : n + 1, asked);
  std::vector<std::uint8_t> answers(asked);
  std::uint64_t hits = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    hits = plain ? plain->contains(questions, answers, kAlone).hits
                 : growing->contains(questions, answers, kAlone).hits;
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  const double share = static_cast<double>(hits) / static_cast<double>(asked);
  if (hit ? hits != asked : share > 1.5 * kRate) {
    state.SkipWithError("wrong answers");
    return;
  }
  const double bytes = static_cast<double>(plain ? plain->geometry().bytes() : growing->bytes());
  state.counters["rate"] = share;
  state.counters["stages"] = static_cast<double>(plain ? 1 : growing->stages());
  state.counters["bits_per_key"] = 8 * bytes / static_cast<double>(n);
  state.counters["ns_per_key"] = benchmark::Counter(
      static_cast<double>(asked) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace

void add_stages(Size size) {
  for (const std::size_t n : {std::size_t{100'000}, std::size_t{20'000'000}}) {
    if (size == Size::smoke && n > 100'000) continue;
    for (const unsigned stages : {0u, 1u, 2u, 4u, 7u, 10u}) {
      for (const bool hit : {false, true}) {
        const std::string name = std::string("stages/ask:") + (hit ? "hit" : "miss") +
                                 "/n:" + std::to_string(n) + "/stages:" + std::to_string(stages);
        benchmark::RegisterBenchmark(name.c_str(), ask, n, stages, hit)
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond)
            ->Iterations(size == Size::smoke ? 1 : 5);
      }
    }
  }
}

}  // namespace scbf::bench
