// SPDX-License-Identifier: Apache-2.0
// insert_new as a case of the driver, beside what does the same without it: a lookup, and an
// insertion of the keys that it did not find.
#pragma once

#include <cstddef>
#include <string>

#include "scbf/geometry.hpp"

namespace scbf::bench {

struct NewKeysCase {
  Layout layout;
  std::size_t n;
  double fpr = 0.01;
  unsigned threads = 1;
  int repetitions = 5;
};

/// Adds a row: ns per key of a batch of n keys into an empty filter for n keys, and of the same
/// batch once more. Its forms are "", "again", "asked" and "asked_again": by insert_new, and by
/// contains and insert.
void add_new_keys_case(const NewKeysCase& c);

}  // namespace scbf::bench
