// SPDX-License-Identifier: Apache-2.0
// What ScalableFilter needs of its stages beyond their public face.
#pragma once

#include <string>

#include "scbf/filter.hpp"

namespace scbf {

struct FilterAccess {
  /// A copy that lives on, and can be changed by, another backend. Throws what it throws when
  /// memory is short.
  static Filter copy_on(const Filter& filter, const Backend& backend);
  /// Throws InvalidArgument when it is longer than metadata may be.
  static void check_metadata(const std::string& metadata);
};

}  // namespace scbf
