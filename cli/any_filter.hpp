// SPDX-License-Identifier: Apache-2.0
// A filter as the verbs see it: one Filter, or one that grows in stages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "output.hpp"
#include "scbf/scalable_filter.hpp"

namespace scbf::cli {

/// What both kinds have of Statistics.
struct Summary {
  std::uint64_t bytes = 0, saturated = 0;
  std::uint64_t keys_inserted = 0, keys_removed = 0;
  double fill = 0, estimated_keys = 0, estimated_fpr = 0;
};

class AnyFilter {
 public:
  AnyFilter(Filter filter) : filter_(std::move(filter)) {}
  AnyFilter(ScalableFilter filter) : filter_(std::move(filter)) {}

  /// Null for a plain filter.
  const ScalableFilter* scalable() const noexcept { return std::get_if<ScalableFilter>(&filter_); }
  const Filter* plain() const noexcept { return std::get_if<Filter>(&filter_); }

  const std::string& metadata() const;
  const Backend& backend() const;
  InsertReport insert(const KeyBatch& keys, const BatchOptions& options);
  ContainsReport contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                          const BatchOptions& options) const;
  /// A plain filter knows no ambiguous keys.
  ScalableRemoveReport remove(const KeyBatch& keys, const BatchOptions& options);
  CountReport count(const KeyBatch& keys, std::span<std::uint8_t> out,
                    const BatchOptions& options) const;
  /// Both throw Incompatible where one grows and the other does not.
  void merge(const AnyFilter& other, const BatchOptions& options);
  SubtractReport subtract(const AnyFilter& other, const BatchOptions& options);
  Summary summary(const BatchOptions& options) const;

  void save(const std::string& path) const;
  void write(const ByteSink& sink) const;

 private:
  std::variant<Filter, ScalableFilter> filter_;
};

/// The growth's share of a JSON report: policy, rate, stages.
void describe_growth(Json& json, const Growth& growth);
/// One stage of it.
Json stage_json(const StageShape& shape);

}  // namespace scbf::cli
