// SPDX-License-Identifier: Apache-2.0
// A progress line on standard error for long jobs: share, rate, time left. By default it appears
// only if standard error is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace scbf::cli {

enum class ProgressMode : std::uint8_t { automatic, always, never };

class Progress {
 public:
  /// `total` has the unit of update()'s `done`. Without it, the line shows no share and no time
  /// left. `thing` is what is counted.
  Progress(ProgressMode mode, std::string what, std::optional<std::uint64_t> total,
           std::string thing = "key");
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Ends the line if one was drawn, so that later messages start on a new line.
  ~Progress();

  /// Draws at most ten times a second, and not in the first tenth. Cost if it draws nothing: one
  /// read of the clock.
  void update(std::uint64_t things, std::uint64_t done);
  /// Draws the final state.
  void finish(std::uint64_t things, std::uint64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::uint64_t things, std::uint64_t done, Clock::time_point now);

  std::string what_, thing_;
  std::optional<std::uint64_t> total_;
  bool shown_;
  bool drawn_ = false;
  std::size_t last_width_ = 0;
  Clock::time_point start_, next_;
};

}  // namespace scbf::cli
