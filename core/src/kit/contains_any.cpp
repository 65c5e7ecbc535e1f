// SPDX-License-Identifier: Apache-2.0
// Backend::contains_any for backends that have nothing better.
#include <algorithm>
#include <cstdint>

#include "kit/answer_forms.hpp"
#include "kit/hash_keys.hpp"
#include "kit/key_windows.hpp"
#include "scbf/backend.hpp"

namespace scbf {

void Backend::contains_any(std::span<const ConstCounterView> filters, const KeyBatch& keys,
                           std::uint8_t* out, const BatchOptions& options) const {
  std::uint64_t largest = 0;
  for (const ConstCounterView& filter : filters) {
    largest = std::max(largest, filter.geometry.bytes());
  }
  if (filters.empty()) {
    std::fill_n(out, keys.size(), std::uint8_t{0});
    return;
  }
  for_each_window(
      ask_in_bulk(*this, largest, keys, options), keys, options,
      [&](KeyWindow& window, std::size_t first, std::size_t count, const BatchOptions& inside) {
        std::uint8_t* found = out + first;
        std::size_t rest = hash(keys, first, count, filters[0].seed, window.hashes.data());
        std::fill_n(found, rest, std::uint8_t{0});
        bool complete = true;  // no key has dropped out: index[i] would be i
        for (std::size_t f = 0; f < filters.size() && rest > 0; ++f) {
          std::uint8_t* answers = window.answers.data();
          contains(filters[f], KeyBatch::from_hashes({window.hashes.data(), rest}), answers,
                   inside);
          const std::uint64_t hits = count_hits({answers, rest});
          if (hits == 0) continue;
          for (std::size_t i = 0; i < rest; ++i) {
            found[complete ? i : window.index[i]] |= answers[i];
          }
          // Moving the others is worth it when an eighth of the keys needs no further question.
          if (f + 1 == filters.size() || hits * 8 < rest) continue;
          std::size_t kept = 0;
          for (std::size_t i = 0; i < rest; ++i) {
            window.hashes[kept] = window.hashes[i];
            window.index[kept] = complete ? static_cast<std::uint32_t>(i) : window.index[i];
            kept += answers[i] == 0;  // branch-free: answers are unpredictable
          }
          rest = kept;
          complete = false;
        }
        spread_answers(keys, first, count, found);
      });
}

}  // namespace scbf
