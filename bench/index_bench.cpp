// SPDX-License-Identifier: Apache-2.0
// A secondary index over generated rows: requests per query, measured and predicted, and the time
// of a query against broadcasting it to all local indexes. Routed answers are compared with
// broadcast ones; the exit code is 1 when they differ.
//
//   index_bench DIRECTORY [rows] [regions] [servers] [queries] [rate …]
//
// The index is loaded once; for each rate its filters are made anew. Rows have an order number of
// their own, a customer (about twenty rows, anywhere), a city (of a thousand: everywhere).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "keys.hpp"
#include "scbf/secondary_index.hpp"

namespace {

using scbf::IndexPlan;
using scbf::Query;
using scbf::Row;
using scbf::SecondaryIndex;
using Clock = std::chrono::steady_clock;

double seconds(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Table {
  std::uint64_t rows;
  std::uint64_t customers() const { return std::max<std::uint64_t>(1, rows / 20); }

  /// Keys and customers are in no order, and have nothing to do with each other.
  Row row(std::uint64_t i) const {
    const std::uint64_t mixed = scbf::bench::key_word(i + rows);
    return {fmt::format("{:016x}", scbf::bench::key_word(i)),
            {fmt::format("order {}", i), fmt::format("customer {}", mixed % customers()),
             fmt::format("city {}", mixed / customers() % 1000)}};
  }
};

struct Kind {
  const char* name;
  std::function<Query(std::uint64_t)> query;
};

/// Asks, compares with a broadcast, prints one line.
void measure(const SecondaryIndex& index, double rate, const Kind& kind, std::uint64_t queries,
             double regions_per_server) {
  std::vector<Query> all;
  for (std::uint64_t i = 0; i < queries; ++i) all.push_back(kind.query(i));
  // Broadcasts take long: a part of the queries says enough.
  const std::uint64_t broadcasts = std::max<std::uint64_t>(1, queries / 10);
  std::vector<Query> some(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(broadcasts));
  for (Query& query : some) query.broadcast = true;
  // Once to bring blocks into the store's cache, for both; then for the time.
  const auto broadcast = index.query(some);
  const auto routed = index.query(all);
  const double routed_seconds = seconds([&] { index.query(all); });
  const double broadcast_seconds = seconds([&] { index.query(some); });
  for (std::uint64_t i = 0; i < broadcasts; ++i) {
    if (routed[i].rows != broadcast[i].rows) {
      fmt::print(stderr, "wrong: {} '{}': {} rows, broadcast {}\n", kind.name,
                 all[i].all_of[0].value, routed[i].rows.size(), broadcast[i].rows.size());
      std::exit(1);
    }
  }
  double requests = 0, squares = 0, expected = 0, holding = 0, bound = 0;
  const double servers = index.statistics().servers;
  const double server_rate = 1 - std::pow(1 - rate, regions_per_server);
  for (const scbf::QueryAnswer& answer : routed) {
    requests += answer.routing.requests;
    squares += std::pow(answer.routing.requests, 2);
    expected += answer.routing.expected_requests;
    holding += answer.routing.servers_holding;
    bound +=
        answer.routing.servers_holding + (servers - answer.routing.servers_holding) * server_rate;
  }
  const double n = static_cast<double>(queries);
  const double deviation = std::sqrt(std::max(0.0, squares / n - std::pow(requests / n, 2)) / n);
  const double us = routed_seconds * 1e6 / n;
  const double broadcast_us = broadcast_seconds * 1e6 / static_cast<double>(broadcasts);
  fmt::print(
      "| {:g} % | {} | {:.2f} | {:.3f} ± {:.3f} | {:.3f} | {:.2f} | {} | {:.1f} | {:.0f} | "
      "{:.1f} |\n",
      rate * 100, kind.name, holding / n, requests / n, deviation, expected / n, bound / n, servers,
      us, broadcast_us, broadcast_us / us);
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::uint64_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  if (argc < 2) {
    fmt::print(stderr,
               "usage: index_bench DIRECTORY [rows] [regions] [servers] [queries] [rate …]\n");
    return 2;
  }
  const std::filesystem::path path = argv[1];
  const Table table{number(2, 10'000'000)};
  const std::uint64_t regions = number(3, 256), servers = number(4, 64), queries = number(5, 2000);
  std::vector<double> rates;
  for (int i = 6; i < argc; ++i) rates.push_back(std::strtod(argv[i], nullptr));
  if (rates.empty()) rates = {0.1, 0.01, 0.001};
  const std::uint64_t values = 1000 + 2 * table.rows / regions;

  {
    SecondaryIndex index = SecondaryIndex::create(
        path,
        {.key = "id",
         .columns = {{.name = "order", .indexed = true},
                     {.name = "customer", .indexed = true},
                     {.name = "city", .indexed = true}}},
        {.fpr = 0.01, .region_values = values - 1, .servers = static_cast<std::uint32_t>(servers)});
    std::vector<std::string> points;
    for (std::uint64_t i = 1; i < regions; ++i) {
      points.push_back(fmt::format("{:016x}", ~std::uint64_t{0} / regions * i));
    }
    index.presplit(points);
    std::uint64_t next = 0;
    const double load = seconds([&] {
      index.bulk_load([&](Row& row) {
        if (next == table.rows) return false;
        row = table.row(next++);
        return true;
      });
    });
    std::vector<Row> singles;
    const std::uint64_t more = std::min<std::uint64_t>(table.rows / 10 + 1, 20'000);
    for (std::uint64_t i = 0; i < more; ++i) singles.push_back(table.row(table.rows * 2 + i));
    const double put = seconds([&] {
      for (const Row& row : singles) index.put(row);
    });
    std::vector<std::string> keys;
    for (const Row& row : singles) keys.push_back(row.key);
    const double removed = seconds([&] {
      for (const std::string& key : keys) index.remove(key);
    });
    const scbf::IndexStatistics statistics = index.statistics();
    fmt::print("{} rows with 3 indexed columns, {} regions on {} servers\n\n", table.rows, regions,
               servers);
    fmt::print("- load: {:.1f} s, {:.0f} rows/s, one thread\n", load,
               static_cast<double>(table.rows) / load);
    fmt::print("- put one row: {:.1f} us; remove one: {:.1f} us (log not synced)\n",
               put * 1e6 / static_cast<double>(more), removed * 1e6 / static_cast<double>(more));
    fmt::print("- distinct values, summed over regions: {}\n", statistics.values);
    fmt::print("- store: {:.0f} MB\n", static_cast<double>(statistics.store_bytes) / 1e6);
  }

  std::vector<std::string> notes;
  fmt::print(
      "\n| rate of a region | value | servers holding it | requests, measured | expected of "
      "these filters | h + (S − h)·P at the rate's bound | broadcast | µs per query | µs "
      "broadcast | faster |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const double rate : rates) {
    SecondaryIndex::replan(path, rate, values);
    std::optional<SecondaryIndex> index;
    const double opening = seconds([&] { index.emplace(SecondaryIndex::open(path)); });
    const scbf::IndexStatistics statistics = index->statistics();
    notes.push_back(
        fmt::format("- {:g} %: filters {:.1f} MB, rows of bits {:.1f} MB, {:.1f} bits "
                    "per value together; all made anew from the local indexes in {:.1f} s",
                    rate * 100, static_cast<double>(statistics.filter_bytes) / 1e6,
                    static_cast<double>(statistics.bank_bytes) / 1e6,
                    8 * static_cast<double>(statistics.filter_bytes + statistics.bank_bytes) /
                        static_cast<double>(statistics.values),
                    opening));
    const auto asked = [&](const char* column, const std::string& value) {
      return Query{.all_of = {{column, value}}, .keys_only = true};
    };
    const auto some = [&](std::uint64_t i) { return scbf::bench::key_word(i + 77); };
    const Kind kinds[] = {
        {"nobody's", [&](std::uint64_t i) { return asked("order", fmt::format("absent {}", i)); }},
        {"an order's",
         [&](std::uint64_t i) {
           return asked("order", fmt::format("order {}", some(i) % table.rows));
         }},
        {"a customer's",
         [&](std::uint64_t i) {
           return asked("customer", fmt::format("customer {}", some(i) % table.customers()));
         }},
    };
    for (const Kind& kind : kinds) {
      measure(*index, rate, kind, queries,
              static_cast<double>(regions) / static_cast<double>(servers));
    }
    if (rate == rates.back()) {
      const Kind everywhere = {"a city's", [&](std::uint64_t i) {
                                 return asked("city", fmt::format("city {}", some(i) % 1000));
                               }};
      measure(*index, rate, everywhere, std::max<std::uint64_t>(1, queries / 100),
              static_cast<double>(regions) / static_cast<double>(servers));
    }
  }
  fmt::print("\n");
  for (const std::string& note : notes) fmt::print("{}\n", note);
  return 0;
}
