// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "sizes.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kBarWidth = 24;
constexpr std::chrono::milliseconds kInterval{100};

bool wanted(ProgressMode mode) {
  if (mode == ProgressMode::automatic) return ::isatty(STDERR_FILENO) == 1;
  return mode == ProgressMode::always;
}

}  // namespace

Progress::Progress(ProgressMode mode, std::string what, std::optional<std::uint64_t> total,
                   std::string thing)
    : what_(std::move(what)),
      thing_(std::move(thing)),
      total_(total),
      shown_(wanted(mode)),
      start_(Clock::now()),
      next_(start_ + kInterval) {}

Progress::~Progress() {
  if (drawn_) std::fputc('\n', stderr);
}

void Progress::update(std::uint64_t things, std::uint64_t done) {
  if (!shown_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  draw(things, done, now);
}

void Progress::finish(std::uint64_t things, std::uint64_t done) {
  if (!shown_) return;
  draw(things, total_ ? std::max(done, *total_) : done, Clock::now());
}

void Progress::draw(std::uint64_t things, std::uint64_t done, Clock::time_point now) {
  const double seconds = std::max(1e-9, std::chrono::duration<double>(now - start_).count());
  std::string line = fmt::format("{} ", what_);
  if (total_ && *total_ > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(*total_));
    const auto filled = static_cast<std::size_t>(share * kBarWidth);
    line +=
        fmt::format("[{:#<{}}{:.<{}}] {:3.0f} % ", "", filled, "", kBarWidth - filled, 100 * share);
    if (share > 0 && share < 1) {
      line += fmt::format("{} left ", human_seconds(seconds / share - seconds));
    }
  }
  line += fmt::format("{}, {} {}s/s, {}", counted(things, thing_),
                      human_rate(static_cast<double>(things) / seconds), thing_,
                      human_seconds(seconds));
  const std::size_t width = line.size();
  if (width < last_width_) line.append(last_width_ - width, ' ');
  last_width_ = width;
  std::fputc('\r', stderr);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace scbf::cli
