// SPDX-License-Identifier: Apache-2.0
// An index that is open for reading only: beside a writer that splits, merges and saves, with
// filters older or newer than what it shows, and without writing anything.
#include "support/disk.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <deque>
#include <functional>
#include <thread>

#include "crash_points.hpp"
#include "indexed.hpp"
#include "support/counters_only.hpp"
#include "support/scale.hpp"

namespace scbf::index_reader_test {
namespace {

using namespace test;
using scbf_test::CountersOnly;
using scbf_test::Disk;
using scbf_test::scaled;

const bool kAdded = scbf_test::add_counters_only();

class Reader : public ::testing::Test {
 protected:
  Reader() {
    test_.index.presplit(std::vector<std::string>{"000100", "000200"});
    test_.index.put(numbered(300));
    for (const Row& row : numbered(300)) plain_.put(row);
  }
  void close() { const SecondaryIndex closed = std::move(test_.index); }
  void put(const Row& row) {
    test_.index.put(row);
    plain_.put(row);
  }

  Indexed test_{{.servers = 3}};
  PlainTable plain_{people()};
  const std::filesystem::path path_ = test_.directory / "index";
};

TEST_F(Reader, KeepsOnlyTheBitsOfItsFilters) {
  close();
  const IndexOptions options{.backend = "counters only"};
  std::uint64_t of_regions = 0;
  {
    const SecondaryIndex writer = SecondaryIndex::open(path_, options);
    of_regions = writer.statistics().filter_bytes;
    // Also what a new region would begin with.
    EXPECT_EQ(CountersOnly::words() * 8, of_regions + of_regions / 3);
  }
  ASSERT_EQ(CountersOnly::words(), 0u);
  SecondaryIndex reader = SecondaryIndex::open_read_only(path_, options);
  EXPECT_EQ(reader.statistics().filter_bytes, of_regions);
  EXPECT_EQ(CountersOnly::words() * 8, of_regions / 3);
  expect_equal(reader, plain_);
  EXPECT_FALSE(reader.refresh());
}

TEST_F(Reader, ShowsWhatTheWriterHasWritten) {
  put({"000007", {"new", "", ""}});
  SecondaryIndex reader = SecondaryIndex::open_read_only(path_);
  EXPECT_TRUE(reader.read_only());
  EXPECT_FALSE(test_.index.read_only());
  EXPECT_LE(reader.freshness().number, test_.index.freshness().number);
  const PlainTable then = plain_;
  expect_equal(reader, then);
  EXPECT_FALSE(reader.refresh());

  const auto before = std::chrono::system_clock::now();
  put({"000007", {"newer", "", ""}});
  test_.index.remove("000008");
  plain_.remove("000008");
  test_.index.merge(test_.index.regions()[0].id, test_.index.regions()[1].id);
  test_.index.checkpoint();
  expect_equal(reader, then);
  EXPECT_LT(reader.freshness().as_of, before);
  EXPECT_LT(reader.freshness().number, test_.index.freshness().number);
  EXPECT_TRUE(reader.refresh());
  EXPECT_GE(reader.freshness().as_of, before);
  EXPECT_LE(reader.freshness().number, test_.index.freshness().number);
  EXPECT_EQ(reader.regions().size(), 2u);
  expect_equal(reader, plain_);
  EXPECT_FALSE(test_.index.refresh()) << "a writer shows everything";
}

TEST_F(Reader, ChangesNothing) {
  SecondaryIndex reader = SecondaryIndex::open_read_only(path_);
  const RegionId id = reader.regions()[1].id;
  EXPECT_THROW(reader.put(Row{"1", {"", "", ""}}), ReadOnly);
  EXPECT_THROW(reader.remove("000001"), ReadOnly);
  EXPECT_THROW(reader.bulk_load([](Row&) { return false; }), ReadOnly);
  EXPECT_THROW(reader.presplit(std::vector<std::string>{"5"}), ReadOnly);
  EXPECT_THROW(reader.split(id), ReadOnly);
  EXPECT_THROW(reader.merge(id, id + 1), ReadOnly);
  EXPECT_THROW(reader.move(id, 2), ReadOnly);
  EXPECT_THROW(reader.checkpoint(), ReadOnly);
  EXPECT_THROW(reader.rebuild(id), ReadOnly);
  EXPECT_THROW(reader.distrust(id), ReadOnly);
  expect_equal(reader, plain_);
  put({"000007", {"new", "", ""}});
  EXPECT_TRUE(reader.refresh());
  expect_equal(reader, plain_);
}

/// The names of all files below a folder, with size and time of the last change.
std::map<std::string, std::pair<std::uintmax_t, std::filesystem::file_time_type>> files_of(
    const std::filesystem::path& folder) {
  std::map<std::string, std::pair<std::uintmax_t, std::filesystem::file_time_type>> files;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    files[file.path()] = {file.is_regular_file() ? file.file_size() : 0, file.last_write_time()};
  }
  return files;
}

// Whatever an opening for writing would mend stays as it is.
TEST_F(Reader, WritesNoFile) {
  const RegionId first = test_.index.regions()[0].id;
  test_.index.checkpoint();
  put({"000007", {"new", "", ""}});  // in the log
  const auto path = test_.directory / "copy";
  copy_open_index(path_, path);
  std::filesystem::remove(path / "filters" / fmt::format("{}.scbf", first));
  std::filesystem::copy(path / "filters" / fmt::format("{}.scbf", first + 1),
                        path / "filters" / "nobodys.scbf");
  const auto files = files_of(path);
  Disk::fill_after(path.string(), 0, EROFS);  // any call that writes would fail
  for (const bool rebuild : {true, false}) {
    SecondaryIndex reader = SecondaryIndex::open_read_only(path, {.rebuild = rebuild});
    EXPECT_EQ(reader.recovery().rebuilt, rebuild ? 1u : 0u);
    EXPECT_EQ(reader.recovery().asked_always, rebuild ? 0u : 1u);
    expect_equal(reader, plain_);
    EXPECT_FALSE(reader.refresh());
  }
  EXPECT_FALSE(Disk::was_full());
  Disk::free();
  EXPECT_EQ(files_of(path), files);
}

TEST_F(Reader, OfAnotherStateThanTheFilters) {
  const auto copy = [&](const char* of, const std::filesystem::path& to) {
    std::filesystem::create_directories(to);
    copy_open_index(path_ / of, to / of);
  };
  test_.index.checkpoint();
  const auto newer_filters = test_.directory / "a", older_filters = test_.directory / "b";
  copy("store", newer_filters);
  copy("filters", older_filters);
  const PlainTable then = plain_;
  // The later filters lack the values of these rows.
  std::vector<std::string> keys;
  for (const Row& row : numbered(150)) {
    keys.push_back(row.key);
    plain_.remove(row.key);
  }
  test_.index.remove(keys);
  put({"000250", {"new", "", ""}});
  copy("store", older_filters);  // with a log that the older filters lack
  test_.index.checkpoint();
  copy("filters", newer_filters);
  for (const bool rebuild : {true, false}) {
    const auto a = SecondaryIndex::open_read_only(newer_filters, {.rebuild = rebuild});
    EXPECT_EQ(rebuild ? a.recovery().rebuilt : a.recovery().asked_always, 3u);
    expect_equal(a, then);
    const auto b = SecondaryIndex::open_read_only(older_filters, {.rebuild = rebuild});
    EXPECT_EQ(b.recovery().replayed, 3u);
    expect_equal(b, plain_);
  }
  // The log that these filters need is gone from the store.
  copy("store", older_filters);
  const auto c = SecondaryIndex::open_read_only(older_filters);
  EXPECT_EQ(c.recovery().rebuilt, 3u);
  expect_equal(c, plain_);
}

int passes_left = 0;
std::function<void()> meanwhile;

// The writer writes its tables to disk, so that it removes files, while the reader opens them.
TEST_F(Reader, LooksAgainIfTheFilesChangeMeanwhile) {
  index::at_crash_point = [](const char* name) {
    if (std::string(name) == "read: a file is open" && passes_left-- == 0) meanwhile();
  };
  int ran = 0;
  meanwhile = [&] {
    ++ran;
    for (int i = 0; i < 2; ++i) {
      put({fmt::format("{:06}", 10 * i), {fmt::format("run {}", ran), "", ""}});
      test_.index.put(Row{"big", {"", std::string(1'500'000, 'n'), ""}});
      test_.index.remove("big");
      if (i == 0) test_.index.checkpoint();
    }
  };
  for (int file = 0; ran == file; ++file) {
    SCOPED_TRACE(file);
    passes_left = file;
    const PlainTable before = plain_;
    const SecondaryIndex reader = SecondaryIndex::open_read_only(path_);
    passes_left = -1;
    const bool all = reader.freshness().number == test_.index.freshness().number;
    expect_equal(reader, all ? plain_ : before);
    if (HasFailure()) break;
  }
  index::at_crash_point = nullptr;
  EXPECT_GT(ran, 5);
}

TEST_F(Reader, NeedsAnIndex) {
  EXPECT_THROW(SecondaryIndex::open_read_only(test_.directory / "none"), IoError);
  close();
  for (const auto& file : std::filesystem::directory_iterator(path_ / "store")) {
    const std::string name = file.path().filename();
    if (name.starts_with("MANIFEST")) std::filesystem::remove(file);
  }
  EXPECT_ANY_THROW(SecondaryIndex::open_read_only(path_));
}

// ---- another process writes ---------------------------------------------------------------------

class BesideAWriter : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  BesideAWriter() {
    SecondaryIndex::create(path_, people(),
                           {.fpr = 0.1, .region_values = 16, .servers = kScriptServers});
    const std::string arguments[] = {
        SCBF_CRASHER, path_, std::to_string(GetParam()), "0", directory_ / "acknowledged",
        "-",          "0"};
    std::vector<char*> pointers;
    for (const std::string& argument : arguments) {
      pointers.push_back(const_cast<char*>(argument.c_str()));
    }
    pointers.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&writer_, SCBF_CRASHER, nullptr, nullptr, pointers.data(), environ), 0);
    while (acknowledged() < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~BesideAWriter() override {
    ::kill(writer_, SIGKILL);
    ::waitpid(writer_, nullptr, 0);
  }
  std::uint64_t acknowledged() const {
    std::error_code none;
    const auto bytes = std::filesystem::file_size(directory_ / "acknowledged", none);
    return none ? 0 : bytes / 8;
  }
  /// Shows the writer's table after `before` steps or later, but no step after `after` + 1. Each
  /// row is as one of these steps left it, and queries find every row.
  void verify(const SecondaryIndex& reader, std::uint64_t before, std::uint64_t after) {
    for (; steps_ < before; ++steps_) test::take(plain_, script_step(GetParam(), steps_));
    std::map<std::string, std::set<std::vector<std::string>>> versions;  // empty: no row
    std::set<std::string> keys;
    PlainTable table = plain_;
    const auto note = [&] {
      for (const std::string& key : keys) {
        const auto row = table.rows().find(key);
        versions[key].insert(row == table.rows().end() ? std::vector<std::string>() : row->second);
      }
    };
    for (std::uint64_t i = before; i <= after; ++i) {
      const Step step = script_step(GetParam(), i);
      for (const Row& row : step.rows) keys.insert(row.key);
      for (const std::string& key : step.keys) keys.insert(key);
    }
    note();
    for (std::uint64_t i = before; i <= after; ++i) {
      test::take(table, script_step(GetParam(), i));
      note();
    }
    PlainTable now(people());
    for (const Row& row : all_rows(reader)) now.put(row);
    for (const PlainTable* either : {&std::as_const(plain_), &std::as_const(now)}) {
      for (const auto& row : either->rows()) keys.insert(row.first);
    }
    for (const std::string& key : keys) {
      const auto find = [&](const PlainTable& in) {
        const auto row = in.rows().find(key);
        return row == in.rows().end() ? std::vector<std::string>() : row->second;
      };
      const auto found = versions.find(key);
      if (found == versions.end()) {
        ASSERT_EQ(find(now), find(plain_)) << key;
      } else {
        ASSERT_TRUE(found->second.contains(find(now))) << key;
      }
    }
    expect_equal(reader, now);
  }

  Directory directory_;
  const std::filesystem::path path_ = directory_ / "index";
  pid_t writer_ = 0;
  PlainTable plain_{people()};
  std::uint64_t steps_ = 0;  // that are in plain_
};

