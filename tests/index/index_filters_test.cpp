// SPDX-License-Identifier: Apache-2.0
// The secondary index with filters that it must not trust: damaged, missing, of another region, or
// left behind by a crash; and with a store that was damaged while the index was closed.
#include <gtest/gtest.h>

#include <string_view>

#include "crash_points.hpp"
#include "damaged.hpp"

namespace scbf::index_filters_test {
namespace {

using namespace test;

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

TEST_F(Filters, OfAnotherIndexAreMadeAnew) {
  // Plan, regions and numbers of changes are the same; only the values differ.
  Indexed other({.servers = 3});
  other.index.presplit(std::vector<std::string>{"000100", "000200"});
  std::vector<Row> rows = numbered(300);
  for (Row& row : rows) row.values[0] = "another " + row.values[0];
  other.index.put(rows);
  other.index.checkpoint();
  const RecoveryReport& recovery = after([&] {
    for (const RegionId region : regions_) {
      std::filesystem::copy_file(
          other.directory / "index" / "filters" / fmt::format("{}.scbf", region), file(region),
          std::filesystem::copy_options::overwrite_existing);
    }
  });
  EXPECT_EQ(recovery.rebuilt, 3u);
  expect_equal(test_.index, plain_);
}

// A killed process saves nothing, so a copy of the files of a running process stands for a crash.
TEST_F(Filters, OfRegionsBornWithValuesAreMadeAnewAfterACrash) {
  SecondaryIndex& index = test_.index;
  const RegionId child = index.split(regions_[0]).first;
  index.merge(regions_[1], regions_[2]);
  // More changes than values, so that a log with as many changes as values might seem complete.
  for (int i = 0; i < 200; ++i) {
    const Row row{fmt::format("000000 {}", i % 2), {fmt::format("{}", i), "", ""}};
    index.put(row);
    plain_.put(row);
  }
  ASSERT_GT(index.regions()[0].unsaved, index.regions()[0].values);
  const auto copy = test_.directory / "copy";
  copy_open_index(test_.directory / "index", copy);
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
  // The region takes more writes, but its filter is never saved and stays untrusted after a
  // restart.
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
  const Query nobodys{.all_of = {{"city", "nowhere"}}};
  EXPECT_LT(index.query(nobodys).routing.expected_requests, 0.1);
  index.distrust(regions_[1]);
  EXPECT_GE(index.query(nobodys).routing.expected_requests, 1);
  index.rebuild(regions_[1]);
  EXPECT_LT(index.query(nobodys).routing.expected_requests, 0.1);
  index.distrust(regions_[0]);
  EXPECT_EQ(index.query({.all_of = {{"city", "nowhere"}}}).routing.regions_asked, 1u);
  const double expected = index.query({.all_of = {{"city", "nowhere"}}}).routing.expected_requests;
  EXPECT_GE(expected, 1);
  EXPECT_LE(expected, 1 + 2 * 0.01) << "the other regions' rates";
  expect_equal(index, plain_);
  EXPECT_EQ(after([] {}).rebuilt, 1u);
  expect_equal(test_.index, plain_);
}

// A store that lost changes which the filter contains, as after a disk failure: the filter must be
// refused.
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
  // The file was replaced, so later changes are not mistaken for the lost ones.
  test_.index.remove("000000");
  plain_.remove("000000");
  EXPECT_EQ(after([] {}).rebuilt, 0u);
  expect_equal(test_.index, plain_);
}

/// Counts the filters that are rebuilt.
class Rebuilds {
 public:
  Rebuilds() {
    seen = 0;
    index::at_crash_point = [](const char* name) {
      seen += std::string_view(name) == "rebuild: the filter is replaced";
    };
  }
  ~Rebuilds() { index::at_crash_point = nullptr; }
  int count() const { return seen; }

 private:
  static inline int seen = 0;
};

// A rate so high that most removals are ambiguous.
class LeftOver : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kValues = 100;
  void replace_all() {
    std::vector<Row> rows;
    for (std::uint64_t i = 0; i < kValues; ++i) {
      rows.push_back({fmt::format("{}", i), {fmt::format("{} {}", round_, i), "", ""}});
    }
    test_.index.put(rows);
    ++round_;
  }
  std::uint64_t left_over() const { return test_.index.regions()[0].left_over; }

  Indexed test_{{.fpr = 0.9, .region_values = 8}};
  int round_ = 0;
};

