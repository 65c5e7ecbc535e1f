// SPDX-License-Identifier: Apache-2.0
// SecondaryIndex: a table in regions, found by the values of its columns.
//
//   auto index = scbf::SecondaryIndex::create("packages.index",
//       {.key = "package", .columns = {{.name = "maintainer", .indexed = true}}});
//   index.put({"bash", {"Matthias Klose <doko@debian.org>"}});
//   auto answer = index.query({.all_of = {{"maintainer", "Matthias Klose <doko@debian.org>"}}});
//   // answer.rows, and what asking for them took: answer.routing
//
// Two layers. Each region has a local index in the store beside its rows: (column, value) → keys of
// rows, and how many there are. Before them stands a bank with one growing filter per region,
// which says which regions may hold a value, so that only the servers of those need to be asked.
// docs/secondary_index.md says how it works and what is guaranteed when.
//
// Threads: any number may read and write at once. Writers to one region take turns; splitting,
// merging and rebuilding a region keeps its writers waiting. All filters share one lock. A query
// holds it together with others while it asks them; whoever changes a filter holds it alone, and
// everybody else waits: a write while its new values enter and its old ones leave, and what takes
// a filter in or gives one up (a pass over the bank's rows of bits). Everybody also waits while
// the map changes (a synced write).
#pragma once

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

#include "scbf/errors.hpp"
#include "scbf/geometry.hpp"
#include "scbf/table.hpp"

namespace scbf {

using RegionId = std::uint32_t;
using ServerId = std::uint32_t;

/// Most servers of one index.
inline constexpr std::uint32_t kMaxServers = 1u << 16;

/// What an index is made for. Given when it is created; see replan.
struct IndexPlan {
  /// Bound on the false-positive rate of one region's filter, however it grows.
  double fpr = 0.01;
  /// Distinct indexed values per region to begin with; filters grow beyond in stages.
  std::uint64_t region_values = 16'384;
  /// Servers that share the regions. Region i of a fresh index is on server i mod servers.
  std::uint32_t servers = 1;
  std::uint64_t seed = 0;
  Layout layout = Layout::split_block;
};

/// A table's schema and an index's plan as one JSON object: key, columns (name, indexed,
/// separator), fpr, region_values, servers, seed, layout. An index stores the same, with a version
/// before it. Throws InvalidArgument unless all names and separators are UTF-8.
std::string definition_json(const TableSchema& schema, const IndexPlan& plan);

/// How an index is opened.
struct IndexOptions {
  /// True: a write is acknowledged when the disk has it. False: when the operating system has it;
  /// a killed process loses nothing then, a machine without power its last writes.
  bool sync = false;
  /// Of the filters; see find_backend.
  std::string_view backend = "auto";
  /// For blocks of the store, in bytes.
  std::uint64_t cache_bytes = 64u << 20;
  /// Rebuild filters that are missing, damaged, of another index or plan, or ahead of the store,
  /// before open returns; else their regions are asked whatever the question, until rebuild. (Those
  /// that are behind are brought up to date from the log either way.)
  bool rebuild = true;
  /// For opening; 0 = as many as the machine has.
  unsigned threads = 0;
};

struct Condition {
  std::string column;  ///< an indexed one
  std::string value;
};

struct Query {
  /// Rows that have all of these values; at least one.
  std::vector<Condition> all_of;
  /// Rows with from ≤ key < to; an empty `to` is no bound.
  std::string from, to;
  /// Stop after so many rows.
  std::uint64_t limit = UINT64_MAX;
  /// Return the rows' keys only, without their values.
  bool keys_only = false;
  /// Ask every region, as without filters: to compare with.
  bool broadcast = false;
};

/// What answering a query took. A request is one server asked, for all its regions together.
struct RoutingReport {
  std::uint32_t regions = 0;          ///< within the query's range of keys
  std::uint32_t regions_asked = 0;    ///< that may hold it, as the filters say
  std::uint32_t regions_holding = 0;  ///< that do
  std::uint32_t servers = 0;          ///< a broadcast's requests: servers with regions in the range
  std::uint32_t requests = 0;         ///< servers asked
  std::uint32_t servers_holding = 0;
  /// Requests to expect of these filters, given who holds the value: h + Σ (1 − Π (1 − P_r)) over
  /// the servers that do not, P_r the rates of the filters of their regions. For one condition
  /// without a limit or a range of keys; else 0.
  double expected_requests = 0;

