// SPDX-License-Identifier: Apache-2.0
// The secondary index compared with a plain table: rows, queries, regions, restarts, and the
// routing reports.
#include "scbf/secondary_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "indexed.hpp"
#include "support/moving.hpp"

namespace scbf::secondary_index_test {
namespace {

using namespace test;

TEST(SecondaryIndex, AnyScriptAnswersAsAPlainTable) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    // Few values per region, so that filters grow, and rates high enough for false positives.
    Indexed test({.fpr = 0.2,
                  .region_values = 16,
                  .servers = kScriptServers,
                  .seed = seed,
                  .layout = seed == 3 ? Layout::ranked : Layout::split_block});
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
    if (is_narrow(seed)) continue;
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

TEST(SecondaryIndex, MovesByTheRule) {
  const Directory directory;
  const Row row{"a", {"Ulm", "", "x"}};
  const std::vector<std::string> keys{"a"};
  const Query query{.all_of = {{"city", "Ulm"}}};
  int made = 0;
  scbf_test::expect_rule_of_moving<SecondaryIndex>(
      [&] {
        auto index =
            SecondaryIndex::create(directory / fmt::format("index {}", ++made), people(), {});
        index.put(row);
        return index;
      },
      [&](const SecondaryIndex& i) { return i.get("a") == row && i.query(query).rows.size() == 1; },
      {
          [](SecondaryIndex& i) { (void)i.schema(); },
          [](SecondaryIndex& i) { (void)i.plan(); },
          [](SecondaryIndex& i) { (void)i.recovery(); },
          [&](SecondaryIndex& i) { i.put(row); },
          [](SecondaryIndex& i) { i.put(std::span<const Row>()); },
          [](SecondaryIndex& i) { i.remove("a"); },
          [&](SecondaryIndex& i) { i.remove(keys); },
          [](SecondaryIndex& i) { (void)i.get("a"); },
          [&](SecondaryIndex& i) { (void)i.get(keys); },
          [](SecondaryIndex& i) { i.scan({}, {}, [](const Row&) { return true; }); },
          [&](SecondaryIndex& i) { (void)i.query(query); },
          [](SecondaryIndex& i) { (void)i.query(std::span<const Query>()); },
          [&](SecondaryIndex& i) { (void)i.query(query, [](const Row&) { return true; }); },
          [](SecondaryIndex& i) { (void)i.regions(); },
          [](SecondaryIndex& i) { i.presplit({}); },
          [](SecondaryIndex& i) { i.split(0); },
          [](SecondaryIndex& i) { i.merge(0, 1); },
          [](SecondaryIndex& i) { i.move(0, 0); },
          [](SecondaryIndex& i) {
            i.bulk_load([](Row&) -> bool { throw std::logic_error("a row was taken"); });
          },
          [](SecondaryIndex& i) { i.checkpoint(); },
          [](SecondaryIndex& i) { i.rebuild(0); },
          [](SecondaryIndex& i) { i.distrust(0); },
          [](SecondaryIndex& i) { (void)i.plan_for(0.01); },
          [](SecondaryIndex& i) { (void)i.forecast({}); },
          [](SecondaryIndex& i) { (void)i.read_only(); },
          [](SecondaryIndex& i) { (void)i.freshness(); },
          [](SecondaryIndex& i) { i.refresh(); },
          [](SecondaryIndex& i) { (void)i.statistics(); },
          [](SecondaryIndex& i) { (void)i.metrics(); },
          [&](SecondaryIndex& i) { i.backup(directory / "backup"); },
          [](SecondaryIndex& i) { (void)i.check(); },
      });
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
  for (const std::string& name : {std::string("a\0b", 3), std::string("\uFEFFa")}) {
    EXPECT_THROW(SecondaryIndex::create(path, {.key = name, .columns = {}}), InvalidArgument);
    EXPECT_THROW(SecondaryIndex::create(path, {.key = "k", .columns = {{.name = name}}}),
                 InvalidArgument);
  }
  EXPECT_THROW(SecondaryIndex::create(path, people(), {.fpr = 1.5}), InvalidArgument);
  EXPECT_THROW(SecondaryIndex::create(path, people(), {.servers = 0}), InvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(path)) << "a refused index leaves no files";
  {
    const SecondaryIndex index = SecondaryIndex::create(path, people(), {.fpr = 0.02});
    try {
      SecondaryIndex::open(path);
      FAIL() << "it is open";
    } catch (const IoError& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with("'" + path.string() + "': this process has it open")) << text;
      EXPECT_NE(text.find("read-only"), text.npos) << text;
      EXPECT_EQ(error.error_number(), EBUSY);
      EXPECT_EQ(error.path(), path.string());
    }
  }
  EXPECT_THROW(SecondaryIndex::create(path, people()), IoError);
  const SecondaryIndex index = SecondaryIndex::open(path);
  EXPECT_EQ(index.schema(), people());
  EXPECT_EQ(index.plan().fpr, 0.02);
}

TEST(SecondaryIndex, SaysWhyADirectoryCannotBeOpened) {
  Directory directory;
  const auto path = directory / "index";
  std::filesystem::create_directory(path);
  const auto number_of_failure = [&] {
    try {
      SecondaryIndex::open(path);
    } catch (const IoError& error) {
      return error.error_number();
    }
    return 0;
  };
  EXPECT_EQ(number_of_failure(), ENOENT);
  std::filesystem::create_symlink("store", path / "store");  // leads to itself
  EXPECT_EQ(number_of_failure(), ELOOP);
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
  // A region is split at a key without a row. At its ends it cannot be split.
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
  EXPECT_EQ(test.index.statistics().bit_row_bytes, one) << "one byte of a row holds eight regions";
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
        row = rows[rows.size() - ++next];  // backwards, because bulk_load must sort
        return true;
      },
      [&](std::uint64_t done, std::uint64_t) {
        EXPECT_GT(done, last);
        last = done;
      });
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

