// SPDX-License-Identifier: Apache-2.0
// A column of strings in Arrow's layout (bytes, offsets, validity bitmap) goes in as it is,
// without a copy, and the answer comes back as a column of packed booleans.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "scbf/filter.hpp"

int main() {
  // ["Oslo", null, "Lima", "Quito"]
  const std::string_view characters = "OsloLimaQuito";
  const std::vector<std::int32_t> offsets{0, 4, 4, 8, 13};
  const std::byte validity[] = {std::byte{0b1101}};
  const auto bytes = std::as_bytes(std::span(characters));
  const auto cities = scbf::KeyBatch::from_offsets(bytes, offsets).with_validity(validity);

  scbf::Filter filter(1000, 0.0001);
  const auto inserted = filter.insert(cities);
  std::printf("inserted %llu, null %llu\n", static_cast<unsigned long long>(inserted.inserted),
              static_cast<unsigned long long>(inserted.nulls));

  filter.remove("Lima");
  std::uint8_t found[1];
  filter.contains_bits(cities, found);
  std::printf("found:");
  for (std::size_t i = 0; i < cities.size(); ++i) std::printf(" %d", found[0] >> i & 1);
  std::printf("\n");
  return inserted.inserted == 3 && inserted.nulls == 1 && found[0] == 0b1001 ? 0 : 1;
}
