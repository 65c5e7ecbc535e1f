// SPDX-License-Identifier: Apache-2.0
// A secondary index: requests per query, measured and predicted, and the time of a routed query
// against one that is broadcast to all local indexes. Routed answers are compared with broadcast
// ones or with a scan of the table. The table is loaded once; its filters are rebuilt for each
// rate.
//
// A generated row has a unique order number, a customer (who has about twenty rows, in any region)
// and one of a thousand cities (each in every region). A table from a file is tab-separated, with a
// header; its first column is the key. Every value of each named column is asked for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/driver.hpp"
#include "driver/keys.hpp"
#include "scbf/secondary_index.hpp"

namespace {

using namespace scbf::bench;
using scbf::Query;
using scbf::QueryAnswer;
using scbf::SecondaryIndex;
using TableRow = scbf::Row;

constexpr const char* kUsage =
    "usage: index_bench generated DIRECTORY [rows] [regions] [servers] [queries] [rate ...]\n"
    "       index_bench table FILE.tsv COLUMN[:SEPARATOR],... DIRECTORY [regions] [servers]\n"
    "                   [rate ...]\n"
    "       and Google Benchmark's flags; a comma as separator is written 'comma'\n";

/// Queries of one kind, and the rows that hold each value if a scan has found them.
struct Questions {
  std::vector<Query> queries;
  std::vector<std::vector<TableRow>> rows;
};

/// The rows of an index and the queries that it is asked.
class Table {
 public:
  Table(std::string name, std::filesystem::path path, std::uint64_t regions, std::uint32_t servers)
      : name_(std::move(name)), path_(std::move(path)), regions_(regions), servers_(servers) {}
  virtual ~Table() = default;

  const std::string& name() const { return name_; }
  const std::filesystem::path& path() const { return path_; }
  std::uint64_t values() const { return values_; }
  virtual std::vector<std::string> kinds() const = 0;
  virtual Questions questions(const std::string& kind) const = 0;

  /// Makes the index at path() on the first call.
  void load(Repetition& r) {
    if (std::exchange(loaded_, true)) return;
    load_rows(r);
    r.counter("regions", static_cast<double>(regions_));
    r.counter("servers", servers_);
  }

 protected:
  virtual void load_rows(Repetition& r) = 0;

  std::string name_;
  std::filesystem::path path_;
  std::uint64_t regions_;
  std::uint32_t servers_;
  std::uint64_t values_ = 0;  ///< values per region, for which its filter is planned

 private:
  bool loaded_ = false;
};

/// The index with the filters of one rate.
class IndexFixture final : public Fixture {
 public:
  IndexFixture(Table& table, double rate) : table_(table) {
    Repetition load, opening;
    table.load(load);
    SecondaryIndex::replan(table.path(), rate, table.values());
    opening.time("", 1, [&] { index_.emplace(SecondaryIndex::open(table.path())); });
    opening_seconds_ = opening.seconds();
  }

  void verify() override {
    for (const std::string& kind : table_.kinds()) verify(kind);
  }

  std::map<std::string, double> counters() const override {
    const scbf::IndexStatistics statistics = index_->statistics();
    const auto filters = static_cast<double>(statistics.filter_bytes);
    const auto rows = static_cast<double>(statistics.bit_row_bytes);
    return {{"filters_mb", filters / 1e6},
            {"bit_rows_mb", rows / 1e6},
            {"bits_per_value", 8 * (filters + rows) / static_cast<double>(statistics.values)},
            {"opening_seconds", opening_seconds_}};
  }

  /// Queries were asked before, for verification, so the store's blocks are in the cache if they
  /// fit.
  void query(Repetition& r, const std::string& kind) {
    const Asked& asked = asked_.at(kind);
    r.time("", asked.routed.size(), [&] { index_->query(asked.routed); });
    r.time("broadcast", asked.broadcast.size(), [&] { index_->query(asked.broadcast); });
    for (const auto& [name, value] : asked.requests) r.counter(name, value);
  }

 private:
  struct Asked {
    std::vector<Query> routed, broadcast;  ///< the timed queries
    std::map<std::string, double> requests;
  };

  void verify(const std::string& kind) {
    Questions questions = table_.questions(kind);
    std::vector<Query>& queries = questions.queries;
    for (Query& query : queries) query.keys_only = true;
    // Broadcasts take long, so only a part of the queries is broadcast.
    const std::size_t step = std::max<std::size_t>(1, queries.size() / 200);
    Asked& asked = asked_[kind];
    for (std::size_t i = 0; i < queries.size(); i += step) asked.routed.push_back(queries[i]);
    asked.broadcast = asked.routed;
    for (Query& query : asked.broadcast) query.broadcast = true;

    const std::vector<QueryAnswer> routed = index_->query(queries);
    const std::vector<QueryAnswer> everyone = index_->query(asked.broadcast);
    for (std::size_t i = 0; i < everyone.size(); ++i) {
      check(queries[i * step], routed[i * step], everyone[i].rows, "broadcast");
    }
    for (std::size_t i = 0; i < questions.rows.size(); ++i) {
      check(queries[i], routed[i], questions.rows[i], "a scan finds");
    }
    asked.requests = requests(routed);
  }

