// SPDX-License-Identifier: Apache-2.0
#include "any_filter.hpp"

#include <nlohmann/json.hpp>

#include "filter_file.hpp"
#include "scbf/errors.hpp"

namespace scbf::cli {

namespace {

/// Calls combine(a, b) if both are of one kind.
template <class Combine>
void both(std::variant<Filter, ScalableFilter>& a, const std::variant<Filter, ScalableFilter>& b,
          const Combine& combine) {
  std::visit(
      [&](auto& mine) {
        using Kind = std::remove_reference_t<decltype(mine)>;
        if (const auto* theirs = std::get_if<Kind>(&b)) return combine(mine, *theirs);
        throw Incompatible("one grows in stages, the other does not: build both with --scalable");
      },
      a);
}

}  // namespace

const std::string& AnyFilter::metadata() const {
  return std::visit([](const auto& f) -> const std::string& { return f.metadata(); }, filter_);
}
const Backend& AnyFilter::backend() const {
  return std::visit([](const auto& f) -> const Backend& { return f.backend(); }, filter_);
}
InsertReport AnyFilter::insert(const KeyBatch& keys, const BatchOptions& options) {
  return std::visit([&](auto& f) { return f.insert(keys, options); }, filter_);
}
ContainsReport AnyFilter::contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                                   const BatchOptions& options) const {
  return std::visit([&](const auto& f) { return f.contains(keys, out, options); }, filter_);
}
ScalableRemoveReport AnyFilter::remove(const KeyBatch& keys, const BatchOptions& options) {
  if (auto* growing = std::get_if<ScalableFilter>(&filter_)) {
    return growing->remove(keys, {}, options);
  }
  const RemoveReport report = std::get<Filter>(filter_).remove(keys, {}, options);
  return {report.removed, report.absent, 0, report.nulls};
}
CountReport AnyFilter::count(const KeyBatch& keys, std::span<std::uint8_t> out,
                             const BatchOptions& options) const {
  return std::visit([&](const auto& f) { return f.count(keys, out, options); }, filter_);
}

void AnyFilter::merge(const AnyFilter& other, const BatchOptions& options) {
  both(filter_, other.filter_,
       [&](auto& mine, const auto& theirs) { mine.merge(theirs, options); });
}
SubtractReport AnyFilter::subtract(const AnyFilter& other, const BatchOptions& options) {
  SubtractReport report;
  both(filter_, other.filter_,
       [&](auto& mine, const auto& theirs) { report = mine.subtract(theirs, options); });
  return report;
}

Summary AnyFilter::summary(const BatchOptions& options) const {
  if (const ScalableFilter* growing = scalable()) {
    const ScalableStatistics s = growing->statistics(options);
    return {s.bytes,
            s.saturated,
            s.keys_inserted,
            s.keys_removed,
            static_cast<double>(s.nonzero) / static_cast<double>(s.counters),
            s.estimated_keys,
            s.estimated_fpr};
  }
  const Filter& filter = *plain();
  const Statistics s = filter.statistics(options);
  return {filter.geometry().bytes(), s.saturated,    s.keys_inserted, s.keys_removed, s.fill,
          s.estimated_keys,          s.estimated_fpr};
}

void AnyFilter::save(const std::string& path) const {
  std::visit([&](const auto& f) { f.save(path); }, filter_);
}
void AnyFilter::write(const ByteSink& sink) const {
  std::visit([&](const auto& f) { f.write(sink); }, filter_);
}

void describe_growth(Json& json, const Growth& growth) {
  json["policy"] = to_string(growth.policy());
  json["fpr_target"] = growth.fpr();
  json["most_stages"] = growth.most_stages();
  json["first_capacity"] = growth.first_capacity();
  json["growth"] = growth.growth();
  json["tightening"] = growth.tightening();
}

Json stage_json(const StageShape& shape) {
  Json json;
  describe_geometry(json, shape.geometry);
  json["fpr"] = shape.fpr;
  json["full_at"] = shape.full_at;
  return json;
}

}  // namespace scbf::cli
