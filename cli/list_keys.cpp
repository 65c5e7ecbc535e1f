// SPDX-License-Identifier: Apache-2.0
#include "list_keys.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "print_in_order.hpp"

namespace scbf::cli {

void list_keys(Output& out, unsigned threads, const KeyBlock& block, const KeyFormat& format,
               std::span<const std::uint8_t> answers, std::uint8_t wanted) {
  const auto list = [&](Output& to, std::size_t first, std::size_t last) {
    // Numbers are gathered first, because a processor cannot guess which keys are wanted.
    std::array<std::size_t, 512> chosen;
    while (first < last) {
      const std::size_t end = std::min(last, first + chosen.size());
      std::size_t n = 0;
      for (; first < end; ++first) {
        chosen[n] = first;
        n += answers[first] == wanted ? 1 : 0;
      }
      for (const std::size_t i : std::span(chosen).first(n)) {
        write_key(to, block, i, format);
        to.write(format.end);
      }
    }
  };
  print_in_order(out, threads, answers.size(), list);
}

}  // namespace scbf::cli
