// SPDX-License-Identifier: Apache-2.0
// Metrics as text for Prometheus, in its text exposition format 0.0.4. Whatever is here is known
// already: nothing is counted for it, and no row or filter is read.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "index_state.hpp"

namespace scbf {

using namespace index;

namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

/// A label's value: UTF-8, with U+FFFD for what is not, and with escapes.
std::string label_value(const std::string& value) {
  using Json = nlohmann::json;
  // As a JSON string and back: this replaces bytes that are not UTF-8.
  const auto text = Json::parse(Json(value).dump(-1, ' ', false, Json::error_handler_t::replace))
                        .get<std::string>();
  std::string escaped = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped + '"';
}

/// Writes families of metrics, each with its help and type before its samples.
class Exposition {
 public:
  explicit Exposition(const std::filesystem::path& index) : index_(index.string()) {}

  void begin(std::string_view name, const char* type, std::string_view help) {
    name_ = name;
    text_ +=
        fmt::format("# HELP scbf_index_{0} {2}\n# TYPE scbf_index_{0} {1}\n", name, type, help);
  }
  template <class Number>
  void sample(Number value, const Labels& labels = {}) {
    text_ += fmt::format("scbf_index_{}{{index={}", name_, label_value(index_));
    for (const auto& [label, of] : labels) text_ += fmt::format(",{}={}", label, label_value(of));
    text_ += fmt::format("}} {}\n", value);
  }
  template <class Number>
  void gauge(std::string_view name, std::string_view help, Number value) {
    begin(name, "gauge", help);
    sample(value);
  }
  /// The name ends in _total.
  void counter(std::string_view name, std::string_view help, std::uint64_t value) {
    begin(name, "counter", help);
    sample(value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string index_, text_;
  std::string_view name_;
};

double unix_time(std::chrono::system_clock::time_point moment) {
  return std::chrono::duration<double>(moment.time_since_epoch()).count();
}

void write_definition(Exposition& out, const TableSchema& schema, const IndexPlan& plan) {
  out.begin("column_info", "gauge", "The columns of the table; always 1.");
  out.sample(1, {{"column", schema.key}, {"role", "key"}, {"separator", ""}});
  for (const Column& column : schema.columns) {
    out.sample(1, {{"column", column.name},
                   {"role", column.indexed ? "indexed" : "stored"},
                   {"separator", column.separator}});
  }
  out.gauge("planned_false_positive_ratio", "Bound on the rate of a region's filter.", plan.fpr);
  out.gauge("planned_region_values", "Values per region that the filters are made for.",
            plan.region_values);
}

void write_regions(Exposition& out, const std::vector<RegionInfo>& regions) {
  const auto each = [&](std::string_view name, std::string_view help, const auto& value) {
    out.begin(name, "gauge", help);
    for (const RegionInfo& region : regions) {
      out.sample(value(region), {{"region", fmt::format("{}", region.id)},
                                 {"server", fmt::format("{}", region.server)}});
    }
  };
  each("region_rows", "Rows of a region.", [](const RegionInfo& r) { return r.rows; });
  each("region_values", "Distinct indexed values of a region.",
       [](const RegionInfo& r) { return r.values; });
  each("region_filter_bytes", "Bytes of a region's filter, in a writer.",
       [](const RegionInfo& r) { return r.filter_bytes; });
  each("region_false_positive_ratio", "Estimated rate of a region's filter.",
       [](const RegionInfo& r) { return r.estimated_fpr; });
  each("region_unsaved_changes", "Changes since a region's filter was saved.",
       [](const RegionInfo& r) { return r.unsaved; });
  each("region_asked_always", "1 if a region's filter is not trusted.",
       [](const RegionInfo& r) { return r.asked_always ? 1 : 0; });
}

}  // namespace

std::string SecondaryIndex::metrics(MetricsDetail detail) const {
  const State& state = *state_;
  const IndexStatistics now = statistics();
  const std::vector<RegionInfo> all = regions();
  std::uint64_t unsaved = 0, left_over = 0, asked_always = 0, stages = 0;
  double sum = 0, worst = 0;
  for (const RegionInfo& region : all) {
    unsaved += region.unsaved;
    left_over += region.left_over;
    asked_always += region.asked_always;
    stages = std::max<std::uint64_t>(stages, region.stages);
    sum += region.estimated_fpr;
    worst = std::max(worst, region.estimated_fpr);
  }
  Exposition out(state.path);
  write_definition(out, state.schema, state.plan);
  out.gauge("rows", "Rows in the table.", now.rows);
  out.gauge("values", "Distinct indexed values, counted in each region.", now.values);
  out.gauge("regions", "Regions of the table.", now.regions);
  out.gauge("servers", "Servers that share the regions.", now.servers);
  out.gauge("regions_asked_always", "Regions without a trusted filter; every query asks them.",
            asked_always);
  out.gauge("filter_bytes", "Bytes of the counters of all filters, in a writer.", now.filter_bytes);
  out.gauge("bit_row_bytes", "Bytes of the bank's rows of bits.", now.bit_row_bytes);
  out.gauge("filter_stages_max", "Stages of the filter that has most; 1 if all fit the plan.",
            stages);
  out.gauge("filter_left_over_entries", "Filter entries for values that are gone.", left_over);
  out.gauge("false_positive_ratio_mean", "Estimated rate of a region's filter, on average.",
            sum / static_cast<double>(std::max<std::size_t>(1, all.size())));
  out.gauge("false_positive_ratio_max", "Estimated rate of the worst region's filter.", worst);
  out.gauge("unsaved_changes", "Changes since filters were saved, replayed after a crash.",
            unsaved);
  out.gauge("store_bytes", "Bytes of the store, tables in memory included.", now.store_bytes);
  std::error_code unknown;
  const auto space = std::filesystem::space(state.path, unknown);
  if (!unknown) {
    out.gauge("disk_available_bytes", "Bytes that are free on the index's file system.",
              static_cast<std::uint64_t>(space.available));
  }
  out.gauge("read_only", "1 if the index is open for reading only.", state.read_only ? 1 : 0);
  const Freshness freshness = this->freshness();
  out.gauge("as_of_timestamp_seconds", "Every write before this moment is shown.",
            unix_time(freshness.as_of));
  out.gauge("last_change_number", "Number of the last change that is shown.", freshness.number);
  out.gauge("opening_regions_replayed", "Regions whose filters opening brought up to date.",
            state.recovery.replayed);
  out.gauge("opening_regions_rebuilt", "Regions whose filters opening rebuilt.",
            state.recovery.rebuilt);

  const auto& tally = *state.tally;
  out.counter("queries_total", "Queries answered.", now.queries);
  out.counter("query_rows_total", "Rows that queries found.", tally.rows_found);
  out.counter("query_regions_asked_total", "Regions that queries asked.", tally.regions_asked);
  out.counter("query_regions_skipped_total", "Regions that queries need not ask.",
              tally.regions_skipped);
  out.counter("query_requests_total", "Servers that queries asked.", now.requests);
  out.counter("query_broadcast_requests_total", "Servers that broadcasts would have asked.",
              now.broadcast_requests);
  out.counter("query_false_requests_total", "Servers that queries asked in vain.",
              now.false_requests);
  out.counter("queries_everywhere_total", "Queries for values on every server.",
              now.queries_everywhere);
  out.counter("rows_put_total", "Rows written under a new key.", tally.put);
  out.counter("rows_replaced_total", "Rows written over others.", tally.replaced);
  out.counter("rows_removed_total", "Rows removed.", tally.removed);
  out.counter("store_errors_total", "Errors of the store, such as a full disk.",
              state.store->errors());
  if (detail == MetricsDetail::each_region) write_regions(out, all);
  return out.take();
}

}  // namespace scbf
