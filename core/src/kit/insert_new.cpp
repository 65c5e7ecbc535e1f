// SPDX-License-Identifier: Apache-2.0
// Backend::insert_new of backends without a better way.
#include "kit/answer_forms.hpp"
#include "kit/hash_keys.hpp"
#include "scbf/backend.hpp"

namespace scbf {

NewKeys Backend::insert_new(CounterView view, const KeyBatch& keys, std::uint8_t* out,
                            const BatchOptions&) const {
  const ConstCounterView filter = {view.geometry, view.seed, view.words};
  NewKeys added;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    out[i] = 0;
    std::uint64_t hash = 0;
    if (hash_keys(keys, i, 1, view.seed, plain_hash_u64, &hash) == 0) continue;
    const KeyBatch key = KeyBatch::from_hashes({&hash, 1});
    if (contains({&filter, 1}, key, &out[i], kOneKey) == 1) {
      out[i] = 0;
      continue;
    }
    const NonzeroChange filled = insert(view, key, kOneKey);
    added.filled = added.filled && filled ? NonzeroChange(*added.filled + *filled) : std::nullopt;
    out[i] = 1;
    ++added.keys;
  }
  return added;
}

}  // namespace scbf
