// SPDX-License-Identifier: Apache-2.0
// One line on standard error that says how far a long job is: share, rate, time left. Silent
// unless standard error is a terminal or the user insists.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace scbf::cli {

enum class ProgressMode : std::uint8_t { automatic, always, never };

class Progress {
 public:
  /// `total` is in the units that update() is given as `done`; without it there is no share and
  /// no time left. `things` are what is counted and rated.
  Progress(ProgressMode mode, std::string what, std::optional<std::uint64_t> total,
           std::string things = "keys");
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Ends the line, if there is one, so that messages begin on a line of their own.
  ~Progress();

  /// Draws at most ten times a second. Cost when nothing is drawn: one look at the clock.
  void update(std::uint64_t things, std::uint64_t done);
  /// Draws the final state.
  void finish(std::uint64_t things, std::uint64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::uint64_t things, std::uint64_t done, Clock::time_point now);

  std::string what_, things_;
  std::optional<std::uint64_t> total_;
  bool shown_;
  bool drawn_ = false;
  std::size_t last_width_ = 0;
  Clock::time_point start_, next_;
};

}  // namespace scbf::cli