  std::uint32_t false_requests() const noexcept { return requests - servers_holding; }
  /// Every server has it: nothing can be saved.
  bool everywhere() const noexcept { return servers > 1 && servers_holding == servers; }
};

struct QueryAnswer {
  std::vector<Row> rows;  ///< by key; without values if keys_only
  RoutingReport routing;
};

struct WriteReport {
  std::uint64_t put = 0;       ///< rows written that were not there
  std::uint64_t replaced = 0;  ///< rows written that were
  std::uint64_t removed = 0;
  std::uint64_t absent = 0;  ///< rows to be removed that were not there
};

struct RegionInfo {
  RegionId id;
  std::string from, to;  ///< from ≤ key < to; the last region's `to` is empty: no bound
  ServerId server;
  std::uint64_t rows;
  std::uint64_t values;        ///< distinct (column, value)
  std::uint32_t stages;        ///< of its filter
  std::uint64_t filter_bytes;  ///< counters
  double estimated_fpr;        ///< from the filter's fill
  std::uint64_t left_over;     ///< entries of the filter that no value stands for; see rebuild
  std::uint64_t unsaved;       ///< changes since the filter was saved: to be replayed after a crash
  bool asked_always;           ///< its filter is not to be trusted
};

struct IndexStatistics {
  std::uint64_t rows = 0, values = 0;
  std::uint64_t filter_bytes = 0;   ///< counters of all regions
  std::uint64_t bit_row_bytes = 0;  ///< and the bank's rows of bits beside them
  std::uint64_t store_bytes = 0;    ///< on disk, as the store estimates
  std::uint32_t regions = 0, servers = 0;
  // Since the index was opened:
  std::uint64_t queries = 0, requests = 0, broadcast_requests = 0, false_requests = 0;
  std::uint64_t queries_everywhere = 0;  ///< for values that all servers hold
};

/// What opening found: filters taken as they were saved, brought up to date, or made anew.
struct RecoveryReport {
  std::uint32_t regions = 0;
  std::uint32_t replayed = 0;          ///< of these, brought up to date
  std::uint64_t changes_replayed = 0;  ///< entries
  std::uint32_t rebuilt = 0;
  std::uint32_t asked_always = 0;    ///< neither; see IndexOptions::rebuild
  std::vector<std::string> reasons;  ///< why, one for each region rebuilt or asked always
};

struct CheckReport {
  std::uint64_t rows = 0, postings = 0, values = 0;
  /// Each a sentence naming region and value; empty if all is well. At most 100 are listed.
  std::vector<std::string> problems;
  std::uint64_t problem_count = 0;
  std::vector<RegionId> regions;  ///< that have problems
};

/// Called now and then during long work with how far it is; total 0 = not known.
using IndexProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;
/// Gives the next row; false at the end.
using RowSource = std::function<bool(Row& row)>;

/// One process at a time may have an index open; at most kMaxBankMembers regions. Movable. The
/// destructor saves what checkpoint saves, and forgives errors: the log has everything.
///
/// All functions throw InvalidArgument for what the schema or the limits forbid (changing nothing),
/// IoError when the store fails, CorruptFile when what it holds cannot be. After a write that
/// failed (a full disk, say) further ones may fail until the index is opened again; reads go on.
class SecondaryIndex {
 public:
  /// A new index in a directory that does not exist or is empty. One region, on server 0.
  static SecondaryIndex create(const std::filesystem::path& path, const TableSchema& schema,
                               const IndexPlan& plan = {}, const IndexOptions& options = {});
  /// Throws IoError if there is none, or if another process has it open.
  static SecondaryIndex open(const std::filesystem::path& path, const IndexOptions& options = {});
  /// Gives an index that is not open another rate, and another number of values per region to begin
  /// with. Opening it makes all filters anew. Throws InvalidArgument, IoError.
  static void replan(const std::filesystem::path& path, double fpr, std::uint64_t region_values);
  SecondaryIndex(SecondaryIndex&&) noexcept;
  SecondaryIndex& operator=(SecondaryIndex&&) noexcept;
  ~SecondaryIndex();

