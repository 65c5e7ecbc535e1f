// SPDX-License-Identifier: Apache-2.0
// The secondary index against a plain table: rows, queries, regions, restarts, and what it says of
// the requests it saved.
#include "scbf/secondary_index.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "encoding.hpp"
#include "index_support.hpp"
#include "store.hpp"

namespace scbf {
namespace {

using namespace test;

std::vector<Query> all_queries() {
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

void expect_equal(const SecondaryIndex& index, const PlainTable& plain) {
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

TEST(SecondaryIndex, AnyScriptAnswersAsAPlainTable) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    // Few values per region: filters grow, and rates high enough for false claims.
    Indexed test({.fpr = 0.2, .region_values = 16, .servers = kScriptServers, .seed = seed});
    PlainTable plain(people());
    for (std::uint64_t step = 0; step < 600; ++step) {
      const Step next = script_step(seed, step);
      take(test.index, next);
      take(plain, next);
      if (step % 150 == 149) {
        test.reopen();
        EXPECT_EQ(test.index.recovery().rebuilt, 0u);
        expect_equal(test.index, plain);
      }
    }
    EXPECT_GT(test.index.regions().size(), 2u);
    std::uint32_t stages = 0;
    for (const RegionInfo& region : test.index.regions()) stages = std::max(stages, region.stages);
    EXPECT_GT(stages, 1u);
  }
}

TEST(SecondaryIndex, WritesSayWhatTheyDid) {
  Indexed test;
  const Row a{"a", {"Ulm", "", "x"}}, b{"b", {"Bonn", "", ""}};
  const WriteReport first = test.index.put(std::vector<Row>{a, b, a});
  EXPECT_EQ(first.put, 2u);
  EXPECT_EQ(first.replaced, 1u);
  EXPECT_EQ(test.index.get("a"), a);
  EXPECT_EQ(test.index.get("c"), std::nullopt);
  EXPECT_TRUE(test.index.remove("a"));
  EXPECT_FALSE(test.index.remove("a"));
  const std::vector<std::string> keys = {"b", "c", "b"};
  const WriteReport gone = test.index.remove(keys);
  EXPECT_EQ(gone.removed, 1u);
  EXPECT_EQ(gone.absent, 2u);
  EXPECT_EQ(test.index.statistics().rows, 0u);
  EXPECT_EQ(test.index.statistics().values, 0u);
}

TEST(SecondaryIndex, RefusesWhatCannotBe) {
  Indexed test({.servers = 2});
  SecondaryIndex& index = test.index;
  const std::vector<Row> good_then_bad = {{"a", {"Ulm", "", ""}}, {"b", {"Bonn"}}};
  EXPECT_THROW(index.put(good_then_bad), InvalidArgument);
  EXPECT_EQ(index.get("a"), std::nullopt) << "nothing is changed";
  EXPECT_THROW(index.query(Query{}), InvalidArgument);
  EXPECT_THROW(index.query({.all_of = {{"nobody", "x"}}}), InvalidArgument);
  EXPECT_THROW(index.query({.all_of = {{"note", "x"}}}), InvalidArgument);
  EXPECT_THROW(index.query({.all_of = {{"city", ""}}}), InvalidArgument);
  EXPECT_THROW(index.query({.all_of = {{"city", "x"}}, .from = "b", .to = "a"}), InvalidArgument);
  EXPECT_THROW(index.get(""), InvalidArgument);
  EXPECT_THROW(index.move(0, 2), InvalidArgument);
  EXPECT_THROW(index.move(7, 0), InvalidArgument);
  EXPECT_THROW(index.split(0), InvalidArgument) << "no rows";
  EXPECT_THROW(index.split(7), InvalidArgument);
  EXPECT_THROW(index.merge(0, 0), InvalidArgument);
  EXPECT_THROW(index.rebuild(7), InvalidArgument);
  EXPECT_THROW(index.presplit(std::vector<std::string>{"b", "a"}), InvalidArgument);
  EXPECT_THROW(index.presplit(std::vector<std::string>{"a", "a"}), InvalidArgument);
  EXPECT_THROW(index.presplit(std::vector<std::string>{""}), InvalidArgument);
  index.put(Row{"a", {"Ulm", "", ""}});
  EXPECT_THROW(index.presplit(std::vector<std::string>{"b"}), InvalidArgument);
  EXPECT_THROW(index.split(0), InvalidArgument) << "one row";
  EXPECT_THROW(index.split(0, ""), InvalidArgument);
  EXPECT_EQ(index.regions().size(), 1u);
}

TEST(SecondaryIndex, IsCreatedOnceAndOpenedOnce) {
  Directory directory;
  const auto path = directory / "index";
  EXPECT_THROW(SecondaryIndex::open(path), IoError);
  EXPECT_THROW(SecondaryIndex::create(path, {.key = "", .columns = {}}), InvalidArgument);
  EXPECT_THROW(SecondaryIndex::create(path, people(), {.fpr = 1.5}), InvalidArgument);
  EXPECT_THROW(SecondaryIndex::create(path, people(), {.servers = 0}), InvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing is left of what was refused";
  {
    const SecondaryIndex index = SecondaryIndex::create(path, people(), {.fpr = 0.02});
    EXPECT_THROW(SecondaryIndex::open(path), IoError);
  }
  EXPECT_THROW(SecondaryIndex::create(path, people()), IoError);
  const SecondaryIndex index = SecondaryIndex::open(path);
  EXPECT_EQ(index.schema(), people());
  EXPECT_EQ(index.plan().fpr, 0.02);
}

TEST(SecondaryIndex, SchemasAreChecked) {
  EXPECT_THROW((TableSchema{.key = "a", .columns = {{.name = "a"}}}.check()), InvalidArgument);
  EXPECT_THROW((TableSchema{.key = "a", .columns = {{.name = ""}}}.check()), InvalidArgument);
  EXPECT_THROW((TableSchema{.key = "a", .columns = {{.name = "b", .separator = ","}}}.check()),
               InvalidArgument);
  TableSchema wide{.key = "k", .columns = {}};
  for (std::size_t i = 0; i <= kMaxColumns; ++i) wide.columns.push_back({std::to_string(i)});
  EXPECT_THROW(wide.check(), InvalidArgument);
}

// ---- regions ------------------------------------------------------------------------------------

std::vector<Row> numbered(int rows) {
  std::vector<Row> all;
  for (int i = 0; i < rows; ++i) {
    all.push_back({fmt::format("{:06}", i),
                   {fmt::format("city {}", i / 10), "", fmt::format("t{},all", i % 7)}});
  }
  return all;
}

TEST(Regions, DivideJoinAndMove) {
  Indexed test({.servers = 3});
  SecondaryIndex& index = test.index;
  PlainTable plain(people());
  for (const Row& row : numbered(1000)) plain.put(row);
  index.put(numbered(1000));
  const auto [left, right] = index.split(0);
  auto regions = index.regions();
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0].id, left);
  EXPECT_EQ(regions[0].rows, 500u);
  EXPECT_EQ(regions[0].to, "000500");
  EXPECT_EQ(regions[1].id, right);
  EXPECT_EQ(regions[1].from, "000500");
  EXPECT_EQ(regions[1].rows, 500u);
  EXPECT_NE(regions[1].server, regions[0].server);
  expect_equal(index, plain);
  // At a key that is no row's, and at the very ends.
  EXPECT_THROW(index.split(right, "000500"), InvalidArgument);
  EXPECT_THROW(index.split(left, "000500"), InvalidArgument);
  const auto [low, high] = index.split(right, "000500a");
  EXPECT_EQ(index.regions()[1].rows, 1u);
  EXPECT_THROW(index.merge(low, left), InvalidArgument);
  EXPECT_THROW(index.merge(left, high), InvalidArgument);
  const RegionId both = index.merge(left, low);
  regions = index.regions();
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0].id, both);
  EXPECT_EQ(regions[0].rows, 501u);
  EXPECT_EQ(regions[0].from, "");
  EXPECT_EQ(regions[1].to, "");
  index.move(both, 2);
  EXPECT_EQ(index.regions()[0].server, 2u);
  expect_equal(index, plain);
  test.reopen();
  EXPECT_EQ(index.regions()[0].server, 2u);
  EXPECT_EQ(index.recovery().rebuilt, 0u);
  expect_equal(index, plain);
}

