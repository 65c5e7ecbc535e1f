// SPDX-License-Identifier: Apache-2.0
// SecondaryIndex: a table divided into regions, whose rows can be found by their column values.
//
//   auto index = scbf::SecondaryIndex::create("packages.index",
//       {.key = "package", .columns = {{.name = "maintainer", .indexed = true}}});
//   index.put({"bash", {"Matthias Klose <doko@debian.org>"}});
//   auto answer = index.query({.all_of = {{"maintainer", "Matthias Klose <doko@debian.org>"}}});
//   // answer.rows holds the rows, answer.routing what the query cost
//
// The index has two layers. Each region has a local index, stored beside its rows, which maps
// (column, value) to the keys and the number of the rows with that value. In front of the local
// indexes is a bank with one growing filter per region. The bank says which regions may hold a
// value, so a query only asks the servers of those regions. docs/secondary_index.md explains how
// the index works and what it guarantees.
//
// Threads: any number of threads may read and write at once. Writers to the same region take turns.
// Splitting, merging or rebuilding a region blocks its writers. One shared mutex protects all
// filters. Queries hold it shared while they probe the filters. Changes to a filter hold it
// exclusively: a write while it inserts new values and while it removes old ones, and any operation
// that adds a member to the bank or removes one (a pass over the bank's rows of bits). A change of
// the region map, which is one synced write, blocks all queries and writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scbf/detail/owned.hpp"
#include "scbf/errors.hpp"
#include "scbf/geometry.hpp"
#include "scbf/routing.hpp"
#include "scbf/table.hpp"

namespace scbf {

using RegionId = std::uint32_t;
using ServerId = std::uint32_t;

/// The parameters of an index. They are fixed at creation; replan changes some of them.
struct IndexPlan {
  /// Bound on the false-positive rate of one region's filter, however many stages it has.
  double fpr = 0.01;
  /// Distinct indexed values per region for which the first stage of a filter is sized. A filter
  /// with more values grows by further stages.
  std::uint64_t region_values = 16'384;
  /// Number of servers that share the regions. Region i of a new index is on server i mod servers.
  std::uint32_t servers = 1;
  std::uint64_t seed = 0;
  Layout layout = Layout::split_block;
};

/// The schema and the plan as one JSON object: key, columns (name, indexed, separator), fpr,
/// region_values, servers, seed, layout. An index stores the same object with a format version.
/// Throws InvalidArgument unless all names and separators are UTF-8.
std::string definition_json(const TableSchema& schema, const IndexPlan& plan);

/// How an index is opened.
struct IndexOptions {
  /// True: a write is acknowledged once it is on disk. False: once the operating system has it.
  /// Then a killed process loses nothing, but a power failure may lose the last writes.
  bool sync = false;
  /// Name of the filters' backend; see find_backend.
  std::string backend = "auto";
  /// Size of the store's block cache, in bytes.
  std::uint64_t cache_bytes = 64u << 20;
  /// True: open rebuilds every filter that is missing, damaged, ahead of the store, or of another
  /// index, plan or history (docs/secondary_index.md), such as that of a copy of the index that
  /// went on separately. The filters of an index of version 0.1 are rebuilt once. False: every
  /// query asks the regions of these filters until rebuild is called. Either way, filters behind
  /// the store are brought up to date from the log.
  bool rebuild = true;
  /// Number of threads that open uses; 0 = one per processor of the machine.
  unsigned threads = 0;
};

struct Condition {
  std::string column;  ///< name of an indexed column
  std::string value;
};

struct Query {
  /// Conditions that a row must meet, all of them. At least one.
  std::vector<Condition> all_of;
  /// Only rows with from ≤ key < to. An empty `to` means no upper bound.
  std::string from = {}, to = {};
  /// Only rows with key > after. For answers in pages: ask for `limit` rows, then for those after
  /// the last of them, until there are fewer than `limit`. Whatever is written between two pages,
  /// no row comes twice, and every row that exists throughout comes. Costs no more than the first
  /// page.
  std::string after = {};
  /// The largest number of rows to return.
  std::uint64_t limit = UINT64_MAX;
  /// Return only the keys of the rows, without their values.
  bool keys_only = false;
  /// Ask every region, as if there were no filters. For comparisons.
  bool broadcast = false;
};

/// What a query cost. A request asks one server about all of its candidate regions.
struct RoutingReport {
  /// Regions that overlap the query's range of keys; if a limit or a callback ended the query, up
  /// to the last one that was asked.
  std::uint32_t regions = 0;
  std::uint32_t regions_asked = 0;    ///< those of them that were asked
  std::uint32_t regions_holding = 0;  ///< those of them with a matching row
  std::uint32_t servers = 0;          ///< servers of these regions, the requests of a broadcast
  std::uint32_t requests = 0;         ///< servers that were asked
  std::uint32_t servers_holding = 0;  ///< servers with a matching row
  /// Expected number of requests, given the h servers that hold the value: h + Σ (1 − Π (1 − P_r)).
  /// The sum runs over the other servers, the product over the regions r of each, and P_r is the
  /// rate of region r's filter. 0 for queries with several conditions, a limit or a range of keys.
  /// It is the mean over many absent values. P_r is taken from the filter's counters when a 64th of
  /// its values has changed (of region_values, if that is more), so it may be a tenth off while
  /// rows are written; stages of more than 1 MiB are off by some hundredths. The product takes the
  /// filters as independent: where regions of a server share many values, they claim the same
  /// absent ones, and fewer requests come than expected.
  double expected_requests = 0;