  const TableSchema& schema() const noexcept;
  const IndexPlan& plan() const noexcept;
  const RecoveryReport& recovery() const noexcept;

  // ---- rows -------------------------------------------------------------------------------------

  /// Writes a row, in place of the one with its key if there is one. When it returns, queries find
  /// it. A row is written whole or not at all, with its index entries.
  /// Cost: a look for the old row, one atomic write; a few hundred bytes of log per new value.
  void put(const Row& row);
  /// The same for many, as if one after another; each region's in one atomic write of at most
  /// 4,096 rows. What was written before an error stays written.
  WriteReport put(std::span<const Row> rows);
  /// Returns whether there was one.
  bool remove(std::string_view key);
  WriteReport remove(std::span<const std::string> keys);
  std::optional<Row> get(std::string_view key) const;
  std::vector<std::optional<Row>> get(std::span<const std::string> keys) const;
  /// Calls each(row) for all rows with from ≤ key < to (empty: no bound), by key, as of one moment,
  /// as long as it returns true.
  void scan(std::string_view from, std::string_view to,
            const std::function<bool(const Row&)>& each) const;

  // ---- queries ----------------------------------------------------------------------------------

  /// Every row whose writing was acknowledged before, and that was not changed meanwhile, is found.
  QueryAnswer query(const Query& query) const;
  /// The same for many, up to 1,024 routed together as of one moment. Throws before the first is
  /// asked if one cannot be.
  std::vector<QueryAnswer> query(std::span<const Query> queries) const;

  // ---- regions ----------------------------------------------------------------------------------

  /// By key.
  std::vector<RegionInfo> regions() const;
  /// Divides an index that has no rows: region i begins at points[i − 1]. Throws InvalidArgument
  /// unless points ascend and there is no row.
  void presplit(std::span<const std::string> points);
  /// Divides a region: at `at`, or at its middle row. Returns the two that take its place, the
  /// first on its server, the second on the server with the fewest regions. Cost: its local index
  /// is written anew, its writers wait.
  std::pair<RegionId, RegionId> split(RegionId region, const std::optional<std::string>& at = {});
  /// Puts two neighbours together, on the left one's server. Cost as of split.
  RegionId merge(RegionId left, RegionId right);
  /// Gives a region to another server. Its filter stays as it is.
  void move(RegionId region, ServerId server);
  /// Writes many rows in large sorted batches, then saves the filters. `progress` gets rows written
  /// so far, and 0. Throws what `next` and put throw; rows written before stay. Temporary memory:
  /// 128 MiB of rows, and as much again.
  WriteReport bulk_load(const RowSource& next, const IndexProgress& progress = {});

  // ---- filters ----------------------------------------------------------------------------------

  /// Saves the filters that changed and shortens the log. Done without being asked for regions with
  /// many changes. Cost: the counters of those filters, and an fsync each.
  void checkpoint();
  /// Makes a region's filter anew from its local index.
  void rebuild(RegionId region);
  /// Says of a region that its filter is not to be trusted: it is asked whatever the question,
  /// until rebuild, or until the index is opened, which rebuilds it.
  void distrust(RegionId region);

  IndexStatistics statistics() const;
  /// Compares rows, local indexes and filters with each other, region by region. Writers of the
  /// region wait. `progress` gets rows.
  CheckReport check(const IndexProgress& progress = {}) const;

 private:
  struct State;
  explicit SecondaryIndex(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace scbf
