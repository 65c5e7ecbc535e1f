// SPDX-License-Identifier: Apache-2.0
// The secondary index against SQLite: the same table of four columns, all indexed, in one process.
// Neither waits for the disk: SQLite has a write-ahead log and synchronous=NORMAL, the index its
// default; in the rows `…_synced` both do, with synchronous=FULL. Both caches have the same size.
// SQLite's table is WITHOUT ROWID, so that its indexes list keys in order, as ours do, and ANALYZE
// has counted its values. It loads sorted rows in one transaction and indexes them then. Its
// statements are prepared once. Every query is asked alone and returns whole rows; the answers are
// compared before anything is timed.
//
// A row has a unique order, a customer with about twenty rows, and two popular values: one of four
// states and one of two kinds. The kind follows from the state, so some pairs have no rows.
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/driver.hpp"
#include "driver/keys.hpp"
#include "scbf/secondary_index.hpp"

namespace {

using namespace scbf::bench;
using scbf::Query;
using scbf::SecondaryIndex;
using TableRow = scbf::Row;

constexpr const char* kUsage =
    "usage: sqlite_bench DIRECTORY [rows] [regions]\n"
    "       and Google Benchmark's flags\n";
constexpr std::uint64_t kCacheBytes = 64u << 20;

/// The operations that are compared.
class System {
 public:
  virtual ~System() = default;
  virtual void load(const std::vector<TableRow>& rows) = 0;
  virtual std::vector<TableRow> query(const Query& query) = 0;
  virtual void put(const TableRow& row) = 0;
  virtual void remove(const std::string& key) = 0;
};

class Index final : public System {
 public:
  Index(const std::filesystem::path& path, std::uint64_t rows, std::uint64_t regions, bool sync)
      : index_(SecondaryIndex::create(path,
                                      {.key = "id",
                                       .columns = {{.name = "order_no", .indexed = true},
                                                   {.name = "customer", .indexed = true},
                                                   {.name = "state", .indexed = true},
                                                   {.name = "kind", .indexed = true}}},
                                      {.region_values = 2 * rows / regions + 1000, .seed = 1},
                                      {.sync = sync, .cache_bytes = kCacheBytes})) {
    std::vector<std::string> points;
    for (std::uint64_t i = 1; i < regions; ++i) {
      points.push_back(fmt::format("{:016x}", ~std::uint64_t{0} / regions * i));
    }
    index_.presplit(points);
  }
  void load(const std::vector<TableRow>& rows) override {
    std::size_t next = 0;
    index_.bulk_load([&](TableRow& out) {
      if (next == rows.size()) return false;
      out = rows[next++];
      return true;
    });
  }
  std::vector<TableRow> query(const Query& query) override { return index_.query(query).rows; }
  void put(const TableRow& row) override { index_.put(row); }
  void remove(const std::string& key) override { index_.remove(key); }

