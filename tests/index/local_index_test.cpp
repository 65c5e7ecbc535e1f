// SPDX-License-Identifier: Apache-2.0
// The inverted index of one region, without filters.
#include "local_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "cursor_steps.hpp"
#include "encoding.hpp"
#include "index_support.hpp"

namespace scbf::index::local_index_test {
namespace {

using test::people;

std::vector<std::string> entries(std::initializer_list<std::pair<int, std::string>> values) {
  std::vector<std::string> all;
  for (const auto& [column, value] : values) {
    all.push_back(entry_key(static_cast<std::size_t>(column), value));
  }
  return all;
}

TEST(Entries, AreTheIndexedValuesEachOnce) {
  EXPECT_EQ(entries_of(people(), {"Ulm", "not indexed", " b,a ,, b,\ta b\n"}),
            entries({{0, "Ulm"}, {2, "a"}, {2, "a b"}, {2, "b"}}));
  EXPECT_EQ(entries_of(people(), {"", "", " , "}), entries({}));
  // Without a separator the whole field, with its blanks, is the value.
  EXPECT_EQ(entries_of(people(), {" Ulm ,a", "", ""}), entries({{0, " Ulm ,a"}}));
}

TEST(Entries, LongSeparators) {
  const TableSchema schema = {.key = "k",
                              .columns = {{.name = "c", .indexed = true, .separator = "||"}}};
  EXPECT_EQ(entries_of(schema, {"a|b||c|||d"}), entries({{0, "a|b"}, {0, "c"}, {0, "|d"}}));
}

TEST(Rows, MustFitTheSchemaAndTheLimits) {
  const TableSchema schema = people();
  EXPECT_NO_THROW(check_row(schema, {"k", {"a", "b", "c"}}));
  EXPECT_THROW(check_row(schema, {"", {"a", "b", "c"}}), InvalidArgument);
  EXPECT_THROW(check_row(schema, {"k", {"a", "b"}}), InvalidArgument);
  EXPECT_NO_THROW(check_row(schema, {std::string(kMaxKeyBytes, 'k'), {"a", "b", "c"}}));
  EXPECT_THROW(check_row(schema, {std::string(kMaxKeyBytes + 1, 'k'), {"a", "b", "c"}}),
               InvalidArgument);
  const std::string longest(kMaxIndexedBytes, 'v');
  EXPECT_NO_THROW(check_row(schema, {"k", {longest, longest + "v", longest + "," + longest}}));
  EXPECT_THROW(check_row(schema, {"k", {longest + "v", "", ""}}), InvalidArgument);
}

/// The parameter: whether write() writes tables of their own.
class LocalIndex : public ::testing::TestWithParam<bool> {
 protected:
  RegionWrite write(std::vector<std::pair<std::string, std::optional<Row>>> mutations) {
    std::vector<Mutation> views;
    for (const auto& [key, row] : mutations) views.push_back({&key, row ? &*row : nullptr});
    std::stable_sort(views.begin(), views.end(),
                     [](const Mutation& a, const Mutation& b) { return *a.key < *b.key; });
    StoreBatch batch = GetParam() ? store_.table_batch() : store_.batch();
    RegionWrite write = write_rows(store_, people(), 1, true, views, batch);
    store_.write(std::move(batch), false);
    return write;
  }
  static Row row(const std::string& key, const std::string& city, const std::string& tags = "") {
    return {key, {city, "", tags}};
  }
  std::vector<std::string> find(std::initializer_list<std::pair<int, std::string>> values,
                                std::string_view from = {}, std::string_view to = {}) {
    return find({.entries = entries(values), .from = from, .to = to, .keys_only = true});
  }
  /// Owns the entries.
  struct Wanted {
    std::vector<std::string> entries;
    std::string_view from, to;
    std::uint64_t limit = UINT64_MAX;
    bool keys_only = false;
    Store::Snapshot at;
    ListGaps* gaps = nullptr;
  };
  std::vector<Row> find_all(const Wanted& what) {
    std::vector<Row> rows;
    find_rows(store_, people(), what.at, 1,
              {what.entries, what.from, what.to, what.limit, what.keys_only}, rows, what.gaps);
    return rows;
  }
  std::vector<std::string> find(const Wanted& what) {
    std::vector<std::string> keys;
    for (const Row& row : find_all(what)) keys.push_back(row.key);
    return keys;
  }
  std::vector<std::pair<std::string, std::uint64_t>> counts() {
    std::vector<std::pair<std::string, std::uint64_t>> all;
    for_each_value(store_, {}, 1, [&](std::string_view entry, std::uint64_t rows) {
      all.emplace_back(entry, rows);
    });
    return all;
  }