// Regions that get many bytes at once are written as tables beside the log.
TEST(Regions, LargeLoads) {
  std::mt19937_64 random(3);
  Indexed test({.servers = 2});
  PlainTable plain(people());
  test.index.presplit(std::vector<std::string>{"row 100", "row 200"});
  const auto load = [&](int rows, std::size_t bytes) {
    std::vector<Row> all;
    std::uint64_t put = 0;
    for (int i = 0; i < rows; ++i) {
      Row row = script_row(7, random);  // keys repeat
      row.values[1] = std::string(bytes, 'n') + std::to_string(i);
      if (i % 5 == 0) row.values[2] += ",many,many";
      put += !plain.rows().contains(row.key);
      plain.put(row);
      all.push_back(std::move(row));
    }
    std::size_t next = 0;
    const WriteReport report = test.index.bulk_load([&](Row& row) {
      if (next == all.size()) return false;
      row = all[next++];
      return true;
    });
    EXPECT_EQ(report.put, put);
    EXPECT_EQ(report.put + report.replaced, all.size());
  };
  load(1200, 2000);  // into empty regions
  expect_equal(test.index, plain);
  test.index.put(Row{"row 050", {"city 1", "", "tag 1"}});
  plain.put({"row 050", {"city 1", "", "tag 1"}});
  const auto store = test.directory / "index" / "store";
  std::ofstream(store / "LOADING-7-rows") << "of a load that was cut off";
  test.reopen();
  EXPECT_FALSE(std::filesystem::exists(store / "LOADING-7-rows"));
  load(900, 3000);  // over rows of the log and of tables
  load(20, 10);
  expect_equal(test.index, plain);
  for (const auto& file : std::filesystem::directory_iterator(store)) {
    EXPECT_FALSE(file.path().filename().string().starts_with("LOADING")) << file.path();
  }
  expect_equal(SecondaryIndex::open_read_only(test.directory / "index"), plain);
  for (const std::string key : {"row 050", "row 150"}) {
    EXPECT_EQ(test.index.remove(key), plain.remove(key));
  }
  test.reopen();
  EXPECT_EQ(test.index.recovery().rebuilt, 0u);
  expect_equal(test.index, plain);
}

// ---- several conditions
// --------------------------------------------------------------------------

// Values that half of the rows have, a quarter, …; values that lie in one part of the keys; and two
// that no row has together.
Row popular_row(int number, std::mt19937_64& random) {
  std::string tags = number % 2 ? "odd" : "even";
  for (int i = 0; i < 11; ++i) {
    if (random() >> (64 - std::max(i, 1)) == 0 || i == 0) tags += fmt::format(",rare {}", i);
  }
  if (number < 700) tags += ",low";
  if (number >= 500) tags += ",high";
  return {fmt::format("{:06}", number),
          {random() % 50 == 0 ? "pending" : fmt::format("city {}", random() % 5), "", tags}};
}

