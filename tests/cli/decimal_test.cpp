// SPDX-License-Identifier: Apache-2.0
// Numbers written as text, against the standard library's reading of them.
#include "decimal.hpp"

#include <gtest/gtest.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>

namespace scbf::cli {
namespace {

std::optional<std::uint64_t> by_the_library(std::string_view digits) {
  std::uint64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

/// What is read from memory that begins and ends with the digits: the address sanitizer sees it if
/// anything beside them is read.
std::optional<std::uint64_t> parsed(std::string_view digits) {
  const auto exact = std::make_unique<char[]>(digits.size());
  digits.copy(exact.get(), digits.size());
  return parse_decimal({exact.get(), digits.size()});
}

TEST(ParseDecimal, ReadsNumbersOfEveryLength) {
  std::mt19937_64 random(1);
  for (std::size_t length = 1; length <= 24; ++length) {
    for (int i = 0; i < 2000; ++i) {
      std::string digits(length, '0');
      for (char& digit : digits) digit = static_cast<char>('0' + random() % 10);
      if (length >= 20 && i % 2 == 0) {  // of 64 bits, with zeros in front
        const std::string some = std::to_string(random());
        digits = std::string(length - some.size(), '0') + some;
      }
      ASSERT_EQ(parsed(digits), by_the_library(digits)) << digits;
    }
  }
}

TEST(ParseDecimal, KnowsTheLargestNumber) {
  EXPECT_EQ(parsed("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parsed("0018446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  for (const char* const more :
       {"18446744073709551616", "18446744073709560000", "18450000000000000000",
        "20000000000000000000", "99999999999999999999", "018446744073709551616"}) {
    EXPECT_EQ(parsed(more), std::nullopt) << more;
  }
}

TEST(ParseDecimal, RefusesEveryOtherByteAtEveryPlace) {
  EXPECT_EQ(parsed(""), std::nullopt);
  for (std::size_t length = 1; length <= 22; ++length) {
    for (std::size_t place = 0; place < length; ++place) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string digits(length, '1');
        digits[place] = static_cast<char>(byte);
        ASSERT_EQ(parsed(digits), by_the_library(digits))
            << length << " digits, byte " << byte << " at " << place;
      }
    }
  }
}

}  // namespace
}  // namespace scbf::cli
