// SPDX-License-Identifier: Apache-2.0
// main() of the programs that hold the tests of a folder. With --file=NAME only the tests in
// NAME.cpp run, less those that --gtest_filter=-PATTERNS leaves out; other filters select tests by
// themselves. A filter that selects no test fails.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace {

std::string file_of(const testing::TestSuite& suite, int test) {
  return std::filesystem::path(suite.GetTestInfo(test)->file()).stem().string();
}

// A filter of gtest's for the suites in this file. A suite has its tests in one file.
std::string suites_in(std::string_view file) {
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    int here = 0;
    for (int j = 0; j < suite.total_test_count(); ++j) here += file_of(suite, j) == file;
    if (here == 0) continue;
    if (here < suite.total_test_count()) {
      fmt::print(stderr, "{} has tests in {}.cpp and in another file\n", suite.name(), file);
      std::exit(1);
    }
    filter += fmt::format("{}{}.*", filter.empty() ? "" : ":", suite.name());
  }
  if (filter.empty()) {
    fmt::print(stderr, "there is no test in {}.cpp\n", file);
    std::exit(1);
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);  // takes out what is its own
  constexpr std::string_view kFile = "--file=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFile)) {
      fmt::print(stderr, "unknown argument '{}'; this program takes --file=NAME and gtest's own\n",
                 argument);
      return 1;
    }
    const std::string asked = GTEST_FLAG_GET(filter);
    const std::string in_file = suites_in(argument.substr(kFile.size()));
    // (A death test starts the program anew, with its own name as the filter.)
    if (asked == "*") GTEST_FLAG_SET(filter, in_file);
    if (asked.starts_with('-')) GTEST_FLAG_SET(filter, in_file + asked);
  }
  const int status = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    fmt::print(stderr, "no test is selected\n");
    return 1;
  }
  return status;
}
