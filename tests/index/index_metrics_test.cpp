// SPDX-License-Identifier: Apache-2.0
// Metrics: that their text follows the text exposition format 0.0.4 of Prometheus, and their
// values.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <sstream>

#include "indexed.hpp"

namespace scbf::index_metrics_test {
namespace {

using namespace test;

/// A strict reader of the format: sample (name and labels as written) → value.
std::map<std::string, double> parsed(const std::string& text) {
  static const std::regex help(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (\S.*\.))"),
      type(R"(# TYPE (\S+) (gauge|counter))"),
      sample(R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^\n]*)\} (\S+))re"),
      label(R"re(^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\[\\"n])*)"(,|$))re");
  std::map<std::string, double> samples;
  std::set<std::string> seen;
  std::string family, kind;
  EXPECT_TRUE(text.ends_with('\n'));
  std::istringstream lines(text);
  std::smatch parts;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, parts, help)) {
      EXPECT_TRUE(seen.insert(parts[1]).second) << "a second family: " << line;
      EXPECT_TRUE(family.empty() || !kind.empty()) << "a family without a type before " << line;
      family = parts[1];
      kind.clear();
    } else if (std::regex_match(line, parts, type)) {
      EXPECT_EQ(parts[1], family) << line;
      kind = parts[2];
      EXPECT_EQ(kind == "counter", family.ends_with("_total")) << line;
    } else if (std::regex_match(line, parts, sample)) {
      EXPECT_EQ(parts[1], family) << line;
      EXPECT_FALSE(kind.empty()) << line;
      std::string labels = parts[2];
      std::set<std::string> names;
      for (std::smatch one; !labels.empty(); labels = one.suffix()) {
        if (!std::regex_search(labels, one, label)) {
          ADD_FAILURE() << "labels " << labels << " of " << line;
          break;
        }
        EXPECT_TRUE(names.insert(one[1]).second) << line;
      }
      EXPECT_TRUE(names.contains("index")) << line;
      std::size_t used = 0;
      const double value = std::stod(parts[3], &used);
      EXPECT_EQ(used, parts[3].length()) << line;
      EXPECT_TRUE(std::isfinite(value)) << line;
      const bool first = samples.emplace(line.substr(0, line.rfind(' ')), value).second;
      EXPECT_TRUE(first) << "twice: " << line;
    } else {
      ADD_FAILURE() << "not of the format: " << line;
    }
  }
  return samples;
}

/// The value of a metric that has no label but `index`.
double value_of(const SecondaryIndex& index, const std::string& name) {
  for (const auto& [sample, value] : parsed(index.metrics())) {
    if (sample.starts_with("scbf_index_" + name + "{")) return value;
  }
  ADD_FAILURE() << name << " is missing";
  return -1;
}

