// SPDX-License-Identifier: Apache-2.0
// An index is killed in the middle of its work, opened again, and compared with what it
// acknowledged: at every named crash point, at random moments, and with a log whose end is torn
// off.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "index_support.hpp"
#include "support/scale.hpp"

namespace scbf::index_crash_test {
namespace {

using namespace test;
using scbf_test::scaled;

class Killed : public ::testing::Test {
 protected:
  /// Starts the program; `work` is the seed of its script, or what it does instead.
  pid_t start(const std::string& work, const std::string& point, int passes) {
    std::filesystem::remove(directory_ / "acknowledged");
    const std::string arguments[] = {SCBF_CRASHER,          directory_ / "index",        work,
                                     std::to_string(step_), directory_ / "acknowledged", point,
                                     std::to_string(passes)};
    std::vector<char*> pointers;
    for (const std::string& argument : arguments)
      pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    pid_t child = 0;
    EXPECT_EQ(::posix_spawn(&child, SCBF_CRASHER, nullptr, nullptr, pointers.data(), environ), 0);
    return child;
  }
  static int end_of(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
  /// The number of steps acknowledged since the last start.
  std::uint64_t acknowledged() const {
    std::error_code none;
    const auto bytes = std::filesystem::file_size(directory_ / "acknowledged", none);
    return none ? 0 : bytes / 8;
  }

  Directory directory_;
  std::uint64_t step_ = 0;
};

/// The parameter is the seed of the script.
class Crashes : public Killed, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  Crashes() {
    SecondaryIndex::create(directory_ / "index", people(),
                           {.fpr = 0.1, .region_values = 16, .servers = kScriptServers});
  }
  pid_t start(const std::string& point, int passes) {
    return Killed::start(std::to_string(GetParam()), point, passes);
  }

  /// Checks that every acknowledged step took effect. Each row of the unfinished step must be as it
  /// was before or after that step.
  void verify() {
    const std::uint64_t done = acknowledged();
    for (std::uint64_t i = 0; i < done; ++i) test::take(plain_, script_step(GetParam(), step_ + i));
    PlainTable after = plain_;
    test::take(after, script_step(GetParam(), step_ + done));
    step_ += done + 1;
    const SecondaryIndex index = SecondaryIndex::open(directory_ / "index");
    rebuilt_ += index.recovery().rebuilt;
    replayed_ += index.recovery().changes_replayed;
    PlainTable now(people());
    for (const Row& row : all_rows(index)) now.put(row);
    std::set<std::string> keys;
    for (const PlainTable* table : {&plain_, &after, &now}) {
      for (const auto& row : table->rows()) keys.insert(row.first);
    }
    const auto fate = [](const PlainTable& table, const std::string& key) {
      const auto row = table.rows().find(key);
      return row == table.rows().end() ? std::nullopt : std::optional(row->second);
    };
    for (const std::string& key : keys) {
      const auto is = fate(now, key);
      ASSERT_TRUE(is == fate(plain_, key) || is == fate(after, key)) << key;
    }
    plain_ = now;
    agrees(index);
  }
  /// Checks that queries find every row of the table.
  void agrees(const SecondaryIndex& index) {
    const CheckReport check = index.check();
    ASSERT_EQ(check.problem_count, 0u) << check.problems.at(0);
    std::set<std::pair<std::string, std::string>> values;
    for (const auto& [key, fields] : plain_.rows()) {
      for (const std::string& value : plain_.values(key, 0)) values.emplace("city", value);
      for (const std::string& value : plain_.values(key, 2)) values.emplace("tags", value);
    }
    for (const auto& [column, value] : values) {
      const Query query{.all_of = {{column, value}}};
      ASSERT_EQ(index.query(query).rows, plain_.query(query)) << value;
    }
  }

