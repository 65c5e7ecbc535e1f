// SPDX-License-Identifier: Apache-2.0
// The rule of moving (scbf/errors.hpp), tested alike for every type that owns something.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "scbf/errors.hpp"
#include "support/setups.hpp"

namespace scbf_test {

/// Every call of `calls` must throw on an object that has been moved from. same(object) says
/// whether it holds what make() put into it.
template <class T>
void expect_rule_of_moving(const std::function<T()>& make,
                           const std::function<bool(const T&)>& same,
                           const std::vector<std::function<void(T&)>>& calls) {
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>);
  T object = make();
  ASSERT_TRUE(same(object));
  T other = std::move(object);
  EXPECT_TRUE(same(other));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE("call " + std::to_string(i));
    SCBF_EXPECT_THROW(calls[i](object), scbf::InvalidArgument, "has been moved from");
  }
  T& itself = other;
  other = std::move(itself);
  EXPECT_TRUE(same(other)) << "moved to itself";
  object = std::move(other);
  EXPECT_TRUE(same(object)) << "assigned after it was moved from";
  T nothing = std::move(other);
  itself = std::move(nothing);
  SCBF_EXPECT_THROW(calls[0](other), scbf::InvalidArgument, "has been moved from");
  using std::swap;
  swap(object, other);
  EXPECT_TRUE(same(other)) << "swapped";
  SCBF_EXPECT_THROW(calls[0](object), scbf::InvalidArgument, "has been moved from");
}

}  // namespace scbf_test
