// SPDX-License-Identifier: Apache-2.0
// Elapsed time, and rates.
#pragma once

#include <chrono>
#include <cstdint>

namespace scbf::cli {

/// Measures the time since its construction.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Things per second; 0 if no time has passed.
inline double per_second(std::uint64_t things, double seconds) {
  return seconds > 0 ? static_cast<double>(things) / seconds : 0;
}

}  // namespace scbf::cli