TEST(Regions, PresplitDoesNotWidenTheBankBeyondItsRegions) {
  Indexed test({.region_values = 5000});
  const std::uint64_t one = test.index.statistics().bit_row_bytes;
  std::vector<std::string> points;
  for (int i = 1; i < 8; ++i) points.push_back(fmt::format("{}", i));
  test.index.presplit(points);
  EXPECT_EQ(test.index.regions().size(), 8u);
  EXPECT_EQ(test.index.statistics().bit_row_bytes, one) << "a byte of each row holds eight";
}

TEST(Regions, PresplitAtPoints) {
  Indexed test({.servers = 2});
  test.index.presplit(std::vector<std::string>{"000250", "000500", "000750"});
  std::size_t next = 0;
  const std::vector<Row> rows = numbered(1000);
  std::uint64_t last = 0;
  const WriteReport report = test.index.bulk_load(
      [&](Row& row) {
        if (next == rows.size()) return false;
        row = rows[rows.size() - ++next];  // backwards: it sorts
        return true;
      },
      [&](std::uint64_t done, std::uint64_t) { last = done; });
  EXPECT_EQ(report.put, 1000u);
  EXPECT_EQ(last, 1000u);
  const auto regions = test.index.regions();
  ASSERT_EQ(regions.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(regions[i].rows, 250u);
    EXPECT_EQ(regions[i].server, i % 2);
    EXPECT_EQ(regions[i].values, 25u + 7 + 1);
    EXPECT_EQ(regions[i].unsaved, 0u) << "loading ends with a checkpoint";
  }
  PlainTable plain(people());
  for (const Row& row : rows) plain.put(row);
  expect_equal(test.index, plain);
}

