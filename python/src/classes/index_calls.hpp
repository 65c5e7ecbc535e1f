// SPDX-License-Identifier: Apache-2.0
// What the calls of an index share: how they run, and what they tell of it.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "classes/whole.hpp"
#include "held.hpp"
#include "outside.hpp"
#include "scbf/secondary_index.hpp"
#include "text.hpp"

namespace scbf::python {

namespace nb = nanobind;

/// An index does its own locking; only close() and refresh() need it alone.
using HeldIndex = Held<SecondaryIndex>;

/// IndexPlan::region_values.
using RegionValues = Whole<"region_values", 1>;

/// Runs a call of the index without Python's lock.
template <class Call>
auto outside(const HeldIndex& self, Call call) {
  Outside others_may_run;
  return call(self.value);
}

/// Tells Python of the progress of a call, and notices Ctrl-C. Called without Python's lock.
class Telling {
 public:
  explicit Telling(nb::object callable) : callable_(std::move(callable)) {
    if (!callable_.is_none() && !PyCallable_Check(callable_.ptr())) {
      throw nb::type_error("progress: must be callable, with (rows done, rows in all), or None");
    }
  }
  /// `total`: 0 if it is not known.
  void operator()(std::uint64_t done, std::uint64_t total) {
    constexpr std::chrono::milliseconds kBetween{200};
    const auto now = std::chrono::steady_clock::now();
    if (now - told_at_ < kBetween && done != total) return;
    told_at_ = now;
    const Inside python;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (callable_.is_none()) return;
    callable_(done, total > 0 ? nb::object(nb::int_(total)) : nb::object(nb::none()));
  }

 private:
  nb::object callable_;
  std::chrono::steady_clock::time_point told_at_ = {};
};

/// Columns and their separators: of a list of names, or of a mapping of names to separators.
inline std::vector<scbf::Column> columns_of(const nb::object& columns, const char* what) {
  if (PyUnicode_Check(columns.ptr())) {
    throw InvalidArgument(fmt::format("{}: must be a list of columns, not one text", what));
  }
  std::vector<scbf::Column> all;
  const bool has_separators = nb::hasattr(columns, "items");
  for (nb::handle item : columns) {
    all.push_back({.name = encoded(item, what), .indexed = true});
    if (has_separators && !nb::object(columns[item]).is_none()) {
      all.back().separator = encoded(columns[item], "a separator");
    }
  }
  return all;
}

/// Adds what is not about rows: upkeep, statistics, the definition, backups.
void add_upkeep(nb::class_<HeldIndex>& cls);

}  // namespace scbf::python