  std::uint32_t false_requests() const noexcept { return requests - servers_holding; }
  /// True if every server holds a matching row, so that routing can save nothing.
  bool everywhere() const noexcept { return servers > 1 && servers_holding == servers; }
};

struct QueryAnswer {
  std::vector<Row> rows;  ///< sorted by key; without values if keys_only
  RoutingReport routing;
};

struct WriteReport {
  std::uint64_t put = 0;       ///< rows written under a new key
  std::uint64_t replaced = 0;  ///< rows written over a row with the same key
  std::uint64_t removed = 0;   ///< rows removed
  std::uint64_t absent = 0;    ///< keys to remove that had no row
};

struct RegionInfo {
  RegionId id;
  std::string from, to;  ///< from ≤ key < to; `to` of the last region is empty: no bound
  ServerId server;
  std::uint64_t rows;
  std::uint64_t values;        ///< distinct pairs (column, value)
  std::uint32_t stages;        ///< stages of its filter
  std::uint64_t filter_bytes;  ///< bytes of its filter's counters, which only a writer keeps
  double estimated_fpr;        ///< of its filter; as RoutingReport::expected_requests takes it
  std::uint64_t left_over;     ///< entries of its filter for values that the region no longer has
  std::uint64_t unsaved;       ///< changes since its filter was saved, replayed after a crash
  bool asked_always;           ///< its filter is not trusted, so every query asks the region
};

struct IndexStatistics {
  std::uint64_t rows = 0, values = 0;
  /// Bytes of the counters of all filters, which only a writer keeps in memory.
  std::uint64_t filter_bytes = 0;
  std::uint64_t bit_row_bytes = 0;  ///< bytes of the bank's rows of bits
  std::uint64_t store_bytes = 0;    ///< bytes on disk, as the store estimates
  std::uint32_t regions = 0, servers = 0;
  // Since the index was opened:
  std::uint64_t queries = 0, requests = 0, broadcast_requests = 0, false_requests = 0;
  std::uint64_t queries_everywhere = 0;  ///< queries for which every server held a row
};

/// Filters that have not been built; see SecondaryIndex::forecast.
struct FilterForecast {
  std::uint64_t filter_bytes = 0;        ///< bytes of the counters of all filters
  double mean_fpr = 0, highest_fpr = 0;  ///< over the regions
};

/// What open did with the saved filters: used them as they were, replayed the log, or rebuilt them.
struct RecoveryReport {
  std::uint32_t regions = 0;
  std::uint32_t replayed = 0;          ///< regions whose filter was brought up to date from the log
  std::uint64_t changes_replayed = 0;  ///< filter entries inserted or removed by that
  std::uint32_t rebuilt = 0;           ///< regions whose filter was rebuilt
  std::uint32_t asked_always = 0;  ///< regions without a trusted filter; see IndexOptions::rebuild
  std::vector<std::string> reasons;  ///< one for each region rebuilt or always asked, naming it
};

/// How recent the contents of an index are.
struct Freshness {
  /// Every write that was acknowledged before this moment is shown.
  std::chrono::system_clock::time_point as_of;
  /// Grows with every write: later contents have a greater number, and read-only indexes with equal
  /// numbers show the same contents.
  std::uint64_t number = 0;
};

struct CheckReport {
  std::uint64_t rows = 0, postings = 0, values = 0;
  /// One sentence per problem, naming the region and the value. At most 100 are listed.
  std::vector<std::string> problems;
  std::uint64_t problem_count = 0;  ///< all problems, listed or not
  std::vector<RegionId> regions;    ///< the regions with problems
};

/// Which metrics: those of the whole index, or also six for each region.
enum class MetricsDetail : std::uint8_t { totals, each_region };

/// Called from time to time during a long operation; total 0 = not known.
using IndexProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;
/// Stores the next row in `row`; returns false at the end.
using RowSource = std::function<bool(Row& row)>;

/// A secondary index in a directory. One process at a time can have it open for writing; any number
/// may read it meanwhile (open_read_only). It has at most kMaxBankMembers regions. Movable
/// (errors.hpp: "Moving"). The destructor, and a move to this object, do what checkpoint does but
/// ignore errors, because the log holds every change.
///
/// All functions throw InvalidArgument, and change nothing, if the schema or a limit forbids the
/// arguments; IoError if the store fails; CorruptFile if the stored data is inconsistent; ReadOnly,
/// if they would change an index that is open for reading only.
///
/// A full disk, an exceeded quota, a disk that fails: writes throw IoError, reads go on, nothing
/// acknowledged is lost. Once the disk can be written again, the same call can be repeated: the
/// first write mends the store. If the process ends before that, a write that threw may be
/// found after all. If memory for the filters is short, a write throws std::bad_alloc or
/// MembersFull, and the rows of that atomic write are not there.
class SecondaryIndex {
 public:
  /// Creates an index with one region, on server 0. The directory must be empty or not exist; it is
  /// created with its parents. If this throws, it is as it was, but parents that were created stay.
  static SecondaryIndex create(const std::filesystem::path& path, const TableSchema& schema,
                               const IndexPlan& plan = {}, const IndexOptions& options = {});
  /// Opens an index. Throws IoError if there is no index, or if another process has it open. Cost:
  /// loads every filter and replays the log, or rebuilds filters; see IndexOptions::rebuild.
  static SecondaryIndex open(const std::filesystem::path& path, const IndexOptions& options = {});
  /// Opens an index for reading only, as it is at this moment. Writes nothing and locks nothing, so
  /// it needs no permission to write, and other processes may write the index meanwhile; refresh
  /// shows what they wrote. All functions that change the index throw ReadOnly, and the destructor
  /// does nothing. A filter whose file does not fit is rebuilt in memory (or see
  /// IndexOptions::rebuild); beside a writer this happens to filters that it has just saved or not
  /// saved yet. Once it is open, it keeps only the bits of the filters. Throws IoError if there is
  /// no index or if its files cannot be read. Cost: as open; in addition the writer's log, at most
  /// 256 MiB, is replayed in memory.
  static SecondaryIndex open_read_only(const std::filesystem::path& path,
                                       const IndexOptions& options = {});

