// SPDX-License-Identifier: Apache-2.0
// The number of a member, as an argument.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <limits>

#include "errors.hpp"
#include "scbf/bank.hpp"

namespace scbf::python {

/// Any integer that was given for a member. Whoever takes it for a number learns whether it can be
/// one: an argument of type std::uint32_t would only be called incompatible.
class MemberNumber {
 public:
  MemberNumber() = default;
  explicit MemberNumber(long long given) noexcept : given_(given) {}

  /// Throws InvalidArgument if no member can have it.
  operator std::uint32_t() const {  // NOLINT: as an argument
    if (given_ < 0 || given_ >= kMaxBankMembers) {
      throw InvalidArgument(fmt::format("member {}: must be 0 to {}", given_, kMaxBankMembers - 1));
    }
    return static_cast<std::uint32_t>(given_);
  }

 private:
  long long given_ = 0;
};

}  // namespace scbf::python

namespace nanobind::detail {

template <>
struct type_caster<scbf::python::MemberNumber> {
  NB_TYPE_CASTER(scbf::python::MemberNumber, const_name("int"))

  bool from_python(handle given, std::uint8_t, cleanup_list*) noexcept {
    const object number = steal(PyNumber_Index(given.ptr()));
    int beyond = 0;  // of 64 bits: no member has such a number either
    const long long value = number ? PyLong_AsLongLongAndOverflow(number.ptr(), &beyond) : -1;
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    this->value = scbf::python::MemberNumber(beyond > 0   ? std::numeric_limits<long long>::max()
                                             : beyond < 0 ? std::numeric_limits<long long>::min()
                                                          : value);
    return true;
  }
};

}  // namespace nanobind::detail