// ---- routing ------------------------------------------------------------------------------------

TEST(Routing, AsksWhoHoldsItAndSaysWhatItSaved) {
  Indexed test({.fpr = 1e-6, .servers = 4});
  SecondaryIndex& index = test.index;
  std::vector<std::string> points;
  for (int i = 1; i < 8; ++i) points.push_back(fmt::format("{:06}", 100 * i));
  index.presplit(points);  // region i on server i mod 4
  index.put(numbered(800));
  // Rows 95 … 104 would be of one city; make one that spans two regions, on two servers.
  index.put(Row{"000099x", {"border", "", ""}});
  index.put(Row{"000100x", {"border", "", ""}});
  RoutingReport routing = index.query({.all_of = {{"city", "border"}}}).routing;
  EXPECT_EQ(routing.regions, 8u);
  EXPECT_EQ(routing.regions_asked, 2u);
  EXPECT_EQ(routing.regions_holding, 2u);
  EXPECT_EQ(routing.servers, 4u);
  EXPECT_EQ(routing.requests, 2u);
  EXPECT_EQ(routing.false_requests(), 0u);
  EXPECT_NEAR(routing.expected_requests, 2, 1e-4);
  EXPECT_FALSE(routing.everywhere());
  routing = index.query({.all_of = {{"tags", "all"}}}).routing;
  EXPECT_EQ(routing.requests, 4u);
  EXPECT_TRUE(routing.everywhere());
  EXPECT_EQ(routing.expected_requests, 4);
  routing = index.query({.all_of = {{"city", "nowhere"}}}).routing;
  EXPECT_EQ(routing.requests, 0u);
  routing = index.query({.all_of = {{"city", "nowhere"}}, .broadcast = true}).routing;
  EXPECT_EQ(routing.requests, 4u);
  EXPECT_EQ(routing.false_requests(), 4u);
  // Both conditions must be possible in one region.
  routing = index.query({.all_of = {{"city", "border"}, {"city", "city 0"}}}).routing;
  EXPECT_EQ(routing.regions_asked, 1u);
  EXPECT_EQ(routing.servers_holding, 0u);
  // Ranges leave regions out; one that ends where a region begins has nothing of it.
  routing = index.query({.all_of = {{"tags", "all"}}, .from = "000150", .to = "000300"}).routing;
  EXPECT_EQ(routing.regions, 2u);
  EXPECT_EQ(routing.servers, 2u);
  EXPECT_EQ(routing.expected_requests, 0) << "not known: the range cuts regions";
  routing = index.query({.all_of = {{"tags", "all"}}, .from = "000150", .to = "000300x"}).routing;
  EXPECT_EQ(routing.regions, 3u);
  routing = index.query({.all_of = {{"tags", "all"}}, .to = ""}).routing;
  EXPECT_EQ(routing.regions, 8u);
  // A server that takes over a region answers for it.
  index.move(index.regions()[1].id, 0);
  routing = index.query({.all_of = {{"city", "border"}}}).routing;
  EXPECT_EQ(routing.regions_asked, 2u);
  EXPECT_EQ(routing.requests, 1u);
  const IndexStatistics statistics = index.statistics();
  EXPECT_EQ(statistics.queries, 9u);
  EXPECT_EQ(statistics.queries_everywhere, 1u + 1 + 1 + 1);
  EXPECT_EQ(statistics.false_requests, 4u + 1);
}