Query random_conjunction(std::mt19937_64& random) {
  const auto tag = [&]() -> std::string {
    constexpr const char* kOthers[] = {"odd", "even", "low", "high", "nowhere"};
    const auto dice = random() % 16;
    return dice < 11 ? fmt::format("rare {}", dice) : kOthers[dice - 11];
  };
  Query query;
  for (auto n = 1 + random() % 3; n > 0; --n) query.all_of.push_back({"tags", tag()});
  if (random() % 3 == 0) {
    query.all_of.push_back(
        {"city", random() % 2 ? "pending" : fmt::format("city {}", random() % 5)});
  }
  constexpr std::uint64_t kLimits[] = {1, 2, 10, 100, UINT64_MAX};
  query.limit = kLimits[random() % 5];
  const auto begin = random() % 1500;
  if (random() % 3 == 0) query.from = fmt::format("{:06}", begin);
  if (random() % 3 == 0) query.to = fmt::format("{:06}", begin + random() % 700);
  query.keys_only = random() % 2;
  return query;
}

TEST(Conjunctions, OfAllPopularitiesAnswerAsAPlainTable) {
  constexpr int kRows = 1500;
  for (const std::uint64_t seed : {1, 2}) {
    std::mt19937_64 random(seed);
    Indexed test({.fpr = 0.1, .servers = 3, .seed = seed});
    PlainTable plain(people());
    test.index.presplit(std::vector<std::string>{"000400", "000900"});
    std::size_t found = 0;
    for (int round = 0; round < 12; ++round) {
      std::vector<Row> rows;
      for (int i = 0; i < kRows; ++i) {
        if (round == 0 || random() % 8 == 0) rows.push_back(popular_row(i, random));
      }
      test.index.put(rows);
      for (const Row& row : rows) plain.put(row);
      // Runs of rows go, at the front of each region too.
      std::vector<std::string> gone;
      for (const int begin : {0, 400, 900, static_cast<int>(random() % kRows)}) {
        for (int i = begin, n = static_cast<int>(random() % 250); n > 0; --n, ++i) {
          gone.push_back(fmt::format("{:06}", i));
        }
      }
      const auto ask = [&](int queries) {
        for (int i = 0; i < queries; ++i) {
          const Query query = random_conjunction(random);
          const std::vector<Row> wanted = plain.query(query);
          ASSERT_EQ(test.index.query(query).rows, wanted)
              << query.all_of[0].value << " and " << query.all_of.size() - 1 << " more, limit "
              << query.limit << ", from " << query.from << " to " << query.to;
          found += wanted.size();
        }
      };
      ask(60);
      test.index.remove(gone);
      for (const std::string& key : gone) plain.remove(key);
      ask(60);
      ask(60);  // where lists begin is known now
      const auto regions = test.index.regions();
      const auto place = random() % regions.size();
      if (round % 3 == 0 && regions[place].rows > 1) test.index.split(regions[place].id);
      if (round % 3 == 1 && place > 0) {
        test.index.merge(regions[place - 1].id, regions[place].id);
      }
      if (round % 3 == 2) test.index.move(regions[place].id, static_cast<ServerId>(random() % 3));
      if (round == 7) test.reopen();
    }
    EXPECT_GT(found, 10'000u);
    EXPECT_EQ(test.index.check().problem_count, 0u);
  }
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
  // A region is asked only if it may hold both values.
  routing = index.query({.all_of = {{"city", "border"}, {"city", "city 0"}}}).routing;
  EXPECT_EQ(routing.regions_asked, 1u);
  EXPECT_EQ(routing.servers_holding, 0u);
  // A range excludes regions. A range that ends where a region begins excludes that region.
  routing = index.query({.all_of = {{"tags", "all"}}, .from = "000150", .to = "000300"}).routing;
  EXPECT_EQ(routing.regions, 2u);
  EXPECT_EQ(routing.servers, 2u);
  EXPECT_EQ(routing.expected_requests, 0) << "unknown, because the range cuts regions";
  routing = index.query({.all_of = {{"tags", "all"}}, .from = "000150", .to = "000300x"}).routing;
  EXPECT_EQ(routing.regions, 3u);
  routing = index.query({.all_of = {{"tags", "all"}}, .to = ""}).routing;
  EXPECT_EQ(routing.regions, 8u);
  // A server that takes over a region answers for it.
  index.move(index.regions()[1].id, 0);
  routing = index.query({.all_of = {{"city", "border"}}}).routing;
  EXPECT_EQ(routing.regions_asked, 2u);
  EXPECT_EQ(routing.requests, 1u);
  EXPECT_NEAR(routing.expected_requests, 1, 1e-4);
  const IndexStatistics statistics = index.statistics();
  EXPECT_EQ(statistics.queries, 9u);
  EXPECT_EQ(statistics.queries_everywhere, 1u + 1 + 1 + 1);
  EXPECT_EQ(statistics.false_requests, 4u + 1);
}

/// Bytes of the store's log, which the next open replays.
std::uint64_t log_bytes(const Indexed& test) {
  std::uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(test.directory / "index" / "store")) {
    if (file.path().extension() == ".log") bytes += file.file_size();
  }
  return bytes;
}