  // ---- changing the definition of an index that is not open -------------------------------------
  //
  // Each call throws IoError if there is no index or if a process has it open for writing. A change
  // takes effect in one atomic write: a crash leaves the old definition or the new one. A process
  // that has the index open read-only keeps the old one until refresh. The next open rebuilds the
  // filters concerned.

  /// Changes IndexPlan::fpr and IndexPlan::region_values. plan_for finds values that fit what the
  /// index holds. Throws InvalidArgument.
  static void replan(const std::filesystem::path& path, double fpr, std::uint64_t region_values);
  /// Indexes further columns of the table, with Column::name and Column::separator of each; all of
  /// them or none. The rows stay as they are. Calls progress(rows done, rows in the index). Throws
  /// InvalidArgument if there is no such column, if it is the key or indexed already, or if a row's
  /// value in it is longer than kMaxIndexedBytes. Cost: reads all rows, writes the entries.
  static void add_columns(const std::filesystem::path& path, std::span<const Column> columns,
                          const IndexProgress& progress = {});
  /// Stops indexing columns, all of them or none. Their fields stay in the rows. Throws
  /// InvalidArgument if there is no such column or if it is not indexed. Cost: reads the counts of
  /// the dropped values, then compacts the local indexes, so that the space is free.
  static void drop_columns(const std::filesystem::path& path, std::span<const std::string> columns);
  SecondaryIndex(SecondaryIndex&&) noexcept;
  SecondaryIndex& operator=(SecondaryIndex&&) noexcept;
  ~SecondaryIndex();

