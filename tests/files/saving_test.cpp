// SPDX-License-Identifier: Apache-2.0
// A file that is saved in one pass, by one thread or several, has the bytes that a stream gets, and
// what is said of the filter then is what its statistics say.
#include <atomic>
#include <cerrno>
#include <iterator>

#include "files/file_io.hpp"
#include "files/file_test_support.hpp"
#include "files/save_filter.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/sizing.hpp"
#include "support/setups.hpp"

namespace scbf::test::saving_test {
namespace {

using scbf_test::ThreadExecutor;

// Enough chunks for two threads; the last one is short.
std::vector<Filter> large_samples() {
  const auto of = [](const Geometry& geometry) { return sample(geometry, 100'000); };
  return {of(Geometry::split_block(1, 300'001)), of(Geometry::split(5, 8'000'003)),
          of(plan({.capacity = 9'000'000, .fpr = 0.01, .layout = Layout::ranked}).geometry),
          sample(Growth::tightening(3'000'000, 0.05), 3'500'000)};
}

void expect_equal(const Statistics& summary, const Statistics& all) {
  EXPECT_EQ(summary.nonzero, all.nonzero);
  EXPECT_EQ(summary.saturated, all.saturated);
  EXPECT_EQ(summary.fill, all.fill);
  EXPECT_EQ(summary.bytes, all.bytes);
  EXPECT_EQ(summary.counters, all.counters);
  EXPECT_EQ(summary.keys_inserted, all.keys_inserted);
  EXPECT_EQ(summary.keys_removed, all.keys_removed);
  EXPECT_EQ(summary.estimated_keys, all.estimated_keys);
  EXPECT_EQ(summary.estimated_fpr, all.estimated_fpr);
  EXPECT_EQ(summary.fpr_bound, all.fpr_bound);
  EXPECT_EQ(summary.ambiguous_share, all.ambiguous_share);
  ASSERT_EQ(summary.stages.size(), all.stages.size());
  for (std::size_t i = 0; i < all.stages.size(); ++i) {
    EXPECT_EQ(summary.stages[i].saturated, all.stages[i].saturated);
    EXPECT_EQ(summary.stages[i].estimated_fpr, all.stages[i].estimated_fpr);
  }
}

/// Saves and compares. Returns how often the executor was asked to run several tasks.
template <class AnyFilter>
std::size_t check_save(const AnyFilter& filter, unsigned threads) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  const ThreadExecutor executor(threads);
  const SaveOptions options{.threads = threads, .executor = &executor};
  Statistics summary;
  write_file(path,
             [&](const OutputFile& file) { summary = write_and_summarise(filter, options, file); });
  const std::size_t runs = executor.parallel_runs;
  const Bytes bytes = to_bytes(filter, {.threads = 1});
  EXPECT_TRUE(read_bytes(path) == bytes);
  EXPECT_TRUE(to_bytes(filter, options) == bytes);  // to a stream, by as many threads
  expect_equal(summary, filter.statistics());
  return runs;
}

TEST(Saving, SeveralThreadsWriteTheSameBytes) {
  for (const Filter& filter : large_samples()) {
    SCOPED_TRACE(to_string(filter.growth().layout()));
    EXPECT_EQ(check_save(filter, 1), 0u);
    EXPECT_GT(check_save(filter, 3), 0u);
  }
  EXPECT_GT(check_save(BloomFilter(Geometry::split_block(1, 1'100'000)), 3), 0u);
}

TEST(Saving, SmallFiltersTakeOneThread) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  std::vector<Filter> all = growing_samples();
  for (const Geometry& geometry : small_geometries()) all.push_back(sample(geometry));
  for (const Filter& filter : all) {
    EXPECT_EQ(check_save(filter, 3), 0u);
    EXPECT_EQ(check_save(BloomFilter(filter), 3), 0u);
    filter.save(path);
    EXPECT_TRUE(read_bytes(path) == to_bytes(filter));
  }
}

TEST(Saving, CompressedFilesToo) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  const Filter filter = sample(Geometry::split_block(1, 30'000));
  const SaveOptions options{.compress = true};
  Statistics summary;
  write_file(path,
             [&](const OutputFile& file) { summary = write_and_summarise(filter, options, file); });
  EXPECT_EQ(read_bytes(path), to_bytes(filter, options));
  expect_equal(summary, filter.statistics());
}

/// A disk that is full from the n-th piece on, whichever thread writes it.
class FullDisk : public FileSystemCalls {
 public:
  explicit FullDisk(int pieces) : left_(pieces) {}
  ssize_t pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) override {
    if (left_-- > 0) return FileSystemCalls::pwrite(fd, buffer, bytes, offset);
    errno = ENOSPC;
    return -1;
  }

 private:
  std::atomic<int> left_;
};

TEST(Saving, AWriteThatFailsInAnyThreadLeavesTheOldFile) {
  const Filter filter = sample(Geometry::split_block(1, 400'000), 100'000);  // 25 chunks
  const ThreadExecutor executor(3);
  for (const int pieces : {0, 1, 13, 24, 25}) {
    const TemporaryFolder folder;
    const fs::path path = folder / "filter.scbf";
    const Filter old = sample(Geometry::split_block(1, 10));
    old.save(path);
    FullDisk disk(pieces);
    const std::size_t runs_before = executor.parallel_runs;
    const auto save = [&] {
      write_file(
          path,
          [&](const OutputFile& file) {
            write_and_summarise(filter, {.threads = 3, .executor = &executor}, file);
          },
          disk);
    };
    EXPECT_THROW_WITH(save(), IoError, "No space left on device");
    EXPECT_GT(executor.parallel_runs, runs_before);
    EXPECT_TRUE(Filter::load(path) == old);
    EXPECT_EQ(std::distance(fs::directory_iterator(path.parent_path()), fs::directory_iterator()),
              1)
        << "a temporary file is left";
  }
}

TEST(Saving, TheFirstFaultIsToldWhoeverFindsIt) {
  const TemporaryFolder folder;
  const fs::path path = folder / "damaged.scbf", copy = folder / "copy.scbf";
  const Geometry geometry = Geometry::split(5, 8'000'003);
  Bytes bytes = to_bytes(sample(geometry));
  const auto payload = get<std::uint64_t>(bytes, 80);
  const std::uint64_t slice = geometry.bytes() / 5;
  for (const std::uint64_t damaged : {1, 4}) {  // the last byte of these slices is padding
    bytes[payload + damaged * slice - 1] = std::byte{1};
  }
  // Padding is verified even where a file is mapped.
  write_bytes(path, to_bytes(sample(geometry)));
  const Filter mapped = Filter::map(path);
  write_bytes(path, bytes);
  const ThreadExecutor executor(3);
  const std::string where = "padding is not zero, at byte " + std::to_string(slice - 1);
  for (const unsigned threads : {1, 3}) {
    EXPECT_THROW_WITH(mapped.save(copy, {.threads = threads, .executor = &executor}), CorruptFile,
                      where);
    EXPECT_FALSE(fs::exists(copy));
  }
}

}  // namespace
}  // namespace scbf::test::saving_test
