// SPDX-License-Identifier: Apache-2.0
// The command's own errors and its exit codes. main.cpp maps errors to exit codes.
#pragma once

#include <stdexcept>

namespace scbf::cli {

enum ExitCode : int {
  kOk = 0,
  kNothingFound = 1,
  kUsage = 2,
  kInputOutput = 3,
  kCorrupt = 4,     ///< damaged or incompatible files, or wrong answers in bench
  kReportLost = 5,  ///< the work is done, but its report could not be written
};

/// The command line names something unknown, or combines options that exclude each other.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A report cannot be written, and what it reports is done: see work_is_done.
class ReportLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The reader of our output has closed the pipe. This is no failure, so the command stops silently.
struct ReaderGone {};

}  // namespace scbf::cli