  test::Directory directory_;
  Store store_{directory_ / "store", Store::Open::create, 1 << 20};
};

INSTANTIATE_TEST_SUITE_P(Written, LocalIndex, ::testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "as_tables" : "to_the_log");
});

using Keys = std::vector<std::string>;

TEST_P(LocalIndex, CountsRowsOfAValueAndSaysWhenTheFirstComesAndTheLastGoes) {
  auto one = write({{"a", row("a", "Ulm", "x,y")}});
  EXPECT_EQ(one.added.size(), 3u);
  EXPECT_EQ(one.rows, 1);
  EXPECT_EQ(one.values, 3);
  auto two = write({{"b", row("b", "Ulm", "y,z")}});
  EXPECT_EQ(two.added, Keys{value_key(1, entry_key(2, "z"))});
  EXPECT_TRUE(two.removed.empty());
  EXPECT_EQ(counts(), (std::vector<std::pair<std::string, std::uint64_t>>{{entry_key(0, "Ulm"), 2},
                                                                          {entry_key(2, "x"), 1},
                                                                          {entry_key(2, "y"), 2},
                                                                          {entry_key(2, "z"), 1}}));
  auto gone = write({{"a", std::nullopt}});
  EXPECT_EQ(gone.removed, Keys{value_key(1, entry_key(2, "x"))});
  EXPECT_EQ(gone.report.removed, 1u);
  EXPECT_EQ(write({{"a", std::nullopt}}).report.absent, 1u);
  auto last = write({{"b", std::nullopt}});
  EXPECT_EQ(last.removed.size(), 3u);
  EXPECT_TRUE(counts().empty());
}

TEST_P(LocalIndex, ARowInPlaceOfAnotherChangesOnlyWhatDiffers) {
  write({{"a", row("a", "Ulm", "x,y")}});
  const auto second = write({{"a", row("a", "Ulm", "y,z")}});
  EXPECT_EQ(second.report.replaced, 1u);
  EXPECT_EQ(second.added, Keys{value_key(1, entry_key(2, "z"))});
  EXPECT_EQ(second.removed, Keys{value_key(1, entry_key(2, "x"))});
  EXPECT_EQ(find({{0, "Ulm"}}), Keys{"a"});
  EXPECT_EQ(find({{2, "x"}}), Keys{});
}

TEST_P(LocalIndex, MutationsOfOneBatchComeOneAfterAnother) {
  const auto all = write({{"a", row("a", "Ulm")},
                          {"a", std::nullopt},
                          {"b", row("b", "Bonn")},
                          {"a", row("a", "Bonn")},
                          {"b", std::nullopt},
                          {"b", std::nullopt}});
  EXPECT_EQ(all.report.put, 3u);
  EXPECT_EQ(all.report.removed, 2u);
  EXPECT_EQ(all.report.absent, 1u);
  EXPECT_EQ(all.rows, 1);
  EXPECT_EQ(all.added, Keys{value_key(1, entry_key(0, "Bonn"))});
  EXPECT_EQ(find({{0, "Bonn"}}), Keys{"a"});
  EXPECT_EQ(find({{0, "Ulm"}}), Keys{});
}

TEST_P(LocalIndex, AValueThatOneRowLosesAndAnotherGainsInOneBatchStays) {
  write({{"a", row("a", "Ulm")}});
  const auto change = write({{"a", row("a", "Bonn")}, {"b", row("b", "Ulm")}});
  EXPECT_EQ(change.added, Keys{value_key(1, entry_key(0, "Bonn"))});
  EXPECT_TRUE(change.removed.empty());
  EXPECT_EQ(find({{0, "Ulm"}}), Keys{"b"});
}

TEST_P(LocalIndex, AValueThatARowKeepsIsCountedOnce) {
  write({{"a", row("a", "Ulm", "x,y,x")}});
  const auto change = write({{"a", row("a", "Ulm", "y,z,y")}});
  EXPECT_EQ(change.added, Keys{value_key(1, entry_key(2, "z"))});
  EXPECT_EQ(change.removed, Keys{value_key(1, entry_key(2, "x"))});
  const std::vector<std::pair<std::string, std::uint64_t>> expected = {
      {entry_key(0, "Ulm"), 1}, {entry_key(2, "y"), 1}, {entry_key(2, "z"), 1}};
  EXPECT_EQ(counts(), expected);
}

