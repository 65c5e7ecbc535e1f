// SPDX-License-Identifier: Apache-2.0
#include "calls/run.hpp"

#include <algorithm>

namespace nb = nanobind;

namespace scbf::python {

void Parts::check() const {
  if (columns.size() == 1 && size <= columns[0]->most_at_once()) return;
  for (const auto& column : columns) {
    in_stretches(column->size(),
                 [&](std::size_t first, std::size_t count) { column->check(first, count); });
  }
}

bool Parts::overlap(std::span<const std::uint8_t> memory) const noexcept {
  return std::ranges::any_of(
      columns, [&](const auto& column) { return column->overlaps(std::as_bytes(memory)); });
}

void Run::adapt(std::size_t count, std::chrono::duration<double> took) {
  constexpr double kSeconds = 0.25;
  constexpr double kLeast = 65'536, kMost = 1 << 30;
  if (count < piece_) return;  // the rest of a column, which says little
  const double keys = static_cast<double>(count) * kSeconds / std::max(took.count(), 1e-9);
  piece_ = static_cast<std::size_t>(std::clamp(keys, kLeast, kMost));
  piece_ -= piece_ % 4096;  // packed answers begin at whole bytes
}

void Run::pause() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  // Blocks of an iterator and small chunks take far less than the time between reports.
  constexpr std::chrono::milliseconds kBetween{200};
  if (done_ == total_ || Clock::now() - told_at_ >= kBetween) tell();
}

void Run::finish() {
  if (told_ != done_) tell();
}

void Run::tell() {
  told_ = done_;
  told_at_ = Clock::now();
  if (progress_.is_none()) return;
  progress_(done_, total_ > 0 ? nb::object(nb::int_(total_)) : nb::object(nb::none()));
}

}  // namespace scbf::python
