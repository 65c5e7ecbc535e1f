// SPDX-License-Identifier: Apache-2.0
// Keys cut into batches, for insertions and removals in bulk.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "scbf/key_batch.hpp"

namespace scbf_test {

/// Calls use(batch) for batches of these sizes, in turn, until all keys are used.
template <class Use>
void in_batches(const scbf::KeyBatch& keys, const std::vector<std::size_t>& sizes, Use use) {
  std::size_t turn = 0;
  for (std::size_t first = 0; first < keys.size();) {
    const std::size_t n = std::min(sizes[turn++ % sizes.size()], keys.size() - first);
    use(keys.slice(first, n));
    first += n;
  }
}

}  // namespace scbf_test