TEST(Log, IsShortAfterACheckpointAndAClose) {
  constexpr std::uint64_t kShort = 1'200'000;
  Indexed test;
  test.index.put(numbered(100));
  const auto overwrite = [&] {
    for (int i = 0; i < 1000; ++i) {
      test.index.put(Row{fmt::format("{:06}", i % 100), {"city", std::string(3000, 'n'), ""}});
    }
  };
  overwrite();
  EXPECT_GT(log_bytes(test), 3'000'000u);
  test.index.checkpoint();
  EXPECT_LT(log_bytes(test), kShort);
  overwrite();
  { const SecondaryIndex closed = std::move(test.index); }
  EXPECT_LT(log_bytes(test), kShort);
  test.index = SecondaryIndex::open(test.directory / "index");
  EXPECT_EQ(all_rows(test.index).size(), 100u);
  EXPECT_EQ(test.index.check().problem_count, 0u);
}

TEST(Log, IsCutWhileTheIndexIsOpen) {
  Indexed test;
  const std::string note(30u << 20, 'n');
  for (int i = 0; i < 10; ++i) {
    test.index.put(Row{fmt::format("{}", i % 3), {"city", note, ""}});
  }
  // The store does so in the background.
  for (int i = 0; i < 1000 && log_bytes(test) > 256u << 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LT(log_bytes(test), 256u << 20);
  EXPECT_EQ(test.index.get("0").value().values[1], note);
}

struct Rates {
  double fpr;
  std::uint64_t region_values;
  int rows;    ///< per region, each with a value of its own
  int rounds;  ///< how often all rows are written, with other values
  Layout layout = Layout::split_block;
};
class FalseRequests : public ::testing::TestWithParam<Rates> {};
INSTANTIATE_TEST_SUITE_P(Routing, FalseRequests,
                         ::testing::Values(Rates{.1, 100, 200, 1}, Rates{.1, 16, 8, 1},
                                           Rates{.1, 16, 60, 1}, Rates{.1, 4, 30, 1},
                                           Rates{.1, 16, 60, 6}, Rates{.01, 64, 300, 1},
                                           Rates{.1, 100, 200, 1, Layout::ranked},
                                           Rates{.1, 16, 60, 6, Layout::ranked}));

// No server holds the values. The number of requests is compared with the prediction from the
// filters' counters and with the bound.
TEST_P(FalseRequests, AreThoseOfTheRate) {
  constexpr int kRegions = 40, kQueries = 20'000;
  const Rates& rates = GetParam();
  Indexed test({.fpr = rates.fpr,
                .region_values = rates.region_values,
                .servers = kRegions,
                .layout = rates.layout});
  SecondaryIndex& index = test.index;
  std::vector<std::string> points;
  for (int i = 1; i < kRegions; ++i) points.push_back(fmt::format("{:06}", rates.rows * i));
  index.presplit(points);
  std::vector<Row> rows = numbered(rates.rows * kRegions);
  for (int round = 0; round < rates.rounds; ++round) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].values[0] = fmt::format("own {} {}", round, i);
    }
    index.put(rows);
  }
  std::vector<Query> queries;
  for (int i = 0; i < kQueries; ++i) {
    queries.push_back({.all_of = {{"city", fmt::format("absent {}", i)}}});
  }
  double expected = 0;
  std::uint64_t requests = 0;
  for (const QueryAnswer& answer : index.query(queries)) {
    expected += answer.routing.expected_requests;
    requests += answer.routing.false_requests();
    ASSERT_EQ(answer.routing.servers_holding, 0u);
  }
  // Every server holds the value, so each is asked exactly once.
  EXPECT_DOUBLE_EQ(index.query({.all_of = {{"tags", "all"}}}).routing.expected_requests, kRegions);
  // One region per server gives 800,000 independent trials. Five standard errors, and what the
  // rates change with the last 64th of the values.
  EXPECT_NEAR(static_cast<double>(requests), expected, 5 * std::sqrt(expected) + 0.02 * expected);
  EXPECT_LT(static_cast<double>(requests), rates.fpr * kRegions * kQueries);
  EXPECT_GT(requests, 100u);
}

}  // namespace
}  // namespace scbf::secondary_index_test
