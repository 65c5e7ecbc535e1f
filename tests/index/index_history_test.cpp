// SPDX-License-Identifier: Apache-2.0
// Filter files whose number of changes fits, but which are of another history: of a copy of the
// index, of a future that was lost, of version 0.1, which kept none.
#include <gtest/gtest.h>

#include <filesystem>

#include "damaged.hpp"
#include "scbf/filter.hpp"

namespace scbf::index_history_test {
namespace {

using namespace test;

/// Two indexes with the same number: `test_.index`, which is closed, and a copy of its directory.
class Histories : public Filters {
 protected:
  struct Side {
    std::filesystem::path path;
    PlainTable plain;
  };
  Histories() {
    { const SecondaryIndex closed = std::move(test_.index); }
    std::filesystem::copy(test_.directory / "index", copy_.path,
                          std::filesystem::copy_options::recursive);
  }
  /// Puts rows of new values, one change each, into the first region of a side.
  static void go_on(Side& side, const std::string& value, int changes) {
    SecondaryIndex index = SecondaryIndex::open(side.path);
    for (int i = 0; i < changes; ++i) put(index, side, fmt::format("{} {}", value, i), i);
  }
  static void put(SecondaryIndex& index, Side& side, const std::string& value, int number = 0) {
    const Row row{fmt::format("0000{:02}", number), {value, "", ""}};
    index.put(row);
    side.plain.put(row);
  }
  static void expect_all(const SecondaryIndex& index, const Side& side) {
    expect_equal(index, side.plain);
    for (const auto& [key, values] : side.plain.rows()) {
      const Query query{.all_of = {{"city", values[0]}}};
      ASSERT_EQ(index.query(query).rows, side.plain.query(query)) << values[0];
    }
  }
  static std::filesystem::path file(const Side& side, RegionId region) {
    return side.path / "filters" / fmt::format("{}.scbf", region);
  }
  /// Exchanges the filter files of these regions; each side must refuse them, rebuild them once,
  /// and find every row.
  void exchange_and_expect_refused(const std::vector<RegionId>& regions) {
    for (const RegionId region : regions) {
      const auto between = test_.directory / "between";
      std::filesystem::rename(file(here_, region), between);
      std::filesystem::rename(file(copy_, region), file(here_, region));
      std::filesystem::rename(between, file(copy_, region));
    }
    for (const Side* side : {&here_, &copy_}) {
      {
        const SecondaryIndex index = SecondaryIndex::open(side->path);
        EXPECT_EQ(index.recovery().rebuilt, regions.size());
        EXPECT_EQ(index.recovery().reasons.size(), regions.size());
        expect_all(index, *side);
      }
      EXPECT_EQ(SecondaryIndex::open(side->path).recovery().rebuilt, 0u) << "it was saved again";
    }
  }