  static void check(const Query& query, const QueryAnswer& answer,
                    const std::vector<TableRow>& wanted, const char* how) {
    if (answer.rows == wanted) return;
    throw WrongAnswer(fmt::format("{} '{}': {} rows, {} {}", query.all_of[0].column,
                                  query.all_of[0].value, answer.rows.size(), how, wanted.size()));
  }

  std::map<std::string, double> requests(const std::vector<QueryAnswer>& answers) const {
    const auto regions = static_cast<double>(index_->regions().size());
    const auto servers = static_cast<double>(index_->statistics().servers);
    const double server_rate = 1 - std::pow(1 - index_->plan().fpr, regions / servers);
    double requests = 0, squares = 0, expected = 0, holding = 0, bound = 0;
    for (const QueryAnswer& answer : answers) {
      const auto& routing = answer.routing;
      requests += routing.requests;
      squares += std::pow(routing.requests - routing.expected_requests, 2);
      expected += routing.expected_requests;
      holding += routing.servers_holding;
      bound += routing.servers_holding + (servers - routing.servers_holding) * server_rate;
    }
    const auto n = static_cast<double>(answers.size());
    return {{"queries", n},
            {"servers_holding", holding / n},
            {"requests", requests / n},
            {"standard_error", std::sqrt(squares) / n},
            {"expected", expected / n},
            {"bound", bound / n},
            {"broadcast", servers}};
  }

  Table& table_;
  std::optional<SecondaryIndex> index_;
  double opening_seconds_ = 0;
  std::map<std::string, Asked> asked_;
};

// ---- generated rows -----------------------------------------------------------------------------

class GeneratedTable final : public Table {
 public:
  GeneratedTable(const std::filesystem::path& path, std::uint64_t rows, std::uint64_t regions,
                 std::uint32_t servers, std::uint64_t asked)
      : Table("generated", path, regions, servers), rows_(rows), asked_(asked) {
    values_ = 1000 + 2 * rows / regions;
  }

  std::vector<std::string> kinds() const override {
    return {"nobody", "one_row", "customer", "city"};
  }

  Questions questions(const std::string& kind) const override {
    const std::uint64_t n = kind == "city" ? std::max<std::uint64_t>(1, asked_ / 100) : asked_;
    Questions all;
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t x = key_word(i + 77);
      if (kind == "nobody") add(all, "order", fmt::format("absent {}", x));
      if (kind == "one_row") add(all, "order", fmt::format("order {}", x % rows_));
      if (kind == "customer") add(all, kind, fmt::format("customer {}", x % customers()));
      if (kind == "city") add(all, kind, fmt::format("city {}", x % 1000));
    }
    return all;
  }

 private:
  std::uint64_t customers() const { return std::max<std::uint64_t>(1, rows_ / 20); }

  /// Keys and customers are in random order and independent of each other.
  TableRow row(std::uint64_t i) const {
    const std::uint64_t mixed = key_word(i + (std::uint64_t{1} << 60));
    return {fmt::format("{:016x}", key_word(i)),
            {fmt::format("order {}", i), fmt::format("customer {}", mixed % customers()),
             fmt::format("city {}", mixed / customers() % 1000)}};
  }

  static void add(Questions& all, const std::string& column, const std::string& value) {
    all.queries.push_back({.all_of = {{column, value}}});
  }

  void load_rows(Repetition& r) override {
    SecondaryIndex index =
        SecondaryIndex::create(path_,
                               {.key = "id",
                                .columns = {{.name = "order", .indexed = true},
                                            {.name = "customer", .indexed = true},
                                            {.name = "city", .indexed = true}}},
                               {.region_values = values_, .servers = servers_, .seed = 1});
    std::vector<std::string> points;
    for (std::uint64_t i = 1; i < regions_; ++i) {
      points.push_back(fmt::format("{:016x}", ~std::uint64_t{0} / regions_ * i));
    }
    index.presplit(points);
    std::uint64_t next = 0;
    r.time("", rows_, [&] {
      index.bulk_load([&](TableRow& out) {
        if (next == rows_) return false;
        out = row(next++);
        return true;
      });
    });
    std::vector<TableRow> singles;
    const std::uint64_t more = std::min<std::uint64_t>(rows_ / 10 + 1, 20'000);
    for (std::uint64_t i = 0; i < more; ++i) singles.push_back(row(rows_ * 2 + i));
    r.time("put", more, [&] {
      for (const TableRow& one : singles) index.put(one);
    });
    r.time("remove", more, [&] {
      for (const TableRow& one : singles) index.remove(one.key);
    });
    const scbf::IndexStatistics statistics = index.statistics();
    if (statistics.rows != rows_) throw WrongAnswer(fmt::format("{} rows", statistics.rows));
    r.counter("rows", static_cast<double>(statistics.rows));
    r.counter("values", static_cast<double>(statistics.values));
    r.counter("store_mb", static_cast<double>(statistics.store_bytes) / 1e6);
  }

  std::uint64_t rows_, asked_;
};

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

class FileTable final : public Table {
 public:
  FileTable(const std::filesystem::path& file, const std::string& columns,
            const std::filesystem::path& path, std::uint64_t regions, std::uint32_t servers)
      : Table(file.stem().string(), path, regions, servers) {
    std::ifstream in(file);
    std::string line;
    if (!std::getline(in, line)) throw UsageError(file.string() + ": cannot be read");
    const std::vector<std::string> names = parts(line, "\t");
    schema_.key = names.at(0);
    for (std::size_t i = 1; i < names.size(); ++i) schema_.columns.push_back({.name = names[i]});
    for (const std::string& word : parts(columns, ",")) {
      const std::vector<std::string> name = parts(word, ":");
      auto& column = schema_.columns[schema_.column(name[0])];
      column.indexed = true;
      if (name.size() > 1) column.separator = name[1] == "comma" ? "," : name[1];
      kinds_.push_back(name[0]);
    }
    while (std::getline(in, line)) {
      std::vector<std::string> fields = parts(line, "\t");
      TableRow row{fields.at(0), {fields.begin() + 1, fields.end()}};
      row.values.resize(schema_.columns.size());
      rows_.push_back(std::move(row));
    }
    std::ranges::sort(rows_, {}, &TableRow::key);
  }