INSTANTIATE_TEST_SUITE_P(All, BesideAWriter, ::testing::Values(11, 12), [](const auto& test) {
  return std::string(is_narrow(test.param) ? "few_values" : "many_values");
});

TEST_P(BesideAWriter, EachViewIsWholeAndStaysAsItIs) {
  std::optional<SecondaryIndex> reader;
  std::uint64_t refreshed = 0, number = 0;
  for (std::size_t i = 0; i < scaled(60, 10); ++i) {
    SCOPED_TRACE(i);
    const std::uint64_t before = acknowledged();
    if (i % 3 == 0) {
      reader.emplace(SecondaryIndex::open_read_only(path_));
    } else {
      refreshed += reader->refresh();
    }
    const std::uint64_t after = acknowledged();
    EXPECT_GE(reader->freshness().number, number);
    number = reader->freshness().number;
    verify(*reader, before, after);
    ASSERT_FALSE(HasFatalFailure());
    if (i % 3 == 2) {
      while (acknowledged() < after + 100)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      verify(*reader, before, after);
      ASSERT_FALSE(HasFatalFailure()) << "later";
    }
  }
  EXPECT_GT(refreshed, 0u);
  EXPECT_GT(acknowledged(), 200u);
}

}  // namespace
}  // namespace scbf::index_reader_test