  const TableSchema& schema() const;
  const IndexPlan& plan() const;
  const RecoveryReport& recovery() const;

  // ---- reading beside a writer -----------------------------------------------------------------

  bool read_only() const;
  /// How recent the contents are. If the index is open for writing: now.
  Freshness freshness() const;
  /// Shows what has been written meanwhile. Returns whether there was anything; always false if the
  /// index is open for writing. Cost: a few system calls for each of the store's files, and as much
  /// as open_read_only if there was something. While it runs, no other thread may use this object.
  /// If it throws, the index shows what it did before.
  bool refresh();

  // ---- rows -------------------------------------------------------------------------------------

  /// Inserts a row, or replaces the row with the same key. Queries that begin after the return find
  /// it. The row and its index entries are written atomically.
  /// Cost: one read of the old row and one atomic write; a few hundred bytes of log per new value.
  void put(const Row& row);
  /// Writes many rows, with the result of putting one after another. Rows are written in the order
  /// of their keys; each atomic write covers at most 4,096 rows of one region. If an error is
  /// thrown, the writes before stay: repeat the whole call.
  WriteReport put(std::span<const Row> rows);
  /// Removes the row with this key. Returns whether there was one.
  bool remove(std::string_view key);
  /// Removes many rows, in atomic writes as put makes them.
  WriteReport remove(std::span<const std::string> keys);
  /// Returns the row with this key, if there is one. Does not use the filters.
  std::optional<Row> get(std::string_view key) const;
  /// result.size() == keys.size(); result[i] is the row with keys[i], if there is one.
  std::vector<std::optional<Row>> get(std::span<const std::string> keys) const;
  /// Calls each(row) for all rows with from ≤ key < to (empty `to`: no bound) in key order, until
  /// it returns false. All rows come from one snapshot.
  void scan(std::string_view from, std::string_view to,
            const std::function<bool(const Row&)>& each) const;

  // ---- queries ----------------------------------------------------------------------------------

  /// Returns the matching rows. Finds every row whose write was acknowledged before the query
  /// began, unless the row was changed or removed meanwhile.
  QueryAnswer query(const Query& query) const;
  /// Answers many queries; result.size() == queries.size(). Up to 1,024 queries are routed together
  /// and share a snapshot. If a query is invalid, this throws before it answers any.
  std::vector<QueryAnswer> query(std::span<const Query> queries) const;
  /// Calls each(row) for the matching rows in key order, until it returns false; regions that come
  /// later are then not asked. All rows come from one snapshot, which the store keeps meanwhile,
  /// with what is overwritten or removed; for answers that take minutes to use, use pages
  /// (Query::after). Rows are read in batches of 16 at first, then up to 256; of queries with
  /// several conditions up to 1,024 are looked at together.
  RoutingReport query(const Query& query, const std::function<bool(const Row&)>& each) const;

  // ---- regions ----------------------------------------------------------------------------------

