// SPDX-License-Identifier: Apache-2.0
// How exceptions of the library reach Python: scbf/errors.py has a class for each.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "scbf/bank.hpp"
#include "scbf/errors.hpp"

namespace scbf::python {

/// Something that cannot be a key, such as a floating-point number.
class InvalidKey : public Error {
 public:
  using Error::Error;
};

/// MembersFull of insert_each(), whose keys are in the caller's order.
class KeysLeft : public MembersFull {
 public:
  /// `left`: the places of the keys that were not inserted, an array. With Python's global lock.
  KeysLeft(const MembersFull& full, nanobind::object left)
      : MembersFull(full), left_(std::move(left)) {}
  const nanobind::object& left() const noexcept { return left_; }

 private:
  nanobind::object left_;
};

/// The message of an exception that says that memory of the host or of a device is short, and that
/// is thrown before anything is changed; nothing for others.
std::optional<std::string> shortage_of(const std::exception_ptr& thrown);

/// Registers the translation, for functions that nanobind calls.
void register_errors();
/// For functions that Python calls: raises what is being handled. Call it in a catch block.
void set_python_error() noexcept;

}  // namespace scbf::python