TEST_P(LocalIndex, SeveralValuesAndRangesAsAPlainTableFindsThem) {
  std::mt19937_64 random(5);
  test::PlainTable plain(people());
  for (int i = 0; i < 40; ++i) {
    std::vector<std::pair<std::string, std::optional<Row>>> some;
    for (int j = 0; j < 10; ++j) {
      const Row row = test::script_row(1, random);
      plain.put(row);
      some.push_back({row.key, row});
    }
    write(some);
  }
  // Rows of another region, or with a value that only begins with this one, are not found.
  StoreBatch batch = store_.batch();
  const Row other = row("row 000 of region 2", "city 1");
  const Mutation mutation{&other.key, &other};
  write_rows(store_, people(), 2, false, {&mutation, 1}, batch);
  store_.write(std::move(batch), false);

  std::size_t found = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string city = test::script_city(random);
    if (city.empty()) continue;
    Query query{.all_of = {{"city", city}}, .keys_only = random() % 2 == 0};
    if (random() % 2) query.limit = random() % 40;
    std::vector<std::string> wanted = entries({{0, city}});
    for (std::uint64_t tags = random() % 3; tags > 0; --tags) {
      const std::string tag = fmt::format("tag {}", random() % 30);
      query.all_of.push_back({"tags", tag});
      wanted.push_back(entry_key(2, tag));
    }
    if (random() % 2) query.from = fmt::format("row {:03}", random() % 300);
    if (random() % 2) query.to = query.from + "\xFF";
    const auto rows = find_all({.entries = wanted,
                                .from = query.from,
                                .to = query.to,
                                .limit = query.limit,
                                .keys_only = query.keys_only});
    ASSERT_EQ(rows, plain.query(query));
    found += rows.size();
  }
  EXPECT_GT(found, 500u);
}

TEST_P(LocalIndex, StopsAtTheLimit) {
  for (const char* key : {"a", "b", "c"}) write({{key, row(key, "Ulm", "x")}});
  for (const bool keys_only : {false, true}) {
    Wanted what{.entries = entries({{0, "Ulm"}, {2, "x"}}), .limit = 2, .keys_only = keys_only};
    EXPECT_EQ(find(what), (Keys{"a", "b"}));
    what.limit = 0;
    EXPECT_EQ(find(what), Keys{});
  }
}

// How the lists are read depends on their lengths, and the rows' sizes on whether rows are read to
// look at their values.
TEST_P(LocalIndex, ListsOfAllLengthsAndRowsOfAllSizes) {
  for (const std::size_t bytes : {1u, 5000u}) {
    const std::string large(bytes, 'n');
    std::vector<Row> all;
    std::vector<std::pair<std::string, std::optional<Row>>> puts;
    for (int i = 0; i < 1200; ++i) {
      // "front" and "back" are long, "rare" is in both, "few" behind them, "odd" in every other.
      // The first "late" is a "mark", after more of these than are looked up at first.
      std::string tags = i < 600 ? "front" : "back";
      if (i % 97 == 0) tags += ",rare";
      if (i % 2) tags += ",odd";
      if (i > 1190) tags += ",few";
      if (i % 30 == 0) tags += ",mark";
      if (i >= 630) tags += ",late";
      all.push_back({fmt::format("{:04}", i), {i % 3 ? "Ulm" : "Bonn", large, tags}});
      puts.push_back({all.back().key, all.back()});
    }
    write(puts);
    const std::vector<std::string> tags = {"front", "back", "rare", "odd",
                                           "few",   "none", "mark", "late"};
    for (const std::string& a : tags) {
      for (const std::string& b : tags) {
        for (const std::string city : {"Ulm", "Bonn", ""}) {
          for (const bool keys_only : {false, true}) {
            std::vector<Row> expected;
            for (const Row& row : all) {
              const std::string own = "," + row.values[2] + ",";
              if ((!city.empty() && row.values[0] != city) ||
                  own.find("," + a + ",") == std::string::npos ||
                  own.find("," + b + ",") == std::string::npos) {
                continue;
              }
              expected.push_back(keys_only ? Row{row.key, {}} : row);
            }
            std::vector<std::string> wanted = entries({{2, a}, {2, b}});
            if (!city.empty()) wanted.push_back(entry_key(0, city));
            ASSERT_EQ(find_all({.entries = wanted, .keys_only = keys_only}), expected)
                << a << ' ' << b << ' ' << city << ' ' << bytes;
          }
        }
      }
    }
  }
}

