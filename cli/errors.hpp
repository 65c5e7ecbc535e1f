// SPDX-License-Identifier: Apache-2.0
// What the command adds to the library's errors, and its exit codes. main.cpp maps one to the
// other.
#pragma once

#include <stdexcept>

namespace scbf::cli {

enum ExitCode : int {
  kOk = 0,
  kNothingFound = 1,
  kUsage = 2,
  kInputOutput = 3,
  kCorrupt = 4,  ///< or incompatible, or wrong answers in bench
};

/// The command line asks for something that does not exist or does not go together.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Whoever reads our output has left; no fault of ours, so we stop without a word.
struct ReaderGone {};

}  // namespace scbf::cli
