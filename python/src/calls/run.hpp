// SPDX-License-Identifier: Apache-2.0
// How a call with many keys runs: in pieces of about a quarter of a second, without Python's global
// lock, so that other threads go on; between them Ctrl-C is noticed and progress reported.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "keys/columns.hpp"
#include "outside.hpp"
#include "scbf/backend.hpp"

namespace scbf::python {

/// Calls step(first, count) for stretches of n items, without Python's global lock; between them
/// Ctrl-C is noticed.
template <class Step>
void in_stretches(std::size_t n, Step step) {
  constexpr std::size_t kBetweenSignals = std::size_t{1} << 20;
  for (std::size_t first = 0; first < n; first += kBetweenSignals) {
    {
      Outside others_may_run;
      step(first, std::min(kBetweenSignals, n - first));
    }
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
}

/// Columns, and how many keys they have in all.
struct Parts {
  std::vector<std::unique_ptr<Column>> columns;
  std::size_t size = 0;

  explicit Parts(std::unique_ptr<Column> column) { add(std::move(column)); }
  /// All of a source.
  explicit Parts(KeySource& source) {
    while (auto column = source.next()) add(std::move(column));
  }

  /// Throws if a key is invalid, before a call changes anything. A call of a single piece need not
  /// check. With Python's global lock; Ctrl-C is noticed.
  void check() const;
  /// What the keys may be, nulls included.
  KindsOfKeys kinds() const noexcept {
    KindsOfKeys all = KindsOfKeys::none;
    for (const auto& column : columns) {
      if (column->size() > 0) all = all | column->kind();
    }
    return all;
  }
  /// Whether keys may lie in this memory.
  bool overlap(std::span<const std::uint8_t> memory) const noexcept;

 private:
  void add(std::unique_ptr<Column> column) {
    size += column->size();
    columns.push_back(std::move(column));
  }
};

/// One call: how many keys are done, and who is to hear of it.
class Run {
 public:
  /// `progress`: a callable that gets (done, total), or None. total: 0 if it is not known; then the
  /// callable gets None.
  /// first_piece: how many keys to begin with, before any have been timed. The usual number is
  /// enough for a pass over a large filter, and takes less than a second even at 200 ns a key.
  Run(nanobind::object progress, std::size_t total, std::uint64_t seed,
      std::size_t first_piece = std::size_t{1} << 22)
      : progress_(std::move(progress)), total_(total), seed_(seed), piece_(first_piece) {}

  /// Calls step(batch, number of its first key among all) for the keys of a column, in order.
  /// Throws what step throws, KeyboardInterrupt, and what progress raises; then the keys that
  /// progress was told of are done, and, of an iterator or of small columns, maybe more.
  template <class Step>
  void over(const Column& column, Step&& step) {
    for (std::size_t first = 0; first < column.size();) {
      const std::size_t count = std::min({piece_, column.most_at_once(), column.size() - first});
      const auto began = std::chrono::steady_clock::now();
      bool any = false;
      {
        Outside others_may_run;
        const KeyBatch keys = column.batch(first, count, seed_, room_);
        any = keys.nulls() < keys.size();
        step(keys, done_);
      }
      if (any) kinds_ = kinds_ | column.kind();
      first += count;
      done_ += count;
      adapt(count, std::chrono::steady_clock::now() - began);
      pause();
    }
  }
  template <class Step>
  void over(const Parts& parts, Step&& step) {
    for (const auto& column : parts.columns) over(*column, step);
  }
  /// Reports the end, if that has not been done. (It has, if the total is known.)
  void finish();
  /// How many keys are done.
  std::size_t done() const noexcept { return done_; }
  /// What they are, nulls left out.
  KindsOfKeys kinds() const noexcept { return kinds_; }

 private:
  void adapt(std::size_t count, std::chrono::duration<double> took);
  void pause();
  void tell();

  using Clock = std::chrono::steady_clock;
  nanobind::object progress_;
  std::size_t total_, done_ = 0, told_ = 0;
  Clock::time_point told_at_ = {};
  std::uint64_t seed_;
  KindsOfKeys kinds_ = KindsOfKeys::none;
  std::size_t piece_;
  Room room_;
};

}  // namespace scbf::python
