// SPDX-License-Identifier: Apache-2.0
// A secondary index: requests per query, measured and predicted, and the time of a query against
// broadcasting it to all local indexes. Routed answers are compared with broadcast ones, or with a
// scan of the table; the exit code is 1 when they differ.
//
//   index_bench generated DIRECTORY [rows] [regions] [servers] [queries] [rate …]
//   index_bench table FILE.tsv COLUMN[:SEPARATOR],… DIRECTORY [regions] [servers] [rate …]
//
// Generated rows have an order number of their own, a customer (about twenty rows, anywhere) and a
// city (of a thousand: everywhere). A table is tab-separated with a header, its first column the
// key; every value of every column named is asked for. The index is loaded once; for each rate its
// filters are made anew. --out FILE keeps the tables as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keys.hpp"
#include "report.hpp"
#include "scbf/secondary_index.hpp"

namespace {

using scbf::Query;
using scbf::QueryAnswer;
using scbf::Row;
using scbf::SecondaryIndex;
using Clock = std::chrono::steady_clock;

using scbf::bench::wrong;

scbf::bench::Report report;

double seconds(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void begin_table(const char* name) {
  report.table(name,
               {"rate of a region", "value", "queries", "servers holding it", "requests, measured",
                "± standard error", "expected of these filters", "h + (S − h)·P at the bound",
                "broadcast", "µs per query", "µs broadcast", "faster"});
}

/// Asks with and without filters, compares, and adds a row. `verify(i, answer)` sees every answer.
void measure(const SecondaryIndex& index, const std::string& kind, std::vector<Query> queries,
             const std::function<void(std::size_t, const QueryAnswer&)>& verify) {
  for (Query& query : queries) query.keys_only = true;
  // Broadcasts take long: a part of the queries says enough.
  const std::size_t step = std::max<std::size_t>(1, queries.size() / 200);
  std::vector<Query> some, broadcast;
  for (std::size_t i = 0; i < queries.size(); i += step) some.push_back(queries[i]);
  broadcast = some;
  for (Query& query : broadcast) query.broadcast = true;

  const std::vector<QueryAnswer> routed = index.query(queries);
  const std::vector<QueryAnswer> everyone = index.query(broadcast);
  for (std::size_t i = 0; i < queries.size(); ++i) verify(i, routed[i]);
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (routed[i * step].rows != everyone[i].rows) {
      wrong(fmt::format("{} '{}': {} rows, broadcast {}", kind, some[i].all_of[0].value,
                        routed[i * step].rows.size(), everyone[i].rows.size()));
    }
  }
  // Both once more, for the time: by now the store's blocks are where they will be.
  const double routed_us = seconds([&] { index.query(some); }) * 1e6;
  const double broadcast_us = seconds([&] { index.query(broadcast); }) * 1e6;

  const auto regions = static_cast<double>(index.regions().size());
  const auto servers = static_cast<double>(index.statistics().servers);
  const double server_rate = 1 - std::pow(1 - index.plan().fpr, regions / servers);
  double requests = 0, squares = 0, expected = 0, holding = 0, bound = 0;
  for (const QueryAnswer& answer : routed) {
    const auto& routing = answer.routing;
    requests += routing.requests;
    squares += std::pow(routing.requests - routing.expected_requests, 2);
    expected += routing.expected_requests;
    holding += routing.servers_holding;
    bound += routing.servers_holding + (servers - routing.servers_holding) * server_rate;
  }
  const auto n = static_cast<double>(queries.size()), m = static_cast<double>(some.size());
  report.row({fmt::format("{:g} %", index.plan().fpr * 100), kind, n, holding / n, requests / n,
              std::sqrt(squares) / n, expected / n, bound / n, servers, routed_us / m,
              broadcast_us / m, broadcast_us / routed_us});
}

/// For each rate: filters anew, then ask(index).
void for_each_rate(const std::filesystem::path& path, const std::vector<double>& rates,
                   std::uint64_t values, const std::function<void(const SecondaryIndex&)>& ask) {
  std::vector<std::string> notes;
  for (const double rate : rates) {
    SecondaryIndex::replan(path, rate, values);
    std::optional<SecondaryIndex> index;
    const double opening = seconds([&] { index.emplace(SecondaryIndex::open(path)); });
    ask(*index);
    const scbf::IndexStatistics statistics = index->statistics();
    const auto mb = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
    notes.push_back(
        fmt::format("{:g} %: filters {:.1f} MB, rows of bits {:.1f} MB, together {:.1f} bits per "
                    "value; all made "
                    "anew from the local indexes in {:.2f} s",
                    rate * 100, mb(statistics.filter_bytes), mb(statistics.bit_row_bytes),
                    8e6 * (mb(statistics.filter_bytes) + mb(statistics.bit_row_bytes)) /
                        static_cast<double>(statistics.values),
                    opening));
  }
  for (const std::string& note : notes) report.note(note);
}

// ---- generated rows -----------------------------------------------------------------------------

struct Generated {
  std::uint64_t rows;
  std::uint64_t customers() const { return std::max<std::uint64_t>(1, rows / 20); }