  std::vector<std::string> kinds() const override { return kinds_; }

  /// The rows for every value, found by a scan of the whole table.
  Questions questions(const std::string& kind) const override {
    const std::size_t column = schema_.column(kind);
    const std::string& separator = schema_.columns[column].separator;
    std::map<std::string, std::vector<TableRow>> found;
    for (const TableRow& row : rows_) {
      std::vector<std::string> own = {row.values[column]};
      if (!separator.empty()) own = parts(row.values[column], separator);
      std::ranges::sort(own);
      own.erase(std::unique(own.begin(), own.end()), own.end());
      for (const std::string& value : own) {
        if (!value.empty()) found[value].push_back({row.key, {}});
      }
    }
    Questions all;
    for (auto& [value, rows] : found) {
      all.queries.push_back({.all_of = {{kind, value}}});
      all.rows.push_back(std::move(rows));
    }
    return all;
  }

 private:
  void load_rows(Repetition& r) override {
    SecondaryIndex index = SecondaryIndex::create(path_, schema_, {.servers = servers_, .seed = 1});
    std::vector<std::string> points;
    for (std::uint64_t i = 1; i < regions_; ++i) {
      points.push_back(rows_[rows_.size() * i / regions_].key);
    }
    index.presplit(points);
    r.time("", rows_.size(), [&] { index.put(rows_); });
    index.checkpoint();
    for (const scbf::RegionInfo& region : index.regions()) {
      values_ = std::max(values_, region.values);
    }
    r.counter("rows", static_cast<double>(rows_.size()));
  }

  scbf::TableSchema schema_;
  std::vector<std::string> kinds_;
  std::vector<TableRow> rows_;
};

void add_cases(const std::vector<std::string>& arguments) {
  const auto number = [&](std::size_t i, std::uint64_t otherwise) {
    return arguments.size() > i ? parse_number(arguments[i], 1) : otherwise;
  };
  std::shared_ptr<Table> table;
  if (arguments.size() >= 2 && arguments[0] == "generated") {
    table = std::make_shared<GeneratedTable>(arguments[1], number(2, 10'000'000), number(3, 256),
                                             static_cast<std::uint32_t>(number(4, 64)),
                                             number(5, 2000));
  } else if (arguments.size() >= 4 && arguments[0] == "table") {
    table = std::make_shared<FileTable>(arguments[1], arguments[2], arguments[3], number(4, 64),
                                        static_cast<std::uint32_t>(number(5, 16)));
  } else {
    throw UsageError("index_bench: which table?");
  }
  std::vector<double> rates;
  for (std::size_t at = 6; at < arguments.size(); ++at) {
    rates.push_back(std::strtod(arguments[at].c_str(), nullptr));
    if (!(rates.back() > 0 && rates.back() < 1)) {
      throw UsageError(fmt::format("rate '{}': must be above 0 and below 1", arguments[at]));
    }
  }
  if (rates.empty()) rates = {0.1, 0.01, 0.001};

  const std::string what = "table:" + table->name();
  add_case([] { return std::make_unique<Fixture>(); },
           {{.name = "load/" + what,
             .repetitions = 1,
             .measure = [table](Fixture&, Repetition& r) { table->load(r); },
             .item = "row"}});
  for (const double rate : rates) {
    std::vector<Row> rows;
    for (const std::string& kind : table->kinds()) {
      rows.push_back({.name = fmt::format("query/{}/rate:{:g}/value:{}", what, rate, kind),
                      .repetitions = 3,
                      .measure = by(&IndexFixture::query, kind),
                      .item = "query"});
    }
    add_case([table, rate] { return std::make_unique<IndexFixture>(*table, rate); },
             std::move(rows));
  }
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, kUsage, add_cases); }
