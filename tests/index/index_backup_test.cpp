// SPDX-License-Identifier: Apache-2.0
// Backups: by the writer and by a reader, with hard links and without, on a full disk, and ended by
// a crash. (index_threads_test.cpp has backups beside threads that write.)
#include "support/disk.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "crash_points.hpp"
#include "indexed.hpp"

namespace {
bool no_links = false;
}

// As on a file system without hard links, or to another one.
extern "C" int link(const char* from, const char* to) {
  if (no_links) {
    errno = EXDEV;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace scbf::index_backup_test {
namespace {

using namespace test;
using scbf_test::Disk;

/// The parameter: whether there are hard links.
class Backup : public ::testing::TestWithParam<bool> {
 protected:
  Backup() {
    no_links = !GetParam();
    test_.index.presplit(std::vector<std::string>{"000100", "000200"});
    test_.index.put(numbered(300));
    for (const Row& row : numbered(300)) plain_.put(row);
    test_.index.checkpoint();
    put({"000007", {"in the log", "", ""}});
  }
  ~Backup() override {
    Disk::free();
    Disk::at_end(nullptr);
    no_links = false;
    index::at_crash_point = nullptr;
  }
  void put(const Row& row) {
    test_.index.put(row);
    plain_.put(row);
  }
  void remove(const std::string& key) {
    test_.index.remove(key);
    plain_.remove(key);
  }
  /// Opens, changes and checks a backup.
  void expect_restores(const std::filesystem::path& path, PlainTable plain,
                       std::uint32_t rebuilt = 0) {
    expect_equal(SecondaryIndex::open_read_only(path), plain);
    SecondaryIndex restored = SecondaryIndex::open(path);
    EXPECT_EQ(restored.recovery().rebuilt, rebuilt)
        << fmt::format("{}", fmt::join(restored.recovery().reasons, "; "));
    expect_equal(restored, plain);
    const Row row = {"000150", {"in the backup only", "", "all"}};
    restored.put(row);
    plain.put(row);
    restored.merge(restored.regions()[0].id, restored.regions()[1].id);
    expect_equal(restored, plain);
  }
  /// Neither the folder nor anything beside it is left.
  void expect_nothing(const std::filesystem::path& path) {
    EXPECT_THROW(SecondaryIndex::open(path), IoError);
    for (const auto& file : std::filesystem::directory_iterator(path.parent_path())) {
      EXPECT_EQ(file.path().filename(), "index");
    }
  }

  Indexed test_{{.servers = 3}};
  PlainTable plain_{people()};
  const std::filesystem::path path_ = test_.directory / "index", to_ = test_.directory / "backup";
};
INSTANTIATE_TEST_SUITE_P(, Backup, ::testing::Bool(), [](const auto& how) {
  return std::string(how.param ? "by_links" : "by_copies");
});

TEST_P(Backup, IsAnIndexOfItsOwn) {
  const auto before = std::chrono::system_clock::now();
  const auto as_of = test_.index.backup(to_);
  EXPECT_GE(as_of, before);
  EXPECT_LE(as_of, std::chrono::system_clock::now());
  const PlainTable then = plain_;
  // What happens to the one does not concern the other.
  put({"000200", {"later", "", ""}});
  remove("000001");
  test_.index.split(test_.index.regions()[1].id);
  test_.index.checkpoint();
  expect_restores(to_, then);
  expect_equal(test_.index, plain_);
  test_.reopen();
  expect_equal(test_.index, plain_);
  // It outlives the index.
  { const SecondaryIndex closed = std::move(test_.index); }
  std::filesystem::remove_all(path_);
  EXPECT_EQ(SecondaryIndex::open(to_).statistics().rows, 300u);
}

TEST_P(Backup, SharesTheFilesThatNeverChange) {
  { const SecondaryIndex closed = std::move(test_.index); }
  {  // an index of some size, so that it has a table
    SecondaryIndex index = SecondaryIndex::open(path_);
    index.put(Row{"big", {"x", std::string(2u << 20, 'x'), ""}});
    index.checkpoint();
    index.backup(to_);
  }
  std::uint64_t tables = 0, shared = 0, filters = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(to_)) {
    const bool table = file.path().extension() == ".sst",
               filter = file.path().extension() == ".scbf";
    tables += table;
    filters += filter;
    shared += (table || filter) && file.hard_link_count() == 2;
    if (file.path().extension() == ".log" || file.path().filename() == "CURRENT") {
      EXPECT_EQ(file.hard_link_count(), 1u) << file.path();
    }
  }
  EXPECT_GT(tables, 0u);
  EXPECT_EQ(filters, 3u);
  EXPECT_EQ(shared, GetParam() ? tables + filters : 0u);
}

TEST_P(Backup, ByAReaderIsWhatItShows) {
  const SecondaryIndex reader = SecondaryIndex::open_read_only(path_);
  const auto as_of = reader.freshness().as_of;
  const PlainTable then = plain_;
  put({"000200", {"later", "", ""}});
  test_.index.put(Row{"big", {"x", std::string(2u << 20, 'x'), ""}});
  test_.index.merge(test_.index.regions()[0].id, test_.index.regions()[1].id);
  test_.index.checkpoint();  // removes the reader's log and filters
  EXPECT_EQ(reader.backup(to_), as_of);
  expect_equal(reader, then);
  expect_restores(to_, then, 3);
}

TEST_P(Backup, AFilterSavedMeanwhileIsRebuilt) {
  static SecondaryIndex* index;
  index = &test_.index;
  index::at_crash_point = [](const char* name) {
    if (std::string(name) != "backup: the filters are there") return;
    index::at_crash_point = nullptr;
    index->put(Row{"000008", {"meanwhile", "", ""}});
    index->rebuild(index->regions()[0].id);  // and cuts the log
    index->split(index->regions()[2].id);
  };
  test_.index.backup(to_);
  plain_.put({"000008", {"meanwhile", "", ""}});
  expect_restores(to_, plain_, 3);
}

// The map of regions that the backup began with is held until the last filter is there. (Freed
// memory that is read all the same is for the address sanitizer to see.)
TEST_P(Backup, RegionsChangeBetweenTwoFilters) {
  static SecondaryIndex* index;
  index = &test_.index;
  index::at_crash_point = [](const char* name) {
    if (std::string(name) != "backup: a filter is there") return;
    index::at_crash_point = nullptr;
    index->split(index->regions()[1].id);
    index->merge(index->regions()[2].id, index->regions()[3].id);
  };
  test_.index.backup(to_);
  EXPECT_EQ(index::at_crash_point, nullptr) << "nothing happened between two filters";
  expect_restores(to_, plain_, 2);
}

TEST_P(Backup, RefusesPlaces) {
  const auto refused = [&](const std::filesystem::path& to, std::string_view why) {
    try {
      test_.index.backup(to);
      ADD_FAILURE() << to;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(to.string()), std::string::npos) << error.what();
    }
  };
  std::filesystem::create_directory(to_);
  refused(to_, "exists");
  EXPECT_TRUE(std::filesystem::is_empty(to_));
  std::filesystem::remove(to_);
  Disk::free();
  {
    const int file = ::open(to_.c_str(), O_CREAT | O_WRONLY, 0666);
    ::close(file);
  }
  refused(to_, "exists");
  EXPECT_TRUE(std::filesystem::is_regular_file(to_));
  std::filesystem::remove(to_);
  refused(to_ / "in", "No such file");
  refused(path_, "lies in the index");
  refused(path_ / "filters" / "backup", "lies in the index");
  refused(path_ / "store" / ".." / "x", "lies in the index");
  expect_nothing(to_);
  // A name that begins like the index's is another directory.
  test_.index.backup(test_.directory / "index.backup");
}

// Full at each call that takes space: nothing is left, and once there is space it succeeds. The
// last of these calls writes its name to disk.
TEST_P(Backup, OnAFullDisk) {
  const SecondaryIndex reader = SecondaryIndex::open_read_only(path_);
  const auto last_call = std::make_shared<std::string>();
  Disk::at_end([last_call](std::string_view path) { *last_call = path; });
  for (const SecondaryIndex* index : {&std::as_const(test_.index), &reader}) {
    for (std::int64_t writes = 0;; ++writes) {
      Disk::fill_after(to_.parent_path().string(), writes);
      try {
        index->backup(to_);
        if (!Disk::was_full()) break;
        ADD_FAILURE() << "full at call " << writes << ", and nothing was said";
      } catch (const IoError& error) {
        EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos)
            << error.what();
        EXPECT_EQ(error.error_number(), ENOSPC) << error.what();
        EXPECT_FALSE(error.path().empty());
        EXPECT_NE(std::string(error.what()).find(error.path()), std::string::npos) << error.what();
      }
      Disk::free();
      expect_nothing(to_);
      ASSERT_LT(writes, 10'000);
    }
    Disk::free();
    EXPECT_EQ(std::filesystem::path(*last_call).lexically_normal(), to_.parent_path());
    expect_restores(to_, plain_);
    std::filesystem::remove_all(to_);
  }
}

// When the index's own disk is full, a backup to another one is what is needed.
TEST_P(Backup, OfAnIndexOnAFullDisk) {
  Disk::fill_after(path_.string(), 0);
  EXPECT_THROW(test_.index.put(Row{"1", {"", "", ""}}), IoError);
  test_.index.backup(to_);
  Disk::free();
  expect_restores(to_, plain_);
}

TEST_P(Backup, EndedByACrash) {
  for (const char* point : {"backup: the filters are there", "backup: the store is there"}) {
    std::filesystem::remove_all(to_);
    static const char* at;
    at = point;
    const pid_t child = ::fork();
    if (child == 0) {
      index::at_crash_point = [](const char* name) {
        if (std::string_view(name) == at) ::_exit(77);
      };
      SecondaryIndex::open_read_only(path_).backup(to_);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 77);
    if (std::string_view(at).ends_with("filters are there")) {
      EXPECT_THROW(SecondaryIndex::open(to_), IoError);
      EXPECT_THROW(SecondaryIndex::open_read_only(to_), IoError);
    } else {
      expect_restores(to_, plain_);
    }
  }
}

}  // namespace
}  // namespace scbf::index_backup_test
