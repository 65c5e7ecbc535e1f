// SPDX-License-Identifier: Apache-2.0
// A hundred shops: which of them has a customer been to? Members grow with their shops, customers
// come and leave, one shop takes over another, and the bank is saved for the next day.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "scbf/bank.hpp"

namespace {

/// The customers of a shop: some have ten times as many as others.
std::vector<std::uint64_t> customers_of(std::uint32_t shop) {
  std::vector<std::uint64_t> customers(shop % 10 == 0 ? 5000 : 500);
  for (std::uint64_t i = 0; i < customers.size(); ++i) customers[i] = shop * 1000 + i;
  return customers;
}

}  // namespace

int main() {
  // Room for a thousand customers each at first. At most 1 % false positives, however shops grow.
  scbf::Bank shops(scbf::Growth::tightening(1000, 0.01), {.capacity = 100});
  for (std::uint32_t shop = 0; shop < 100; ++shop)
    shops.insert(shops.add_member(), customers_of(shop));
  std::printf("shop 0 has %zu stages, shop 1 has %zu\n", shops.stages(0), shops.stages(1));

  const std::uint64_t customer = 3'200;  // of shop 3, and within the 5000 of shop 0
  const auto where = shops.find(customer);
  std::printf("customer %llu: %zu shops to ask\n", static_cast<unsigned long long>(customer),
              where.size());

  const std::vector<std::uint64_t> leaves{customer};
  const bool left = shops.remove(3, leaves).removed == 1;

  shops.merge(1, shops.copy_member(0));  // shop 1 takes over shop 0
  shops.remove_member(0);
  shops.set_metadata(1, "shop 1, formerly 0 and 1");

  const auto file = std::filesystem::temp_directory_path() / "scbf_example_shops.bank";
  shops.save(file, {.compress = true});
  const scbf::Bank next_day = scbf::Bank::load(file);
  std::filesystem::remove(file);
  std::printf("%zu shops in %s: %s\n", next_day.size(), file.filename().c_str(),
              next_day.metadata(1).c_str());
  const auto now = next_day.find(customer);
  const auto has = [](const auto& list, std::uint32_t shop) {
    return std::ranges::find(list, shop) != list.end();
  };
  return left && has(where, 0) && has(where, 3) && has(now, 1) && !has(now, 0) ? 0 : 1;
}
