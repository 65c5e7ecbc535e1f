// SPDX-License-Identifier: Apache-2.0
// For tests of the secondary index: an index in a temporary directory, compared with a plain table.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "index_support.hpp"

namespace scbf::test {

inline std::vector<Row> numbered(int rows) {
  std::vector<Row> all;
  for (int i = 0; i < rows; ++i) {
    all.push_back({fmt::format("{:06}", i),
                   {fmt::format("city {}", i / 10), "", fmt::format("t{},all", i % 7)}});
  }
  return all;
}

inline std::vector<Query> all_queries() {
  std::vector<Query> queries;
  for (int i = 0; i < 3; ++i) queries.push_back({.all_of = {{"city", fmt::format("city {}", i)}}});
  for (int i = 0; i < 400; i += 7) {
    queries.push_back({.all_of = {{"city", fmt::format("village {}", i)}}});
  }
  for (int i = 0; i < 30; ++i) {
    queries.push_back({.all_of = {{"tags", fmt::format("tag {}", i)}}});
    queries.push_back({.all_of = {{"tags", fmt::format("tag {}", i)},
                                  {"tags", fmt::format("tag {}", (i * 7) % 30)},
                                  {"city", fmt::format("city {}", i % 3)}}});
    queries.push_back({.all_of = {{"tags", fmt::format("tag {}", i)}},
                       .from = fmt::format("row {:03}", i * 5),
                       .to = fmt::format("row {:03}", i * 9),
                       .limit = static_cast<std::uint64_t>(i),
                       .keys_only = true});
  }
  queries.push_back({.all_of = {{"city", std::string("zero\0byte", 9)}}});
  queries.push_back({.all_of = {{"city", std::string("zero\0byte\0", 10)}}});
  return queries;
}

inline void expect_equal(const SecondaryIndex& index, const PlainTable& plain) {
  std::vector<Row> rows;
  for (const auto& [key, values] : plain.rows()) rows.push_back({key, values});
  ASSERT_EQ(all_rows(index), rows);
  std::vector<Query> queries = all_queries();
  const auto answers = index.query(queries);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    ASSERT_EQ(answers[i].rows, plain.query(queries[i])) << queries[i].all_of[0].value;
    queries[i].broadcast = true;
    const QueryAnswer broadcast = index.query(queries[i]);
    ASSERT_EQ(broadcast.rows, answers[i].rows);
    ASSERT_LE(answers[i].routing.requests, broadcast.routing.requests);
    ASSERT_EQ(answers[i].routing.servers_holding, broadcast.routing.servers_holding);
  }
  const CheckReport check = index.check();
  EXPECT_EQ(check.problem_count, 0u) << fmt::format("{}", check.problems.at(0));
  EXPECT_EQ(check.rows, rows.size());
}

struct Indexed {
  Directory directory;
  SecondaryIndex index;
  explicit Indexed(const IndexPlan& plan = {}, const TableSchema& schema = people())
      : index(SecondaryIndex::create(directory / "index", schema, plan)) {}
  void reopen(const IndexOptions& options = {}) {
    { SecondaryIndex closed = std::move(index); }
    index = SecondaryIndex::open(directory / "index", options);
  }
};

}  // namespace scbf::test
