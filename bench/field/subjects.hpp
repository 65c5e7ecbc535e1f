// SPDX-License-Identifier: Apache-2.0
// The structures of the literature, which the headers of this folder are, as subjects of the
// driver. All work on one key at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "../driver/subject.hpp"

namespace scbf::bench {

struct FieldStructure {
  const char* name;
  bool removes;
  /// For n keys at a false-positive rate of at most fpr.
  std::function<std::unique_ptr<Subject>(std::size_t n, double fpr)> make;
};

/// In the order of tables.
const std::vector<FieldStructure>& field_structures();

}  // namespace scbf::bench
