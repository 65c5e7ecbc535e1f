// SPDX-License-Identifier: Apache-2.0
// Whole numbers as arguments. Where one is out of range, the error names it and the limits; an
// argument of type std::uint32_t would only be called incompatible.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "errors.hpp"
#include "scbf/bank.hpp"

namespace scbf::python {

/// Any integer.
class GivenInteger {
 public:
  /// Returns false if it is none. As with nanobind's own integers, what __index__ raises makes the
  /// argument an incompatible one.
  bool read(nanobind::handle given) noexcept {
    const auto number = nanobind::steal(PyNumber_Index(given.ptr()));
    int beyond = 0;  // of 64 bits, with a sign
    const long long signed_value = number ? PyLong_AsLongLongAndOverflow(number.ptr(), &beyond) : 0;
    value_ = beyond > 0 ? PyLong_AsUnsignedLongLong(number.ptr())
                        : static_cast<std::uint64_t>(signed_value);
    is_negative_ = beyond == 0 && signed_value < 0;
    fits_ = beyond >= 0 && !PyErr_Occurred();
    PyErr_Clear();
    return static_cast<bool>(number);
  }
  /// Throws InvalidArgument if it is not from `least` to `most`. Needs no lock of the interpreter.
  std::uint64_t within(std::string_view what, std::uint64_t least, std::uint64_t most) const {
    if (fits_ && !is_negative_ && value_ >= least && value_ <= most) return value_;
    const std::string given = !fits_         ? "of more than 64 bits"
                              : is_negative_ ? fmt::to_string(static_cast<long long>(value_))
                                             : fmt::to_string(value_);
    const std::string limit =
        most == std::numeric_limits<std::uint64_t>::max() ? "2**64 - 1" : fmt::to_string(most);
    throw InvalidArgument(fmt::format("{} {}: must be {} to {}", what, given, least, limit));
  }

 private:
  std::uint64_t value_ = 0;
  bool is_negative_ = false;
  bool fits_ = true;  ///< in 64 bits, with or without a sign
};

/// What a number is called in errors.
template <std::size_t size>
struct NumberName {
  consteval NumberName(const char (&name)[size]) { std::copy_n(name, size, text); }  // NOLINT
  char text[size];
};

/// An integer that was given for a number from `least` to `most`. Whoever takes it for one learns
/// whether it is.
template <NumberName what, std::uint64_t least = 0,
          std::uint64_t most = std::numeric_limits<std::uint64_t>::max()>
class Whole : public GivenInteger {
 public:
  using Number = std::conditional_t<most <= std::numeric_limits<std::uint32_t>::max(),
                                    std::uint32_t, std::uint64_t>;
  /// Throws as within().
  operator Number() const {  // NOLINT: as an argument
    return static_cast<Number>(within(what.text, least, most));
  }
};

using MemberNumber = Whole<"member", 0, kMaxBankMembers - 1>;

/// The number, if there is one.
template <NumberName what, std::uint64_t least, std::uint64_t most>
std::optional<typename Whole<what, least, most>::Number> number_or_none(
    const std::optional<Whole<what, least, most>>& given) {
  if (!given) return std::nullopt;
  return *given;
}

}  // namespace scbf::python

namespace nanobind::detail {

template <scbf::python::NumberName what, std::uint64_t least, std::uint64_t most>
struct type_caster<scbf::python::Whole<what, least, most>> {
  using Number = scbf::python::Whole<what, least, most>;
  NB_TYPE_CASTER(Number, const_name("int"))

  bool from_python(handle given, std::uint32_t, cleanup_list*) noexcept {
    return value.read(given);
  }
};

}  // namespace nanobind::detail
