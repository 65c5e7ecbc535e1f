// SPDX-License-Identifier: Apache-2.0
#include "sizes.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "errors.hpp"

namespace scbf::cli {

namespace {

[[noreturn]] void refuse(std::string_view option, std::string_view text, const std::string& must) {
  throw UsageError(fmt::format("{} {}: must be {}", option, in_quotes(text), must));
}

struct Number {
  std::optional<std::uint64_t> whole;  // exact if the text has no fraction and no exponent
  double real = 0;
  std::string_view suffix;
};

std::optional<Number> split_number(std::string_view text) {
  // from_chars alone would accept "inf", "nan" and signs.
  if (text.empty() || text.front() < '0' || text.front() > '9') return {};
  const char* const end = text.data() + text.size();
  Number number;
  const auto [real_end, real_error] =
      std::from_chars(text.data(), end, number.real, std::chars_format::general);
  if (real_error != std::errc{}) return {};
  std::uint64_t whole = 0;
  const auto [whole_end, whole_error] = std::from_chars(text.data(), end, whole);
  if (whole_error == std::errc{} && whole_end == real_end) number.whole = whole;
  number.suffix = std::string_view(real_end, static_cast<std::size_t>(end - real_end));
  return number;
}

std::optional<std::uint64_t> scale_of(std::string_view suffix) {
  static constexpr std::string_view kPrefixes = "kMGT";
  if (suffix.empty()) return 1;
  const char first = suffix.front() == 'K' ? 'k' : suffix.front();
  const std::size_t power = kPrefixes.find(first);
  if (power == std::string_view::npos) return {};
  const bool binary = suffix.substr(1) == "i";
  if (!binary && suffix.size() > 1) return {};
  std::uint64_t scale = 1;
  for (std::size_t i = 0; i <= power; ++i) scale *= binary ? 1024 : 1000;
  return scale;
}

std::uint64_t parse_scaled(std::string_view option, std::string_view text, std::uint64_t least,
                           std::uint64_t most, bool bytes) {
  const std::string must = fmt::format("a whole number from {} to {}{}", grouped(least),
                                       most == kNoLimit ? "2^63 - 1" : grouped(most),
                                       bytes             ? " such as 1048576, 500MB or 2GiB"
                                       : most >= 100'000 ? " such as 5000, 1e5 or 100k"
                                                         : "");
  const std::optional<Number> number = split_number(text);
  if (!number) refuse(option, text, must);
  std::string_view suffix = number->suffix;
  if (bytes && suffix.ends_with('B')) suffix.remove_suffix(1);
  const std::optional<std::uint64_t> scale = scale_of(suffix);
  if (!scale) refuse(option, text, must);
  std::uint64_t value = 0;
  if (number->whole) {
    if (__builtin_mul_overflow(*number->whole, *scale, &value)) refuse(option, text, must);
  } else {
    const double real = number->real * static_cast<double>(*scale);
    if (!(real < 0x1p63) || real != std::floor(real)) refuse(option, text, must);
    value = static_cast<std::uint64_t>(real);
  }
  if (value < least || value > most) refuse(option, text, must);
  return value;
}

}  // namespace

std::uint64_t parse_count(std::string_view option, std::string_view text, std::uint64_t least,
                          std::uint64_t most) {
  return parse_scaled(option, text, least, most, false);
}

std::uint64_t parse_bytes(std::string_view option, std::string_view text) {
  return parse_scaled(option, text, 1, kNoLimit, true);
}

double parse_rate(std::string_view option, std::string_view text, LargestRate largest) {
  const bool with_one = largest == LargestRate::one;
  const std::string must =
      fmt::format("a rate above 0 and {} 1 such as 0.01 or 1%", with_one ? "up to" : "below");
  const std::optional<Number> number = split_number(text);
  if (!number || (!number->suffix.empty() && number->suffix != "%")) refuse(option, text, must);
  const double rate = number->suffix.empty() ? number->real : number->real / 100;
  if (!(rate > 0 && (rate < 1 || (with_one && rate == 1)))) refuse(option, text, must);
  return rate;
}

double parse_real(std::string_view option, std::string_view text, double least, double most) {
  const std::optional<Number> number = split_number(text);
  if (!number || !number->suffix.empty() || !(number->real >= least && number->real <= most)) {
    refuse(option, text, fmt::format("a number from {} to {}", least, most));
  }
  return number->real;
}

std::uint64_t parse_seed(std::string_view option, std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hex ? text.substr(2) : text;
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, hex ? 16 : 10);
  if (error != std::errc{} || stop != end) {
    refuse(option, text, "a number from 0 to 2^64 - 1, decimal or 0x...");
  }
  return value;
}

void refuse_word(std::string_view option, std::string_view text,
                 std::span<const std::string_view> known) {
  refuse(option, text,
         fmt::format("{} or {}", fmt::join(known.first(known.size() - 1), ", "), known.back()));
}

std::string grouped(std::uint64_t value) {
  std::string digits = fmt::format("{}", value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 10 * 1024) return grouped(bytes) + " bytes";
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_rate(double per_second) {
  if (per_second >= 1e9) return fmt::format("{:.2f}G", per_second / 1e9);
  if (per_second >= 1e6) return fmt::format("{:.1f}M", per_second / 1e6);
  if (per_second >= 1e3) return fmt::format("{:.1f}k", per_second / 1e3);
  return fmt::format("{:.0f}", per_second);
}

std::string human_seconds(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  if (whole >= 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string percent(double share) { return fmt::format("{:.3g} %", 100 * share); }

std::string counted(std::uint64_t n, std::string_view thing) {
  return fmt::format("{} {}{}", grouped(n), thing, n == 1 ? "" : "s");
}

std::string in_shell(std::string_view word) {
  std::string plain, text = "'";
  for (const char c : word) {
    if (c != '\'' && c != '\\') plain += c;
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  // in_quotes escapes as $'…' does.
  return in_quotes(plain) == "'" + plain + "'" ? text + "'" : "$" + in_quotes(word);
}

std::string list_in_quotes(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + in_quotes(name);
  return text;
}

std::string printable(std::string_view text, std::size_t most) {
  const std::string quoted = in_quotes(text, most);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace scbf::cli