 private:
  SecondaryIndex index_;
};

class Sqlite final : public System {
 public:
  Sqlite(const std::filesystem::path& path, bool sync) {
    check(sqlite3_open(path.c_str(), &db_));
    run(fmt::format("PRAGMA journal_mode=WAL; PRAGMA synchronous={}", sync ? "FULL" : "NORMAL"));
    run(fmt::format("PRAGMA cache_size=-{}", kCacheBytes >> 10));
    run("CREATE TABLE t(id TEXT PRIMARY KEY, order_no TEXT, customer TEXT, state TEXT, kind TEXT) "
        "WITHOUT ROWID");
    put_ = statement("INSERT OR REPLACE INTO t VALUES(?,?,?,?,?)");
    remove_ = statement("DELETE FROM t WHERE id=?");
  }
  ~Sqlite() override {
    for (auto& [text, made] : made_) sqlite3_finalize(made);
    sqlite3_close(db_);
  }
  void load(const std::vector<TableRow>& rows) override {
    run("BEGIN");
    for (const TableRow& row : rows) put(row);
    for (const char* column : {"order_no", "customer", "state", "kind"}) {
      run(fmt::format("CREATE INDEX {0}_index ON t({0})", column));
    }
    run("COMMIT; ANALYZE");
  }
  std::vector<TableRow> query(const Query& query) override {
    std::string text = "SELECT id,order_no,customer,state,kind FROM t WHERE ";
    for (const auto& condition : query.all_of) text += condition.column + "=? AND ";
    sqlite3_stmt* made = statement(text + "1 ORDER BY id LIMIT ?");
    int at = 0;
    for (const auto& condition : query.all_of) bind(made, ++at, condition.value);
    sqlite3_bind_int64(made, ++at,
                       static_cast<sqlite3_int64>(std::min<std::uint64_t>(query.limit, 1u << 30)));
    std::vector<TableRow> rows;
    while (step(made)) {
      TableRow& row = rows.emplace_back();
      row.key = column(made, 0);
      for (int i = 1; i < 5; ++i) row.values.push_back(column(made, i));
    }
    return rows;
  }
  void put(const TableRow& row) override {
    bind(put_, 1, row.key);
    for (int i = 0; i < 4; ++i) bind(put_, i + 2, row.values[static_cast<std::size_t>(i)]);
    step(put_);
  }
  void remove(const std::string& key) override {
    bind(remove_, 1, key);
    step(remove_);
  }

 private:
  void check(int code) const {
    if (code != SQLITE_OK) throw WrongAnswer(fmt::format("sqlite: {}", sqlite3_errmsg(db_)));
  }
  void run(const std::string& text) {
    check(sqlite3_exec(db_, text.c_str(), nullptr, nullptr, nullptr));
  }
  /// A prepared statement; each text is prepared once.
  sqlite3_stmt* statement(const std::string& text) {
    for (auto& [known, made] : made_) {
      if (known == text) return made;
    }
    sqlite3_stmt* made = nullptr;
    check(sqlite3_prepare_v2(db_, text.c_str(), -1, &made, nullptr));
    made_.emplace_back(text, made);
    return made;
  }
  void bind(sqlite3_stmt* made, int at, std::string_view text) {
    check(sqlite3_bind_text(made, at, text.data(), static_cast<int>(text.size()), SQLITE_STATIC));
  }
  /// True if there is a row. After the last one the statement can be used again.
  bool step(sqlite3_stmt* made) {
    if (sqlite3_step(made) == SQLITE_ROW) return true;
    check(sqlite3_reset(made));
    return false;
  }
  static std::string column(sqlite3_stmt* made, int at) {
    return {reinterpret_cast<const char*>(sqlite3_column_text(made, at)),
            static_cast<std::size_t>(sqlite3_column_bytes(made, at))};
  }

  sqlite3* db_ = nullptr;
  sqlite3_stmt *put_ = nullptr, *remove_ = nullptr;
  std::vector<std::pair<std::string, sqlite3_stmt*>> made_;
};

/// Both systems with the same rows.
class Both final : public Fixture {
 public:
  Both(const std::filesystem::path& path, std::uint64_t rows, std::uint64_t regions, bool sync)
      : n_(rows), path_(path), regions_(regions), sync_(sync) {
    for (std::uint64_t i = 0; i < n_; ++i) rows_.push_back(row(i));
    std::ranges::sort(rows_, {}, &TableRow::key);
  }
  ~Both() override { clear(); }

  void load(Repetition& r) {
    clear();
    std::filesystem::create_directories(path_);
    index_ = std::make_unique<Index>(path_ / "index", n_, regions_, sync_);
    sqlite_ = std::make_unique<Sqlite>(path_ / "sqlite", sync_);
    r.time("", n_, [&] { index_->load(rows_); });
    r.time("sqlite", n_, [&] { sqlite_->load(rows_); });
    for (const char* kind : {"found", "absent", "selective", "disjoint", "overlap", "many"}) {
      for (const Query& query : queries(kind, 5)) same(query);
    }
  }

