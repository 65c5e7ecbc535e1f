// SPDX-License-Identifier: Apache-2.0
// What a Filter is made of, and the way in for files and banks, which take filters apart and put
// them together.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filter/stage.hpp"
#include "scbf/filter.hpp"

namespace scbf {

/// What a Filter is made of.
struct FilterState {
  static constexpr const char* kOwner = "Filter";

  Growth growth;
  std::uint64_t seed;
  const Backend* backend;
  std::vector<Stage> stages = {};  ///< oldest first; not empty
  std::string metadata = {};

  bool read_only() const noexcept;
  /// Throws ReadOnly.
  void check_writable() const;
  /// Makes an empty stage of the growth's shape for this index.
  Stage make_stage(std::uint32_t index) const;
};

/// Lets files and banks take filters apart and put them together.
struct FilterAccess {
  static FilterState& state(Filter& filter) { return *filter.state_; }
  static const FilterState& state(const Filter& filter) { return *filter.state_; }
  static Filter make(std::unique_ptr<FilterState> state) noexcept {
    return Filter(std::move(state));
  }
};

/// Throws InvalidArgument if it is longer than kMaxMetadataBytes.
void check_metadata(const std::string& metadata);

}  // namespace scbf
