// SPDX-License-Identifier: Apache-2.0
// Reads the output of docs/draw.py --positions, which lists the counters in the primer's pictures,
// and compares each line with the library's formulas and with xxHash.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>

#include "scbf/detail/positions.hpp"

namespace {

std::string expected(const std::string& layout, const std::string& word, std::istream& shape) {
  namespace detail = scbf::detail;
  const std::uint64_t hash = XXH3_64bits(word.data(), word.size());
  std::ostringstream line;
  std::uint64_t first = 0, second = 0;
  shape >> first >> second;
  line << layout << ' ' << word << ' ' << first << ' ' << second;
  if (layout == "split") {
    for (std::uint64_t i = 0; i < first; ++i) {
      line << ' '
           << detail::slice_position<detail::PlainOps, true>(hash, detail::kMultipliers[i], second);
    }
  } else if (layout == "ranked") {
    const std::uint64_t place = detail::ranked_place<detail::PlainOps>(hash, first, second);
    line << ' ' << detail::block_of(place);
    for (unsigned i = 0; i < scbf::kRankedSlices; ++i) line << ' ' << detail::position_of(place, i);
  } else {
    const auto group = static_cast<std::uint32_t>(second);
    const auto geometry = scbf::Geometry::split_block(group + 1, first);
    const std::uint64_t place = detail::place_in_group(geometry, hash, group);
    line << ' ' << detail::block_of(place);
    for (unsigned i = 0; i < scbf::kWordsPerBlock; ++i) {
      line << ' ' << detail::shift_of(place, i) / scbf::kCounterBits;
    }
  }
  return line.str();
}

}  // namespace

int main() {
  int lines = 0, wrong = 0;
  for (std::string line; std::getline(std::cin, line); ++lines) {
    std::istringstream words(line);
    std::string layout, word;
    words >> layout >> word;
    const std::string library = expected(layout, word, words);
    if (library == line) continue;
    ++wrong;
    std::cout << "drawn:   " << line << "\nlibrary: " << library << '\n';
  }
  std::cout << lines << " lines, " << wrong << " differ\n";
  return lines >= 50 && wrong == 0 ? 0 : 1;
}
