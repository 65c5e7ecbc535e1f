// SPDX-License-Identifier: Apache-2.0
// The secondary index on a disk that is full or fails. Each operation meets the end of the disk at
// its first, second, … call that takes space. Then it throws IoError, the index answers queries,
// and once there is space again the same index does the operation. Nothing that was acknowledged is
// lost.
#include "support/disk.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "indexed.hpp"
#include "support/scale.hpp"

namespace scbf::index_disk_test {
namespace {

using namespace test;
using scbf_test::Disk;

const Row kNew{"000042x", {"a new city", std::string(3000, 'n'), "new,all"}};

struct Operation {
  const char* name;
  std::function<void(SecondaryIndex&)> run;
  std::function<void(PlainTable&)> expected = [](PlainTable&) {};
};

const Operation kOperations[] = {
    {"put", [](SecondaryIndex& index) { index.put(kNew); },
     [](PlainTable& plain) { plain.put(kNew); }},
    {"remove",
     [](SecondaryIndex& index) {
       index.remove(std::vector<std::string>{"000001", "000111"});
     },
     [](PlainTable& plain) {
       plain.remove("000001");
       plain.remove("000111");
     }},
    {"split", [](SecondaryIndex& index) { index.split(index.regions()[1].id); }},
    {"merge",
     [](SecondaryIndex& index) { index.merge(index.regions()[0].id, index.regions()[1].id); }},
    {"move", [](SecondaryIndex& index) { index.move(index.regions()[0].id, 2); }},
    {"checkpoint", [](SecondaryIndex& index) { index.checkpoint(); }},
    {"rebuild", [](SecondaryIndex& index) { index.rebuild(index.regions()[0].id); }},
    {"bulk_load",
     [](SecondaryIndex& index) {
       int i = 0;
       index.bulk_load([&](Row& row) {
         row = {fmt::format("{:06}", i * 3), {fmt::format("loaded {}", i), "", "all"}};
         return i++ < 100;
       });
     },
     [](PlainTable& plain) {
       for (int i = 0; i < 100; ++i) {
         plain.put({fmt::format("{:06}", i * 3), {fmt::format("loaded {}", i), "", "all"}});
       }
     }},
};

// So large that they are written as tables of their own.
Row large_row(int i) {
  return {fmt::format("{:06}", 200 + i * 3),
          {fmt::format("loaded {}", i), std::string(20'000, 'n'), "all"}};
}
const Operation kLargeLoad = {"bulk_load of large rows",
                              [](SecondaryIndex& index) {
                                int i = 0;
                                index.bulk_load([&](Row& row) {
                                  row = large_row(i);
                                  return i++ < 30;
                                });
                              },
                              [](PlainTable& plain) {
                                for (int i = 0; i < 30; ++i) plain.put(large_row(i));
                              }};

struct Fault {
  const char* name;
  int error;
  Disk::NewFiles new_files;
};
const Fault kFaults[] = {{"no_space", ENOSPC, Disk::NewFiles::taken},
                         {"no_space_for_files", ENOSPC, Disk::NewFiles::refused},
                         {"over_quota", EDQUOT, Disk::NewFiles::refused},
                         {"input_output", EIO, Disk::NewFiles::refused}};
std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }

class FullDisk : public ::testing::TestWithParam<Fault> {
 protected:
  FullDisk() {
    SecondaryIndex index = SecondaryIndex::create(path_, people(), {.servers = 3});
    index.presplit(std::vector<std::string>{"000100", "000200"});
    index.put(numbered(300));
    for (const Row& row : numbered(300)) plain_.put(row);
  }
  ~FullDisk() override { Disk::free(); }

  std::filesystem::path copy(const std::filesystem::path& of, const char* name) {
    copy_open_index(of, directory_ / name);
    return directory_ / name;
  }
  /// Every call fails once; for the rarer faults, and under sanitizers, every fifth.
  int step() const {
    const bool rarer = GetParam().new_files == Disk::NewFiles::refused;
    return (rarer ? 5 : 1) * (scbf_test::kSanitized ? 5 : 1);
  }
  void fill_after(std::int64_t writes) {
    Disk::fill_after(directory_.path().string(), writes, GetParam().error, GetParam().new_files);
  }
  /// Runs `work`. Where it fails, it must throw an IoError that names the index. Returns whether it
  /// failed.
  template <class Work>
  bool fails(const Work& work) {
    try {
      work();
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find(directory_.path().string()), std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find(std::strerror(GetParam().error)), std::string::npos)
          << error.what();
      EXPECT_EQ(error.error_number(), GetParam().error) << error.what();
      EXPECT_FALSE(error.path().empty()) << error.what();
      return true;
    }
    return false;
  }
  /// The rows are those of one table or of the other, and queries find them.
  void expect_either(const SecondaryIndex& index, const PlainTable& before,
                     const PlainTable& after) {
    PlainTable now(people());
    for (const Row& row : all_rows(index)) now.put(row);
    std::set<std::string> keys;
    for (const PlainTable& table : {before, after, now}) {
      for (const auto& row : table.rows()) keys.insert(row.first);
    }
    for (const std::string& key : keys) {
      const auto in = [&](const PlainTable& table) {
        const auto row = table.rows().find(key);
        return row == table.rows().end() ? std::nullopt : std::optional(row->second);
      };
      ASSERT_TRUE(in(now) == in(before) || in(now) == in(after)) << key;
    }
    expect_equal(index, now);
  }

  Directory directory_;
  const std::filesystem::path path_ = directory_ / "index";
  PlainTable plain_{people()};
};

INSTANTIATE_TEST_SUITE_P(All, FullDisk, ::testing::ValuesIn(kFaults),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(FullDisk, EveryOperationEndsWithAnErrorAndCanBeRepeated) {
  std::vector<Operation> operations(std::begin(kOperations), std::end(kOperations));
  operations.push_back(kLargeLoad);
  for (const Operation& operation : operations) {
    int failed = 0;
    // `written`: whether the index was written to since it was opened, so much that a checkpoint
    // cuts the log.
    for (const bool written : {false, true}) {
      if (written && operation.name == kLargeLoad.name) continue;  // it is large by itself
      for (int n = 0;; n += step()) {
        SCOPED_TRACE(
            fmt::format("{}, full after {} calls, written before: {}", operation.name, n, written));
        const auto path = copy(path_, "work");
        PlainTable before = plain_;
        SecondaryIndex index = SecondaryIndex::open(path);
        if (written) {
          index.put(Row{"000007", {"", std::string(1'500'000, 'n'), ""}});
          const Row row{"000007", {"rewritten", "", ""}};
          index.put(row);
          before.put(row);
        }
        PlainTable after = before;
        operation.expected(after);
        fill_after(n);
        const bool threw = fails([&] { operation.run(index); });
        failed += threw;
        if (!Disk::was_full()) {
          Disk::free();
          break;
        }
        expect_either(index, before, after);
        fails([&] { index.put(Row{"000042x", kNew.values}); });  // the disk is still full
        Disk::free();
        PlainTable expected = after;
        ASSERT_NO_THROW({
          if (threw) operation.run(index);
          index.put(kNew);
        });
        expected.put(kNew);
        expect_equal(index, expected);
        // As after a crash: what was acknowledged since is there.
        expect_equal(SecondaryIndex::open(copy(path, "crashed")), expected);
        { const SecondaryIndex closed = std::move(index); }
        expect_equal(SecondaryIndex::open(path), expected);
        ASSERT_FALSE(HasFailure());
      }
    }
    EXPECT_GT(failed, 0) << operation.name;
  }
}

TEST_P(FullDisk, DividingAnEmptyIndexEndsWithAnErrorAndCanBeRepeated) {
  const auto empty = directory_ / "empty";
  SecondaryIndex::create(empty, people(), {.servers = 3});
  const std::vector<std::string> points{"000100", "000200"};
  int failed = 0;
  for (int n = 0;; n += step()) {
    SCOPED_TRACE(fmt::format("full after {} calls", n));
    const auto path = copy(empty, "work");
    SecondaryIndex index = SecondaryIndex::open(path);
    fill_after(n);
    const bool threw = fails([&] { index.presplit(points); });
    failed += threw;
    const bool full = Disk::was_full();
    const std::size_t regions = index.regions().size();
    EXPECT_TRUE(regions == 3 || (threw && regions == 1)) << regions;
    expect_equal(index, PlainTable(people()));
    fails([&] { index.put(kNew); });  // the disk is still full
    Disk::free();
    if (!full) break;
    index.remove(kNew.key);
    if (threw) index.presplit(points);
    EXPECT_EQ(index.regions().size(), 3u);
    index.put(numbered(300));
    expect_equal(index, plain_);
    expect_equal(SecondaryIndex::open(copy(path, "crashed")), plain_);
    { const SecondaryIndex closed = std::move(index); }
    const SecondaryIndex again = SecondaryIndex::open(path);
    EXPECT_EQ(again.regions().size(), 3u);
    expect_equal(again, plain_);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(failed, 0);
}

TEST_P(FullDisk, ChangesOfTheDefinitionHappenOrNot) {
  const std::string city[] = {"city"};
  const Column columns[] = {{.name = "city"}};
  const auto dropped = copy(path_, "dropped");
  SecondaryIndex::drop_columns(dropped, city);
  struct Change {
    const char* name;
    std::filesystem::path from;
    std::function<void(const std::filesystem::path&)> run;
    std::function<bool(const SecondaryIndex&)> happened;
  };
  const Change changes[] = {
      {"add", dropped, [&](const auto& path) { SecondaryIndex::add_columns(path, columns); },
       [](const SecondaryIndex& index) { return index.schema().columns[0].indexed; }},
      {"drop", path_, [&](const auto& path) { SecondaryIndex::drop_columns(path, city); },
       [](const SecondaryIndex& index) { return !index.schema().columns[0].indexed; }},
      {"replan", path_, [](const auto& path) { SecondaryIndex::replan(path, 0.1, 99); },
       [](const SecondaryIndex& index) { return index.plan().region_values == 99; }},
  };
  for (const Change& change : changes) {
    int failed = 0;
    for (int n = 0;; n += step()) {
      SCOPED_TRACE(fmt::format("{}, full after {} calls", change.name, n));
      const auto path = copy(change.from, "work");
      fill_after(n);
      const bool threw = fails([&] { change.run(path); });
      failed += threw;
      const bool full = Disk::was_full();
      {
        const SecondaryIndex reader = SecondaryIndex::open_read_only(path);
        EXPECT_EQ(reader.check().problem_count, 0u);
        EXPECT_EQ(all_rows(reader).size(), 300u);
        if (!threw) {
          EXPECT_TRUE(change.happened(reader));
        }
      }
      Disk::free();
      if (!change.happened(SecondaryIndex::open_read_only(path))) change.run(path);
      {
        const SecondaryIndex index = SecondaryIndex::open(path);
        EXPECT_TRUE(change.happened(index));
        EXPECT_EQ(index.check().problem_count, 0u);
      }
      if (std::string_view(change.name) == "drop") SecondaryIndex::add_columns(path, columns);
      expect_equal(SecondaryIndex::open(path), plain_);
      ASSERT_FALSE(HasFailure());
      if (!full) break;
    }
    EXPECT_GT(failed, 0) << change.name;
  }
}

TEST_P(FullDisk, ClosingLosesNothing) {
  for (int n = 0;; ++n) {
    SCOPED_TRACE(n);
    const auto path = copy(path_, "work");
    PlainTable expected = plain_;
    {
      SecondaryIndex index = SecondaryIndex::open(path);
      index.put(kNew);
      expected.put(kNew);
      fill_after(n);
    }
    const bool full = Disk::was_full();
    Disk::free();
    expect_equal(SecondaryIndex::open(path), expected);
    ASSERT_FALSE(HasFailure());
    if (!full) break;
  }
}

TEST_P(FullDisk, OpeningAndCreatingEndWithAnError) {
  // An index as a killed process leaves it, with a log to replay.
  SecondaryIndex running = SecondaryIndex::open(path_);
  running.put(kNew);
  plain_.put(kNew);
  int failed = 0;
  for (int n = 0;; ++n) {
    SCOPED_TRACE(n);
    const auto path = copy(path_, "work");
    fill_after(n);
    failed += fails([&] { SecondaryIndex::open(path); });
    const bool full = Disk::was_full();
    Disk::free();
    expect_equal(SecondaryIndex::open(path), plain_);
    ASSERT_FALSE(HasFailure());
    if (!full) break;
  }
  EXPECT_GT(failed, 0);
  failed = 0;
  for (int n = 0;; ++n) {
    SCOPED_TRACE(n);
    std::filesystem::remove_all(directory_ / "fresh");
    fill_after(n);
    const auto create = [&] { SecondaryIndex::create(directory_ / "fresh", people()); };
    const bool nothing = fails(create);
    const bool full = Disk::was_full();
    Disk::free();
    if (!full) break;
    failed += nothing;
    if (nothing) {
      EXPECT_FALSE(std::filesystem::exists(directory_ / "fresh"));
      create();
    }
    EXPECT_EQ(SecondaryIndex::open(directory_ / "fresh").check().problem_count, 0u);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(failed, 0);
}

TEST_P(FullDisk, NoLogFilesAreWritten) {
  for (int i = 0; i < 3; ++i) SecondaryIndex::open(path_);
  for (const auto& file : std::filesystem::directory_iterator(path_ / "store")) {
    EXPECT_FALSE(file.path().filename().string().starts_with("LOG")) << file.path();
  }
}

}  // namespace
}  // namespace scbf::index_disk_test
