// SPDX-License-Identifier: Apache-2.0
// Temporary memory: a batch of any size takes at most BatchOptions::scratch_bytes. The test
// measures the peak of the resident set, which Linux lets a process reset.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "files/file_io.hpp"
#include "kit/host_memory.hpp"
#include "support/keys.hpp"
#include "support/scale.hpp"
#include "support/setups.hpp"
#include "support/temporary_folder.hpp"

namespace scbf_test::memory_test {
namespace {

using scbf::Geometry;
using scbf::Path;

std::size_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::size_t kilobytes = 0;
    if (word == field + ":" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

bool reset_peak() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << 5 << std::flush;
  return clear.good() && status_bytes("VmHWM") <= status_bytes("VmRSS") + (1u << 20);
}

/// How many bytes `operation` takes at its peak, above what was resident before.
template <class Operation>
std::size_t peak_of(Operation operation) {
  EXPECT_TRUE(reset_peak());
  const std::size_t before = status_bytes("VmRSS");
  operation();
  const std::size_t peak = status_bytes("VmHWM");
  return peak > before ? peak - before : 0;
}

/// Pages of some machines are larger than what files are aligned by.
TEST(MappedMemory, BeginsWithinAPage) {
  const TemporaryFolder folder;
  std::vector<std::uint64_t> words(3000);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * i;
  const std::filesystem::path path = folder / "words";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()),
             static_cast<std::streamsize>(words.size() * sizeof(std::uint64_t)));
  const scbf::InputFile file(path);
  for (const std::size_t first : {0u, 1u, 511u, 512u, 513u, 1900u}) {
    const std::size_t n = 1000;
    scbf::HostMemory mapped = file.map(first * 8, n * 8);
    ASSERT_TRUE(std::equal(mapped.words(), mapped.words() + n, words.data() + first)) << first;
    EXPECT_EQ(mapped.bytes(), n * 8);
    const scbf::HostMemory moved = std::move(mapped);
    EXPECT_EQ(moved.words()[0], words[first]);
  }
}

/// A bank has thousands of members whose size is just above that of a huge page.
TEST(HostMemory, TakesLittleMoreThanWasAskedFor) {
  if (kSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
  constexpr std::size_t kMany = 16, kHugePage = 2u << 20;
  for (const std::size_t bytes : {kHugePage - 8, kHugePage, kHugePage + 8, kHugePage * 3 / 2,
                                  2 * kHugePage - 8, 10 * kHugePage + 8}) {
    const std::size_t before = status_bytes("VmSize");
    std::vector<scbf::HostMemory> all;
    for (std::size_t i = 0; i < kMany; ++i) {
      all.emplace_back(bytes);
      all.back().words()[bytes / 8 - 1] = i;  // there to the end
    }
    EXPECT_LE(status_bytes("VmSize") - before, kMany * (bytes + bytes / 3 + 65536)) << bytes;
    for (std::size_t i = 0; i < kMany; ++i) EXPECT_EQ(all[i].words()[bytes / 8 - 1], i);
  }
}

class Scratch : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, Scratch,
    ::testing::Values(Shape{"split_block_g1", Geometry::split_block(1, 1u << 20)},
                      Shape{"split_block_g2", Geometry::split_block(2, 1u << 19)},
                      Shape{"split_k7", Geometry::split(7, 18'000'000)}),
    [](const auto& test) { return test.param.name; });

TEST_P(Scratch, StaysWithinItsLimit) {
  if (kSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
  if (!reset_peak()) GTEST_SKIP() << "this system does not reset the peak of the resident set";
  scbf::Filter filter(GetParam().geometry, {.backend = "simd"});
  const auto keys = random_keys(2'000'000, 1);
  Answers answers(keys.size(), 1);
  filter.insert(keys, {.threads = 1, .path = Path::direct});  // touches all pages of the filter
  constexpr std::size_t kOverhead = 6u << 20;  // histograms, staging buffers, threads' stacks
  for (const auto& [limit, threads] :
       {std::pair{std::size_t{4} << 20, 2u}, {std::size_t{12} << 20, 1u}}) {
    const scbf::BatchOptions options{.threads = threads,
                                     .path = Path::partitioned,
                                     .scratch_bytes = limit,
                                     .executor = &two_threads()};
    SCOPED_TRACE(std::to_string(limit) + " bytes, " + std::to_string(threads) + " threads");
    EXPECT_LE(peak_of([&] { filter.insert(keys, options); }), limit + kOverhead);
    EXPECT_LE(peak_of([&] { filter.contains(keys, answers, options); }), limit + kOverhead);
    EXPECT_LE(peak_of([&] { filter.count(keys, answers, options); }), limit + kOverhead);
    EXPECT_LE(peak_of([&] { filter.remove(keys, answers, options); }), limit + kOverhead);
  }
}

}  // namespace
}  // namespace scbf_test::memory_test