// Requests for values that nobody has, against what the filters' fill predicts, and the bound.
TEST(Routing, FalseRequestsAreThoseOfTheRate) {
  constexpr int kRegions = 40, kRows = 8000, kQueries = 4000;
  Indexed test({.fpr = 0.1, .region_values = 100, .servers = kRegions});
  SecondaryIndex& index = test.index;
  std::vector<std::string> points;
  for (int i = 1; i < kRegions; ++i) points.push_back(fmt::format("{:06}", kRows / kRegions * i));
  index.presplit(points);
  std::vector<Row> rows = numbered(kRows);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].values[0] = fmt::format("own {}", i);
  index.put(rows);
  std::vector<Query> queries;
  for (int i = 0; i < kQueries; ++i) {
    queries.push_back({.all_of = {{"city", fmt::format("absent {}", i)}}});
  }
  double expected = 0;
  std::uint64_t requests = 0;
  for (const QueryAnswer& answer : index.query(queries)) {
    expected += answer.routing.expected_requests;
    requests += answer.routing.false_requests();
    EXPECT_EQ(answer.routing.servers_holding, 0u);
  }
  // One server each: independent trials, 160,000 of them. Five standard errors.
  EXPECT_NEAR(static_cast<double>(requests), expected, 5 * std::sqrt(expected));
  EXPECT_LT(static_cast<double>(requests), 0.1 * kRegions * kQueries);
  EXPECT_GT(requests, 1000u);
}

// ---- filters that are not to be trusted ---------------------------------------------------------

class Filters : public ::testing::Test {
 protected:
  Filters() {
    for (const Row& row : numbered(300)) plain_.put(row);
    test_.index.presplit(std::vector<std::string>{"000100", "000200"});
    test_.index.put(numbered(300));
    test_.index.checkpoint();
    for (const RegionInfo& region : test_.index.regions()) regions_.push_back(region.id);
  }
  std::filesystem::path file(RegionId region) {
    return test_.directory / "index" / "filters" / fmt::format("{}.scbf", region);
  }
  /// Closes, lets `damage` do its work, opens.
  template <class Damage>
  const RecoveryReport& after(const Damage& damage, const IndexOptions& options = {}) {
    { const SecondaryIndex closed = std::move(test_.index); }
    damage();
    test_.index = SecondaryIndex::open(test_.directory / "index", options);
    return test_.index.recovery();
  }
  void flip(const std::filesystem::path& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
  }

  Indexed test_{{.servers = 3}};
  PlainTable plain_{people()};
  std::vector<RegionId> regions_;
};

TEST_F(Filters, AreTakenAsTheyWereSaved) {
  const RecoveryReport& recovery = after([] {});
  EXPECT_EQ(recovery.regions, 3u);
  EXPECT_EQ(recovery.rebuilt, 0u);
  EXPECT_EQ(recovery.replayed, 0u);
  expect_equal(test_.index, plain_);
}

TEST_F(Filters, DamagedMissingOrOfAnotherRegionAreMadeAnew) {
  for (const int damage : {0, 1, 2, 3}) {
    const RecoveryReport& recovery = after([&] {
      if (damage == 0) flip(file(regions_[1]), 5000);
      if (damage == 1) std::filesystem::remove(file(regions_[1]));
      if (damage == 2) std::filesystem::resize_file(file(regions_[1]), 100);
      if (damage == 3) {
        std::filesystem::copy_file(file(regions_[0]), file(regions_[1]),
                                   std::filesystem::copy_options::overwrite_existing);
      }
    });
    ASSERT_EQ(recovery.rebuilt, 1u) << damage;
    ASSERT_EQ(recovery.reasons.size(), 1u);
    expect_equal(test_.index, plain_);
    EXPECT_EQ(after([] {}).rebuilt, 0u) << "it was saved again";
  }
}

