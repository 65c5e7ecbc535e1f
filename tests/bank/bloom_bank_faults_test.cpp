// SPDX-License-Identifier: Apache-2.0
// The bank of bits when memory ends: at each allocation of each operation, it changes nothing or
// does all.
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <numeric>

#include "scbf/delta.hpp"
#include "support/bits_bank_model.hpp"
#include "support/short_memory.hpp"

namespace scbf_test::bloom_bank_faults_test {
namespace {

using scbf::Bank;
using scbf::BloomBank;
using scbf::BloomFilter;
using scbf::Growth;

// oneTBB ends the process if it finds no memory when it is first used.
[[maybe_unused]] const unsigned kThreads = scbf::thread_count({});

TEST(BloomBankFaults, ChangesNothingWhenMemoryIsShort) {
  const Growth growth = Growth::tightening(100, 0.05);
  Random random(3);
  BitsModel model{growth, 7};
  for (std::uint32_t m = 0; m < 5; ++m) model.members.emplace(m, model.filled(random));
  model.ask = {2};
  const BloomFilter newcomer = model.filled(random);
  // What leads member 2 to more keys and a further stage; and to other bits.
  BloomFilter& published = model.members.at(2);
  published.advance(published);
  BloomFilter changed = published, grown = published, replaced = published;
  inserted([&] { return grown.insert(random_keys(400, 5)); });
  const scbf::Delta delta = changed.advance(grown);
  const scbf::Delta whole = replaced.advance(BloomFilter(growth, {.seed = 7}));
  ASSERT_FALSE(delta.whole());
  ASSERT_GT(changed.stages(), published.stages());
  ASSERT_TRUE(whole.whole());
  Bank counters(growth, {.seed = 7});
  counters.insert(counters.add_member(), random_keys(300, 1));
  std::vector<std::byte> bytes;
  counters.write([&](auto part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  const auto made_anew = [&] {
    BloomBank bank(growth, {.seed = 7, .capacity = 5});
    for (const auto& [member, bits] : model.members) bank.add_member(bits, {.threads = 1});
    bank.ask_always(2, true);
    return bank;
  };
  struct Operation {
    std::function<void(BloomBank&)> run;
    std::vector<std::uint32_t> comes = {}, goes = {};  ///< members that are `what`, or none
    const BloomFilter* what = nullptr;
  };
  std::vector<std::uint32_t> numbers(130);
  std::iota(numbers.begin(), numbers.end(), 5);
  const std::vector<Operation> operations{
      {[&](BloomBank& bank) { bank.add_member(newcomer, {.threads = 1}); }, {5}, {}, &newcomer},
      {[&](BloomBank& bank) {  // the rows must grow, and members share no word of them
         bank.add_members(std::vector(130, newcomer), {.threads = 1});
       },
       numbers,
       {},
       &newcomer},
      {[&](BloomBank& bank) { bank.replace_member(1, newcomer, {.threads = 1}); },
       {1},
       {},
       &newcomer},
      {[&](BloomBank& bank) { bank.apply(2, delta, {.threads = 1}); }, {2}, {}, &changed},
      {[&](BloomBank& bank) { bank.apply(2, whole, {.threads = 1}); }, {2}, {}, &replaced},
      {[&](BloomBank& bank) { bank.remove_member(4, {.threads = 1}); }, {}, {4}},
      {[&](BloomBank& bank) { bank.copy_member(4, {.threads = 1}); }},
      {[&](BloomBank& bank) { bank.reserve(300); }},
      {[&](BloomBank&) { const BloomBank copy(counters); }},
      {[](BloomBank& bank) { bank = BloomBank(std::as_const(bank)); }},
      {[](BloomBank& bank) { EXPECT_TRUE(bank == bank); }},
      {[&](BloomBank&) {
        std::size_t at = 0;
        BloomBank::read([&](std::span<std::byte> out) {
          const std::size_t n = std::min(out.size(), bytes.size() - at);
          std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), n, out.begin());
          at += n;
          return n;
        });
      }},
  };
  for (std::size_t o = 0; o < operations.size(); ++o) {
    BitsModel done = model;
    for (const std::uint32_t member : operations[o].comes) {
      done.members.insert_or_assign(member, *operations[o].what);
    }
    for (const std::uint32_t member : operations[o].goes) done.members.erase(member);
    std::size_t thrown = 0, in_spite = 0;
    const std::uint64_t all = [&] {
      BloomBank bank = made_anew();
      const ShortMemory never(~std::uint64_t{0}, false);
      operations[o].run(bank);
      return ShortMemory::tried();
    }();
    for (const bool ends : {false, true}) {
      // Ever rarer ones, but each of the last.
      for (std::uint64_t nth = 1;; nth += nth + 20 > all ? 1 : 1 + nth / 16) {
        SCOPED_TRACE("operation " + std::to_string(o) + ", allocation " + std::to_string(nth));
        BloomBank bank = made_anew();
        bool threw = false;
        {
          const ShortMemory short_memory(nth, ends);
          try {
            operations[o].run(bank);
          } catch (const std::bad_alloc&) {
            threw = true;
          }
        }
        thrown += threw;
        in_spite += !threw && ShortMemory::refused() > 0;
        ASSERT_TRUE(same_bits(bank, threw ? model : done, asked_keys(), {.threads = 1}));
        if (ShortMemory::refused() == 0) break;
        ASSERT_LT(nth, 10'000u);
      }
    }
    EXPECT_GT(thrown, 0u) << o;
    if (o == 1) {
      EXPECT_GT(in_spite, 0u) << "columns were never made one after another";
    }
  }
}

}  // namespace
}  // namespace scbf_test::bloom_bank_faults_test
