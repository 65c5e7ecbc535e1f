// SPDX-License-Identifier: Apache-2.0
// What filters in stages need of a Filter beyond its public face.
#pragma once

#include <string>

#include "filter/filter_state.hpp"
#include "scbf/backend.hpp"
#include "scbf/filter.hpp"

namespace scbf {

struct FilterAccess {
  /// The counters as its backend takes them; valid until the filter changes its memory.
  static ConstCounterView view(const Filter& filter) noexcept {
    return filter.state_->const_view();
  }
  /// A copy that lives on, and can be changed by, another backend. Throws what it throws when
  /// memory is short.
  static Filter copy_on(const Filter& filter, const Backend& backend);
  /// Throws InvalidArgument when it is longer than metadata may be.
  static void check_metadata(const std::string& metadata);
};

}  // namespace scbf