  /// Keys and customers are in no order, and have nothing to do with each other.
  Row row(std::uint64_t i) const {
    const std::uint64_t mixed = scbf::bench::key_word(i + (std::uint64_t{1} << 60));
    return {fmt::format("{:016x}", scbf::bench::key_word(i)),
            {fmt::format("order {}", i), fmt::format("customer {}", mixed % customers()),
             fmt::format("city {}", mixed / customers() % 1000)}};
  }
};

void load_generated(const std::filesystem::path& path, const Generated& table,
                    std::uint64_t regions, std::uint32_t servers, std::uint64_t values) {
  SecondaryIndex index =
      SecondaryIndex::create(path,
                             {.key = "id",
                              .columns = {{.name = "order", .indexed = true},
                                          {.name = "customer", .indexed = true},
                                          {.name = "city", .indexed = true}}},
                             {.region_values = values, .servers = servers, .seed = 1});
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
  std::vector<std::string> keys;
  const std::uint64_t more = std::min<std::uint64_t>(table.rows / 10 + 1, 20'000);
  for (std::uint64_t i = 0; i < more; ++i) {
    singles.push_back(table.row(table.rows * 2 + i));
    keys.push_back(singles.back().key);
  }
  const double put = seconds([&] {
    for (const Row& row : singles) index.put(row);
  });
  const double removed = seconds([&] {
    for (const std::string& key : keys) index.remove(key);
  });
  const scbf::IndexStatistics statistics = index.statistics();
  if (statistics.rows != table.rows) wrong(fmt::format("{} rows", statistics.rows));
  const auto us = [&](double time) { return time * 1e6 / static_cast<double>(more); };
  report.note(fmt::format(
      "{} rows with 3 indexed columns in {} regions on {} servers, {} values summed over regions; "
      "loaded in {:.0f} s by one thread ({:.0f} rows/s), store {:.0f} MB; one row more {:.1f} µs, "
      "one row less {:.1f} µs (log not synced)",
      table.rows, regions, servers, statistics.values, load, static_cast<double>(table.rows) / load,
      static_cast<double>(statistics.store_bytes) / 1e6, us(put), us(removed)));
}

void generated(const std::filesystem::path& path, const Generated& table, std::uint64_t regions,
               std::uint32_t servers, std::uint64_t asked, const std::vector<double>& rates) {
  const std::uint64_t values = 1000 + 2 * table.rows / regions;
  load_generated(path, table, regions, servers, values);
  begin_table("index");
  for_each_rate(path, rates, values, [&](const SecondaryIndex& index) {
    const auto ask = [&](const char* name, const char* column, std::uint64_t queries,
                         const std::function<std::string(std::uint64_t)>& value) {
      std::vector<Query> all;
      for (std::uint64_t i = 0; i < queries; ++i) {
        all.push_back({.all_of = {{column, value(scbf::bench::key_word(i + 77))}}});
      }
      measure(index, name, std::move(all), [&](std::size_t, const QueryAnswer&) {});
    };
    ask("nobody's", "order", asked, [](std::uint64_t x) { return fmt::format("absent {}", x); });
    ask("one row's", "order", asked,
        [&](std::uint64_t x) { return fmt::format("order {}", x % table.rows); });
    ask("a customer's", "customer", asked,
        [&](std::uint64_t x) { return fmt::format("customer {}", x % table.customers()); });
    ask("a city's", "city", std::max<std::uint64_t>(1, asked / 100),
        [&](std::uint64_t x) { return fmt::format("city {}", x % 1000); });
  });
}

// ---- a table from a file ------------------------------------------------------------------------

std::vector<std::string> parts(const std::string& line, const std::string& separator) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(separator, begin), line.size());
    all.push_back(line.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return all;
}

void from_file(const std::filesystem::path& file, const std::string& columns,
               const std::filesystem::path& path, std::uint64_t regions, std::uint32_t servers,
               const std::vector<double>& rates) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) wrong(fmt::format("{}: cannot be read", file.string()));
  std::vector<std::string> names = parts(line, "\t");
  scbf::TableSchema schema{.key = names.at(0), .columns = {}};
  for (std::size_t i = 1; i < names.size(); ++i) schema.columns.push_back({.name = names[i]});
  std::vector<std::size_t> indexed;
  for (const std::string& word : parts(columns, ",")) {
    const std::vector<std::string> name = parts(word, ":");
    indexed.push_back(schema.column(name[0]));
    schema.columns[indexed.back()].indexed = true;
    if (name.size() > 1)
      schema.columns[indexed.back()].separator = name[1] == "comma" ? "," : name[1];
  }
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    std::vector<std::string> fields = parts(line, "\t");
    Row row{fields.at(0), {fields.begin() + 1, fields.end()}};
    row.values.resize(schema.columns.size());
    rows.push_back(std::move(row));
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.key < b.key; });

  std::uint64_t values = 0;
  {
    SecondaryIndex index = SecondaryIndex::create(path, schema, {.servers = servers, .seed = 1});
    std::vector<std::string> points;
    for (std::uint64_t i = 1; i < regions; ++i)
      points.push_back(rows[rows.size() * i / regions].key);
    index.presplit(points);
    const double load = seconds([&] { index.put(rows); });
    index.checkpoint();
    for (const scbf::RegionInfo& region : index.regions()) values = std::max(values, region.values);
    report.note(fmt::format("{}: {} rows in {} regions on {} servers, loaded in {:.1f} s",
                            file.filename().string(), rows.size(), regions, servers, load));
  }
  begin_table("packages");
  for_each_rate(path, rates, values, [&](const SecondaryIndex& index) {
    for (const std::size_t column : indexed) {
      // What a scan of the whole table finds, for every value there is.
      std::map<std::string, std::vector<Row>> found;
      for (const Row& row : rows) {
        std::vector<std::string> own = {row.values[column]};
        if (!schema.columns[column].separator.empty()) {
          own = parts(row.values[column], schema.columns[column].separator);
        }
        std::sort(own.begin(), own.end());
        own.erase(std::unique(own.begin(), own.end()), own.end());
        for (const std::string& value : own) {
          if (!value.empty()) found[value].push_back({row.key, {}});
        }
      }
      std::vector<Query> queries;
      std::vector<const std::vector<Row>*> expected;
      for (const auto& [value, holders] : found) {
        queries.push_back({.all_of = {{schema.columns[column].name, value}}});
        expected.push_back(&holders);
      }
      measure(index, schema.columns[column].name, std::move(queries),
              [&](std::size_t i, const QueryAnswer& answer) {
                if (answer.rows != *expected[i]) {
                  wrong(fmt::format("value {} of {}: {} rows, a scan finds {}", i,
                                    schema.columns[column].name, answer.rows.size(),
                                    expected[i]->size()));
                }
              });
    }
  });
}

