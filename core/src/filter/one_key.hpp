// SPDX-License-Identifier: Apache-2.0
// contains(key) and count(key) of a Filter or ScalableFilter that is made of `filters`
// (few_keys.hpp): on the host looked up right away, on a device as a batch of one.
#pragma once

#include "kit/answer_forms.hpp"
#include "kit/few_keys.hpp"

namespace scbf {

template <class AnyFilter, class Filters, class Key>
bool contains_one(const AnyFilter& filter, const Filters& filters, const Key& key) {
  if (filter.backend().memory() != kHostMemory) {
    std::uint8_t answer = 0;
    return filter.contains(one(key), {&answer, 1}, kOneKey).hits == 1;
  }
  const std::uint64_t hash = hash_of(key, filter.seed());
  fetch_keys(filters, {&hash, 1});
  return any_holds(filters, hash, filter.backend().holds_key());
}

template <class AnyFilter, class Filters, class Key>
unsigned count_one(const AnyFilter& filter, const Filters& filters, const Key& key) {
  if (filter.backend().memory() != kHostMemory) {
    std::uint8_t answer = 0;
    filter.count(one(key), {&answer, 1}, kOneKey);
    return answer;
  }
  const std::uint64_t hash = hash_of(key, filter.seed());
  fetch_keys(filters, {&hash, 1});
  return sum_of_counts(filters, hash);
}

}  // namespace scbf
