// SPDX-License-Identifier: Apache-2.0
// Changes of the definition of an index: columns that are indexed later or no longer, in an index
// that is killed meanwhile, or read; and new plans.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "crash_points.hpp"
#include "encoding.hpp"
#include "indexed.hpp"
#include "store.hpp"

namespace scbf::index_columns_test {
namespace {

using namespace test;

/// Three regions, one of them without rows, in an index that is closed.
class Columns : public ::testing::Test {
 protected:
  Columns() {
    SecondaryIndex index = SecondaryIndex::create(path_, none_, {.region_values = 64});
    index.presplit(std::vector<std::string>{"100", "9"});
    std::vector<Row> rows;
    for (int i = 0; i < 300; ++i) {
      rows.push_back({fmt::format("{:03}", i),
                      {fmt::format("city {}", i / 10), fmt::format("note{} of{} of{}", i % 4, i, i),
                       fmt::format("t{},all", i % 7)}});
    }
    rows[7].values[0] = std::string("zero\0byte", 9);
    rows[8].values = {"", "", ""};
    index.put(rows);
    for (const Row& row : rows) plain_[row.key] = row.values;
  }

  /// The table `people` in which these columns are indexed; notes are divided at blanks.
  static TableSchema schema(bool city, bool note, bool tags) {
    TableSchema schema = people();
    schema.columns[0] = {.name = "city", .indexed = city};
    schema.columns[1] = {.name = "note", .indexed = note, .separator = note ? " " : ""};
    schema.columns[2] = {.name = "tags", .indexed = tags, .separator = tags ? "," : ""};
    return schema;
  }
  void add(const std::vector<Column>& columns) const {
    SecondaryIndex::add_columns(path_, columns);
  }
  void drop(const std::vector<std::string>& columns) const {
    SecondaryIndex::drop_columns(path_, columns);
  }
  /// Compares everything with the table, as an index of these columns.
  void agrees(const SecondaryIndex& index, const TableSchema& expected) const {
    ASSERT_EQ(index.schema(), expected);
    PlainTable plain(expected);
    for (const auto& [key, values] : plain_) plain.put({key, values});
    std::vector<Row> rows;
    for (const auto& [key, values] : plain_) rows.push_back({key, values});
    ASSERT_EQ(all_rows(index), rows);
    const CheckReport check = index.check();
    ASSERT_EQ(check.problem_count, 0u) << check.problems.at(0);
    ASSERT_EQ(check.values, index.statistics().values);
    for (std::size_t column = 0; column < 3; ++column) {
      const std::string name = expected.columns[column].name;
      if (!expected.columns[column].indexed) {
        EXPECT_THROW(index.query({.all_of = {{name, "x"}}}), InvalidArgument);
        continue;
      }
      std::set<std::string> values = {"nobody's"};
      for (const auto& [key, fields] : plain_) {
        for (const std::string& value : plain.values(key, column)) values.insert(value);
      }
      for (const std::string& value : values) {
        const Query query{.all_of = {{name, value}}};
        ASSERT_EQ(index.query(query).rows, plain.query(query)) << name << " " << value;
      }
    }
  }
  void agrees(const TableSchema& expected) const {
    agrees(SecondaryIndex::open(path_), expected);
    if (HasFatalFailure()) return;
    SecondaryIndex again = SecondaryIndex::open(path_);
    EXPECT_EQ(again.recovery().rebuilt, 0u) << "filters were rebuilt once";
    agrees(again, expected);
  }
  /// The number of keys of postings and counts.
  std::size_t entries() const {
    const index::Store store(path_ / "store", index::Store::Open::read_only, 1 << 20);
    std::size_t entries = 0;
    for (const auto family : {index::Family::postings, index::Family::values}) {
      for (auto key = store.cursor(family, {}, {}); key.valid(); key.next()) ++entries;
    }
    return entries;
  }
  /// Adds or drops "note" and "city" in a process that ends at a crash point.
  int end_at(const char* change, const char* point) const {
    std::string arguments[] = {
        SCBF_CRASHER, path_, change, "0", directory_ / "acknowledged", point, std::string("0")};
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_t child = 0;
    EXPECT_EQ(::posix_spawn(&child, SCBF_CRASHER, nullptr, nullptr, pointers.data(), environ), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static inline const TableSchema none_ = schema(false, false, true);
  static inline const std::vector<Column> kBoth = {{.name = "note", .separator = " "},
                                                   {.name = "city"}};
  Directory directory_;
  const std::filesystem::path path_ = directory_ / "index";
  std::map<std::string, std::vector<std::string>> plain_;
};

TEST_F(Columns, AreAddedAndDropped) {
  const std::size_t before = entries();
  agrees(none_);
  std::uint64_t done = 0, total = 0;
  SecondaryIndex::add_columns(path_, kBoth, [&](std::uint64_t now, std::uint64_t all) {
    EXPECT_GE(now, done);
    done = now;
    total = all;
  });
  agrees(schema(true, true, true));
  // The index goes on as if it had been created so.
  {
    SecondaryIndex index = SecondaryIndex::open(path_);
    const Row row{"008", {"a city", "further notes", ""}};
    index.put(row);
    index.remove("009");
    plain_["008"] = row.values;
    plain_.erase("009");
    index.split(index.regions()[0].id);
  }
  agrees(schema(true, true, true));
  drop({"city"});
  agrees(schema(false, true, true));
  drop({"tags", "note"});
  EXPECT_EQ(entries(), 0u);
  agrees(schema(false, false, false));  // a table without an index
  add({{.name = "tags", .separator = ","}});
  agrees(none_);
  EXPECT_GE(entries() + 3, before);
}

TEST_F(Columns, AnIndexThatWasAddedEqualsOneThatWasThereFromTheStart) {
  add(kBoth);
  SecondaryIndex whole =
      SecondaryIndex::create(directory_ / "whole", schema(true, true, true), {.region_values = 64});
  whole.presplit(std::vector<std::string>{"100", "9"});
  for (const auto& [key, values] : plain_) whole.put(Row{key, values});
  whole.checkpoint();
  const SecondaryIndex added = SecondaryIndex::open(path_);
  const auto a = added.regions(), b = whole.regions();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].values, b[i].values);
    EXPECT_EQ(a[i].rows, b[i].rows);
    EXPECT_EQ(a[i].filter_bytes, b[i].filter_bytes);
  }
}

TEST_F(Columns, ThatCannotBeChangedAreRefusedAndNothingChanges) {
  const auto refuses = [&](const std::string& text, const auto& change) {
    try {
      change();
      ADD_FAILURE() << "not refused: " << text;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  refuses("column 'nowhere': no such column", [&] {
    add({{.name = "city"}, {.name = "nowhere"}});
  });
  refuses("column 'tags' is indexed already", [&] { add({{.name = "tags"}}); });
  refuses("column 'id': the key", [&] { add({{.name = "id"}}); });
  refuses("column 'city' is given twice", [&] { add({{.name = "city"}, {.name = "city"}}); });
  refuses("no such column", [&] { add({{.name = ""}}); });
  refuses("no columns", [&] { add({}); });
  refuses("UTF-8", [&] { add({{.name = "city", .separator = "\xFF"}}); });
  refuses("column 'nowhere': no such column", [&] { drop({"tags", "nowhere"}); });
  refuses("column 'city' is not indexed", [&] { drop({"tags", "city"}); });
  refuses("column 'tags' is given twice", [&] { drop({"tags", "tags"}); });
  refuses("no columns", [&] { drop({}); });
  EXPECT_THROW(SecondaryIndex::add_columns(directory_ / "none", kBoth), IoError);
  EXPECT_THROW(SecondaryIndex::drop_columns(directory_ / "none", std::vector<std::string>{"tags"}),
               IoError);
  agrees(none_);
  const std::size_t before = entries();
  {
    SecondaryIndex index = SecondaryIndex::open(path_);
    EXPECT_THROW(add(kBoth), IoError) << "it is open";
    EXPECT_THROW(drop({"tags"}), IoError) << "it is open";
    plain_["299"][0] = std::string(kMaxIndexedBytes + 1, 'c');
    index.put(Row{"299", plain_["299"]});
  }
  refuses("row '299': a value of the indexed column 'city' has 65536 bytes", [&] { add(kBoth); });
  EXPECT_EQ(entries(), before) << "what had been written is erased";
  agrees(none_);
}

TEST_F(Columns, AreTheOldOrTheNewOnesAfterACrash) {
  const TableSchema old = none_, all = schema(true, true, true);
  for (const char* point : {"columns: the change is announced", "columns: the entries are written",
                            "columns: the definition has changed"}) {
    const bool changed = std::string_view(point) == "columns: the definition has changed";
    const std::size_t before = entries();
    ASSERT_EQ(end_at("add", point), 9) << point;
    // A reader shows one or the other, too.
    agrees(SecondaryIndex::open_read_only(path_), changed ? all : old);
    ASSERT_FALSE(HasFatalFailure()) << point;
    agrees(changed ? all : old);
    ASSERT_FALSE(HasFatalFailure()) << point;
    if (!changed) {
      EXPECT_EQ(entries(), before) << point;
    }
  }
  for (const char* point :
       {"columns: the definition has changed", "columns: the entries are gone"}) {
    ASSERT_EQ(end_at("drop", point), 9) << point;
    agrees(SecondaryIndex::open_read_only(path_), old);
    ASSERT_FALSE(HasFatalFailure()) << point;
    agrees(old);
    ASSERT_FALSE(HasFatalFailure()) << point;
    add(kBoth);
    agrees(all);
    ASSERT_FALSE(HasFatalFailure()) << point;
  }
  // A change that was interrupted is finished by the next one, too.
  ASSERT_EQ(end_at("drop", "columns: the definition has changed"), 9);
  add({{.name = "city", .separator = " "}});
  TableSchema words = old;
  words.columns[0] = {"city", true, " "};
  agrees(words);
}

TEST_F(Columns, AreThoseOfTheReadersUntilTheyRefresh) {
  SecondaryIndex reader = SecondaryIndex::open_read_only(path_);
  add(kBoth);
  agrees(reader, none_);
  EXPECT_TRUE(reader.refresh());
  agrees(reader, schema(true, true, true));
  { const SecondaryIndex index = SecondaryIndex::open(path_); }
  agrees(reader, schema(true, true, true));
  drop({"note", "tags"});
  agrees(reader, schema(true, true, true));
  EXPECT_TRUE(reader.refresh());
  agrees(reader, schema(true, false, false));
  SecondaryIndex::replan(path_, 0.2, 32);
  { const SecondaryIndex index = SecondaryIndex::open(path_); }
  EXPECT_EQ(reader.plan().fpr, 0.01);
  agrees(reader, schema(true, false, false));
  EXPECT_TRUE(reader.refresh());
  EXPECT_EQ(reader.plan().fpr, 0.2);
  agrees(reader, schema(true, false, false));
}

TEST_F(Columns, OfAnIndexOfVersion01) {
  {
    index::Store store(path_ / "store", index::Store::Open::existing, 1 << 20);
    index::StoreBatch batch = store.batch();
    batch.erase(index::Family::meta, "identity");
    for (auto state = store.cursor(index::Family::meta, "state/", "state0"); state.valid();
         state.next()) {
      batch.put(index::Family::meta, state.key(), state.value().substr(0, 24));  // no history
    }
    store.write(std::move(batch), true);
  }
  add(kBoth);
  agrees(schema(true, true, true));
  drop({"tags"});
  agrees(schema(true, true, false));
}

// ---- plans --------------------------------------------------------------------------------------

TEST_F(Columns, APlanForWhatTheIndexHoldsTakesWhatWasForecast) {
  add(kBoth);
  FilterForecast forecast;
  IndexPlan plan;
  {
    const SecondaryIndex index = SecondaryIndex::open(path_);
    EXPECT_THROW(index.plan_for(0), InvalidArgument);
    plan = index.plan_for(0.001);
    EXPECT_EQ(plan.fpr, 0.001);
    forecast = index.forecast(plan);
    for (const std::uint64_t values : {64u, 100u, 300u, 3000u, 30'000u}) {
      IndexPlan other = plan;
      other.region_values = values;
      EXPECT_GE(index.forecast(other).filter_bytes * 5 / 4, forecast.filter_bytes) << values;
    }
  }
  SecondaryIndex::replan(path_, plan.fpr, plan.region_values);
  const SecondaryIndex index = SecondaryIndex::open(path_);
  EXPECT_EQ(index.plan().region_values, plan.region_values);
  EXPECT_EQ(index.statistics().filter_bytes, forecast.filter_bytes);
  double mean = 0, highest = 0;
  for (const RegionInfo& region : index.regions()) {
    mean += region.estimated_fpr / 3;
    highest = std::max(highest, region.estimated_fpr);
  }
  EXPECT_NEAR(mean, forecast.mean_fpr, forecast.mean_fpr);
  EXPECT_NEAR(highest, forecast.highest_fpr, forecast.highest_fpr);
  EXPECT_LE(forecast.highest_fpr, 0.001);
}

TEST_F(Columns, APlanHoldsAfterCrashesWhileItsFiltersAreSaved) {
  SecondaryIndex::replan(path_, 0.2, 32);
  for (const char* point : {"save: the log is on disk", "save: the filter is on disk"}) {
    ASSERT_EQ(end_at("11", point), 9) << "while it is opened, before the first step of a script";
  }
  {
    const SecondaryIndex index = SecondaryIndex::open(path_);
    EXPECT_EQ(index.recovery().rebuilt, 1u) << "one of two was saved";
    EXPECT_EQ(index.plan().region_values, 32u);
  }
  agrees(none_);
}

// A first stage for the largest region would make all other filters too large, one for the others
// would give the largest region many stages.
TEST_F(Columns, APlanWeighsLargeRegionsAgainstSmallOnes) {
  for (const int large : {100, 6000}) {
    std::vector<std::string> points;
    std::vector<Row> rows;
    for (int region = 0; region < 30; ++region) {
      if (region > 0) points.push_back(fmt::format("{:02}", region));
      for (int i = 0; i < (region == 7 ? large : 100); ++i) {
        rows.push_back({fmt::format("{:02} {}", region, i), {"", "", fmt::format("tag {}", i)}});
      }
    }
    SecondaryIndex index = SecondaryIndex::create(directory_ / std::to_string(large), none_);
    index.presplit(points);
    index.put(rows);
    const IndexPlan best = index.plan_for(0.01);
    const auto room = static_cast<std::uint64_t>(large + large / 4);
    if (large == 100) {
      EXPECT_EQ(best.region_values, room) << "one stage for all";
    } else {
      EXPECT_LT(best.region_values, room / 8);
      IndexPlan largest = best;
      largest.region_values = room;
      EXPECT_LT(index.forecast(best).filter_bytes, index.forecast(largest).filter_bytes / 4);
    }
  }
}

}  // namespace
}  // namespace scbf::index_columns_test
