// SPDX-License-Identifier: Apache-2.0
// A bank against its members alone, in one run: the three ratios that it is held to. Answers are
// verified before anything is timed; the exit code is 1 when they are wrong.
//
//   bank_bench [members] [keys per member] [layout] [batch …]
//   bank_bench growing [members] [keys of the first stage] [layout] [batch …]
//
// --out FILE keeps the table as JSON. It has: ns per query of the bank and of the members asked one
// by one, bytes, and ns per key of updates with rows and without. `growing`: of members that have
// one to three stages; the ratios are for members of one stage.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "keys.hpp"
#include "report.hpp"
#include "scbf/bank.hpp"
#include "scbf/sizing.hpp"

namespace {

using scbf::Bank;
using scbf::Filter;
using scbf::Growth;
using scbf::MemberKeys;
using scbf::bench::median;
using scbf::bench::wrong;
using Clock = std::chrono::steady_clock;
using Column = std::span<const std::uint64_t>;

constexpr scbf::BatchOptions kOneThread{.threads = 1};
constexpr std::size_t kVerified = 2000;  // keys

double seconds(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
/// Median of some runs.
double median(int runs, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) times.push_back(seconds(work));
  return scbf::bench::median(std::move(times));
}

/// Every member's stages are the filter's.
void verify_members(const Bank& bank, const std::vector<Filter>& alone) {
  for (std::uint32_t m = 0; m < alone.size(); ++m) {
    if (bank.stages(m) != alone[m].stages()) wrong(fmt::format("stages of member {}", m));
    for (std::size_t s = 0; s < alone[m].stages(); ++s) {
      if (!(bank.stage(m, s) == alone[m].stage(s))) wrong(fmt::format("member {}, stage {}", m, s));
    }
  }
}
/// Every filter's answers are the member's column of the bank's.
void verify_answers(const Bank& bank, const std::vector<Filter>& alone, Column keys) {
  std::vector<std::uint8_t> bits(keys.size() * bank.answer_bytes()), answers(keys.size());
  bank.contains_bits(keys, bits, kOneThread);
  for (std::uint32_t m = 0; m < alone.size(); ++m) {
    alone[m].contains(keys, answers, kOneThread);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto bit = bits[i * bank.answer_bytes() + m / 8] >> m % 8 & 1;
      if (bit != answers[i]) wrong(fmt::format("key {}, member {}: {}", i, m, bit));
    }
  }
}

/// Batches for members, and the same for filters that stand alone.
void insert_alone(std::vector<Filter>& alone, const std::vector<MemberKeys>& batches) {
  for (const MemberKeys& one : batches) alone[one.member].insert(one.keys, kOneThread);
}
void remove_alone(std::vector<Filter>& alone, const std::vector<MemberKeys>& batches) {
  for (const MemberKeys& one : batches) alone[one.member].remove(one.keys, {}, kOneThread);
}

scbf::bench::Report report;

