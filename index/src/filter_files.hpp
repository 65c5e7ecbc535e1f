// SPDX-License-Identifier: Apache-2.0
// The metadata of a region's filter file, and how a filter is built from values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "router.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::index {

/// The metadata of a filter file.
struct FilterFile {
  std::uint64_t index;  ///< SecondaryIndex::State::identity of its index
  RegionId region;
  std::uint64_t changes;  ///< number of the region's changes that the filter contains
  std::uint64_t history;  ///< digest of these changes (history.hpp)
  std::uint64_t left_over;
};
std::string describe_filter_file(const FilterFile& file);
/// Returns nothing if `metadata` is not that of a filter file.
std::optional<FilterFile> parse_filter_file(const std::string& metadata);

std::string filter_file_name(RegionId region);

/// Builds a region's filter from its entries.
class FilterBuilder {
 public:
  explicit FilterBuilder(const Router& router);
  void add(std::string_view entry);
  std::uint64_t values() const noexcept { return values_; }
  Filter take();

 private:
  void flush();

  const Router& router_;
  Filter filter_;
  std::vector<std::string> entries_;
  std::size_t bytes_ = 0;  ///< total length of entries_
  std::uint64_t values_ = 0;
};

}  // namespace scbf::index
