// SPDX-License-Identifier: Apache-2.0
// Writing and removing rows. Their order makes queries complete: the filter gets new values before
// the store has them, and loses old values after the store has lost them.
#include <algorithm>
#include <numeric>
#include <utility>

#include "crash_points.hpp"
#include "encoding.hpp"
#include "history.hpp"
#include "index_state.hpp"

namespace scbf {

using namespace index;

namespace {

// Most rows of a region in one atomic write.
constexpr std::size_t kBatchRows = 4096;
// Memory for the rows that a bulk load sorts and writes together, in bytes. Most of the time goes
// into the store, and the more rows are sorted, the closer together successive keys are.
constexpr std::size_t kLoadBytes = 128u << 20;
// From this many bytes of rows on, a bulk load writes the rows of a region as tables of their own.
// That saves the log, the tables in memory and compaction, and costs some fsyncs. At most
// kMostTableBytes at once, because their postings take memory.
constexpr std::size_t kTableBytes = 512u << 10, kMostTableBytes = 32u << 20;
// A filter is saved when the log has more entries since the last save than this, and more than the
// region has values. So replaying the log after a crash costs no more than rebuilding the filter.
constexpr std::uint64_t kLogEntries = 100'000;

std::vector<std::uint64_t> hashes_of(const Router& router, const std::vector<std::string>& keys) {
  std::vector<std::string_view> entries;
  entries.reserve(keys.size());
  for (const std::string& key : keys) entries.push_back(entry_of(key));
  return router.hash(entries);
}

/// Throws InvalidArgument.
std::vector<Mutation> mutations_of(const TableSchema& schema, std::span<const Row> rows) {
  std::vector<Mutation> mutations;
  mutations.reserve(rows.size());
  for (const Row& row : rows) {
    check_row(schema, row);
    mutations.push_back({&row.key, &row});
  }
  return mutations;
}

std::size_t bytes_of(const Row& row) {
  std::size_t bytes = row.key.size();
  for (const std::string& value : row.values) bytes += value.size();
  return bytes;
}

void add(WriteReport& sum, const WriteReport& part) {
  sum.put += part.put;
  sum.replaced += part.replaced;
  sum.removed += part.removed;
  sum.absent += part.absent;
}

}  // namespace

void SecondaryIndex::State::write_region(Region& region, std::span<const Mutation> mutations,
                                         bool as_tables, WriteReport& report) {
  const std::uint64_t due = rebuilds_due(region);
  StoreBatch batch = as_tables ? store->table_batch() : store->batch();
  RegionState state = region.state();
  const RegionWrite write =
      write_rows(*store, schema, region.id, state.rows > 0, mutations, batch, &region.lost);
  const FilterChange change = {hashes_of(router, write.added), hashes_of(router, write.removed)};
  const std::size_t entries = change.added.size() + change.removed.size();
  state.rows += static_cast<std::uint64_t>(write.rows);
  state.values += static_cast<std::uint64_t>(write.values);
  if (entries > 0) {
    ++state.changes;
    const std::string bytes = encode_change(change);
    state.history = history_after(state.history, bytes);
    batch.put(Family::log, log_key(region.id, state.changes), bytes);
  }
  batch.put(Family::meta, region_state_key(region.id), encode_state(state));

  std::size_t stages = region.stages;
  try {
    if (!change.added.empty()) {
      stages = router.change([&](Bank& bank) {
        bank.insert(region.member, KeyBatch::from_hashes(change.added), kAlone);
        return bank.stages(region.member);
      });
    }
    crash_point("write: the filter has the new values");
    region.gaps.add(
        write.postings, [&] { store->write(std::move(batch), options.sync); },
        [&] { return store->sequence(); });
  } catch (...) {
    // The write may or may not be in the store. Additional entries in the filter are harmless.
    region.left_over += change.added.size();
    throw;
  }
  // The rows are written now, so the errors below are caught.
  crash_point("write: the store has it");
  region.set(state);
  region.log_entries += entries;
  add(report, write.report);
  tally->put += write.report.put;
  tally->replaced += write.report.replaced;
  tally->removed += write.report.removed;
  try {
    for (const std::string& list : write.worn) erase_worn(*store, list, region.gaps);
  } catch (const std::exception&) {  // the deleted postings stay, and are stepped over
  }
  if (!region.trusted) return;
  region.removed += change.removed.size();
  try {
    if (!change.removed.empty()) {
      // Values that several stages claim, or a stuck block keeps, stay as left-over entries.
      region.left_over += router.change([&](Bank& bank) {
        const RemoveReport done =
            bank.remove(region.member, KeyBatch::from_hashes(change.removed), {}, kAlone);
        return done.ambiguous + done.kept;
      });
    }
  } catch (const std::exception&) {  // the values stay in the filter, which is harmless
    region.left_over += change.removed.size();
  }
  try {
    if (rebuilds_due(region) > due) {
      rebuild(region);
    } else if (stages != region.stages) {
      estimate_rate(region);
    } else {
      refresh_rate(region, entries);
    }
    if (region.log_entries > std::max(kLogEntries, state.values)) save(region);
  } catch (const std::exception&) {
    region.log_entries = 0;  // the log holds every change; try again after as many entries
  }
}

WriteReport SecondaryIndex::State::write(std::vector<Mutation> mutations, bool bulk,
                                         const std::function<void(std::size_t)>& written) {
  must_write("change rows");
  // Sort by key, and keep the order of mutations of the same key.
  const auto by_key = [](const Mutation& a, const Mutation& b) { return *a.key < *b.key; };
  if (!std::is_sorted(mutations.begin(), mutations.end(), by_key)) {
    std::stable_sort(mutations.begin(), mutations.end(), by_key);
  }
  WriteReport report;
  for (std::size_t first = 0; first < mutations.size();) {
    with_region_of(*mutations[first].key, [&](std::size_t at, const RegionMap& now) {
      const std::string_view end = now.end(at);
      std::size_t last = first, bytes = 0;
      while (last < mutations.size() &&
             (bulk ? bytes < kMostTableBytes : last - first < kBatchRows) &&
             (end.empty() || *mutations[last].key < end)) {
        if (bulk) bytes += bytes_of(*mutations[last].row);
        ++last;
      }
      const bool as_tables = bytes >= kTableBytes && store->takes_tables();
      if (!as_tables) last = std::min(last, first + kBatchRows);
      write_region(*now[at].region, std::span(mutations).subspan(first, last - first), as_tables,
                   report);
      first = last;
    });
    if (written) written(first);
  }
  return report;
}

void SecondaryIndex::put(const Row& row) { put(std::span(&row, 1)); }

WriteReport SecondaryIndex::put(std::span<const Row> rows) {
  return state_->write(mutations_of(state_->schema, rows));
}

bool SecondaryIndex::remove(std::string_view key) {
  const std::string own(key);
  return remove(std::span(&own, 1)).removed > 0;
}

WriteReport SecondaryIndex::remove(std::span<const std::string> keys) {
  std::vector<Mutation> mutations;
  mutations.reserve(keys.size());
  for (const std::string& key : keys) {
    check_key(key);
    mutations.push_back({&key, nullptr});
  }
  return state_->write(std::move(mutations));
}

WriteReport SecondaryIndex::bulk_load(const RowSource& next, const IndexProgress& progress) {
  State& state = *state_;  // before rows are taken from the source
  state.must_write("load rows");
  WriteReport report;
  std::vector<Row> rows;
  std::uint64_t done = 0;
  for (bool more = true; more;) {
    rows.clear();
    for (std::size_t bytes = 0; bytes < kLoadBytes;) {
      Row row;
      more = next(row);
      if (!more) break;
      bytes += sizeof row + row.key.size() + sizeof(Mutation);
      for (const std::string& value : row.values) bytes += sizeof value + value.size();
      rows.push_back(std::move(row));
    }
    add(report, state.write(mutations_of(state.schema, rows), true, [&](std::size_t written) {
      if (progress) progress(done + written, 0);
    }));
    done += rows.size();
  }
  checkpoint();
  return report;
}

}  // namespace scbf
