// SPDX-License-Identifier: Apache-2.0
// Elapsed time.
#pragma once

#include <chrono>

namespace scbf::cli {

/// Runs from its construction on.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace scbf::cli
