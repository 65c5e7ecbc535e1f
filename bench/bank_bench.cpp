// SPDX-License-Identifier: Apache-2.0
// A bank against its members alone, in one run: the three ratios that it is held to. Answers are
// verified before anything is timed; the exit code is 1 when they are wrong.
//
//   bank_bench [members] [keys per member] [layout] [batch …]
//   bank_bench growing [members] [keys of the first stage] [layout] [batch …]
//
// --out FILE keeps the table as JSON. It has: ns per query of the bank and of the members asked one
// by one, bytes, and ns per key of updates with rows and without. `growing`: of a ScalableBank
// whose members have one to three stages, and of scalable filters.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "keys.hpp"
#include "report.hpp"
#include "scbf/filter_bank.hpp"
#include "scbf/scalable_bank.hpp"
#include "scbf/sizing.hpp"

namespace {

using scbf::Filter;
using scbf::FilterBank;
using scbf::MemberKeys;
using scbf::ScalableBank;
using scbf::ScalableFilter;
using scbf::bench::median;
using scbf::bench::wrong;
using Clock = std::chrono::steady_clock;
using Column = std::span<const std::uint64_t>;

constexpr scbf::BatchOptions kOneThread{.threads = 1};

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

/// Every member's answers to `keys` are its column of the bank's, and present keys are found.
void verify(const FilterBank& bank, Column keys) {
  std::vector<std::uint8_t> bits(keys.size() * bank.answer_bytes()), alone(keys.size());
  bank.contains_bits(keys, bits, kOneThread);
  for (std::uint32_t m = 0; m < bank.slots(); ++m) {
    bank.member(m).contains(keys, alone, kOneThread);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto bit = bits[i * bank.answer_bytes() + m / 8] >> m % 8 & 1;
      if (bit != alone[i]) wrong(fmt::format("key {}, member {}: {}", i, m, bit));
    }
  }
}

scbf::bench::Report report;

void begin_table(const char* name) {
  report.table(name, {"what", "bank", "members alone", "ratio", "aim"});
}
void line(const std::string& what, double bank, double alone, const std::string& aim) {
  report.row({what, bank, alone, bank < alone ? alone / bank : bank / alone, aim});
}

// ---- members that grow --------------------------------------------------------------------------

/// Every member's stages are the filter's, and its answers are its column of the bank's.
void verify(const ScalableBank& bank, const std::vector<ScalableFilter>& alone, Column keys) {
  std::vector<std::uint8_t> bits(keys.size() * bank.answer_bytes()), answers(keys.size());
  bank.contains_bits(keys, bits, kOneThread);
  for (std::uint32_t m = 0; m < alone.size(); ++m) {
    if (bank.stages(m) != alone[m].stages()) wrong(fmt::format("stages of member {}", m));
    for (std::size_t s = 0; s < alone[m].stages(); ++s) {
      if (!(bank.stage(m, s) == alone[m].stage(s))) wrong(fmt::format("member {}, stage {}", m, s));
    }
    alone[m].contains(keys, answers, kOneThread);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto bit = bits[i * bank.answer_bytes() + m / 8] >> m % 8 & 1;
      if (bit != answers[i]) wrong(fmt::format("key {}, member {}: {}", i, m, bit));
    }
  }
}