  void query(Repetition& r, const std::string& kind, std::uint64_t count) {
    ready();
    const std::vector<Query> all = queries(kind, count);
    for (const Query& query : all) same(query);  // and warms both caches
    std::size_t rows = 0;
    each([&](System& system, const std::string& form) {
      r.time(form, all.size(), [&] {
        for (const Query& query : all) rows += system.query(query).size();
      });
    });
    r.counter("rows", static_cast<double>(rows) / 2 / static_cast<double>(all.size()));
  }

  void put(Repetition& r, std::uint64_t count) {
    const std::vector<TableRow> more = fresh(count);
    each([&](System& system, const std::string& form) {
      r.time(form, count, [&] {
        for (const TableRow& one : more) system.put(one);
      });
    });
    same({.all_of = {{"order_no", more[0].values[0]}}});
  }

  void overwrite(Repetition& r, std::uint64_t count) {
    std::vector<TableRow> more = fresh(count);
    for (TableRow& one : more) one.values[2] = "state 9";
    each([&](System& system, const std::string& form) {
      r.time(form, count, [&] {
        for (const TableRow& one : more) system.put(one);
      });
    });
    same({.all_of = {{"state", "state 9"}}});
  }

  void remove(Repetition& r, std::uint64_t count) {
    const std::vector<TableRow> more = fresh(count);
    each([&](System& system, const std::string& form) {
      r.time(form, count, [&] {
        for (const TableRow& one : more) system.remove(one.key);
      });
    });
    same({.all_of = {{"state", "state 9"}}});
  }

  /// Takes the first ten pending rows and marks them as done, until none is left. Then the time of
  /// the last tenth of these queries is reported.
  void queue(Repetition& r, std::uint64_t count) {
    ready();
    const Query pending{.all_of = {{"state", "pending"}}, .limit = 10};
    for (std::uint64_t i = 0; i < count; ++i) {
      TableRow one = row(3 * n_ + i);
      one.key = fmt::format("8000 job {:08}", i);
      one.values[2] = "pending";
      index_->put(one);
      sqlite_->put(one);
    }
    std::vector<std::vector<TableRow>> taken(2);
    each([&](System& system, const std::string& form) {
      for (std::uint64_t done = 0; done < count; done += 10) {
        std::vector<TableRow> ten;
        const std::string last = done * 10 < count * 9 ? "early" : form;
        if (last == "early") {
          ten = system.query(pending);
        } else {
          ten = r.time(form, 1, [&] { return system.query(pending); });
        }
        for (TableRow& one : ten) {
          one.values[2] = "done";
          system.put(one);
        }
        auto& own = taken[form.empty() ? 0 : 1];
        own.insert(own.end(), ten.begin(), ten.end());
      }
    });
    if (taken[0] != taken[1] || taken[0].size() != count) throw WrongAnswer("the queue differs");
  }

 private:
  void clear() {
    index_.reset();
    sqlite_.reset();
    std::filesystem::remove_all(path_);
  }
  /// Loads both, if the row that does so was not picked.
  void ready() {
    if (index_) return;
    Repetition unused;
    load(unused);
  }

  template <class Work>
  void each(const Work& work) {
    ready();
    work(*index_, "");
    work(*sqlite_, "sqlite");
  }

  void same(const Query& query) {
    const auto ours = index_->query(query), theirs = sqlite_->query(query);
    if (ours == theirs) return;
    throw WrongAnswer(fmt::format("{} '{}': {} rows, SQLite {}", query.all_of[0].column,
                                  query.all_of[0].value, ours.size(), theirs.size()));
  }

  std::uint64_t customers() const { return n_ / 20 + 1; }