TEST(Metrics, AreWhatTheIndexHolds) {
  Indexed test({.servers = 3});
  SecondaryIndex& index = test.index;
  index.presplit(std::vector<std::string>{"000100", "000200"});
  index.put(numbered(300));
  index.put(numbered(10));
  index.remove("000000");
  const Query city = {.all_of = {{"city", "city 4"}}};
  index.query(city);
  index.query(city, [](const Row&) { return false; });
  const IndexStatistics now = index.statistics();
  const auto expect = [&](const char* name, double value) {
    EXPECT_EQ(value_of(index, name), value) << name;
  };
  expect("rows", 299);
  expect("values", static_cast<double>(now.values));
  expect("regions", 3);
  expect("servers", 3);
  expect("regions_asked_always", 0);
  expect("filter_bytes", static_cast<double>(now.filter_bytes));
  expect("bit_row_bytes", static_cast<double>(now.bit_row_bytes));
  expect("queries_total", 2);
  expect("query_rows_total", 11);
  expect("query_regions_asked_total", 2);
  expect("query_regions_skipped_total", 2);  // of the query that was not stopped
  expect("query_requests_total", static_cast<double>(now.requests));
  expect("query_false_requests_total", 0);
  expect("query_broadcast_requests_total", 4);
  expect("rows_put_total", 300);
  expect("rows_replaced_total", 10);
  expect("rows_removed_total", 1);
  expect("store_errors_total", 0);
  expect("read_only", 0);
  expect("last_change_number", static_cast<double>(index.freshness().number));
  expect("planned_false_positive_ratio", index.plan().fpr);
  std::uint64_t unsaved = 0;
  double worst = 0;
  for (const RegionInfo& region : index.regions()) {
    unsaved += region.unsaved;
    worst = std::max(worst, region.estimated_fpr);
  }
  EXPECT_GT(unsaved, 0u);
  expect("unsaved_changes", static_cast<double>(unsaved));
  expect("false_positive_ratio_max", worst);
  EXPECT_GT(value_of(index, "disk_available_bytes"), 0);
  index.checkpoint();
  expect("unsaved_changes", 0);
  index.distrust(index.regions()[0].id);
  expect("regions_asked_always", 1);
  const SecondaryIndex reader = SecondaryIndex::open_read_only(test.directory / "index");
  EXPECT_EQ(value_of(reader, "read_only"), 1);
  EXPECT_EQ(value_of(reader, "opening_regions_rebuilt"), 1);
  EXPECT_EQ(value_of(reader, "queries_total"), 0);
}

TEST(Metrics, OfEachRegion) {
  Indexed test({.servers = 2});
  test.index.presplit(std::vector<std::string>{"000100"});
  test.index.put(numbered(150));
  const auto totals = parsed(test.index.metrics()),
             all = parsed(test.index.metrics(MetricsDetail::each_region));
  EXPECT_EQ(all.size(), totals.size() + 12);
  const std::string path = (test.directory / "index").string();
  for (const RegionInfo& region : test.index.regions()) {
    const std::string labels =
        fmt::format(R"({{index="{}",region="{}",server="{}"}})", path, region.id, region.server);
    EXPECT_EQ(all.at("scbf_index_region_rows" + labels), static_cast<double>(region.rows));
    EXPECT_EQ(all.at("scbf_index_region_filter_bytes" + labels),
              static_cast<double>(region.filter_bytes));
  }
}

TEST(Metrics, LabelsAreEscaped) {
  const TableSchema odd = {
      .key = "a \"key\"",
      .columns = {{.name = "back\\slash\nfeed", .indexed = true, .separator = "\\"},
                  {.name = "{x=\"1\"} 2"},
                  {.name = "\r\xC3\xA9"}}};
  Directory directory;
  const auto path = directory / "not \xFF utf-8, \"quoted\"";
  const SecondaryIndex index = SecondaryIndex::create(path, odd);
  const std::string text = index.metrics();
  const auto samples = parsed(text);
  const std::string of = "scbf_index_column_info{index=\"" + directory.path().string() +
                         "/not \xEF\xBF\xBD utf-8, \\\"quoted\\\"\",column=\"";
  for (const char* column : {"a \\\"key\\\"\",role=\"key\",separator=\"\"}",
                             "back\\\\slash\\nfeed\",role=\"indexed\",separator=\"\\\\\"}",
                             "{x=\\\"1\\\"} 2\",role=\"stored\",separator=\"\"}",
                             "\r\xC3\xA9\",role=\"stored\",separator=\"\"}"}) {
    EXPECT_TRUE(samples.contains(of + column)) << column << " in\n" << text;
  }
}

TEST(Metrics, StayWhenAReaderIsRefreshed) {
  Indexed test;
  test.index.put(numbered(10));
  SecondaryIndex reader = SecondaryIndex::open_read_only(test.directory / "index");
  reader.query({.all_of = {{"city", "city 4"}}});
  test.index.put(numbered(20));
  ASSERT_TRUE(reader.refresh());
  reader.query({.all_of = {{"city", "city 4"}}});
  EXPECT_EQ(value_of(reader, "queries_total"), 2);
  EXPECT_EQ(reader.statistics().queries, 2u);
}

}  // namespace
}  // namespace scbf::index_metrics_test