/// Where a list begins, as far as is known.
std::string start_of(const ListGaps& gaps, const std::string& prefix, std::uint64_t snapshot) {
  const std::vector<Gap> known = gaps.of(prefix, snapshot);
  return !known.empty() && known[0].after == prefix ? known[0].to : prefix;
}

// A queue: rows with one value are taken at the front and come at the back.
TEST_P(LocalIndex, RemembersWhereAListBeginsAfterManyDeletions) {
  const auto key = [](int i) { return fmt::format("job {:04}", i); };
  const std::string prefix = posting_prefix(1, entry_key(0, "pending"));
  ListGaps gaps;
  const auto first = [&](const Store::Snapshot& at, std::string_view from = {},
                         std::string_view to = {}) {
    const Keys found = find({.entries = entries({{0, "pending"}}),
                             .from = from,
                             .to = to,
                             .limit = 1,
                             .at = at,
                             .gaps = &gaps});
    return found.empty() ? std::string() : found[0];
  };
  const auto put = [&](const std::string& row_key) {
    const Row made = row(row_key, "pending");
    const Mutation mutation{&made.key, &made};
    StoreBatch batch = store_.batch();
    const RegionWrite write = write_rows(store_, people(), 1, true, {&mutation, 1}, batch);
    gaps.add(
        write.postings, [&] { store_.write(std::move(batch), false); },
        [&] { return store_.sequence(); });
  };
  for (int i = 0; i < 500; ++i) put(key(i));
  const Store::Snapshot before = store_.snapshot();
  const auto remove = [&](int end) {
    std::vector<std::pair<std::string, std::optional<Row>>> all;
    for (int i = 0; i < end; ++i) all.push_back({key(i), std::nullopt});
    write(all);
  };
  remove(400);
  const Store::Snapshot after = store_.snapshot();
  EXPECT_EQ(first(after, key(100)), key(400));
  EXPECT_EQ(start_of(gaps, prefix, store_.sequence(after)), prefix) << "only a part of it was read";
  EXPECT_EQ(first(after, {}, key(300)), "");
  EXPECT_EQ(start_of(gaps, prefix, store_.sequence(after)), prefix + key(300));
  EXPECT_EQ(first(after), key(400));
  EXPECT_EQ(start_of(gaps, prefix, store_.sequence(after)), prefix + key(400));
  EXPECT_EQ(first(before), key(0)) << "an older snapshot";
  EXPECT_EQ(first(after, {}, key(300)), "");
  EXPECT_EQ(first(after, key(450)), key(450));
  // A row that comes before.
  put(key(50));
  EXPECT_EQ(first(store_.snapshot()), key(50));
  EXPECT_EQ(first(before), key(0));
  // All are gone.
  remove(500);
  EXPECT_EQ(first(store_.snapshot()), "");
  put(key(600));
  EXPECT_EQ(first(store_.snapshot()), key(600));
}