TEST_F(LeftOver, EntriesOfSmallRegionsGoWhenTheFilterIsSaved) {
  while (left_over() <= kValues / 8) replace_all();
  ASSERT_LT(left_over(), 1000u);
  test_.index.checkpoint();
  EXPECT_EQ(left_over(), 0u);
  EXPECT_EQ(test_.index.check().problem_count, 0u);
}

TEST_F(LeftOver, EntriesOfSmallRegionsGoBetweenSavesWhenTheyAreMany) {
  const Rebuilds rebuilds;
  constexpr int kRounds = 80;
  for (int i = 0; i < kRounds; ++i) {
    replace_all();
    ASSERT_LE(left_over(), 1000u);
  }
  EXPECT_GE(rebuilds.count(), 2);
  EXPECT_LE(rebuilds.count(), kRounds * static_cast<int>(kValues) / 1000) << "not more often";
  EXPECT_GT(test_.index.regions()[0].unsaved, 0u) << "without a save";
  EXPECT_EQ(test_.index.check().problem_count, 0u);
}

// ---- filters after mass deletion ----------------------------------------------------------------

class Shrinking : public ::testing::Test {
 protected:
  static constexpr int kRows = 12'000;
  /// Puts or removes the rows `from` to `to`, each of which has a value of its own.
  void put(int from, int to) {
    std::vector<Row> rows;
    for (int i = from; i < to; ++i) {
      rows.push_back({fmt::format("{:06}", i), {fmt::format("own {}", i), "", ""}});
    }
    test_.index.put(rows);
  }
  void remove(int from, int to) {
    std::vector<std::string> keys;
    for (int i = from; i < to; ++i) keys.push_back(fmt::format("{:06}", i));
    test_.index.remove(keys);
  }
  double bytes_per_value() const {
    const RegionInfo region = test_.index.regions()[0];
    return static_cast<double>(region.filter_bytes) / static_cast<double>(region.values);
  }
  /// Those of a filter that never had other values.
  double fresh(int from, int to) const {
    Shrinking other;
    other.put(from, to);
    return other.bytes_per_value();
  }
  void TestBody() override {}

  static constexpr IndexPlan kPlan = {.region_values = 256};
  Indexed test_{kPlan};
};

TEST_F(Shrinking, AFilterShrinksWhileRowsAreRemoved) {
  put(0, kRows);
  const std::uint64_t before = test_.index.regions()[0].filter_bytes;
  const Rebuilds rebuilds;
  for (int i = 0; i < kRows * 9 / 10; i += 100) remove(i, i + 100);
  EXPECT_LE(bytes_per_value(), 3 * fresh(kRows * 9 / 10, kRows));
  EXPECT_LT(test_.index.regions()[0].filter_bytes, before / 4);
  EXPECT_GT(test_.index.regions()[0].unsaved, 0u) << "without a save";
  EXPECT_LE(rebuilds.count(), 6) << "one for each stage that was given up, at most";
  EXPECT_EQ(test_.index.check().problem_count, 0u);
}

TEST_F(Shrinking, AFilterShrinksAtACheckpointAndInItsFile) {
  put(0, 1000);  // too few for a rebuild between saves
  remove(0, 900);
  const std::uint64_t before = test_.index.regions()[0].filter_bytes;
  test_.index.checkpoint();
  EXPECT_LT(test_.index.regions()[0].filter_bytes, before / 2);
  EXPECT_DOUBLE_EQ(bytes_per_value(), fresh(900, 1000));
  test_.reopen();
  EXPECT_EQ(test_.index.recovery().rebuilt, 0u);
  EXPECT_DOUBLE_EQ(bytes_per_value(), fresh(900, 1000));
  remove(900, 1000);
  test_.index.checkpoint();
  EXPECT_EQ(test_.index.regions()[0].stages, 1u);
  EXPECT_EQ(test_.index.check().problem_count, 0u);
}

// Version 0.1 left such filters.
TEST_F(Shrinking, AFilterThatWasSavedOversizedShrinksAtTheNextCheckpoint) {
  put(0, kRows);
  test_.index.checkpoint();
  remove(0, kRows - 200);  // one call, in a process that is then killed before it rebuilds
  const auto copy = test_.directory / "copy";
  copy_open_index(test_.directory / "index", copy);
  SecondaryIndex killed = SecondaryIndex::open(copy);
  ASSERT_EQ(killed.recovery().rebuilt, 0u);
  ASSERT_GT(killed.regions()[0].stages, 3u) << "from the file and the log";
  killed.checkpoint();
  EXPECT_EQ(killed.regions()[0].stages, 1u);
  EXPECT_EQ(killed.check().problem_count, 0u);
}

