// SPDX-License-Identifier: Apache-2.0
// Opening the store of an index, and changing its definition.
//
// A change of columns writes or erases many entries, but takes effect in one atomic write, which
// changes the definition and the states of all regions. Before and after that write, entries of
// columns that are not indexed may be there. A record in the store, kUnfinished, names these
// columns as long as there are any, so that the next open for writing erases their entries. Whoever
// opens the index for reading only ignores them.
#include "definition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "crash_points.hpp"
#include "history.hpp"
#include "local_index.hpp"
#include "router.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/detail/io_error.hpp"

namespace scbf {

namespace index {

namespace {

constexpr const char* kUnfinished = "unfinished";

// Bytes per write while entries are made.
constexpr std::size_t kBatchBytes = 4u << 20;
// Rows between two calls of a progress function.
constexpr std::uint64_t kProgressRows = 4096;

void write_if(Store& store, StoreBatch& batch, std::size_t bytes) {
  if (batch.bytes() < bytes) return;
  store.write(std::move(batch), false);
  batch = store.batch();
}

/// All keys of a column in a family begin with this.
std::string column_key(RegionId region, std::size_t column) {
  return value_key(region, entry_key(column, {}));
}

std::string encode_columns(const std::vector<std::size_t>& columns) {
  std::string bytes;
  for (const std::size_t column : columns) bytes += encode_number(column);
  return bytes;
}

/// Erases the entries of the columns that a change has left unfinished.
void finish_change(Store& store) {
  const auto columns = store.get(Family::meta, kUnfinished);
  if (!columns) return;
  StoreBatch batch = store.batch();
  for (const StoredRegion& region : read_regions(store)) {
    for (std::size_t at = 0; at < columns->size(); at += 8) {
      const std::uint64_t column = decode_number(columns->substr(at, 8), "unfinished change");
      const std::string begin = column_key(region.id, column);
      for (const Family family : {Family::postings, Family::values}) {
        batch.erase_range(family, begin, after_prefix(begin));
      }
    }
  }
  batch.erase(Family::meta, kUnfinished);
  store.write(std::move(batch), false);
  crash_point("columns: the entries are gone");
}

/// The state of a region whose values are no longer those of its filter file and its log, so that
/// the next open rebuilds its filter.
RegionState with_other_values(RegionState state, std::uint64_t values) {
  state.values = values;
  ++state.changes;
  state.history = random_number();
  return state;
}

/// Changes columns in one write, which also sets or erases kUnfinished.
void commit(Store& store, const Existing& to, const std::vector<StoredRegion>& regions,
            const std::vector<std::size_t>& unfinished) {
  StoreBatch batch = store.batch();
  batch.put(Family::meta, kDefinition, encode_definition(to.schema, to.plan));
  for (const StoredRegion& region : regions) {
    batch.put(Family::meta, region_state_key(region.id), encode_state(region.state));
  }
  if (unfinished.empty()) {
    batch.erase(Family::meta, kUnfinished);
  } else {
    batch.put(Family::meta, kUnfinished, encode_columns(unfinished));
  }
  store.write(std::move(batch), true);
  crash_point("columns: the definition has changed");
}

/// The number of a column that may be given once.
std::size_t column_given(const TableSchema& schema, const std::string& name,
                         std::vector<std::size_t>& before) {
  if (name == schema.key) {
    throw InvalidArgument(
        fmt::format("column {}: the key needs no index", detail::in_quotes(name)));
  }
  const std::size_t column = schema.column(name);
  if (std::find(before.begin(), before.end(), column) != before.end()) {
    throw InvalidArgument(fmt::format("column {} is given twice", detail::in_quotes(name)));
  }
  before.push_back(column);
  return column;
}

}  // namespace

Growth growth_of(const IndexPlan& plan) {
  return Growth::tightening(plan.region_values, plan.fpr, plan.layout);
}

void check_plan(const IndexPlan& plan) {
  if (plan.servers < 1 || plan.servers > kMaxServers) {
    throw InvalidArgument(fmt::format("{} servers: must be 1 to {}", plan.servers, kMaxServers));
  }
}

std::vector<StoredRegion> read_regions(const Store& store) {
  std::vector<StoredRegion> regions;
  for (auto record =
           store.cursor(Family::meta, kRegionRecords, after_prefix(std::string(kRegionRecords)));
       record.valid(); record.next()) {
    const RegionId id = region_of(record.key());
    const auto state = store.get(Family::meta, region_state_key(id));
    if (!state) throw CorruptFile(fmt::format("region {}: the store has no state", id));
    regions.push_back({decode_region(record.value()), id, decode_state(*state)});
  }
  std::sort(regions.begin(), regions.end(), [](const StoredRegion& a, const StoredRegion& b) {
    return a.record.from < b.record.from;
  });
  if (regions.empty() || !regions.front().record.from.empty()) {
    throw CorruptFile("the store has no region for the smallest keys");
  }
  return regions;
}

Existing open_store(const std::filesystem::path& path, std::uint64_t cache_bytes, Store::Open how) {
  std::error_code why;
  if (!std::filesystem::is_directory(path / kStore, why)) {
    if (why && why != std::errc::no_such_file_or_directory && why != std::errc::not_a_directory) {
      throw detail::io_error(path, "cannot open", why.value());
    }
    throw IoError(fmt::format("{}: there is no index", detail::in_quotes(path.string())), ENOENT,
                  path.string());
  }
  Existing there;
  there.store = std::make_unique<Store>(path / kStore, how, cache_bytes);
  const auto definition = there.store->get(Family::meta, kDefinition);
  if (!definition) {
    throw IoError(
        fmt::format("{}: the creation of this index was interrupted: remove the "
                    "directory and create it again",
                    detail::in_quotes(path.string())));
  }
  decode_definition(*definition, there.schema, there.plan);
  try {
    check_plan(there.plan);
    growth_of(there.plan);
  } catch (const InvalidArgument& error) {
    throw CorruptFile(fmt::format("the definition of the index is damaged: {}", error.what()));
  }
  if (how != Store::Open::read_only && !there.store->get(Family::meta, kIdentity)) {
    // The index is from before identities. Its filter files name none, so they are rebuilt.
    StoreBatch batch = there.store->batch();
    batch.put(Family::meta, kIdentity, encode_number(random_number()));
    there.store->write(std::move(batch), true);
  }
  if (how != Store::Open::read_only) finish_change(*there.store);
  return there;
}

namespace {

/// Writes the postings of the rows from the region's first key to `to`.
class Indexing {
 public:
  /// `only`: the schema, in which only the new columns are indexed.
  Indexing(Store& store, const TableSchema& only, std::vector<std::size_t> columns,
           std::function<void()> each_row)
      : store_(store),
        only_(only),
        columns_(std::move(columns)),
        each_row_(std::move(each_row)),
        batch_(store.batch()) {}