// A queue with jobs that nobody takes, and that come back.
TEST_P(LocalIndex, RemembersGapsBehindTheFirstEntries) {
  const auto key = [](int i) { return fmt::format("job {:05}", i); };
  ListGaps gaps;
  std::set<std::string> pending;
  const auto change = [&](const std::vector<std::string>& keys, bool comes) {
    std::vector<Row> rows;
    for (const std::string& each : keys) rows.push_back(row(each, comes ? "pending" : "done"));
    std::vector<Mutation> mutations;
    for (const Row& each : rows) mutations.push_back({&each.key, &each});
    StoreBatch batch = store_.batch();
    const RegionWrite write = write_rows(store_, people(), 1, true, mutations, batch);
    gaps.add(
        write.postings, [&] { store_.write(std::move(batch), false); },
        [&] { return store_.sequence(); });
    for (const std::string& each : keys) {
      pending.erase(each);
      if (comes) pending.insert(each);
    }
  };
  /// The steps of a query, whose answer must be right.
  const auto steps = [&](const Store::Snapshot& at, const std::set<std::string>& there,
                         std::string_view from = {}, std::string_view to = {},
                         std::uint64_t limit = 6) {
    Keys found;
    const std::uint64_t taken = test::steps_of([&] {
      found = find({.entries = entries({{0, "pending"}}),
                    .from = from,
                    .to = to,
                    .limit = limit,
                    .keys_only = true,
                    .at = at,
                    .gaps = &gaps});
    });
    Keys expected;
    for (auto next = there.lower_bound(std::string(from));
         next != there.end() && expected.size() < limit && (to.empty() || *next < to); ++next) {
      expected.push_back(*next);
    }
    EXPECT_EQ(found, expected) << "from " << from << " to " << to;
    return taken;
  };
  const auto now = [&](std::string_view from = {}, std::string_view to = {},
                       std::uint64_t limit = 6) {
    return steps(store_.snapshot(), pending, from, to, limit);
  };
  std::vector<std::string> all, taken;
  for (int i = 0; i < 6000; ++i) all.push_back(key(i));
  change(all, true);
  const Store::Snapshot before = store_.snapshot();
  const std::set<std::string> all_pending = pending;
  for (int i = 0; i < 5990; ++i) {
    if (i != 0 && i != 100 && i != 3000) taken.push_back(key(i));
  }
  change(taken, false);
  EXPECT_GT(now(), 5000u);
  EXPECT_LT(now(), 200u) << "remembered";
  EXPECT_LT(now(key(2000)), 200u) << "from the middle of a gap";
  EXPECT_LT(now(key(100), key(4000)), 200u);
  EXPECT_LT(now({}, key(3500), 2), 200u);
  EXPECT_LT(steps(before, all_pending), 200u);
  EXPECT_LT(steps(store_.snapshot(), pending, key(100) + '\0'), 200u);
  // Jobs come at the back, then into a gap; then the one before the gap goes.
  change({key(7000)}, true);
  EXPECT_LT(now(), 200u);
  change({key(4000), key(4001)}, true);
  EXPECT_GT(now(), 2000u);
  EXPECT_LT(now(), 200u);
  EXPECT_LT(steps(before, all_pending), 200u);
  change({key(100)}, false);
  now();
  EXPECT_LT(now(), 200u);
  change({key(0), key(3000), key(4000), key(4001)}, false);
  now();
  EXPECT_LT(now(), 200u);
  change({key(2500)}, true);
  now();
  EXPECT_LT(now(), 200u);
  // Whatever comes and goes.
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::set<std::string> some;
    for (auto n = random() % 40 + 1; n > 0; --n)
      some.insert(key(static_cast<int>(random() % 7000)));
    change({some.begin(), some.end()}, random() % 4 == 0);
    now();
    now(key(static_cast<int>(random() % 7000)), {}, random() % 100 + 1);
    if (round % 50 == 49) change({pending.begin(), std::next(pending.begin(), 40)}, false);
  }
}

// A page that begins behind a job that stays, again and again.
TEST_P(LocalIndex, RemembersTheGapAtTheBeginningOfAPage) {
  std::vector<std::pair<std::string, std::optional<Row>>> come, go;
  for (int i = 0; i < 3000; ++i) come.push_back({fmt::format("{:04}", i), row("", "pending")});
  for (auto& [key, made] : come) made->key = key;
  for (int i = 1; i < 2990; ++i) go.push_back({fmt::format("{:04}", i), std::nullopt});
  write(come);
  write(go);
  ListGaps gaps;
  const std::string from = std::string("0000") + '\0';
  const auto steps = [&] {
    return test::steps_of([&] {
      EXPECT_EQ(find({.entries = entries({{0, "pending"}}),
                      .from = from,
                      .limit = 1,
                      .at = store_.snapshot(),
                      .gaps = &gaps}),
                Keys{"2990"});
    });
  };
  EXPECT_GT(steps(), 2000u);
  EXPECT_LT(steps(), 100u);
}

