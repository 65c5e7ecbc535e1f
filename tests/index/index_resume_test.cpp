// SPDX-License-Identifier: Apache-2.0
// The secondary index after a full disk, where RocksDB's threads come late: each test keeps them
// from working until the moment at which RocksDB, left to itself, would end the process, wait for
// ever, or fail once more.
#include "support/disk.hpp"

#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <semaphore>
#include <thread>

#include "disk_errors.hpp"
#include "indexed.hpp"

namespace scbf::index_resume_test {
namespace {

using namespace std::chrono_literals;
using namespace test;
using rocksdb::Env;
using scbf_test::Disk;

/// Occupies the one thread of a pool of RocksDB's until it is destroyed.
class Occupied {
 public:
  explicit Occupied(Env::Priority pool) {
    const auto wait = [](void* self) { static_cast<Occupied*>(self)->wait(); };
    Env::Default()->Schedule(wait, this, pool);
    begun_.acquire();
  }
  ~Occupied() {
    end_.release();
    ended_.acquire();
  }

 private:
  void wait() {
    begun_.release();
    end_.acquire();
    ended_.release();
  }
  std::binary_semaphore begun_{0}, end_{0}, ended_{0};
};

/// Returns when the pool's thread has done everything that it was given before.
void drain(Env::Priority pool) {
  { const Occupied last(pool); }
}

class Resume : public ::testing::Test {
 protected:
  Resume() {
    index::longest_idle = 1s;
    // RocksDB starts its threads when the first store is opened.
    index_.presplit(std::vector<std::string>{"000100", "000200"});
    index_.put(numbered(300));
    for (const Row& row : numbered(300)) plain_.put(row);
    EXPECT_EQ(Env::Default()->GetBackgroundThreads(Env::HIGH), 1);
    EXPECT_EQ(Env::Default()->GetBackgroundThreads(Env::LOW), 1);
  }
  ~Resume() override {
    Disk::at_end(nullptr);
    Disk::free();
    go_on_.release();
  }

  void fill(const std::filesystem::path& below) {
    Disk::fill_after(below.string(), 0, ENOSPC, Disk::NewFiles::taken);
  }
  void put(const Row& row) {
    index_.put(row);
    plain_.put(row);
  }
  static Row large_row(int i) {
    return {fmt::format("large {:03}", i), {"", std::string(1'500'000, 'n'), ""}};
  }
  /// So many large rows that RocksDB writes them as tables.
  void load(int rows) {
    index_.bulk_load([&, i = 0](Row& row) mutable {
      row = large_row(i);
      return i++ < rows;
    });
  }
  void reopen() {
    { const SecondaryIndex closed = std::move(index_); }
    index_ = SecondaryIndex::open(path_);
  }

  std::counting_semaphore<> met_{0}, go_on_{0};  ///< the end of the disk
  const Row new_{"new", {"a new city", "", "new,all"}};
  Directory directory_;
  const std::filesystem::path path_ = directory_ / "index";
  SecondaryIndex index_ = SecondaryIndex::create(path_, people());
  PlainTable plain_{people()};
};

TEST_F(Resume, AfterAFailedIngestionAndThenAFailedWrite) {
  {
    const Occupied compactions(Env::LOW);  // or one would meet the broken manifest first
    fill(path_ / "store" / "MANIFEST-");
    EXPECT_THROW(load(2), IoError);
    EXPECT_TRUE(Disk::was_full());
    fill(directory_.path());
    EXPECT_THROW(index_.put(new_), IoError);
    Disk::free();
  }
  put(new_);
  load(2);
  for (int i = 0; i < 2; ++i) plain_.put(large_row(i));
  expect_equal(index_, plain_);
  reopen();
  expect_equal(index_, plain_);
}

TEST_F(Resume, WaitsForACompactionThatMetTheFullDisk) {
  Disk::at_end([&](std::string_view path) {
    if (!path.ends_with(".sst")) return;
    met_.release();
    go_on_.acquire();
  });
  {
    const Occupied compactions(Env::LOW);
    reopen();
    expect_equal(index_, plain_);  // the end of a snapshot lets RocksDB compact the tables
    fill(directory_.path());
  }
  ASSERT_TRUE(met_.try_acquire_for(30s));
  Disk::at_end(nullptr);
  EXPECT_THROW(index_.put(new_), IoError);
  Disk::free();
  std::atomic<bool> went_on = false;
  const std::jthread later([&] {
    std::this_thread::sleep_for(500ms);
    went_on = true;
    go_on_.release();
  });
  put(new_);
  EXPECT_TRUE(went_on);
  expect_equal(index_, plain_);
}

TEST_F(Resume, AfterACompactionThatHasNothingToKeepOnAFullDisk) {
  index_.checkpoint();  // erases the log of each region as a range
  Disk::at_end([&](std::string_view) { met_.release(); });
  {
    const Occupied compactions(Env::LOW);
    reopen();
    expect_equal(index_, plain_);
    fill(directory_.path());
  }
  for (int i = 0; i < 10; ++i) {  // RocksDB goes on trying: twice for each column family
    ASSERT_TRUE(met_.try_acquire_for(30s)) << i;
  }
  Disk::at_end(nullptr);
  Disk::free();
  put(new_);
  expect_equal(index_, plain_);
}

TEST_F(Resume, WaitsForThreadsThatAreBusyElsewhere) {
  fill(directory_.path());
  EXPECT_THROW(index_.put(new_), IoError);
  Disk::free();
  std::atomic<bool> free = false;
  auto flushes = std::make_unique<Occupied>(Env::HIGH);
  const std::jthread elsewhere([&] {
    std::this_thread::sleep_for(3 * index::longest_idle.load());
    free = true;
    flushes.reset();
  });
  put(new_);
  EXPECT_TRUE(free);
  expect_equal(index_, plain_);
}

TEST_F(Resume, EndsWithAnErrorWhereRocksDBLostAFlush) {
  {
    const Occupied flushes(Env::HIGH);
    for (int i = 0; i < 25; ++i) put(large_row(i));  // more than a table in memory takes
    EXPECT_NE(Env::Default()->GetThreadPoolQueueLen(Env::HIGH), 0u);
    fill(directory_.path());
    EXPECT_THROW(index_.put(new_), IoError);
  }
  drain(Env::HIGH);
  Disk::free();
  for (int i = 0; i < 2; ++i) {
    try {
      index_.put(new_);
      FAIL() << "RocksDB did not lose the flush";
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find("close the index and open it again"),
                std::string::npos)
          << error.what();
    }
    expect_equal(index_, plain_);
  }
  reopen();
  expect_equal(index_, plain_);
  put(new_);
  expect_equal(index_, plain_);
}

}  // namespace
}  // namespace scbf::index_resume_test
