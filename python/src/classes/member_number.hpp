// SPDX-License-Identifier: Apache-2.0
// The number of a member, as an argument.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

#include "errors.hpp"
#include "scbf/bank.hpp"

namespace scbf::python {

/// Any integer that was given for a member. Whoever takes it for a number learns whether it can be
/// one: an argument of type std::uint32_t would only be called incompatible.
class MemberNumber {
 public:
  MemberNumber() = default;
  /// None: an integer of more than 64 bits.
  explicit MemberNumber(std::optional<long long> given) noexcept : given_(given) {}

  /// Throws InvalidArgument if no member can have it. Needs no lock of the interpreter.
  operator std::uint32_t() const {  // NOLINT: as an argument
    if (!given_ || *given_ < 0 || *given_ >= kMaxBankMembers) {
      throw InvalidArgument(fmt::format("member {}: must be 0 to {}",
                                        given_ ? fmt::to_string(*given_) : "of more than 64 bits",
                                        kMaxBankMembers - 1));
    }
    return static_cast<std::uint32_t>(*given_);
  }

 private:
  std::optional<long long> given_;
};

}  // namespace scbf::python

namespace nanobind::detail {

template <>
struct type_caster<scbf::python::MemberNumber> {
  NB_TYPE_CASTER(scbf::python::MemberNumber, const_name("int"))

  /// As with nanobind's own integers, what __index__ raises makes the argument an incompatible one.
  bool from_python(handle given, std::uint32_t, cleanup_list*) noexcept {
    const object number = steal(PyNumber_Index(given.ptr()));
    int beyond = 0;  // of 64 bits
    const long long read = number ? PyLong_AsLongLongAndOverflow(number.ptr(), &beyond) : 0;
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    value = scbf::python::MemberNumber(beyond == 0 ? std::optional(read) : std::nullopt);
    return true;
  }
};

}  // namespace nanobind::detail