  TableRow row(std::uint64_t i) const {
    const std::uint64_t x = key_word(i + (std::uint64_t{1} << 60)), state = x % 4;
    return {fmt::format("{:016x}", key_word(i)),
            {fmt::format("order {}", i), fmt::format("customer {}", (x >> 8) % customers()),
             fmt::format("state {}", state), fmt::format("kind {}", state / 2)}};
  }

  std::vector<TableRow> fresh(std::uint64_t count) const {
    std::vector<TableRow> more;
    for (std::uint64_t i = 0; i < count; ++i) more.push_back(row(2 * n_ + i));
    return more;
  }

  std::vector<Query> queries(const std::string& kind, std::uint64_t count) const {
    std::vector<Query> all;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t x = key_word(i + 77);
      const std::string state = fmt::format("state {}", x % 4);
      const std::string customer = fmt::format("customer {}", (x >> 8) % customers());
      Query query;
      if (kind == "found") query.all_of = {{"order_no", fmt::format("order {}", x % n_)}};
      if (kind == "absent") query.all_of = {{"order_no", fmt::format("absent {}", x)}};
      if (kind == "selective") query.all_of = {{"state", state}, {"customer", customer}};
      if (kind == "disjoint") {
        query.all_of = {{"state", state}, {"kind", fmt::format("kind {}", 1 - x % 4 / 2)}};
        query.limit = 1;
      }
      if (kind == "overlap") {
        query.all_of = {{"state", state}, {"kind", fmt::format("kind {}", x % 4 / 2)}};
        query.limit = 10;
      }
      if (kind == "many") {
        query.all_of = {{"state", state}};
        query.limit = 20'000;
      }
      all.push_back(std::move(query));
    }
    return all;
  }

  std::uint64_t n_;
  std::filesystem::path path_;
  std::uint64_t regions_;
  bool sync_;
  std::vector<TableRow> rows_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<Sqlite> sqlite_;
};

void add_cases(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw UsageError("sqlite_bench: which directory?");
  const std::filesystem::path path = arguments[0];
  const std::uint64_t rows = arguments.size() > 1 ? parse_number(arguments[1], 1000) : 1'000'000;
  const std::uint64_t regions = arguments.size() > 2 ? parse_number(arguments[2], 1) : 4;
  const std::string table = fmt::format("/against:sqlite/rows:{}/regions:{}", rows, regions);
  const std::uint64_t some = std::min<std::uint64_t>(rows / 10, 5000);
  const auto row = [&](const std::string& name, auto measure, const char* item, int times = 1) {
    return Row{.name = name + table, .repetitions = times, .measure = measure, .item = item};
  };
  // One after another on the same tables.
  add_case(
      [=] { return std::make_unique<Both>(path / "both", rows, regions, false); },
      {row("load", by(&Both::load), "row", 3),
       row("found", by(&Both::query, std::string("found"), some), "query", 5),
       row("absent", by(&Both::query, std::string("absent"), some), "query", 5),
       row("and_selective", by(&Both::query, std::string("selective"), some / 5), "query", 5),
       row("and_disjoint_limit_1", by(&Both::query, std::string("disjoint"), 4), "query", 5),
       row("and_limit_10", by(&Both::query, std::string("overlap"), some / 5), "query", 5),
       row("many", by(&Both::query, std::string("many"), 8), "query", 5),
       row("put", by(&Both::put, some), "row"), row("overwrite", by(&Both::overwrite, some), "row"),
       row("remove", by(&Both::remove, some), "row"),
       row("queue_last_tenth", by(&Both::queue, 6 * some), "query")});
  const std::uint64_t synced = std::max<std::uint64_t>(some / 10, 10);
  add_case([=] { return std::make_unique<Both>(path / "synced", rows, regions, true); },
           {row("put_synced", by(&Both::put, synced), "row"),
            row("overwrite_synced", by(&Both::overwrite, synced), "row"),
            row("remove_synced", by(&Both::remove, synced), "row")});
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, kUsage, add_cases); }
