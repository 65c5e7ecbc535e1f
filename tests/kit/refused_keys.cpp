// SPDX-License-Identifier: Apache-2.0
// Compiles if KEY is a type of keys, and says why if it is not. Run by ctest, see
// ../CMakeLists.txt.
#include "scbf/filter.hpp"

void insert(scbf::Filter& filter, std::vector<KEY>& keys) {
  filter.insert(keys);
  filter.insert(std::span(keys));
}
