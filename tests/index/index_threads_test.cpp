// SPDX-License-Identifier: Apache-2.0
// Writes, queries, and splits, merges and moves of regions, all at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <thread>

#include "crash_points.hpp"
#include "index_support.hpp"

namespace scbf::index_threads_test {
namespace {

using namespace test;

TEST(IndexThreads, NothingAcknowledgedIsEverMissed) {
  constexpr int kWriters = 3, kReaders = 2, kSteps = 250, kAnchors = 60;
  Directory directory;
  SecondaryIndex index = SecondaryIndex::create(
      directory / "index", people(), {.fpr = 0.1, .region_values = 16, .servers = kScriptServers});
  // Rows that no thread changes: every query must find them.
  std::vector<Row> anchors;
  for (int i = 0; i < kAnchors; ++i) {
    anchors.push_back({fmt::format("row {:03} anchor", i * 5), {"anchored", "", ""}});
  }
  index.put(anchors);
  std::atomic<int> writing = kWriters;
  std::atomic<std::uint64_t> asked = 0;
  std::vector<PlainTable> tables(kWriters, PlainTable(people()));
  std::vector<std::string> failures[kWriters + kReaders];
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (std::uint64_t i = 0; i < kSteps; ++i) {
        Step step = script_step(2 * static_cast<std::uint64_t>(w) + 21, i);
        for (Row& row : step.rows) row.key += fmt::format(" of {}", w);
        for (std::string& key : step.keys) key += fmt::format(" of {}", w);
        try {
          test::take(index, step);
        } catch (const InvalidArgument&) {  // another thread has removed the region
        }
        test::take(tables[static_cast<std::size_t>(w)], step);
        // An acknowledged row is found at once.
        if (!step.rows.empty() && !step.rows.back().values[0].empty()) {
          const Row& row = step.rows.back();
          const auto answer =
              index.query({.all_of = {{"city", row.values[0]}}, .from = row.key, .limit = 1});
          if (answer.rows.empty() || answer.rows[0] != row) failures[w].push_back(row.key);
        }
      }
      --writing;
    });
  }
  for (int r = 0; r < kReaders; ++r) {
    threads.emplace_back([&, r] {
      const std::vector<Query> queries(3, {.all_of = {{"city", "anchored"}}});
      while (writing > 0) {
        for (const QueryAnswer& answer : index.query(queries)) {
          if (answer.rows != anchors) {
            failures[kWriters + r].push_back(fmt::format("{} anchors", answer.rows.size()));
          }
          ++asked;
        }
        // The regions are those of one map: each ends where the next begins.
        const std::vector<RegionInfo> regions = index.regions();
        for (std::size_t i = 0; i < regions.size(); ++i) {
          const RegionInfo &now = regions[i], &next = regions[(i + 1) % regions.size()];
          if (now.to != next.from || now.stages == 0 || now.filter_bytes == 0) {
            failures[kWriters + r].push_back(fmt::format("region {} of {}", i, regions.size()));
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& failed : failures) {
    EXPECT_TRUE(failed.empty()) << failed.size() << " times, first " << failed[0];
  }
  EXPECT_GT(asked, 0u);
  PlainTable all(people());
  for (const PlainTable& table : tables) {
    for (const auto& [key, values] : table.rows()) all.put({key, values});
  }
  for (const Row& row : anchors) all.put(row);
  std::vector<Row> rows;
  for (const auto& [key, values] : all.rows()) rows.push_back({key, values});
  EXPECT_EQ(all_rows(index), rows);
  const CheckReport check = index.check();
  EXPECT_EQ(check.problem_count, 0u) << check.problems.at(0);
}

std::atomic<int> rebuilds = 0;

TEST(IndexThreads, NothingIsMissedWhileFiltersShrink) {
  constexpr int kReaders = 2, kRounds = 3, kRows = 4000;
  Directory directory;
  SecondaryIndex index =
      SecondaryIndex::create(directory / "index", people(), {.region_values = 64});
  std::vector<Row> anchors;
  for (int i = 0; i < 50; ++i)
    anchors.push_back({fmt::format("a{}", 10 + i), {"anchored", "", ""}});
  index.put(anchors);
  index::at_crash_point = [](const char* name) {
    rebuilds += std::string_view(name) == "rebuild: the filter is replaced";
  };
  std::atomic<bool> writing = true;
  std::atomic<int> missed = 0, asked = 0;
  std::vector<std::thread> readers;
  for (int r = 0; r < kReaders; ++r) {
    readers.emplace_back([&] {
      while (writing) {
        missed += index.query({.all_of = {{"city", "anchored"}}}).rows != anchors;
        ++asked;
      }
    });
  }
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Row> rows;
    for (int i = 0; i < kRows; ++i) {
      rows.push_back({fmt::format("row {}", i), {fmt::format("{} {}", round, i), "", ""}});
    }
    index.put(rows);
    for (int i = 0; i < kRows; i += 500) {
      std::vector<std::string> keys;
      for (int k = i; k < i + 500; ++k) keys.push_back(fmt::format("row {}", k));
      index.remove(keys);
    }
    index.checkpoint();
  }
  writing = false;
  for (std::thread& reader : readers) reader.join();
  index::at_crash_point = nullptr;
  EXPECT_EQ(missed, 0);
  EXPECT_GT(asked, 0);
  EXPECT_GE(rebuilds, kRounds);
  EXPECT_EQ(index.regions()[0].stages, 1u);
  EXPECT_EQ(index.check().problem_count, 0u);
}

// Each thread's rows in a backup are the first so many that it wrote, all that were acknowledged
// before the backup began among them, and each is whole.
// A queue with a job that nobody takes: queries remember gaps while a writer makes them, and puts
// jobs into them.
TEST(IndexThreads, NothingIsMissedBehindGapsThatComeAndGo) {
  constexpr int kJobs = 3000, kReaders = 2;
  Directory directory;
  SecondaryIndex index =
      SecondaryIndex::create(directory / "index", people(), {.region_values = 8, .servers = 1});
  const auto job = [](int i, const char* state) {
    return Row{fmt::format("{:06}", i), {state, "", ""}};
  };
  std::vector<Row> all;
  for (int i = 0; i < kJobs; ++i) all.push_back(job(i, "pending"));
  index.put(all);
  // Jobs that are pending all the time.
  const std::vector<int> kept = {0, 1000, 2000, kJobs - 1};
  std::atomic<bool> writing = true;
  std::atomic<int> missed = 0, asked = 0;
  std::vector<std::thread> readers;
  for (int r = 0; r < kReaders; ++r) {
    readers.emplace_back([&] {
      while (writing || asked < 10) {
        const auto found = index.query({.all_of = {{"city", "pending"}}}).rows;
        for (const int i : kept) {
          missed += !std::ranges::binary_search(found, job(i, "").key, {}, &Row::key) ? 1 : 0;
        }
        index.query({.all_of = {{"city", "pending"}}, .limit = 3});
        ++asked;
      }
    });
  }
  const auto is_there = [&](int i) {
    const auto found =
        index.query({.all_of = {{"city", "pending"}}, .from = job(i, "").key, .limit = 1});
    return !found.rows.empty() && found.rows[0].key == job(i, "").key;
  };
  for (int round = 0; round < 4; ++round) {
    for (int first = 0; first < kJobs; first += 250) {
      std::vector<Row> taken;
      for (int i = first; i < first + 250; ++i) {
        if (std::ranges::count(kept, i) == 0) taken.push_back(job(i, "done"));
      }
      index.put(taken);
      const int back = first * 7 % kJobs + 5;  // one comes back, into a gap or before it
      index.put(job(back, "pending"));
      EXPECT_TRUE(is_there(back)) << "round " << round << ", job " << back;
    }
    index.put(all);
  }
  writing = false;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(missed, 0);
  EXPECT_EQ(index.check().problem_count, 0u);
}

TEST(IndexThreads, ABackupIsAPrefixOfTheWrites) {
  constexpr std::size_t kWriters = 3;
  constexpr int kBackups = 4;
  Directory directory;
  SecondaryIndex index = SecondaryIndex::create(directory / "index", people(),
                                                {.fpr = 0.1, .region_values = 16, .servers = 2});
  const auto row_of = [](std::size_t writer, std::uint64_t i) {
    return Row{fmt::format("{:02} of {} {}", i % 50, writer, i),
               {fmt::format("city {} {}", writer, i), std::string(i % 300, 'n'), "all"}};
  };
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> acknowledged[kWriters] = {};
  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (std::uint64_t i = 0; !stop; ++i) {
        index.put(row_of(w, i));
        ++acknowledged[w];
      }
    });
  }
  threads.emplace_back([&] {
    for (std::uint64_t i = 0; !stop; ++i) {
      const std::vector<RegionInfo> regions = index.regions();
      if (regions.size() > 4) {
        index.merge(regions[0].id, regions[1].id);
      } else if (regions.back().rows > 2) {
        index.split(regions.back().id);
      }
      index.checkpoint();
    }
  });
  for (int b = 0; b < kBackups; ++b) {
    const auto path = directory / fmt::format("backup {}", b);
    std::uint64_t before[kWriters];
    for (std::size_t w = 0; w < kWriters; ++w) before[w] = acknowledged[w];
    // A reader stands for another process.
    if (b % 2 == 0) {
      index.backup(path);
    } else {
      SecondaryIndex::open_read_only(directory / "index").backup(path);
    }
    const SecondaryIndex restored = SecondaryIndex::open(path);
    std::uint64_t rows = 0;
    for (std::size_t w = 0; w < kWriters; ++w) {
      for (std::uint64_t i = 0;; ++i, ++rows) {
        const Row row = row_of(w, i);
        const auto found = restored.get(row.key);
        if (!found) {
          EXPECT_GE(i, before[w]) << "writer " << w;
          break;
        }
        EXPECT_EQ(*found, row);
      }
    }
    EXPECT_EQ(restored.statistics().rows, rows) << "a row without one before it";
    const CheckReport check = restored.check();
    EXPECT_EQ(check.problem_count, 0u) << check.problems.at(0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (std::size_t w = 0; w < kWriters; ++w) EXPECT_GT(acknowledged[w], 0u);
}

}  // namespace
}  // namespace scbf::index_threads_test