  /// All regions as of one moment, in key order. Their numbers are read one after another while
  /// writers go on. Holds no lock and reads no filter. Cost: about a copy of the result.
  std::vector<RegionInfo> regions() const;
  /// Divides an empty index into points.size() + 1 regions; region i > 0 begins at points[i − 1].
  /// Throws InvalidArgument if there are rows or if the points are not strictly ascending.
  void presplit(std::span<const std::string> points);
  /// Splits a region at the key `at`, or at its middle row. Returns the two new regions: the left
  /// one stays on the same server, the right one goes to the server with the fewest regions. Cost:
  /// writes two new local indexes; the region's writers wait.
  std::pair<RegionId, RegionId> split(RegionId region, const std::optional<std::string>& at = {});
  /// Merges two adjacent regions into a new one on the left region's server. Costs as much as
  /// split.
  RegionId merge(RegionId left, RegionId right);
  /// Assigns a region to another server. The region's filter does not change.
  void move(RegionId region, ServerId server);
  /// Writes many rows in large sorted batches, then saves the filters. A batch is written once it
  /// is full or `next` has returned false. Calls progress(rows written so far, 0). Throws what
  /// `next` and put throw; rows written before stay. If a region gets half a megabyte or more at
  /// once (at most 32 MiB), that is one atomic write of tables beside the log, which is synced
  /// first. Temporary memory: 128 MiB of rows, and as much again.
  WriteReport bulk_load(const RowSource& next, const IndexProgress& progress = {});

  // ---- filters ----------------------------------------------------------------------------------

  /// Saves the filters that changed and trims the log, so that the next open is short. Rebuilds
  /// filters that have become too large for what their regions hold. Regions with many changes are
  /// saved without a call. Cost: writes the counters of these filters, with one fsync each, and the
  /// store's tables in memory (32 MiB each) if the log is longer than 1 MiB; a rebuild reads the
  /// region's values.
  void checkpoint();
  /// Rebuilds a region's filter from its local index. The region's writers wait.
  void rebuild(RegionId region);
  /// Marks a region's filter as untrusted: every query asks the region until its filter is rebuilt,
  /// by rebuild or when the index is next opened.
  void distrust(RegionId region);

  /// The plan of this index with the rate `fpr`, and with the region_values whose filters take the
  /// least memory for what the regions hold now and a quarter more. For replan. Throws
  /// InvalidArgument.
  IndexPlan plan_for(double fpr) const;
  /// What the filters of this index would be if they were built now with this rate, region_values
  /// and layout. Throws InvalidArgument. Cost: some microseconds for each region.
  FilterForecast forecast(const IndexPlan& plan) const;
  // ---- the whole index --------------------------------------------------------------------------

  /// Makes a backup in a new directory, whose parent must exist. It is an index like any other:
  /// opening it restores it. Writers go on meanwhile. The backup has every write acknowledged
  /// before the moment that is returned, and of the later ones the first few, in the order in which
  /// the store took them. If the index is open for reading only, the backup has what the index
  /// shows, and the moment is that of freshness(). On the same file system, tables and filters are
  /// hard links, which take no space of their own; to be safe from a failing disk, back up to
  /// another one. A filter that is saved meanwhile is rebuilt when the backup is opened. Throws
  /// IoError, also if `to` exists, and InvalidArgument if it lies in the index; then nothing is
  /// left behind. A process that is killed leaves the whole backup or a directory that does not
  /// open as an index. Cost: copies the log, at most 256 MiB, and everything else where links are
  /// not possible.
  std::chrono::system_clock::time_point backup(const std::filesystem::path& to) const;

  /// Counts of the index now, and of queries since it was opened.
  IndexStatistics statistics() const;
  /// Metrics of the index now, and counters since it was opened, as text that Prometheus reads
  /// (text exposition format 0.0.4, for the content type "text/plain; version=0.0.4"). Names begin
  /// with scbf_index_; each sample has the label `index`, the path that the index was opened by.
  /// docs/secondary_index.md lists them. Cost: as regions(), and one system call; no row is read.
  std::string metrics(MetricsDetail detail = MetricsDetail::totals) const;
  /// Compares rows, local indexes and filters, one region at a time. The writers of that region
  /// wait. Calls progress(rows checked so far, rows in the index).
  CheckReport check(const IndexProgress& progress = {}) const;

 private:
  struct State;
  explicit SecondaryIndex(std::unique_ptr<State> state) noexcept;
  detail::Owned<State> state_;
};

}  // namespace scbf