// A process that is killed saves nothing: what it leaves is what is there while it runs.
TEST_F(Filters, OfRegionsBornWithValuesAreMadeAnewAfterACrash) {
  SecondaryIndex& index = test_.index;
  const RegionId child = index.split(regions_[0]).first;
  index.merge(regions_[1], regions_[2]);
  // More changes than values, so that a log of so many might seem to have them all.
  for (int i = 0; i < 200; ++i) {
    const Row row{fmt::format("000000 {}", i % 2), {fmt::format("{}", i), "", ""}};
    index.put(row);
    plain_.put(row);
  }
  ASSERT_GT(index.regions()[0].unsaved, index.regions()[0].values);
  const auto copy = test_.directory / "copy";
  std::filesystem::copy(test_.directory / "index", copy, std::filesystem::copy_options::recursive);
  const SecondaryIndex left = SecondaryIndex::open(copy);
  EXPECT_EQ(left.regions()[0].id, child);
  EXPECT_EQ(left.recovery().rebuilt, 3u);
  expect_equal(left, plain_);
}

TEST_F(Filters, MayBeLeftForLater) {
  const RecoveryReport& recovery =
      after([&] { flip(file(regions_[1]), 5000); }, {.rebuild = false});
  EXPECT_EQ(recovery.rebuilt, 0u);
  EXPECT_EQ(recovery.asked_always, 1u);
  SecondaryIndex& index = test_.index;
  EXPECT_TRUE(index.regions()[1].asked_always);
  expect_equal(index, plain_);
  EXPECT_EQ(index.query({.all_of = {{"city", "nowhere"}}}).routing.regions_asked, 1u);
  // It goes on being written to, is never saved, and stays so over a restart.
  for (int i = 100; i < 150; ++i) {
    index.remove(fmt::format("{:06}", i));
    plain_.remove(fmt::format("{:06}", i));
  }
  index.put(Row{"000150", {"new", "", ""}});
  plain_.put({"000150", {"new", "", ""}});
  index.checkpoint();
  EXPECT_EQ(after([] {}, {.rebuild = false}).asked_always, 1u);
  expect_equal(test_.index, plain_);
  test_.index.rebuild(regions_[1]);
  EXPECT_FALSE(test_.index.regions()[1].asked_always);
  EXPECT_EQ(test_.index.query({.all_of = {{"city", "nowhere"}}}).routing.regions_asked, 0u);
  expect_equal(test_.index, plain_);
  EXPECT_EQ(after([] {}).rebuilt, 0u);
  expect_equal(test_.index, plain_);
}

TEST_F(Filters, AreMadeAnewForAnotherPlan) {
  EXPECT_THROW(SecondaryIndex::replan(test_.directory / "index", 0.1, 10), IoError) << "it is open";
  const std::uint64_t before = test_.index.statistics().filter_bytes;
  const RecoveryReport& recovery = after([&] {
    EXPECT_THROW(SecondaryIndex::replan(test_.directory / "index", 2, 10), InvalidArgument);
    SecondaryIndex::replan(test_.directory / "index", 0.001, 1000);
  });
  EXPECT_EQ(recovery.rebuilt, 3u);
  EXPECT_EQ(test_.index.plan().fpr, 0.001);
  EXPECT_NE(test_.index.statistics().filter_bytes, before);
  expect_equal(test_.index, plain_);
  EXPECT_EQ(after([] {}).rebuilt, 0u);
}

TEST_F(Filters, AreDistrustedOnDemand) {
  SecondaryIndex& index = test_.index;
  index.distrust(regions_[0]);
  EXPECT_EQ(index.query({.all_of = {{"city", "nowhere"}}}).routing.regions_asked, 1u);
  const double expected = index.query({.all_of = {{"city", "nowhere"}}}).routing.expected_requests;
  EXPECT_GE(expected, 1);
  EXPECT_LE(expected, 1 + 2 * 0.01) << "the others' rates";
  expect_equal(index, plain_);
  EXPECT_EQ(after([] {}).rebuilt, 1u);
  expect_equal(test_.index, plain_);
}

