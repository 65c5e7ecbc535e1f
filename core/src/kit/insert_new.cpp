// SPDX-License-Identifier: Apache-2.0
// Backend::insert_new of backends without a better way.
#include <fmt/format.h>

#include "kit/hash_keys.hpp"
#include "scbf/backend.hpp"
#include "scbf/errors.hpp"

namespace scbf {

NewKeys Backend::insert_new(CounterView view, const KeyBatch& keys, std::uint8_t* out,
                            const BatchOptions&) const {
  if (memory() != kHostMemory) {
    throw NotOnHost(fmt::format(
        "insert_new: the backend {} has none for counters in the memory of {}: move the "
        "filter with to(\"simd\"), or use contains and insert",
        name(), memory()));
  }
  const OneKey& functions = one_key(view.geometry);
  std::uint64_t inserted = 0, filled = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    out[i] = 0;
    std::uint64_t hash = 0;
    if (hash_keys(keys, i, 1, view.seed, plain_hash_u64, &hash) == 0) continue;  // null
    if (functions.holds(view.geometry, view.words, hash)) continue;
    filled += functions.add(view.geometry, view.words, hash);
    out[i] = 1;
    ++inserted;
  }
  return {inserted, filled};
}

}  // namespace scbf