// Small gaps are not erased, and large ones once.
TEST_P(LocalIndex, ErasesWhatIsWornOnce) {
  std::vector<std::pair<std::string, std::optional<Row>>> come, go;
  const auto key = [](int i) { return fmt::format("{:05}", i); };
  for (int i = 0; i < 9000; ++i) come.push_back({key(i), row(key(i), "pending")});
  const auto take = [&](int first, int end) {
    go.clear();
    for (int i = first; i < end; ++i) go.push_back({key(i), std::nullopt});
    write(go);
  };
  write(come);
  take(1, 700);
  take(701, 5000);
  ListGaps gaps;
  const std::string prefix = posting_prefix(1, entry_key(0, "pending"));
  const auto erase = [&] {
    const std::uint64_t before = store_.sequence();
    erase_worn(store_, prefix, gaps);
    return store_.sequence() - before;
  };
  const auto steps = [&] {
    return test::steps_of([&] { find({.entries = entries({{0, "pending"}}), .limit = 5}); });
  };
  EXPECT_GT(steps(), 4500u);
  EXPECT_EQ(erase(), 1u) << "the gap of 4,299, not that of 699";
  for (int again = 0; again < 3; ++again) EXPECT_EQ(erase(), 0u);
  take(5000, 5900);
  EXPECT_EQ(erase(), 0u) << "too few since";
  take(5900, 6100);
  EXPECT_EQ(erase(), 1u);
  EXPECT_EQ(erase(), 0u);
  store_.sync();
  const Store reopened(directory_ / "store", Store::Open::read_only, 1 << 20);
  std::vector<Row> rows;
  find_rows(reopened, people(), {}, 1, {.entries = entries({{0, "pending"}}), .limit = 5}, rows);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0].key + rows[1].key + rows[2].key, key(0) + key(700) + key(6100));
}

TEST_P(LocalIndex, AFrozenStoreRemembersWhereAListBegins) {
  const auto key = [](int i) { return fmt::format("job {:04}", i); };
  std::vector<std::pair<std::string, std::optional<Row>>> come, go;
  for (int i = 0; i < 500; ++i) come.push_back({key(i), row(key(i), "pending")});
  for (int i = 0; i < 400; ++i) go.push_back({key(i), std::nullopt});
  write(come);
  write(go);
  const std::vector<std::string> wanted = entries({{0, "pending"}});
  const std::string prefix = posting_prefix(1, wanted[0]);
  ListGaps gaps;
  find({.entries = wanted, .limit = 1, .gaps = &gaps});
  EXPECT_EQ(start_of(gaps, prefix, store_.sequence()), prefix)
      << "a store that changes, no snapshot";
  store_.sync();
  const Store frozen(directory_ / "store", Store::Open::read_only, 1 << 20);
  for (int again = 0; again < 2; ++again) {
    std::vector<Row> rows;
    const std::uint64_t steps = test::steps_of([&] {
      find_rows(frozen, people(), {}, 1, {.entries = wanted, .limit = 1, .keys_only = true}, rows,
                &gaps);
    });
    EXPECT_EQ(rows, (std::vector<Row>{{key(400), {}}}));
    EXPECT_EQ(steps > 400, again == 0) << steps;
    EXPECT_EQ(start_of(gaps, prefix, frozen.sequence()), prefix + key(400));
  }
}

TEST_P(LocalIndex, ReadsTheShortListOfTwo) {
  std::vector<std::pair<std::string, std::optional<Row>>> rows;
  for (int i = 0; i < 2000; ++i) {
    const std::string key = fmt::format("{:04}", i);
    rows.push_back({key, row(key, "Ulm", i % 200 == 0 ? "rare" : "")});
  }
  write(rows);
  // Ten postings are walked, and nothing of the list of 2,000.
  const auto both = [&](std::string_view from) {
    EXPECT_EQ(find({{0, "Ulm"}, {2, "rare"}}, from).size(), from.empty() ? 10u : 5u);
    EXPECT_EQ(find({{2, "rare"}, {0, "Ulm"}}, from).size(), from.empty() ? 10u : 5u);
  };
  EXPECT_LT(test::steps_of([&] { both({}); }), 40u);
  EXPECT_LT(test::steps_of([&] { both("1000"); }), 40u);
  // Two lists of 2,000 are walked side by side.
  EXPECT_GT(test::steps_of([&] { find({{0, "Ulm"}, {0, "Ulm"}}); }), 2000u);
}