  PlainTable plain_{people()};
  std::uint64_t rebuilt_ = 0, replayed_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, Crashes, ::testing::Values(11, 12), [](const auto& test) {
  return std::string(is_narrow(test.param) ? "few_values" : "many_values");
});

TEST_P(Crashes, AtEveryPoint) {
  for (const char* point :
       {"write: the filter has the new values", "write: the store has it",
        "rebuild: the filter is replaced", "save: the log is on disk",
        "save: the filter is on disk", "save: the log is shorter", "regions: all is written",
        "regions: the map has changed", "regions: the old ones are gone"}) {
    for (const int passes : {0, 1, 4}) {
      const int status = end_of(start(point, passes));
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 9) << point;
      verify();
      ASSERT_FALSE(HasFatalFailure()) << point << ", passed " << passes << " times before";
    }
  }
  EXPECT_GT(replayed_, 0u);
}

TEST_P(Crashes, AtRandomMoments) {
  std::mt19937_64 random(3);
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < scaled(25, 8); ++i) {
    const pid_t child = start("-", 0);
    while (acknowledged() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    ::kill(child, SIGKILL);
    ASSERT_TRUE(WIFSIGNALED(end_of(child)));
    done += acknowledged();
    verify();
    ASSERT_FALSE(HasFatalFailure()) << "kill number " << i;
  }
  EXPECT_GT(done, scaled(100, 10));
}

// The end of the store's log is missing, as after a power failure. The rows in it are lost, but
// queries find all other rows.
TEST_P(Crashes, WithATornTail) {
  std::mt19937_64 random(4);
  std::uint64_t torn = 0;
  for (std::size_t i = 0; i < scaled(15, 6); ++i) {
    const pid_t child = start("-", 0);
    while (acknowledged() < 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40'000));
    ::kill(child, SIGKILL);
    end_of(child);
    std::filesystem::path log;
    for (const auto& file : std::filesystem::directory_iterator(directory_ / "index" / "store")) {
      if (file.path().extension() == ".log" && file.path() > log) log = file.path();
    }
    ASSERT_FALSE(log.empty());
    const auto bytes = std::filesystem::file_size(log);
    const auto cut = std::min<std::uintmax_t>(bytes, 1 + random() % 3000);
    std::filesystem::resize_file(log, bytes - cut);
    torn += cut;
    step_ += acknowledged() + 1;
    const SecondaryIndex index = SecondaryIndex::open(directory_ / "index");
    rebuilt_ += index.recovery().rebuilt;
    plain_ = PlainTable(people());
    for (const Row& row : all_rows(index)) plain_.put(row);
    agrees(index);
    ASSERT_FALSE(HasFatalFailure()) << "tear number " << i;
  }
  EXPECT_GT(torn, 0u);
  RecordProperty("filters_rebuilt", static_cast<int>(rebuilt_));
}

/// Loads the same rows again and again, each time with other values. Each of three regions gets
/// its rows of a load as tables.
class Loads : public Killed {
 protected:
  static constexpr std::uint64_t kBegin[] = {0, 1800, 3600, kLoadRows};

  Loads() {
    SecondaryIndex index = SecondaryIndex::create(directory_ / "index", people(), {});
    const std::string points[] = {load_row(kBegin[1], 0).key, load_row(kBegin[2], 0).key};
    index.presplit(points);
    std::uint64_t i = 0;
    index.bulk_load([&](Row& row) {
      if (i < kLoadRows) row = load_row(i, 0);
      return i++ < kLoadRows;
    });
    step_ = 1;
  }
  /// Checks that each region has its rows of the load that was cut off, or all of the one before.
  /// Returns how many have the new ones.
  std::size_t regions_loaded() {
    const std::uint64_t cut_off = step_ + acknowledged();
    step_ = cut_off + 1;
    const SecondaryIndex index = SecondaryIndex::open(directory_ / "index");
    for (const auto& file : std::filesystem::directory_iterator(directory_ / "index" / "store")) {
      EXPECT_FALSE(file.path().filename().string().starts_with("LOADING")) << file.path();
    }
    const CheckReport check = index.check();
    EXPECT_EQ(check.problem_count, 0u) << check.problems.at(0);
    const std::vector<Row> rows = all_rows(index);
    if (rows.size() != kLoadRows) throw std::runtime_error(fmt::format("{} rows", rows.size()));
    std::size_t loaded = 0;
    for (std::size_t region = 0; region < 3; ++region) {
      const bool is_new = rows[kBegin[region]] == load_row(kBegin[region], cut_off);
      loaded += is_new;
      for (std::uint64_t i = kBegin[region]; i < kBegin[region + 1]; ++i) {
        // The regions that an earlier load did not reach have the rows of an even earlier one.
        const std::uint64_t load = is_new ? cut_off : loads_[region];
        if (rows[i] != load_row(i, load)) throw std::runtime_error("row " + rows[i].key);
      }
      if (is_new) loads_[region] = cut_off;
    }
    return loaded;
  }

  std::array<std::uint64_t, 3> loads_ = {};
};

TEST_F(Loads, AtEveryPoint) {
  for (const char* point : {"load: the tables are on disk", "write: the filter has the new values",
                            "write: the store has it"}) {
    for (const int passes : {0, 1, 2}) {
      SCOPED_TRACE(fmt::format("{}, passed {} times before", point, passes));
      const int status = end_of(start("load", point, passes));
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 9);
      const bool written = std::string_view(point) == "write: the store has it";
      ASSERT_EQ(regions_loaded(), static_cast<std::size_t>(passes) + (written ? 1 : 0));
    }
  }
}

TEST_F(Loads, AtRandomMoments) {
  std::mt19937_64 random(5);
  for (std::size_t i = 0; i < scaled(20, 5); ++i) {
    const pid_t child = start("load", "-", 0);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 150'000));
    ::kill(child, SIGKILL);
    ASSERT_TRUE(WIFSIGNALED(end_of(child)));
    if (acknowledged() > 0) loads_.fill(step_ + acknowledged() - 1);
    regions_loaded();
  }
}

}  // namespace
}  // namespace scbf::index_crash_test
