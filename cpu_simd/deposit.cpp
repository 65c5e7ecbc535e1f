// SPDX-License-Identifier: Apache-2.0
#include "cpu_simd/deposit.hpp"

#include "kit/ranked_slice.hpp"

#if defined(__x86_64__)

#include <algorithm>
#include <chrono>

namespace scbf {

namespace {

/// What it takes to find some ones of a word, in nanoseconds: each after the one before.
template <class Select>
double time_of() noexcept {
  using Clock = std::chrono::steady_clock;
  double least = 1e9;
  for (int round = 0; round < 5; ++round) {  // an interruption must not decide
    std::uint64_t word = 0x5555'5555'5555'5555;
    unsigned rank = 0;
    const auto began = Clock::now();
    for (int i = 0; i < 64; ++i) {
      asm volatile("" : "+r"(word), "+r"(rank));  // neither is known in advance
      rank = (detail::zeros_below(Select::select(word, rank)) / 2 + 1) % 32;
    }
    asm volatile("" : : "r"(rank));
    least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - began).count());
  }
  return least;
}

}  // namespace

bool deposit_is_fast() noexcept {
  static const bool is_fast =
      __builtin_cpu_supports("bmi2") && time_of<SelectByDeposit>() <= time_of<SelectByBytes>();
  return is_fast;
}

}  // namespace scbf

#else

namespace scbf {

bool deposit_is_fast() noexcept { return false; }

}  // namespace scbf

#endif
