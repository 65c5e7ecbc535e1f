// SPDX-License-Identifier: Apache-2.0
#include "decimal.hpp"

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <system_error>

namespace scbf::cli {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the first of eight digits is the lowest byte");

/// Up to eight digits, one a byte, and whether all of them are digits.
struct Digits {
  std::uint64_t values;  // the last one in the highest byte; zeros below the first one

  /// The first `count` of the 8 bytes at `text`, count from 0 to 8.
  static Digits at(const char* text, std::size_t count) noexcept {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, text, sizeof bytes);
    const std::size_t half = 4 * (8 - count);  // a shift by all 64 bits is undefined
    return {(bytes ^ 0x3030'3030'3030'3030) << half << half};
  }

  /// Not 0 if a byte is above 9. Which bits are set says nothing more: bytes may carry.
  std::uint64_t wrong() const noexcept {
    return (values | (values + 0x7676'7676'7676'7676)) & 0x8080'8080'8080'8080;
  }

  /// Neighbours are joined, first to numbers below 100, then below 10^4 and 10^8.
  std::uint64_t number() const noexcept {
    const std::uint64_t pairs = (values * 10 + (values >> 8)) & 0x00FF'00FF'00FF'00FF;
    const std::uint64_t fours = (pairs * 100 + (pairs >> 16)) & 0x0000'FFFF'0000'FFFF;
    return (fours * 10'000 + (fours >> 32)) & 0xFFFF'FFFF;
  }
};

}  // namespace

std::optional<std::uint64_t> parse_decimal(std::string_view digits) noexcept {
  constexpr std::uint64_t k8Digits = 100'000'000;
  const std::size_t size = digits.size();
  const char* const end = digits.data() + size;
  if (size < 8 || size > 20) {  // 8 bytes cannot be read, or there are zeros in front
    std::uint64_t number = 0;
    const auto [stop, error] = std::from_chars(digits.data(), end, number);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return number;
  }
  const Digits last = Digits::at(end - 8, 8);
  if (size <= 16) {
    const Digits first = Digits::at(digits.data(), size - 8);
    if ((first.wrong() | last.wrong()) != 0) return std::nullopt;
    return first.number() * k8Digits + last.number();
  }
  const Digits middle = Digits::at(end - 16, 8), first = Digits::at(digits.data(), size - 16);
  if ((first.wrong() | middle.wrong() | last.wrong()) != 0) return std::nullopt;
  const std::uint64_t below = middle.number() * k8Digits + last.number();
  std::uint64_t number = 0;
  if (__builtin_mul_overflow(first.number(), k8Digits * k8Digits, &number) ||
      __builtin_add_overflow(number, below, &number)) {
    return std::nullopt;
  }
  return number;
}

}  // namespace scbf::cli
