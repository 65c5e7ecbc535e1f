// SPDX-License-Identifier: Apache-2.0
// Ends of lines, on every kind of vectors that this machine has, against a search byte by byte.
#include "line_ends.hpp"

#include <gtest/gtest.h>
// As in line_ends.cpp.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/targets.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace scbf::cli {
namespace {

using Ends = std::vector<std::uint32_t>;

Ends one_by_one(std::string_view bytes, char end) {
  Ends ends;
  for (std::uint32_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == end) ends.push_back(i);
  }
  return ends;
}

/// What search(bytes, out) finds. It leaves alone what lies behind a number for each byte.
template <class Search>
Ends found_by(const Search& search, std::string_view bytes) {
  constexpr std::uint32_t kUntouched = 0xDEAD'BEEF;
  Ends out(bytes.size() + 1, kUntouched);
  const std::size_t count = search(bytes, out.data());
  EXPECT_EQ(out.back(), kUntouched);
  out.resize(count);
  return out;
}

Ends found(std::string_view bytes, char end) {
  return found_by([&](auto in, auto* out) { return line_ends(in, end, out); }, bytes);
}

Ends found_marks(std::string_view bytes, const Marks& marks) {
  return found_by([&](auto in, auto* out) { return find_marks(in, marks, out); }, bytes);
}

class LineEnds : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

INSTANTIATE_TEST_SUITE_P(Targets, LineEnds, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& of) { return hwy::TargetName(of.param); });

TEST_P(LineEnds, AreFoundAtEveryDensityLengthAndAlignment) {
  std::mt19937 random(1);
  for (const unsigned one_in : {1u, 2u, 5u, 50u, 1000u}) {
    std::string text(700, ' ');
    for (char& c : text) c = random() % one_in == 0 ? '\n' : static_cast<char>(random());
    for (std::size_t first = 0; first < 70; ++first) {
      for (const std::size_t length : {0u, 1u, 63u, 64u, 65u, 127u, 128u, 300u, 630u}) {
        const auto bytes = std::string_view(text).substr(first, length);
        ASSERT_EQ(found(bytes, '\n'), one_by_one(bytes, '\n'))
            << "1 in " << one_in << ", from " << first << " on, " << length << " bytes";
      }
    }
  }
}

TEST_P(LineEnds, AndMarksAreFoundAtEveryDensityLengthAndAlignment) {
  std::mt19937 random(1);
  const Marks marks = {',', '\n', '"', '\r'};
  for (const unsigned one_in : {1u, 2u, 5u, 50u, 1000u}) {
    std::string text(700, ' ');
    for (char& c : text)
      c = random() % one_in == 0 ? marks[random() % 4] : static_cast<char>(random());
    for (std::size_t first = 0; first < 70; ++first) {
      for (const std::size_t length : {0u, 1u, 63u, 64u, 65u, 127u, 128u, 300u, 630u}) {
        const auto bytes = std::string_view(text).substr(first, length);
        Ends wanted;
        for (std::uint32_t i = 0; i < length; ++i) {
          if (std::ranges::find(marks, bytes[i]) != marks.end()) wanted.push_back(i);
        }
        ASSERT_EQ(found_marks(bytes, marks), wanted)
            << "1 in " << one_in << ", from " << first << " on, " << length << " bytes";
      }
    }
  }
}

TEST_P(LineEnds, MayBeAnyByte) {
  std::string text;
  for (int i = 0; i < 512; ++i) text += static_cast<char>(i);
  for (int end = 0; end < 256; ++end) {
    const auto byte = static_cast<std::uint32_t>(end);
    EXPECT_EQ(found(text, static_cast<char>(end)), (Ends{byte, 256 + byte}));
    const char of_marks = static_cast<char>(end);
    for (std::size_t i = 0; i < 4; ++i) {
      Marks marks = {'a', 'a', 'a', 'a'};
      marks[i] = of_marks;
      Ends wanted = {byte, 256 + byte, 'a', 256 + 'a'};
      std::ranges::sort(wanted);
      wanted.erase(std::ranges::unique(wanted).begin(), wanted.end());
      EXPECT_EQ(found_marks(text, marks), wanted);
    }
  }
}

}  // namespace
}  // namespace scbf::cli
