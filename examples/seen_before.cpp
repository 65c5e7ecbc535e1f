// SPDX-License-Identifier: Apache-2.0
// A crawler's memory: which of these addresses have been fetched already? Old addresses are
// removed, which takes counters instead of bits.
#include <cstdio>
#include <string>
#include <vector>

#include "scbf/filter.hpp"

namespace {

std::vector<std::string> addresses(int from, int to) {
  std::vector<std::string> all;
  for (int i = from; i < to; ++i) all.push_back("https://example.org/page/" + std::to_string(i));
  return all;
}

}  // namespace

int main() {
  scbf::Filter fetched(300'000, 0.001);
  const auto monday = addresses(0, 100'000), tuesday = addresses(100'000, 200'000);
  fetched.insert(monday);
  fetched.insert(tuesday);

  // What was found today: half of it is new, and is fetched. The filter then has it, too.
  const auto found = addresses(150'000, 250'000);
  std::vector<std::uint8_t> is_new(found.size());
  const auto today = fetched.insert_new(found, is_new);
  std::printf("of %zu addresses, %llu are new, %llu may have been fetched already\n", found.size(),
              static_cast<unsigned long long>(today.inserted),
              static_cast<unsigned long long>(today.present));

  // Monday's pages are to be fetched again: forget them. Tuesday's stay, all of them.
  const auto report = fetched.remove(monday);
  const auto kept = fetched.count_present(tuesday).hits;
  std::printf("forgot %llu, kept %llu\n", static_cast<unsigned long long>(report.removed),
              static_cast<unsigned long long>(kept));

  // 50,000 are known; of the 50,000 others less than one in a thousand is a false positive.
  return today.present >= 50'000 && today.present < 50'100 && report.absent == 0 &&
                 kept == tuesday.size()
             ? 0
             : 1;
}
