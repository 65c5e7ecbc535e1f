// SPDX-License-Identifier: Apache-2.0
// The secondary index after a full disk, where RocksDB's threads come late: each test keeps them
// from working until the moment at which RocksDB, left to itself, would end the process, wait for
// ever, or fail once more.
#include "support/disk.hpp"

#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <chrono>
#include <semaphore>
#include <thread>

#include "indexed.hpp"

namespace scbf {
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
  }
  ~Occupied() {
    end_.release();
    ended_.acquire();
  }

 private:
  void wait() {
    end_.acquire();
    ended_.release();
  }
  std::binary_semaphore end_{0}, ended_{0};
};

/// Returns when the pool's thread has done everything that it was given before.
void drain(Env::Priority pool) {
  { const Occupied last(pool); }
}

class Resume : public ::testing::Test {
 protected:
  Resume() {
    // RocksDB starts its threads when the first store is opened.
    index_.presplit(std::vector<std::string>{"000100", "000200"});
    index_.put(numbered(300));
    for (const Row& row : numbered(300)) plain_.put(row);
    EXPECT_EQ(Env::Default()->GetBackgroundThreads(Env::HIGH), 1);
    EXPECT_EQ(Env::Default()->GetBackgroundThreads(Env::LOW), 1);
  }
  ~Resume() override {
    Disk::free();
    Disk::at_end() = [](std::string_view) {};
  }

  void fill(const std::filesystem::path& below) { Disk::fill_after(below.string(), 0); }
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
  std::binary_semaphore met(0), go_on(0);
  Disk::at_end() = [&](std::string_view path) {
    if (!path.ends_with(".sst")) return;
    met.release();
    go_on.acquire();
  };
  {
    const Occupied compactions(Env::LOW);
    reopen();
    expect_equal(index_, plain_);  // the end of a snapshot lets RocksDB compact the tables
    fill(directory_.path());
  }
  ASSERT_TRUE(met.try_acquire_for(30s));
  Disk::at_end() = [](std::string_view) {};
  EXPECT_THROW(index_.put(new_), IoError);
  Disk::free();
  const std::jthread later([&] {
    std::this_thread::sleep_for(300ms);
    go_on.release();
  });
  put(new_);
  expect_equal(index_, plain_);
}

TEST_F(Resume, AfterACompactionThatHasNothingToKeepOnAFullDisk) {
  index_.checkpoint();  // erases the log of each region as a range
  std::counting_semaphore<> tried(0);
  Disk::at_end() = [&](std::string_view) { tried.release(); };
  {
    const Occupied compactions(Env::LOW);
    reopen();
    expect_equal(index_, plain_);
    fill(directory_.path());
  }
  for (int i = 0; i < 10; ++i) {  // RocksDB goes on trying: twice for each column family
    ASSERT_TRUE(tried.try_acquire_for(30s)) << i;
  }
  Disk::at_end() = [](std::string_view) {};
  Disk::free();
  put(new_);
  expect_equal(index_, plain_);
}

TEST_F(Resume, WaitsForThreadsThatAreBusyElsewhere) {
  fill(directory_.path());
  EXPECT_THROW(index_.put(new_), IoError);
  Disk::free();
  const std::jthread elsewhere([] {
    const Occupied flushes(Env::HIGH);
    std::this_thread::sleep_for(4s);
  });
  std::this_thread::sleep_for(100ms);
  put(new_);
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
}  // namespace scbf