// A store that lost what the filter had seen, as after a broken disk: the filter must not be taken.
TEST_F(Filters, AheadOfTheStoreAreMadeAnew) {
  const auto copy = test_.directory / "copy";
  const RecoveryReport& recovery = after([&] {
    std::filesystem::copy(test_.directory / "index", copy,
                          std::filesystem::copy_options::recursive);
    {
      SecondaryIndex later = SecondaryIndex::open(test_.directory / "index");
      std::vector<std::string> keys;
      for (const Row& row : numbered(300)) keys.push_back(row.key);
      later.remove(keys);
      later.checkpoint();
    }
    std::filesystem::remove_all(test_.directory / "index" / "store");
    std::filesystem::rename(copy / "store", test_.directory / "index" / "store");
  });
  EXPECT_EQ(recovery.rebuilt, 3u);
  expect_equal(test_.index, plain_);
  // And it was replaced: changes made since are not taken for those that it had seen.
  test_.index.remove("000000");
  plain_.remove("000000");
  EXPECT_EQ(after([] {}).rebuilt, 0u);
  expect_equal(test_.index, plain_);
}

TEST_F(Filters, ThatKeepTooMuchAreMadeAnewWhenSaved) {
  // A rate so high that most removals are ambiguous.
  Indexed test({.fpr = 0.9, .region_values = 8});
  for (int round = 0; round < 40; ++round) {
    std::vector<Row> rows;
    std::vector<std::string> keys;
    for (int i = 0; i < 100; ++i) {
      rows.push_back({fmt::format("{}", i), {fmt::format("{} {}", round, i), "", ""}});
    }
    test.index.put(rows);
  }
  const std::uint64_t before = test.index.regions()[0].left_over;
  ASSERT_GT(before, 1000u);
  test.index.checkpoint();
  EXPECT_EQ(test.index.regions()[0].left_over, 0u);
  EXPECT_EQ(test.index.check().problem_count, 0u);
}

// ---- a store that was damaged behind the index's back ------------------------------------------

class Damaged : public Filters {
 protected:
  void change(const std::function<void(index::Store&)>& work) {
    { const SecondaryIndex closed = std::move(test_.index); }
    index::Store store(test_.directory / "index" / "store", index::Store::Open::existing, 1 << 20);
    work(store);
  }
  void put(index::Family family, const std::string& key, const std::string& value) {
    change([&](index::Store& store) {
      index::StoreBatch batch = store.batch();
      batch.put(family, key, value);
      store.write(std::move(batch), true);
    });
  }
  void erase(index::Family family, const std::string& key) {
    change([&](index::Store& store) {
      index::StoreBatch batch = store.batch();
      batch.erase(family, key);
      store.write(std::move(batch), true);
    });
  }
  SecondaryIndex open() { return SecondaryIndex::open(test_.directory / "index"); }
  static std::string state_key(RegionId id) { return "state/" + index::region_key(id); }
  static std::string record_key(RegionId id) { return "region/" + index::region_key(id); }
};

TEST_F(Damaged, CheckFindsWhatDoesNotAgree) {
  using index::Family;
  const std::string entry = index::entry_key(0, "city 11");
  const RegionId id = regions_[1];
  EXPECT_EQ(test_.index.check().problem_count, 0u);
  test_.index.distrust(id);
  EXPECT_EQ(test_.index.check().problem_count, 0u) << "asked always is safe";
  const auto finds = [&](const std::string& text) {
    const SecondaryIndex index = open();
    const CheckReport report = index.check();
    EXPECT_EQ(report.regions, std::vector<RegionId>{id});
    bool found = false;
    for (const std::string& problem : report.problems) {
      found = found || problem.find(text) != std::string::npos;
    }
    EXPECT_TRUE(found) << text << "; first: " << report.problems.at(0);
  };
  put(Family::values, index::value_key(id, entry), index::encode_number(9));
  finds("has 10 postings of city 'city 11', and counts 9");
  erase(Family::values, index::value_key(id, entry));
  finds("has a posting of city 'city 11' without a count");
  put(Family::values, index::value_key(id, entry), index::encode_number(10));
  erase(Family::postings, index::posting_key(id, entry, "000113"));
  finds("has no posting of city 'city 11' for row '000113'");
  put(Family::postings, index::posting_key(id, entry, "000113"), "");
  // Neither the counts of values nor the filter know of it.
  put(Family::values, index::value_key(id, index::entry_key(0, "ghost")), index::encode_number(1));
  finds("has city 'ghost', which its filter does not know");
}