  void region(StoredRegion& region, std::string_view to) {
    for (auto row = store_.cursor(Family::rows, region.record.from, to); row.valid(); row.next()) {
      const Row whole = {std::string(row.key()),
                         decode_row(row.key(), row.value(), only_.columns.size())};
      check_row(only_, whole);
      for (const std::string& entry : entries_of(only_, whole.values)) {
        batch_.put(Family::postings, posting_key(region.id, entry, whole.key), {});
      }
      write_if(store_, batch_, kBatchBytes);
      each_row_();
    }
    write_if(store_, batch_, 0);
    std::uint64_t values = region.state.values;
    for (const std::size_t column : columns_) values += count(region.id, column);
    write_if(store_, batch_, 0);
    if (values != region.state.values) region.state = with_other_values(region.state, values);
  }

 private:
  /// Writes the counts of the values, which sort as their postings do. Returns how many there are.
  std::uint64_t count(RegionId region, std::size_t column) {
    const std::string prefix = column_key(region, column);
    std::uint64_t values = 0, rows = 0;
    std::string entry;
    const auto finish = [&] {
      if (rows == 0) return;
      batch_.put(Family::values, value_key(region, entry), encode_number(rows));
      write_if(store_, batch_, kBatchBytes);
      ++values;
      rows = 0;
    };
    for (auto cursor = store_.cursor(Family::postings, prefix, after_prefix(prefix));
         cursor.valid(); cursor.next(), ++rows) {
      Posting posting = parse_posting(cursor.key());
      if (posting.entry == entry) continue;
      finish();
      entry = std::move(posting.entry);
    }
    finish();
    return values;
  }