  Side here_{test_.directory / "index", plain_}, copy_{test_.directory / "copy", plain_};
};

TEST_F(Histories, OfACopyThatWentOnAreRefused) {
  for (const int changes : {1, 7}) {
    go_on(here_, fmt::format("here {}", changes), changes);
    go_on(copy_, fmt::format("there {}", changes), changes);
    exchange_and_expect_refused({regions_[0]});
  }
}

// The file has fewer changes than the region, and the log has all that follow.
TEST_F(Histories, OfACopyAreRefusedThoughTheLogGoesOnFromThem) {
  go_on(copy_, "there", 1);
  SecondaryIndex index = SecondaryIndex::open(here_.path);
  put(index, here_, "here");
  put(index, here_, "here, too", 1);
  Side crashed{test_.directory / "crashed", here_.plain};
  copy_open_index(here_.path, crashed.path);
  std::filesystem::copy_file(file(copy_, regions_[0]), file(crashed, regions_[0]),
                             std::filesystem::copy_options::overwrite_existing);
  const SecondaryIndex left = SecondaryIndex::open(crashed.path);
  EXPECT_EQ(left.recovery().rebuilt, 1u);
  expect_all(left, crashed);
}

// A power failure took the end of the store's log, but not the filters saved after it. When they
// come back, the index has made as many other changes.
TEST_F(Histories, OfAFutureThatWasTornOffAreRefused) {
  go_on(here_, "lost", 3);
  const auto lost = test_.directory / "lost.scbf";
  std::filesystem::copy_file(file(here_, regions_[0]), lost);
  std::filesystem::remove_all(here_.path / "store");
  std::filesystem::copy(copy_.path / "store", here_.path / "store",
                        std::filesystem::copy_options::recursive);
  here_.plain = plain_;
  EXPECT_EQ(SecondaryIndex::open(here_.path).recovery().rebuilt, 1u) << "it is ahead";
  for (const int changes : {3, 1}) {  // as many as the file has; then more
    go_on(here_, fmt::format("instead {}", changes), changes);
    std::filesystem::copy_file(lost, file(here_, regions_[0]),
                               std::filesystem::copy_options::overwrite_existing);
    const SecondaryIndex index = SecondaryIndex::open(here_.path);
    EXPECT_EQ(index.recovery().rebuilt, 1u);
    expect_all(index, here_);
  }
}

// Regions with the same number that were born with other values.
TEST_F(Histories, OfOtherRegionsWithTheSameNumberAreRefused) {
  std::vector<RegionId> born;
  for (Side* side : {&here_, &copy_}) {
    SecondaryIndex index = SecondaryIndex::open(side->path);
    const auto [left, right] = index.split(regions_[0], side == &here_ ? "000030" : "000070");
    const RegionId whole = index.merge(right, regions_[1]);
    born = {left, whole};
  }
  exchange_and_expect_refused(born);
}

TEST_F(Histories, GoOnInTheLog) {
  const auto crash = [&](Side& side) {
    static int number = 0;
    Side crashed{test_.directory / fmt::format("crashed {}", ++number), side.plain};
    copy_open_index(side.path, crashed.path);
    const SecondaryIndex left = SecondaryIndex::open(crashed.path);
    EXPECT_EQ(left.recovery().rebuilt, 0u) << left.recovery().reasons.at(0);
    expect_all(left, crashed);
    return left.recovery().replayed;
  };
  SecondaryIndex index = SecondaryIndex::open(here_.path);
  for (const int i : {0, 1}) put(index, here_, fmt::format("new {}", i), i);
  EXPECT_EQ(crash(here_), 1u);
  index.rebuild(regions_[0]);
  put(index, here_, "after a filter was rebuilt");
  EXPECT_EQ(crash(here_), 1u);
  index.split(regions_[0], "000050");
  index.checkpoint();
  for (const int i : {0, 90}) put(index, here_, fmt::format("newer {}", i), i);
  EXPECT_EQ(crash(here_), 2u);
  // A log from the first change on needs no file.
  Side fresh{test_.directory / "fresh", PlainTable(people())};
  SecondaryIndex other = SecondaryIndex::create(fresh.path, people());
  for (const int i : {0, 1}) put(other, fresh, fmt::format("new {}", i), i);
  EXPECT_EQ(crash(fresh), 1u);
}

// A suite has its tests in one file, and index_filters_test.cpp has those of Damaged.
class HistoryOf01 : public Damaged {};

// Version 0.1 kept no histories, neither in the store nor in the filter files.
TEST_F(HistoryOf01, AnIndexOfVersion01GetsHistoriesAndItsFiltersAreMadeAnew) {
  const auto strip = [&](bool files) {
    change([&](index::Store& store) {
      index::StoreBatch batch = store.batch();
      for (const RegionId id : regions_) {
        const std::string state = store.get(index::Family::meta, state_key(id)).value();
        batch.put(index::Family::meta, state_key(id), state.substr(0, 24));
        if (!files) continue;
        Filter filter = Filter::load(file(id));
        std::string metadata = filter.metadata();
        const auto at = metadata.find("\"history\"");
        metadata.erase(at, metadata.find(',', at) + 1 - at);
        filter.set_metadata(metadata);
        filter.save(file(id));
      }
      store.write(std::move(batch), true);
    });
  };
  for (const bool files : {true, false}) {
    strip(files);
    for (int i = 0; i < 2; ++i) {
      const SecondaryIndex index = SecondaryIndex::open_read_only(test_.directory / "index");
      EXPECT_EQ(index.recovery().rebuilt, 3u);
      expect_equal(index, plain_);
    }
    test_.index = open();
    EXPECT_EQ(test_.index.recovery().rebuilt, 3u);
    EXPECT_EQ(test_.index.recovery().reasons.size(), 3u);
    expect_equal(test_.index, plain_);
    EXPECT_EQ(after([] {}).rebuilt, 0u);
    expect_equal(test_.index, plain_);
  }
  strip(true);
  test_.index = SecondaryIndex::open(test_.directory / "index", {.rebuild = false});
  EXPECT_EQ(test_.index.recovery().asked_always, 3u);
  for (const RegionId id : regions_) test_.index.rebuild(id);
  EXPECT_EQ(after([] {}, {.rebuild = false}).asked_always, 0u);
  expect_equal(test_.index, plain_);
}

}  // namespace
}  // namespace scbf::index_history_test