void grow(std::uint32_t members, std::size_t first_keys, scbf::Layout layout,
          const std::vector<std::size_t>& batches) {
  const scbf::Growth growth = scbf::Growth::tightening(first_keys, 0.01, layout);
  // A third of the members stays in its first stage, fills half of the second, half of the third.
  const auto share = [&](std::uint32_t m) {
    return m % 3 == 0 ? first_keys * 4 / 5 : m % 3 == 1 ? first_keys * 2 : first_keys * 5;
  };
  std::size_t held = 0;
  for (std::uint32_t m = 0; m < members; ++m) held += share(m);
  const std::size_t asked = *std::ranges::max_element(batches);
  const std::size_t spread = std::max<std::size_t>(1, 250'000 / members);
  std::vector<std::uint64_t> keys(held + members * spread + asked);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = scbf::bench::key_word(i);
  ScalableBank bank(growth, {.capacity = members});
  std::vector<ScalableFilter> alone;
  std::vector<MemberKeys> load, more;
  std::size_t first = 0;
  for (std::uint32_t m = 0; m < members; ++m) {
    bank.add_member();
    alone.emplace_back(growth);
    load.push_back({m, Column(keys).subspan(first, share(m))});
    first += share(m);
    more.push_back({m, Column(keys).subspan(held + m * spread, spread)});
  }
  const auto change_alone = [&](const std::vector<MemberKeys>& all, bool insert) {
    for (const MemberKeys& one : all) {
      if (insert) {
        alone[one.member].insert(one.keys, kOneThread);
      } else {
        alone[one.member].remove(one.keys, {}, kOneThread);
      }
    }
  };
  const double load_alone = seconds([&] { change_alone(load, true); });
  const double load_bank = seconds([&] { bank.insert(load, kOneThread); });
  verify(bank, alone, Column(keys).subspan(held / 2, std::min<std::size_t>(2000, asked)));
  verify(bank, alone, Column(keys).last(std::min<std::size_t>(2000, asked)));
  std::size_t stages = 0, most = 0;
  for (const ScalableFilter& filter : alone) {
    stages += filter.stages();
    most = std::max(most, filter.stages());
  }
  report.note(fmt::format("{} members of {} stages at most, {} in all; {}", members, most, stages,
                          growth.describe()));
  begin_table("growing_bank");

  const Column absent = Column(keys).last(asked);
  for (const std::size_t n : batches) {
    std::vector<std::uint8_t> bits(n * bank.answer_bytes()), answers(n);
    std::size_t round = 0;
    const auto next = [&] { return absent.subspan(++round * n * 61 % (asked - n + 1), n); };
    const int runs = n == 1 ? 5001 : n <= 1000 ? 101 : 7;
    const double by_bank = median(runs, [&] { bank.contains_bits(next(), bits, kOneThread); });
    scbf::MemberLists lists;
    const double as_lists = median(runs, [&] { bank.find(next(), lists, kOneThread); });
    const double one_by_one = median(std::max(3, runs / 20), [&] {
      const Column same = next();
      for (const ScalableFilter& filter : alone) filter.contains(same, answers, kOneThread);
    });
    const double ns = 1e9 / static_cast<double>(n);
    line(fmt::format("query, ns per key, batches of {}", n), by_bank * ns, one_by_one * ns, "");
    line(fmt::format("query as lists, batches of {}", n), as_lists * ns, one_by_one * ns, "");
  }
  const scbf::BankMemory memory = bank.memory();
  line("memory, MB", static_cast<double>(memory.counters + memory.rows) / 1e6,
       static_cast<double>(memory.counters) / 1e6, "");
  const double ns_load = 1e9 / static_cast<double>(held);
  line("insert all, one call, ns per key", load_bank * ns_load, load_alone * ns_load, "");
  const double ns_more = 1e9 / static_cast<double>(members * spread);
  const double in_bank = seconds([&] { bank.insert(more, kOneThread); });
  const double in_alone = seconds([&] { change_alone(more, true); });
  line(fmt::format("insert {} more into each, one call, ns per key", spread), in_bank * ns_more,
       in_alone * ns_more, "");
  const double out_bank = seconds([&] { bank.remove(more, kOneThread); });
  const double out_alone = seconds([&] { change_alone(more, false); });
  line("remove them, one call, ns per key", out_bank * ns_more, out_alone * ns_more, "");
  verify(bank, alone, Column(keys).subspan(held / 3, std::min<std::size_t>(2000, asked)));
}

}  // namespace

