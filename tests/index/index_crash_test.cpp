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

namespace scbf {
namespace {

using namespace test;
using scbf_test::scaled;

/// The parameter is the seed of the script.
class Crashes : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  Crashes() {
    SecondaryIndex::create(directory_ / "index", people(),
                           {.fpr = 0.1, .region_values = 16, .servers = kScriptServers});
  }

  pid_t start(const std::string& point, int passes) {
    std::filesystem::remove(directory_ / "acknowledged");
    const std::string arguments[] = {
        SCBF_CRASHER,          directory_ / "index",        std::to_string(GetParam()),
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

  Directory directory_;
  PlainTable plain_{people()};
  std::uint64_t step_ = 0, rebuilt_ = 0, replayed_ = 0;
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

}  // namespace
}  // namespace scbf