TEST_F(Damaged, RegionsThatCannotBeAreRefused) {
  using index::Family;
  const RegionId last = regions_[2];
  put(Family::meta, "next_region", index::encode_number(last));
  EXPECT_THROW(open(), CorruptFile) << "the next would be written over it";
  put(Family::meta, "next_region", index::encode_number(0x1'0000'0000));
  EXPECT_THROW(open(), CorruptFile);
  put(Family::meta, "next_region", index::encode_number(last + 1));
  EXPECT_EQ(open().regions().size(), 3u);
  put(Family::meta, record_key(last), index::encode_region({0, "000100"}));
  EXPECT_THROW(open(), CorruptFile) << "two begin there";
  put(Family::meta, record_key(last), index::encode_region({3, "000200"}));
  EXPECT_THROW(open(), CorruptFile) << "there are three servers";
  put(Family::meta, record_key(last), index::encode_region({2, "000200"}));
  put(Family::meta, record_key(0xFFFF'FFFF), index::encode_region({0, "x"}));
  put(Family::meta, state_key(0xFFFF'FFFF), index::encode_state({}));
  EXPECT_THROW(open(), CorruptFile);
  erase(Family::meta, record_key(0xFFFF'FFFF));
  expect_equal(open(), plain_);
}

TEST_F(Damaged, FiltersAreMadeAnewWhateverIsWrongWithTheirLog) {
  using index::Family;
  const RegionId id = regions_[1];
  // A change after the checkpoint, whose record is then damaged.
  const auto tamper = [&](const std::string& record) {
    change([&](index::Store& store) {
      const auto state = index::decode_state(store.get(Family::meta, state_key(id)).value());
      index::StoreBatch batch = store.batch();
      batch.put(Family::meta, state_key(id),
                index::encode_state({state.rows, state.values, state.changes + 1}));
      batch.put(Family::log, index::log_key(id, state.changes + 1), record);
      store.write(std::move(batch), true);
    });
    test_.index = open();
    EXPECT_EQ(test_.index.recovery().rebuilt, 1u);
    expect_equal(test_.index, plain_);
  };
  tamper("short");
  tamper(std::string(8, '\xFF'));
  // Values without a change that brought them, and no file.
  change([&](index::Store& store) {
    const auto state = index::decode_state(store.get(Family::meta, state_key(id)).value());
    index::StoreBatch batch = store.batch();
    batch.put(Family::meta, state_key(id), index::encode_state({state.rows, state.values, 0}));
    store.write(std::move(batch), true);
  });
  std::filesystem::remove(file(id));
  test_.index = open();
  EXPECT_EQ(test_.index.recovery().rebuilt, 1u);
  expect_equal(test_.index, plain_);
}

TEST_F(Damaged, AFilterThatCannotBeSavedDoesNotKeepTheOthersFromIt) {
  std::filesystem::remove(file(regions_[0]));
  std::filesystem::create_directories(file(regions_[0]) / "in the way");
  for (const int row : {0, 100, 200})
    test_.index.put(Row{fmt::format("{:06}", row), {"new", "", ""}});
  EXPECT_THROW(test_.index.checkpoint(), IoError);
  const auto regions = test_.index.regions();
  EXPECT_GT(regions[0].unsaved, 0u);
  EXPECT_EQ(regions[1].unsaved, 0u);
  EXPECT_EQ(regions[2].unsaved, 0u);
}

TEST_F(Damaged, DefinitionsThatCannotBeAreCorrupt) {
  put(index::Family::meta, "definition",
      index::encode_definition(people(), {.fpr = 7, .servers = 3}));
  EXPECT_THROW(open(), CorruptFile);
  put(index::Family::meta, "definition",
      index::encode_definition(people(), {.servers = kMaxServers + 1}));
  EXPECT_THROW(open(), CorruptFile);
}

// A region that is joined with one already looked at is looked at as a whole.
TEST_F(Filters, CheckStandsRegionsThatAreJoinedMeanwhile) {
  bool joined = false;
  const CheckReport report = test_.index.check([&](std::uint64_t, std::uint64_t) {
    if (!joined) test_.index.merge(regions_[0], regions_[1]);
    joined = true;
  });
  EXPECT_EQ(report.problem_count, 0u) << report.problems.at(0);
}

TEST_F(Filters, AnIndexThatIsAssignedToIsSavedFirst) {
  test_.index.put(Row{"000000", {"new", "", ""}});
  plain_.put({"000000", {"new", "", ""}});
  test_.index = SecondaryIndex::create(test_.directory / "other", people());
  test_.index = SecondaryIndex::open(test_.directory / "index");
  EXPECT_EQ(test_.index.recovery().changes_replayed, 0u);
  expect_equal(test_.index, plain_);
}

}  // namespace
}  // namespace scbf