/// Holds a bank of this growth against filters that stand alone; member m gets shares[m] keys.
void measure(const std::string& table, const Growth& growth, const std::vector<std::size_t>& shares,
             const std::vector<std::size_t>& batches) {
  const bool one_stage = growth.policy() == Growth::Policy::one;
  const auto members = static_cast<std::uint32_t>(shares.size());
  // Members hold neighbouring stretches of one column of distinct keys.
  std::size_t held = 0;
  for (const std::size_t share : shares) held += share;
  const std::size_t spread = std::max<std::size_t>(1, 1'000'000 / std::max(members, 1024u));
  const std::size_t asked = *std::ranges::max_element(batches);
  std::vector<std::uint64_t> keys(held + members * spread + asked);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = scbf::bench::key_word(i);
  std::vector<MemberKeys> load, more;
  for (std::size_t m = 0, first = 0; m < members; first += shares[m++]) {
    const auto member = static_cast<std::uint32_t>(m);
    load.push_back({member, Column(keys).subspan(first, shares[m])});
    more.push_back({member, Column(keys).subspan(held + m * spread, spread)});
  }
  const Column absent = Column(keys).last(asked);

  // ---- load: everything, in one call
  Bank bank(growth, {.capacity = members});
  std::vector<Filter> alone(members, Filter(growth));
  for (std::uint32_t m = 0; m < members; ++m) bank.add_member();
  if (one_stage) {
    // Touched first, so that neither pays for fresh pages. Where stages are added, both do.
    insert_alone(alone, load);
    for (Filter& filter : alone) filter.clear();
    bank.insert(load, kOneThread);
    for (std::uint32_t m = 0; m < members; ++m) bank.clear(m, kOneThread);
  }
  const double load_alone = seconds([&] { insert_alone(alone, load); });
  const double load_bank = seconds([&] { bank.insert(load, kOneThread); });
  verify_members(bank, alone);
  verify_answers(bank, alone, Column(keys).subspan(held / 2, std::min(kVerified, asked)));
  verify_answers(bank, alone, absent.last(std::min(kVerified, asked)));

  std::size_t stages = 0, most = 0;
  for (const Filter& filter : alone) {
    stages += filter.stages();
    most = std::max(most, filter.stages());
  }
  report.note(fmt::format("{} members of {} keys on average, {} stages at most, {} in all; {}",
                          members, held / members, most, stages, growth.describe()));
  report.table(table, {"what", "bank", "members alone", "ratio", "aim"});
  const auto line = [&](const std::string& what, double in_bank, double in_alone, const char* aim) {
    report.row({what, in_bank, in_alone,
                in_bank < in_alone ? in_alone / in_bank : in_bank / in_alone,
                one_stage ? aim : ""});
  };

  // ---- queries
  for (const std::size_t n : batches) {
    std::vector<std::uint8_t> bits(n * bank.answer_bytes()), answers(n);
    const int runs = n == 1 ? 5001 : n <= 1000 ? 101 : 7;
    const int fewer_runs = n == 1 ? 101 : n <= 1000 ? 15 : 3;
    // Other keys each time, or the rows would be in cache.
    std::size_t round = 0;
    const auto next = [&] { return absent.subspan(++round * n * 61 % (asked - n + 1), n); };
    const double by_bank = median(runs, [&] { bank.contains_bits(next(), bits, kOneThread); });
    scbf::MemberLists lists;
    const double as_lists = median(runs, [&] { bank.find(next(), lists, kOneThread); });
    const double one_by_one = median(fewer_runs, [&] {
      const Column same = next();
      for (const Filter& filter : alone) filter.contains(same, answers, kOneThread);
    });
    const double ns = 1e9 / static_cast<double>(n);
    line(fmt::format("query, ns per key, batches of {}", n), by_bank * ns, one_by_one * ns, "≥ 20");
    line(fmt::format("query as lists, batches of {}", n), as_lists * ns, one_by_one * ns, "");
  }

  // ---- memory
  const scbf::BankMemory memory = bank.memory();
  line("memory, MB", static_cast<double>(memory.counters + memory.rows) / 1e6,
       static_cast<double>(memory.counters) / 1e6, "≤ 1.3");

  // ---- updates
  const double ns_load = 1e9 / static_cast<double>(held);
  line("insert all, one call, ns per key", load_bank * ns_load, load_alone * ns_load, "≤ 4");
  const double ns_more = 1e9 / static_cast<double>(members * spread);
  std::vector<double> in_bank, in_alone, out_bank, out_alone;
  for (int run = 0; run < 5; ++run) {
    in_bank.push_back(seconds([&] { bank.insert(more, kOneThread); }));
    in_alone.push_back(seconds([&] { insert_alone(alone, more); }));
    out_bank.push_back(seconds([&] { bank.remove(more, kOneThread); }));
    out_alone.push_back(seconds([&] { remove_alone(alone, more); }));
  }
  line(fmt::format("insert {} more into each, one call, ns per key", spread),
       median(in_bank) * ns_more, median(in_alone) * ns_more, "≤ 4");
  line("remove them, one call, ns per key", median(out_bank) * ns_more, median(out_alone) * ns_more,
       "≤ 4");
  // One member, filled from empty: as many lines of rows as counters leave zero.
  const scbf::KeyBatch& one = load[0].keys;
  in_bank.clear(), in_alone.clear(), out_bank.clear(), out_alone.clear();
  for (int run = 0; run < 5; ++run) {
    out_bank.push_back(seconds([&] { bank.remove(0, one, {}, kOneThread); }));
    out_alone.push_back(seconds([&] { alone[0].remove(one, {}, kOneThread); }));
    in_bank.push_back(seconds([&] { bank.insert(0, one, kOneThread); }));
    in_alone.push_back(seconds([&] { alone[0].insert(one, kOneThread); }));
  }
  const double ns_one = 1e9 / static_cast<double>(one.size());
  line(fmt::format("insert {} keys into one empty member, ns per key", one.size()),
       median(in_bank) * ns_one, median(in_alone) * ns_one, "(≤ 4)");
  line(fmt::format("remove {} keys, all of one member, ns per key", one.size()),
       median(out_bank) * ns_one, median(out_alone) * ns_one, "(≤ 4)");
  verify_members(bank, alone);
  verify_answers(bank, alone, Column(keys).subspan(held / 3, std::min(kVerified, asked)));
}

}  // namespace

int main(int argc, char** argv) {
  const auto output = scbf::bench::take_output(argc, argv);
  const auto number = [&](int i, std::uint64_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const bool growing = argc > 1 && argv[1] == std::string("growing");
  const int at = growing ? 2 : 1;
  const auto members = static_cast<std::uint32_t>(number(at, growing ? 256 : 1024));
  const std::size_t keys = number(at + 1, growing ? 20'000 : 100'000);
  const scbf::Layout layout =
      scbf::layout_from_string(argc > at + 2 ? argv[at + 2] : "split_block");
  std::vector<std::size_t> batches{100'000, 1000, 1};
  if (argc > at + 3) batches.clear();
  for (int i = at + 3; i < argc; ++i) batches.push_back(number(i, 0));
  std::vector<std::size_t> shares(members, keys);
  if (growing) {
    // A third of the members stays in its first stage, fills half of the second, half of the third.
    for (std::uint32_t m = 0; m < members; ++m) {
      shares[m] = m % 3 == 0 ? keys * 4 / 5 : m % 3 == 1 ? keys * 2 : keys * 5;
    }
    measure("growing_bank", Growth::tightening(keys, 0.01, layout), shares, batches);
  } else {
    measure("bank", Growth::one(scbf::geometry_for(layout, keys, 0.01)), shares, batches);
  }
  report.write(output);
  return 0;
}
