// SPDX-License-Identifier: Apache-2.0
// What a movable object of this library is made of. errors.hpp says what holds once it has been
// moved from.
#pragma once

#include <memory>
#include <utility>

#include "scbf/errors.hpp"

namespace scbf::detail {

/// Throws InvalidArgument: "this filter has been moved from: …".
[[noreturn]] inline void throw_moved_from(const char* type) {
  throw InvalidArgument(std::string("this ") + type +
                        " has been moved from: it can only be assigned to or destroyed");
}

/// A std::unique_ptr that throws if it is dereferenced while null. State::kOwner is the name of the
/// type that owns it.
template <class State>
class Owned {
 public:
  Owned() noexcept = default;
  Owned(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

  explicit operator bool() const noexcept { return state_ != nullptr; }
  State& operator*() const {
    if (state_ == nullptr) [[unlikely]] {
      throw_moved_from(State::kOwner);
    }
    return *state_;
  }
  State* operator->() const { return &**this; }
  /// Leaves null.
  std::unique_ptr<State> release() && noexcept { return std::move(state_); }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace scbf::detail