  Store& store_;
  const TableSchema& only_;
  const std::vector<std::size_t> columns_;
  const std::function<void()> each_row_;
  StoreBatch batch_;
};

}  // namespace

}  // namespace index

using namespace index;

void SecondaryIndex::replan(const std::filesystem::path& path, double fpr,
                            std::uint64_t region_values) {
  const Existing there = open_store(path, IndexOptions{}.cache_bytes);
  IndexPlan plan = there.plan;
  plan.fpr = fpr;
  plan.region_values = region_values;
  Router{plan, {}};
  StoreBatch batch = there.store->batch();
  // The saved filters do not fit the new plan. The next open sees that and rebuilds them.
  batch.put(Family::meta, kDefinition, encode_definition(there.schema, plan));
  there.store->write(std::move(batch), true);
}

void SecondaryIndex::add_columns(const std::filesystem::path& path, std::span<const Column> columns,
                                 const IndexProgress& progress) {
  Existing there = open_store(path, IndexOptions{}.cache_bytes);
  Store& store = *there.store;
  TableSchema only = there.schema;
  for (Column& column : only.columns) column = {.name = column.name};
  std::vector<std::size_t> numbers;
  for (const Column& column : columns) {
    const std::size_t number = column_given(there.schema, column.name, numbers);
    if (there.schema.columns[number].indexed) {
      throw InvalidArgument(
          fmt::format("column {} is indexed already", detail::in_quotes(column.name)));
    }
    for (TableSchema* schema : {&only, &there.schema}) {
      schema->columns[number] = {column.name, true, column.separator};
    }
  }
  if (numbers.empty()) throw InvalidArgument("no columns to index: name at least one");
  encode_definition(there.schema, there.plan);  // throws before anything is written
  std::vector<StoredRegion> regions = read_regions(store);
  std::uint64_t done = 0, total = 0;
  for (const StoredRegion& region : regions) total += region.state.rows;

  StoreBatch announcement = store.batch();
  announcement.put(Family::meta, kUnfinished, encode_columns(numbers));
  store.write(std::move(announcement), true);
  crash_point("columns: the change is announced");
  try {
    Indexing indexing(store, only, numbers, [&] {
      if (++done % kProgressRows == 0 && progress) progress(done, total);
    });
    std::vector<StoredRegion> changed;
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const std::uint64_t before = regions[i].state.changes;
      indexing.region(regions[i], i + 1 < regions.size() ? regions[i + 1].record.from : "");
      if (regions[i].state.changes != before) changed.push_back(regions[i]);
    }
    crash_point("columns: the entries are written");
    commit(store, there, changed, {});
  } catch (...) {
    try {
      finish_change(store);
    } catch (const Error&) {  // the next open does it
    }
    throw;
  }
}

void SecondaryIndex::drop_columns(const std::filesystem::path& path,
                                  std::span<const std::string> columns) {
  Existing there = open_store(path, IndexOptions{}.cache_bytes);
  Store& store = *there.store;
  std::vector<std::size_t> numbers;
  for (const std::string& name : columns) {
    const std::size_t number = column_given(there.schema, name, numbers);
    if (!there.schema.columns[number].indexed) {
      throw InvalidArgument(fmt::format("column {} is not indexed", detail::in_quotes(name)));
    }
    there.schema.columns[number] = {.name = name};
  }
  if (numbers.empty()) throw InvalidArgument("no columns to drop: name at least one");
  std::vector<StoredRegion> changed;
  for (StoredRegion& region : read_regions(store)) {
    std::uint64_t dropped = 0;
    for (const std::size_t column : numbers) {
      const std::string prefix = column_key(region.id, column);
      for (auto value = store.cursor(Family::values, prefix, after_prefix(prefix)); value.valid();
           value.next()) {
        ++dropped;
      }
    }
    if (dropped == 0) continue;
    region.state = with_other_values(region.state, region.state.values - dropped);
    changed.push_back(region);
  }
  commit(store, there, changed, numbers);
  try {
    finish_change(store);
    store.compact();
  } catch (const Error&) {  // the columns are dropped; the next open erases their entries
  }
}

}  // namespace scbf