int usage() {
  fmt::print(
      stderr,
      "usage: index_bench generated DIRECTORY [rows] [regions] [servers] [queries] [rate …]\n"
      "       index_bench table FILE.tsv COLUMN[:SEPARATOR],… DIRECTORY [regions] [servers] "
      "[rate …]\n       a comma as separator is written 'comma'\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const auto output = scbf::bench::take_output(argc, argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto number = [&](std::size_t i, std::uint64_t otherwise) {
    return arguments.size() > i ? std::strtoull(arguments[i].c_str(), nullptr, 10) : otherwise;
  };
  const auto rates = [&](std::size_t i) {
    std::vector<double> all;
    for (; i < arguments.size(); ++i) all.push_back(std::strtod(arguments[i].c_str(), nullptr));
    return all.empty() ? std::vector<double>{0.1, 0.01, 0.001} : all;
  };
  if (arguments.size() >= 2 && arguments[0] == "generated") {
    generated(arguments[1], {number(2, 10'000'000)}, number(3, 256),
              static_cast<std::uint32_t>(number(4, 64)), number(5, 2000), rates(6));
  } else if (arguments.size() >= 4 && arguments[0] == "table") {
    from_file(arguments[1], arguments[2], arguments[3], number(4, 64),
              static_cast<std::uint32_t>(number(5, 16)), rates(6));
  } else {
    return usage();
  }
  report.write(output);
  return 0;
}
