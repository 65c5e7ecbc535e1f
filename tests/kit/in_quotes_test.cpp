// SPDX-License-Identifier: Apache-2.0
// Names in messages: printable, UTF-8, and one name for one text.
#include "scbf/detail/in_quotes.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace scbf_test::in_quotes_test {
namespace {

using scbf::detail::in_quotes;
using namespace std::string_literals;

TEST(InQuotes, ShowsTextAsItIs) {
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("words of mine.txt"), "'words of mine.txt'");
  EXPECT_EQ(in_quotes("Ää€𝄞"), "'Ää€𝄞'");
}

TEST(InQuotes, EscapesWhatWouldDisturb) {
  EXPECT_EQ(in_quotes("it's"), "'it\\'s'");
  EXPECT_EQ(in_quotes("a\\x0a"), "'a\\\\x0a'");
  EXPECT_EQ(in_quotes("a\n\t\x1B[31m\x7F"), "'a\\x0a\\x09\\x1b[31m\\x7f'");
  EXPECT_EQ(in_quotes("\0"s), "'\\x00'");
}

TEST(InQuotes, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(in_quotes("a\xFFz"), "'a\\xffz'");
  EXPECT_EQ(in_quotes("\xE2\x82"), "'\\xe2\\x82'") << "cut off";
  EXPECT_EQ(in_quotes("\xE2\x82z"), "'\\xe2\\x82z'");
  EXPECT_EQ(in_quotes("\x80"), "'\\x80'") << "no first byte";
  EXPECT_EQ(in_quotes("\xC0\x80"), "'\\xc0\\x80'") << "too long a spelling";
  EXPECT_EQ(in_quotes("\xE0\x9F\xBF"), "'\\xe0\\x9f\\xbf'") << "too long a spelling";
  EXPECT_EQ(in_quotes("\xF0\x8F\xBF\xBF"), "'\\xf0\\x8f\\xbf\\xbf'") << "too long a spelling";
  EXPECT_EQ(in_quotes("\xED\xA0\x80"), "'\\xed\\xa0\\x80'") << "a surrogate";
  EXPECT_EQ(in_quotes("\xF4\x90\x80\x80"), "'\\xf4\\x90\\x80\\x80'") << "above U+10FFFF";
  EXPECT_EQ(in_quotes("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"),
            "'\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF'");
}

TEST(InQuotes, NoTwoNamesLookAlike) {
  std::set<std::string> seen;
  const std::string bytes = "'\\x0a\n\xC3\xA4\xFF";
  for (const char a : bytes) {
    for (const char b : bytes) {
      for (const char c : bytes) {
        for (const char d : bytes) {
          seen.insert(in_quotes(std::string{a, b, c, d}));
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), bytes.size() * bytes.size() * bytes.size() * bytes.size());
}

TEST(InQuotes, CutsBetweenCharacters) {
  EXPECT_EQ(in_quotes("abcdef", 6), "'abcdef'");
  EXPECT_EQ(in_quotes("abcdef", 5), "'abcde…'");
  EXPECT_EQ(in_quotes("ab€f", 4), "'ab…'");
  EXPECT_EQ(in_quotes("ab€", 5), "'ab€'");
  EXPECT_EQ(in_quotes("\n\n", 1), "'\\x0a…'");
}

}  // namespace
}  // namespace scbf_test::in_quotes_test
