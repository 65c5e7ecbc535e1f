// SPDX-License-Identifier: Apache-2.0
// What the file of a region's filter says of itself, and how a filter is made from values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "router.hpp"
#include "scbf/secondary_index.hpp"

namespace scbf::index {

/// The metadata of a filter's file.
struct FilterFile {
  std::uint64_t index;  ///< whose it is: SecondaryIndex::State::identity
  RegionId region;
  std::uint64_t changes;  ///< of the region, that the filter has seen
  std::uint64_t left_over;
};
std::string describe_filter_file(const FilterFile& file);
/// Nothing if it is something else.
std::optional<FilterFile> parse_filter_file(const std::string& metadata);

/// A region's filter, from its entries.
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
  std::size_t bytes_ = 0;  ///< of these
  std::uint64_t values_ = 0;
};

}  // namespace scbf::index