TEST(LostPostings, FindTheListThatLosesManyAmongOthersThatLoseFew) {
  LostPostings lost;
  int found = 0;
  for (int i = 0; i < 100'000; ++i) {
    EXPECT_FALSE(lost.add(fmt::format("a value of its own {}", i), 1));
    if (i % 7 == 0) found += lost.add("queue", 1);
  }
  EXPECT_GE(found, 1);
  EXPECT_LE(found, 100'000 / 7 / 4096);
  EXPECT_TRUE(lost.add("another", 5000)) << "at once";
}

TEST(ListGaps, AreNotLearntFromASnapshotThatAPostingMayHaveMissed) {
  ListGaps gaps;
  const std::vector<std::string> b = {"list/b"}, other = {"list2/a"};
  const auto learn = [&](std::uint64_t snapshot) {
    gaps.learn("list/", {"list/", "list/c"}, snapshot);
  };
  const auto start = [&](std::uint64_t snapshot) { return start_of(gaps, "list/", snapshot); };
  gaps.add(
      b, [&] { learn(10); }, [] { return std::uint64_t{20}; });
  EXPECT_EQ(start(30), "list/") << "learnt during a write";
  learn(19);
  EXPECT_EQ(start(30), "list/") << "learnt from before the write";
  learn(20);
  EXPECT_EQ(start(30), "list/c");
  EXPECT_EQ(start(19), "list/");
  gaps.add(
      other, [] {}, [] { return std::uint64_t{21}; });
  EXPECT_EQ(start(30), "list/c");
  EXPECT_THROW(gaps.add(
                   b, [] { throw IoError("full"); }, [] { return std::uint64_t{40}; }),
               IoError);
  EXPECT_EQ(start(50), "list/b") << "the write may be in the store";
  learn(50);
  EXPECT_EQ(start(50), "list/b");
  gaps.add(
      other, [] {}, [] { return std::uint64_t{40}; });
  learn(40);
  EXPECT_EQ(start(50), "list/c");
}

TEST(ListGaps, AreKnownUntilAPostingMayComeIntoThem) {
  ListGaps gaps;
  const auto gap = [](const char* after, const char* to) {
    return Gap{fmt::format("list/{}", after), fmt::format("list/{}", to)};
  };
  const auto add = [&](const char* posting) {
    const std::vector<std::string> postings = {fmt::format("list/{}", posting)};
    gaps.add(
        postings, [] {}, [] { return std::uint64_t{2}; });
  };
  const auto learn_all = [&] {
    for (const Gap& each : {gap("e", "g"), gap("", "b"), gap("k", "p"), gap("b", "d")}) {
      gaps.learn("list/", each, 2);
    }
  };
  using Gaps = std::vector<Gap>;
  learn_all();
  EXPECT_EQ(gaps.of("list/", 2), (Gaps{gap("", "b"), gap("b", "d"), gap("e", "g"), gap("k", "p")}));
  EXPECT_EQ(gaps.of("list/", 1), Gaps{});
  EXPECT_EQ(gaps.of("list", 2), Gaps{});
  add("p");  // behind all of them
  EXPECT_EQ(gaps.of("list/", 2).size(), 4u);
  add("m");
  EXPECT_EQ(gaps.of("list/", 2), (Gaps{gap("", "b"), gap("b", "d"), gap("e", "g")}));
  add("c");  // others of the same write may be behind it
  EXPECT_EQ(gaps.of("list/", 2), Gaps{gap("", "b")});
  add("a");
  EXPECT_EQ(gaps.of("list/", 2), Gaps{gap("", "a")});
  learn_all();
  gaps.learn("list/", gap("b", "h"), 2);  // what was between is gone
  EXPECT_EQ(gaps.of("list/", 2), (Gaps{gap("", "b"), gap("b", "h"), gap("k", "p")}));
  gaps.learn("list/", gap("", "p"), 2);
  EXPECT_EQ(gaps.of("list/", 2), Gaps{gap("", "p")});
}

TEST(ListGaps, OfAListTheLargestAreKept) {
  ListGaps gaps;
  for (unsigned i = 0; i < 40; ++i) {
    gaps.learn("list/", {fmt::format("list/{:02}", i), fmt::format("list/{:02}a", i), 100 + i % 20},
               1);
  }
  const std::vector<Gap> kept = gaps.of("list/", 1);
  EXPECT_EQ(kept.size(), 16u);
  for (const Gap& gap : kept) EXPECT_GE(gap.deleted, 112u) << gap.after;
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &Gap::after));
}

TEST_P(LocalIndex, CountsThatCannotBeAreRefused) {
  write({{"a", row("a", "Ulm")}});
  StoreBatch batch = store_.batch();
  batch.erase(Family::values, value_key(1, entry_key(0, "Ulm")));
  store_.write(std::move(batch), false);
  EXPECT_THROW(write({{"a", std::nullopt}}), CorruptFile);
  EXPECT_EQ(find({{0, "Ulm"}}), Keys{"a"});
}

}  // namespace
}  // namespace scbf::index::local_index_test
