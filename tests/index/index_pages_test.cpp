// SPDX-License-Identifier: Apache-2.0
// Answers in pages, which continue after a key, and answers that are handed out row by row.
#include "support/disk.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "cursor_steps.hpp"
#include "indexed.hpp"

namespace scbf::index_pages_test {
namespace {

using namespace test;

/// The whole answer to a query, in pages.
std::vector<Row> in_pages(
    const SecondaryIndex& index, Query query, std::uint64_t limit,
    const std::function<void()>& between = [] {}) {
  std::vector<Row> all;
  for (query.limit = limit;;) {
    const std::vector<Row> page = index.query(query).rows;
    EXPECT_LE(page.size(), limit);
    all.insert(all.end(), page.begin(), page.end());
    if (page.size() < limit) return all;
    query.after = page.back().key;
    between();
  }
}

std::vector<Row> row_by_row(const SecondaryIndex& index, const Query& query) {
  std::vector<Row> rows;
  index.query(query, [&](const Row& row) {
    rows.push_back(row);
    return true;
  });
  return rows;
}

class Pages : public ::testing::Test {
 protected:
  Pages() {
    test_.index.presplit(std::vector<std::string>{"000100", "000200"});
    test_.index.put(numbered(300));
  }
  Indexed test_{{.servers = 3}};
  const SecondaryIndex& index_ = test_.index;
  const Query all_{.all_of = {{"tags", "all"}}};
};

TEST_F(Pages, AreTheWholeAnswer) {
  Query both = all_, keys = all_, range = all_;
  both.all_of.push_back({"tags", "t3"});
  keys.keys_only = true;
  range.from = "000050";
  range.to = "000210";
  for (const Query& query : {all_, both, keys, range}) {
    const std::vector<Row> whole = index_.query(query).rows;
    ASSERT_GT(whole.size(), 20u);
    for (const std::uint64_t limit : {1, 7, 100, 1000}) {
      EXPECT_EQ(in_pages(index_, query, limit), whole) << limit;
    }
    EXPECT_EQ(in_pages(index_, query, whole.size()), whole) << "the last page is empty";
    EXPECT_EQ(in_pages(SecondaryIndex::open_read_only(test_.directory / "index"), query, 7), whole);
  }
}

TEST_F(Pages, AskOnlyTheRegionsThatFollow) {
  Query query = all_;
  query.after = "000199";
  const QueryAnswer answer = index_.query(query);
  EXPECT_EQ(answer.rows.size(), 100u);
  EXPECT_EQ(answer.routing.regions, 2u) << "a key after 000199 may be in its region";
  EXPECT_EQ(answer.routing.expected_requests, 0);
  query.after = "000200";
  EXPECT_EQ(index_.query(query).routing.regions, 1u);
}

TEST_F(Pages, BeginAfterAnyKey) {
  using namespace std::string_literals;
  const std::vector<std::string> keys = {
      "a", "a\0"s, "a\0\0"s, "a\0\1"s, "aa", "b", std::string(kMaxKeyBytes, '\xFF')};
  for (const std::string& key : keys) test_.index.put({key, {"here", "", ""}});
  Query query = {.all_of = {{"city", "here"}}};
  for (std::size_t i = 0; i <= keys.size(); ++i) {
    query.after = i == 0 ? "" : keys[i - 1];
    const std::vector<Row> rows = index_.query(query).rows;
    ASSERT_EQ(rows.size(), keys.size() - i) << i;
    if (i < keys.size()) {
      EXPECT_EQ(rows[0].key, keys[i]);
    }
  }
  // No row need have the key; of `from` and `after` the later one counts.
  const auto first = [&](const char* from, const char* after, const char* to) {
    const auto rows =
        index_.query(Query{.all_of = {{"tags", "all"}}, .from = from, .to = to, .after = after})
            .rows;
    return rows.empty() ? "none" : rows[0].key;
  };
  EXPECT_EQ(first("", "0000075", ""), "000008");
  EXPECT_EQ(first("000050", "000007", ""), "000050");
  EXPECT_EQ(first("000050", "000050", ""), "000051");
  EXPECT_EQ(first("", "000050", "000051"), "none");
  EXPECT_EQ(first("", "000250", "000100"), "none");
  EXPECT_EQ(first("000100", "", "000100"), "none");
  EXPECT_EQ(first("", "z", ""), "none");
}

TEST_F(Pages, RowsThatStayComeOnceWhateverIsWritten) {
  int round = 0;
  const std::vector<Row> rows = in_pages(index_, all_, 10, [&] {
    ++round;
    // Before the page's end and after it.
    test_.index.put({fmt::format("0000{:02} new", round), {"", "", "all"}});
    test_.index.put({fmt::format("000250 new {:02}", round), {"", "", "all"}});
    test_.index.remove(fmt::format("{:06}", round));
    if (round == 5) test_.index.split(test_.index.regions()[1].id);
    if (round == 9) test_.index.checkpoint();
  });
  EXPECT_GT(round, 20);
  std::set<std::string> keys;
  for (const Row& row : rows) {
    EXPECT_TRUE(keys.empty() || *keys.rbegin() < row.key) << row.key;
    keys.insert(row.key);
  }
  for (const Row& row : numbered(300)) {
    if (row.key > fmt::format("{:06}", round)) {
      EXPECT_TRUE(keys.contains(row.key)) << row.key;
    }
  }
  EXPECT_TRUE(keys.contains("000250 new 01"));
}

TEST_F(Pages, RowByRowIsTheSameAnswer) {
  test_.index.put(script_step(3, 5).rows);
  for (Query query : all_queries()) {
    EXPECT_EQ(row_by_row(index_, query), index_.query(query).rows);
    query.after = "row 050";
    EXPECT_EQ(row_by_row(index_, query), index_.query(query).rows);
  }
  const Query city = {.all_of = {{"city", "city 4"}}};
  const RoutingReport routing = index_.query(city, [](const Row&) { return true; }),
                      expected = index_.query(city).routing;
  EXPECT_EQ(routing.requests, expected.requests);
  EXPECT_EQ(routing.servers_holding, expected.servers_holding);
  EXPECT_EQ(routing.expected_requests, expected.expected_requests);
}

TEST_F(Pages, ReportsEndWhereTheLimitDoes) {
  for (const auto& [limit, regions] :
       {std::pair(0u, 0u), {1u, 1u}, {100u, 1u}, {101u, 2u}, {300u, 3u}}) {
    for (const bool broadcast : {false, true}) {
      Query query = all_;
      query.limit = limit;
      query.broadcast = broadcast;
      const RoutingReport routing = index_.query(query).routing;
      EXPECT_EQ(routing.regions, regions) << limit;
      EXPECT_EQ(routing.regions_asked, regions) << limit;
      EXPECT_EQ(routing.servers, regions) << limit;
      EXPECT_EQ(routing.requests, regions) << limit;
    }
  }
}

TEST_F(Pages, RowByRowStopsWhenToldTo) {
  const std::uint64_t before = index_.statistics().queries;
  for (const std::size_t most : {1, 16, 17, 40}) {
    std::vector<Row> rows;
    const RoutingReport routing = index_.query(all_, [&](const Row& row) {
      rows.push_back(row);
      return rows.size() < most;
    });
    EXPECT_EQ(rows.size(), most);
    EXPECT_EQ(routing.regions_asked, 1u) << "later regions are not asked";
    EXPECT_EQ(routing.expected_requests, 0);
  }
  EXPECT_EQ(index_.statistics().queries, before + 4);
}

TEST_F(Pages, RowByRowIsOneSnapshotAndHoldsNoLock) {
  std::vector<Row> rows;
  index_.query(all_, [&](const Row& row) {
    rows.push_back(row);
    test_.index.remove("000299");
    test_.index.put({row.key, {"", "changed", ""}});
    if (rows.size() == 50) test_.index.merge(index_.regions()[0].id, index_.regions()[1].id);
    return true;
  });
  EXPECT_EQ(rows, numbered(300));
  EXPECT_TRUE(index_.query(all_).rows.empty());
}

TEST_F(Pages, WhatTheCallerThrowsComesBack) {
  int rows = 0;
  EXPECT_THROW(index_.query(all_,
                            [&](const Row&) -> bool {
                              if (++rows == 30) throw std::runtime_error("enough");
                              return true;
                            }),
               std::runtime_error);
  EXPECT_EQ(rows, 30);
  const auto never = [](const Row&) {
    ADD_FAILURE();
    return true;
  };
  EXPECT_THROW(index_.query(Query{}, never), InvalidArgument);
  EXPECT_THROW(index_.query(Query{.all_of = {{"note", "x"}}}, never), InvalidArgument);
  EXPECT_EQ(index_.query(all_).rows.size(), 300u);
}

/// Begins a query of two regions at the nth time that the store's manifest is synced while rows of
/// the second one are loaded; the query asks that one only after the load. Returns its rows;
/// nothing if the manifest was not synced so often.
std::optional<std::vector<Row>> found_beside_a_load(int nth) {
  const auto row = [](int i, const std::string& city) {
    return Row{fmt::format("{:03}", i), {city, std::string(20'000, 'n'), ""}};
  };
  Indexed test{{.servers = 1}};
  test.index.presplit(std::vector<std::string>{"100"});
  for (int i = 0; i < 200; ++i) test.index.put(row(i, i < 20 ? "new" : ""));
  test.index.checkpoint();

  std::promise<void> begun, loaded;
  int left = 0;
  std::vector<Row> found;
  std::jthread reader;
  const Query query{.all_of = {{"city", "new"}}};
  scbf_test::Disk::at_sync([&, loader = std::this_thread::get_id()](const std::string& path) {
    if (std::this_thread::get_id() != loader || path.find("MANIFEST") == path.npos) return;
    if (--left != 0) return;
    reader = std::jthread([&] {
      test.index.query(query, [&](const Row& next) {
        if (found.empty()) {
          begun.set_value();
          loaded.get_future().wait();
        }
        found.push_back(next);
        return true;
      });
    });
    begun.get_future().wait();
  });
  left = nth;
  test.index.bulk_load([&, i = 100](Row& next) mutable {
    next = row(i, "new");
    return i++ < 200;
  });
  scbf_test::Disk::at_sync(nullptr);
  EXPECT_EQ(test.index.query(query).rows.size(), 120u);
  if (!reader.joinable()) return std::nullopt;
  loaded.set_value();
  reader.join();
  return found;
}

/// A load becomes a part of the store by a synced change of its manifest. A query that begins
/// meanwhile sees all of it or nothing, not the postings alone.
TEST(Snapshots, QueriesThatBeginWhileALoadIsMadeAPartOfTheStore) {
  int begun = 0;
  while (const auto found = found_beside_a_load(begun + 1)) {
    ++begun;
    EXPECT_GE(found->size(), 20u) << begun;
    for (const Row& row : *found) ASSERT_EQ(row.values[0], "new") << begun << ", row " << row.key;
  }
  EXPECT_GT(begun, 0);
}

/// Jobs 0 … count − 1 in this state.
std::vector<Row> jobs(int count, const char* state) {
  std::vector<Row> all;
  for (int i = 0; i < count; ++i) all.push_back({fmt::format("{:06}", i), {state, "", ""}});
  return all;
}

void load(SecondaryIndex& index, const std::vector<Row>& all) {
  auto at = all.begin();
  index.bulk_load([&](Row& row) {
    if (at == all.end()) return false;
    row = *at++;
    return true;
  });
}

// Deleted postings stay in the store until it is compacted. A process that has just opened it must
// not step over all that was ever taken from the front of a queue.
TEST(Queues, AreReadFromTheirFrontByAnotherProcess) {
  constexpr int kJobs = 12'000, kLeft = 10;
  const std::function<void(SecondaryIndex&, const std::vector<Row>&)> ways[] = {
      load,
      [](SecondaryIndex& index, const std::vector<Row>& all) { index.put(all); },
      [](SecondaryIndex& index, const std::vector<Row>& all) {
        for (const Row& row : all) index.put(row);
      },
      [](SecondaryIndex& index, const std::vector<Row>& all) {  // a worker, who asks for the next
        for (std::size_t first = 0; first < all.size(); first += 100) {
          ASSERT_EQ(index.query({.all_of = {{"city", "pending"}}, .limit = 100}).rows.front().key,
                    all[first].key);
          const auto end = std::min(all.size(), first + 100);
          index.put(std::vector<Row>(all.begin() + static_cast<std::ptrdiff_t>(first),
                                     all.begin() + static_cast<std::ptrdiff_t>(end)));
        }
      },
  };
  for (const auto& finish : ways) {
    SCOPED_TRACE(&finish - ways);
    Indexed test;
    load(test.index, jobs(kJobs, "pending"));
    finish(test.index, jobs(kJobs - kLeft, "done"));
    { const SecondaryIndex closed = std::move(test.index); }
    const auto index = SecondaryIndex::open_read_only(test.directory / "index");
    const Query pending{.all_of = {{"city", "pending"}}, .limit = kLeft};
    // A front is erased as a range whenever it has lost 4,096 postings.
    EXPECT_LT(steps_of([&] { EXPECT_EQ(index.query(pending).rows.front().key, "011990"); }), 4200u);
    // A reader remembers.
    EXPECT_LT(steps_of([&] { EXPECT_EQ(index.query(pending).rows.size(), 10u); }), 100u);
    EXPECT_EQ(index.query({.all_of = {{"city", "done"}}}).rows.size(), kJobs - kLeft + 0u);
    EXPECT_EQ(index.check().problem_count, 0u);
  }
}

// Nor over what was taken behind a job that nobody takes.
TEST(Queues, MayKeepJobsThatNobodyTakes) {
  constexpr int kJobs = 30'000, kLeft = 10;
  const std::vector<std::string> kept = {"000000", "000700", "015000"};
  std::vector<Row> taken = jobs(kJobs - kLeft, "done");
  std::erase_if(taken, [&](const Row& row) { return std::ranges::count(kept, row.key) > 0; });
  const std::function<void(SecondaryIndex&, const std::vector<Row>&)> ways[] = {
      load, [](SecondaryIndex& index, const std::vector<Row>& all) {
        for (std::size_t first = 0; first < all.size(); first += 500) {
          index.put(std::span(all).subspan(first, std::min<std::size_t>(500, all.size() - first)));
        }
      }};
  for (const auto& finish : ways) {
    SCOPED_TRACE(&finish - ways);
    Indexed test;
    load(test.index, jobs(kJobs, "pending"));
    finish(test.index, taken);
    const Query pending{.all_of = {{"city", "pending"}}, .limit = 5};
    const auto ask = [&](const SecondaryIndex& index) {
      const std::vector<Row> found = index.query(pending).rows;
      ASSERT_EQ(found.size(), 5u);
      for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(found[i].key, kept[i]);
      EXPECT_EQ(found[3].key, "029990");
    };
    // 699 that are too few to erase, and up to 4,500 that were lost since the list was last looked
    // at; each is counted as a step and as a deleted entry.
    constexpr std::uint64_t kMostSteps = 2 * (700 + 4500);
    EXPECT_LT(steps_of([&] { ask(test.index); }), kMostSteps);
    EXPECT_LT(steps_of([&] { ask(test.index); }), 200u) << "remembered";
    { const SecondaryIndex closed = std::move(test.index); }
    const auto index = SecondaryIndex::open_read_only(test.directory / "index");
    EXPECT_LT(steps_of([&] { ask(index); }), kMostSteps);
    EXPECT_LT(steps_of([&] { ask(index); }), 200u) << "remembered by a reader";
    EXPECT_EQ(index.query({.all_of = {{"city", "done"}}}).rows.size(), taken.size());
    EXPECT_EQ(index.check().problem_count, 0u);
  }
}

// A list is erased only where nothing lies.
TEST(Queues, LoseNothing) {
  Indexed test;
  PlainTable plain(people());
  std::mt19937 random(5);
  const char* const states[] = {"pending", "pending", "running", "done"};
  for (int round = 0; round < 12; ++round) {
    std::vector<Row> some;
    for (int i = 0; i < 4000; ++i) {
      const auto number = static_cast<int>(random() % 3000) + (random() % 8 != 0 ? round * 400 : 0);
      some.push_back({fmt::format("{:06}", number), {states[random() % 4], "", ""}});
      if (number < round * 400 && random() % 4 != 0) some.back().values[0] = "done";
    }
    test.index.put(some);
    for (const Row& row : some) plain.put(row);
    if (round % 4 == 3) test.reopen();
  }
  expect_equal(test.index, plain);
}

}  // namespace
}  // namespace scbf::index_pages_test