TEST_F(Shrinking, ARegionWhoseSizeVariesIsNotRebuiltAgainAndAgain) {
  put(0, kRows);
  const Rebuilds rebuilds;
  for (int low = kRows; low > 1000; low -= low / 10) {
    for (int i = 0; i < 5; ++i) {  // a quarter of the values goes and comes back
      remove(low * 3 / 4, low);
      test_.index.checkpoint();
      put(low * 3 / 4, low);
      test_.index.checkpoint();
    }
    remove(low - low / 10, kRows);
  }
  EXPECT_GE(rebuilds.count(), 2);
  EXPECT_LE(rebuilds.count(), 5) << "at most one for each stage that was given up";
  EXPECT_EQ(test_.index.check().problem_count, 0u);
}

// ---- a store that was damaged while the index was closed ----------------------------------------

TEST_F(Damaged, CheckFindsWhatDoesNotAgree) {
  using index::Family;
  const std::string entry = index::entry_key(0, "city 11");
  const RegionId id = regions_[1];
  EXPECT_EQ(test_.index.check().problem_count, 0u);
  test_.index.distrust(id);
  EXPECT_EQ(test_.index.check().problem_count, 0u) << "a region that is always asked is safe";
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
  // As many postings as before, of the same values.
  put(Family::postings, index::posting_key(id, entry, "000150"), "");
  finds("has no posting of city 'city 11' for row '000113'");
  erase(Family::postings, index::posting_key(id, entry, "000150"));
  put(Family::postings, index::posting_key(id, entry, "000113"), "");
  EXPECT_EQ(open().check().problem_count, 0u);
  // Neither the counts of values nor the filter contain it.
  put(Family::values, index::value_key(id, index::entry_key(0, "ghost")), index::encode_number(1));
  finds("has city 'ghost', which its filter does not know");
  // A row that cannot be read ends the check of its region only.
  const auto rows_checked = open().check().rows;
  put(Family::rows, "000113", "short");
  finds("cannot be checked to its end: ");
  EXPECT_LT(open().check().rows, rows_checked);
  EXPECT_GE(open().check().rows, rows_checked - 100);
}

TEST_F(Damaged, RegionsThatCannotBeAreRefused) {
  using index::Family;
  const RegionId last = regions_[2];
  put(Family::meta, "next_region", index::encode_number(last));
  EXPECT_THROW(open(), CorruptFile) << "the next region would overwrite the last one";
  put(Family::meta, "next_region", index::encode_number(0x1'0000'0000));
  EXPECT_THROW(open(), CorruptFile);
  put(Family::meta, "next_region", index::encode_number(last + 1));
  EXPECT_EQ(open().regions().size(), 3u);
  put(Family::meta, record_key(last), index::encode_region({0, "000100"}));
  EXPECT_THROW(open(), CorruptFile) << "two regions begin there";
  put(Family::meta, record_key(last), index::encode_region({3, "000200"}));
  EXPECT_THROW(open(), CorruptFile) << "the three servers are 0 to 2";
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
      auto state = index::decode_state(store.get(Family::meta, state_key(id)).value());
      ++state.changes;
      index::StoreBatch batch = store.batch();
      batch.put(Family::meta, state_key(id), index::encode_state(state));
      batch.put(Family::log, index::log_key(id, state.changes), record);
      store.write(std::move(batch), true);
    });
    test_.index = open();
    EXPECT_EQ(test_.index.recovery().rebuilt, 1u);
    expect_equal(test_.index, plain_);
  };
  tamper("short");
  tamper(std::string(8, '\xFF'));
  // The store has values but no changes, and there is no filter file.
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

TEST_F(Damaged, AnIndexWithoutANumberGetsOneAndItsFiltersAreMadeAnew) {
  erase(index::Family::meta, "identity");
  test_.index = open();
  EXPECT_EQ(test_.index.recovery().rebuilt, 3u);
  expect_equal(test_.index, plain_);
  EXPECT_EQ(after([] {}).rebuilt, 0u);
}

TEST_F(Damaged, DefinitionsThatCannotBeAreCorrupt) {
  put(index::Family::meta, "definition",
      index::encode_definition(people(), {.fpr = 7, .servers = 3}));
  EXPECT_THROW(open(), CorruptFile);
  put(index::Family::meta, "definition",
      index::encode_definition(people(), {.servers = kMaxServers + 1}));
  EXPECT_THROW(open(), CorruptFile);
}

// A region that is merged with one already checked is checked as a whole.
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
}  // namespace scbf::index_filters_test
