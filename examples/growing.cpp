// SPDX-License-Identifier: Apache-2.0
// A filter for an unknown number of keys: it begins small and grows a hundredfold, and its rate
// stays below the target. Keys that several stages claim cannot be removed; they are counted.
#include <cstdio>
#include <string>
#include <vector>

#include "scbf/filter.hpp"

int main() {
  scbf::Filter seen(scbf::Growth::tightening(10'000, 0.01));
  for (int day = 0; day < 100; ++day) {
    std::vector<std::string> visitors;
    for (int i = 0; i < 10'000; ++i) {
      visitors.push_back("visitor " + std::to_string(day * 10'000 + i));
    }
    seen.insert(visitors);
  }

  std::vector<std::string> others;
  for (int i = 0; i < 100'000; ++i) others.push_back("stranger " + std::to_string(i));
  const auto taken_for_seen = seen.count_present(others).hits;
  std::printf("%zu stages, %.1f MB; of %zu strangers %llu are taken for visitors (bound: %.4f)\n",
              seen.stages(), static_cast<double>(seen.bytes()) / 1e6, others.size(),
              static_cast<unsigned long long>(taken_for_seen), seen.fpr_bound());

  std::vector<std::string> leaving;
  for (int i = 0; i < 10'000; ++i) leaving.push_back("visitor " + std::to_string(i));
  const auto report = seen.remove(leaving);
  std::printf("removed %llu, ambiguous %llu\n", static_cast<unsigned long long>(report.removed),
              static_cast<unsigned long long>(report.ambiguous));

  seen.save("visitors.scbf");
  const auto mapped = scbf::Filter::map("visitors.scbf");
  const bool still_there = mapped.contains("visitor 500000");
  return taken_for_seen < 1'150 && report.absent == 0 && report.ambiguous < 200 && still_there ? 0
                                                                                               : 1;
}