int main(int argc, char** argv) {
  const auto output = scbf::bench::take_output(argc, argv);
  const auto number = [&](int i, std::uint64_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const int at = argc > 1 && argv[1] == std::string("growing") ? 2 : 1;
  const auto members = static_cast<std::uint32_t>(number(at, at == 1 ? 1024 : 256));
  const std::size_t keys_each = number(at + 1, at == 1 ? 100'000 : 20'000);
  const scbf::Layout layout =
      scbf::layout_from_string(argc > at + 2 ? argv[at + 2] : "split_block");
  std::vector<std::size_t> batches{100'000, 1000, 1};
  if (argc > at + 3) batches.clear();
  for (int i = at + 3; i < argc; ++i) batches.push_back(number(i, 0));
  if (at == 2) {
    grow(members, keys_each, layout, batches);
    report.write(output);
    return 0;
  }

  const scbf::Geometry geometry = scbf::geometry_for(layout, keys_each, 0.01);
  report.note(fmt::format("{} members of {} keys, {}", members, keys_each, geometry.describe()));
  begin_table("bank");

  // ---- load: everything, in one call
  FilterBank bank(geometry, {.capacity = members});
  std::vector<Filter> alone;
  for (std::uint32_t m = 0; m < members; ++m) {
    bank.add_member();
    alone.emplace_back(geometry);
  }
  // Members hold neighbouring stretches of one column of distinct keys.
  const std::size_t spread = std::max<std::size_t>(1, 1'000'000 / members);
  const std::size_t asked = *std::ranges::max_element(batches);
  std::vector<std::uint64_t> keys(members * keys_each + members * spread + asked);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = scbf::bench::key_word(i);
  const auto stretch = [&](std::size_t first, std::size_t each) {
    std::vector<MemberKeys> all;
    for (std::uint32_t m = 0; m < members; ++m) {
      all.push_back({m, Column(keys).subspan(first + m * each, each)});
    }
    return all;
  };
  const auto change_alone = [&](const std::vector<MemberKeys>& all, bool insert) {
    for (const MemberKeys& one : all) {
      if (insert) {
        alone[one.member].insert(one.keys, kOneThread);
      } else {
        alone[one.member].remove(one.keys, {}, kOneThread);
      }
    }
  };
  // Touched first, so that neither pays for fresh pages.
  for (Filter& filter : alone) filter.insert(Column(keys).first(keys_each), kOneThread);
  for (Filter& filter : alone) filter.remove(Column(keys).first(keys_each), {}, kOneThread);
  for (std::uint32_t m = 0; m < members; ++m) {
    bank.insert(m, Column(keys).first(std::min<std::size_t>(keys_each, 1000)), kOneThread);
    bank.clear(m, kOneThread);
  }
  const auto load = stretch(0, keys_each);
  {
    bank.insert(load, kOneThread);  // counters, too, have their pages now
    bank.remove(load, kOneThread);
  }
  const double loaded_keys = static_cast<double>(members) * static_cast<double>(keys_each);
  const double load_alone = seconds([&] { change_alone(load, true); });
  const double load_bank = seconds([&] { bank.insert(load, kOneThread); });
  for (std::uint32_t m = 0; m < members; ++m) {
    if (!(bank.member(m) == alone[m])) wrong(fmt::format("member {} differs", m));
  }
  verify(bank, Column(keys).subspan(members * keys_each / 2, 2000));
  verify(bank, Column(keys).last(2000 < asked ? 2000 : asked));

  // ---- queries
  const Column absent = Column(keys).last(asked);
  for (const std::size_t n : batches) {
    std::vector<std::uint8_t> bits(n * bank.answer_bytes()), answers(n);
    const int runs = n == 1 ? 5001 : n <= 1000 ? 101 : 7;
    // Other keys each time, or the rows would be in cache.
    std::size_t round = 0;
    const auto next = [&] { return absent.subspan(++round * n * 61 % (asked - n + 1), n); };
    const double by_bank = median(runs, [&] { bank.contains_bits(next(), bits, kOneThread); });
    const double one_by_one = median(n == 1      ? 101
                                     : n <= 1000 ? 15
                                                 : 3,
                                     [&] {
                                       const Column same = next();
                                       for (const Filter& filter : alone)
                                         filter.contains(same, answers, kOneThread);
                                     });
    const double ns = 1e9 / static_cast<double>(n);
    line(fmt::format("query, ns per key, batches of {}", n), by_bank * ns, one_by_one * ns, "≥ 20");
    scbf::MemberLists lists;
    const double as_lists = median(runs, [&] { bank.find(next(), lists, kOneThread); });
    line(fmt::format("query as lists, batches of {}", n), as_lists * ns, one_by_one * ns, "");
  }

  // ---- memory
  const scbf::BankMemory memory = bank.memory();
  line("memory, MB", static_cast<double>(memory.counters + memory.rows) / 1e6,
       static_cast<double>(memory.counters) / 1e6, "≤ 1.3");

  // ---- updates
  line(fmt::format("insert {} keys into each, one call, ns per key", keys_each),
       load_bank * 1e9 / loaded_keys, load_alone * 1e9 / loaded_keys, "≤ 4");
  const auto more = stretch(members * keys_each, spread);
  const double more_keys = static_cast<double>(members) * static_cast<double>(spread);
  std::vector<double> in_bank, in_alone, out_bank, out_alone;
  for (int run = 0; run < 5; ++run) {
    in_bank.push_back(seconds([&] { bank.insert(more, kOneThread); }));
    in_alone.push_back(seconds([&] { change_alone(more, true); }));
    out_bank.push_back(seconds([&] { bank.remove(more, kOneThread); }));
    out_alone.push_back(seconds([&] { change_alone(more, false); }));
  }
  line(fmt::format("insert {} more into each, one call, ns per key", spread),
       median(in_bank) * 1e9 / more_keys, median(in_alone) * 1e9 / more_keys, "≤ 4");
  line(fmt::format("remove them, one call, ns per key", spread), median(out_bank) * 1e9 / more_keys,
       median(out_alone) * 1e9 / more_keys, "≤ 4");
  // One member, filled from empty: as many lines of rows as counters leave zero.
  const Column one = Column(keys).first(keys_each);
  in_bank.clear(), in_alone.clear(), out_bank.clear(), out_alone.clear();
  for (int run = 0; run < 5; ++run) {
    out_bank.push_back(seconds([&] { bank.remove(0, one, {}, kOneThread); }));
    out_alone.push_back(seconds([&] { alone[0].remove(one, {}, kOneThread); }));
    in_bank.push_back(seconds([&] { bank.insert(0, one, kOneThread); }));
    in_alone.push_back(seconds([&] { alone[0].insert(one, kOneThread); }));
  }
  const double ns_each = 1e9 / static_cast<double>(keys_each);
  line(fmt::format("insert {} keys into one empty member, ns per key", keys_each),
       median(in_bank) * ns_each, median(in_alone) * ns_each, "(≤ 4)");
  line(fmt::format("remove {} keys, all of one member, ns per key", keys_each),
       median(out_bank) * ns_each, median(out_alone) * ns_each, "(≤ 4)");
  for (std::uint32_t m = 0; m < members; ++m) {
    if (!(bank.member(m) == alone[m])) wrong(fmt::format("member {} differs after updates", m));
  }
  verify(bank, Column(keys).subspan(members * keys_each / 3, std::min<std::size_t>(2000, asked)));
  report.write(output);
  return 0;
}
