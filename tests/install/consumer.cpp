// SPDX-License-Identifier: Apache-2.0
// Uses an installed copy of scbf: returns 0 if it answers as it should.
#include <scbf/scbf.hpp>

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

int main() {
  static_assert(std::string_view(SCBF_VERSION) == WANTED_VERSION);
  if (scbf::version() != SCBF_VERSION) return 5;
  scbf::Filter filter(10'000, 0.01);
  std::vector<std::uint64_t> keys(10'000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  filter.insert(keys);
  std::vector<std::uint8_t> hit(keys.size());
  if (filter.contains(keys, hit).hits != keys.size()) return 1;
  if (filter.remove(keys).removed != keys.size()) return 2;
  if (filter.contains(std::uint64_t{5})) return 3;
  const auto plan = scbf::plan({.capacity = 1000, .fpr = 0.001});
  if (!(plan.predicted_fpr <= 0.001)) return 4;
  std::printf("%s, %s\n", std::string(filter.backend().name()).c_str(),
              filter.geometry().describe().c_str());
  return 0;
}
