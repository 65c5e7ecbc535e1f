// SPDX-License-Identifier: Apache-2.0
#include "local_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "encoding.hpp"
#include "field_values.hpp"

namespace scbf::index {

std::vector<std::string> entries_of(const TableSchema& schema,
                                    const std::vector<std::string>& values) {
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!schema.columns[i].indexed) continue;
    for_each_field_value(schema.columns[i], values[i],
                         [&](std::string_view value) { entries.push_back(entry_key(i, value)); });
  }
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  return entries;
}

bool is_indexed(const TableSchema& schema, std::string_view entry) {
  const std::size_t column = column_of(entry);
  return column < schema.columns.size() && schema.columns[column].indexed;
}

void check_key(std::string_view key) {
  if (key.empty()) throw InvalidArgument("a row has an empty key: keys must not be empty");
  if (key.size() > kMaxKeyBytes) {
    throw InvalidArgument(fmt::format("row {}: the key has {} bytes, at most {} are allowed",
                                      shown(key), key.size(), kMaxKeyBytes));
  }
}

void check_row(const TableSchema& schema, const Row& row) {
  check_key(row.key);
  if (row.values.size() != schema.columns.size()) {
    throw InvalidArgument(fmt::format("row {}: {} values, the table has {} columns beside the key",
                                      shown(row.key), row.values.size(), schema.columns.size()));
  }
  const std::optional<RowExcess> excess = excess_of(schema, row);
  if (!excess) return;
  const std::string what = excess->part == RowExcess::Part::value
                               ? fmt::format("a value of the indexed column '{}' has ",
                                             schema.columns[excess->column].name)
                               : "";
  throw InvalidArgument(fmt::format("row {}: {}{} bytes, at most {} are allowed", shown(row.key),
                                    what, excess->bytes, excess->limit));
}

RegionWrite write_rows(const Store& store, const TableSchema& schema, RegionId region,
                       std::span<const Mutation> mutations, StoreBatch& batch) {
  RegionWrite write;
  // Of several mutations of the same key only the last one has an effect on the store.
  struct Fate {
    const Row* row;
    bool was_there, is_there;
  };
  std::vector<std::string> keys;
  std::vector<Fate> fates;
  std::unordered_map<std::string_view, std::size_t> known;
  known.reserve(mutations.size());
  for (const Mutation& mutation : mutations) {
    if (known.emplace(*mutation.key, keys.size()).second) keys.push_back(*mutation.key);
  }
  const auto old_rows = store.get(Family::rows, keys);
  for (const auto& old : old_rows) fates.push_back({nullptr, old.has_value(), old.has_value()});
  for (const Mutation& mutation : mutations) {
    Fate& fate = fates[known[*mutation.key]];
    const bool put = mutation.row != nullptr;
    ++(put ? (fate.is_there ? write.report.replaced : write.report.put)
           : (fate.is_there ? write.report.removed : write.report.absent));
    fate.row = mutation.row;
    fate.is_there = put;
  }
  std::unordered_map<std::string, std::int64_t> deltas;  // change of the count, by value_key
  std::vector<std::pair<std::string, bool>> postings;    // key; true: add, false: remove
  std::vector<std::string> gone, come;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Fate& fate = fates[i];
    if (!fate.was_there && !fate.is_there) continue;
    std::vector<std::string> before, after;
    if (fate.was_there) {
      before = entries_of(schema, decode_row(keys[i], *old_rows[i], schema.columns.size()));
    }
    if (fate.is_there) {
      after = entries_of(schema, fate.row->values);
      batch.put(Family::rows, keys[i], encode_row(fate.row->values));
    } else {
      batch.erase(Family::rows, keys[i]);
    }
    write.rows += int{fate.is_there} - int{fate.was_there};
    gone.clear();
    come.clear();
    std::set_difference(before.begin(), before.end(), after.begin(), after.end(),
                        std::back_inserter(gone));
    std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                        std::back_inserter(come));
    for (const std::string& entry : gone) {
      postings.emplace_back(posting_key(region, entry, keys[i]), false);
      --deltas[value_key(region, entry)];
    }
    for (const std::string& entry : come) {
      postings.emplace_back(posting_key(region, entry, keys[i]), true);
      ++deltas[value_key(region, entry)];
    }
  }
  // In key order, so that each insertion into the store's write buffer starts at the previous one.
  std::sort(postings.begin(), postings.end());
  for (const auto& [key, come_in] : postings) {
    if (come_in) {
      batch.put(Family::postings, key, {});
    } else {
      batch.erase(Family::postings, key);
    }
  }
  std::vector<std::string> changed;
  for (const auto& [key, delta] : deltas) {
    if (delta != 0) changed.push_back(key);
  }
  std::sort(changed.begin(), changed.end());  // neighbours are close together in the store
  const auto counts = store.get(Family::values, changed);
  for (std::size_t i = 0; i < changed.size(); ++i) {
    const std::uint64_t before = counts[i] ? decode_number(*counts[i], "count of a value") : 0;
    const std::int64_t delta = deltas[changed[i]];
    if (delta < 0 && before < static_cast<std::uint64_t>(-delta)) {
      throw CorruptFile(fmt::format("region {}: {} rows are counted for value {}, but {} lose it",
                                    region, before, shown(changed[i].substr(6)), -delta));
    }
    const std::uint64_t after = before + static_cast<std::uint64_t>(delta);
    if (after == 0) {
      batch.erase(Family::values, changed[i]);
      write.removed.push_back(changed[i]);
    } else {
      batch.put(Family::values, changed[i], encode_number(after));
      if (before == 0) write.added.push_back(changed[i]);
    }
  }
  write.values = static_cast<std::int64_t>(write.added.size()) -
                 static_cast<std::int64_t>(write.removed.size());
  return write;
}

void find_rows(const Store& store, const Store::Snapshot& at, RegionId region,
               std::span<const std::string> entries, std::string_view from, std::string_view to,
               const std::function<bool(std::string_view key)>& found) {
  std::vector<std::string> prefixes;
  std::vector<Store::Cursor> cursors;
  for (const std::string& entry : entries) {
    prefixes.push_back(posting_prefix(region, entry));
    const std::string& prefix = prefixes.back();
    cursors.push_back(store.cursor(Family::postings, prefix + std::string(from),
                                   to.empty() ? after_prefix(prefix) : prefix + std::string(to),
                                   at));
  }
  const auto key = [&](std::size_t i) { return cursors[i].key().substr(prefixes[i].size()); };
  // The cursors take turns. Each one seeks the candidate, the key that the cursors before it agree
  // on. A cursor that finds a later key makes that key the new candidate.
  std::string candidate;
  for (std::size_t i = 0, agree = 0; cursors[i].valid();) {
    if (agree > 0 && key(i) < candidate) {
      cursors[i].seek(prefixes[i] + candidate);
      if (!cursors[i].valid()) return;
    }
    if (agree == 0 || key(i) != candidate) {
      candidate = key(i);
      agree = 0;
    }
    if (++agree < cursors.size()) {
      i = (i + 1) % cursors.size();
      continue;
    }
    if (!found(candidate)) return;
    cursors[i].next();
    agree = 0;
  }
}

void for_each_value(const Store& store, const Store::Snapshot& at, RegionId region,
                    const std::function<void(std::string_view entry, std::uint64_t rows)>& each) {
  const std::string prefix = region_key(region);
  for (auto cursor = store.cursor(Family::values, prefix, after_prefix(prefix), at); cursor.valid();
       cursor.next()) {
    if (cursor.key().size() < prefix.size() + 2) {
      throw CorruptFile(fmt::format("region {}: the key of a value's count is cut off", region));
    }
    each(entry_of(cursor.key()), decode_number(cursor.value(), "count of a value"));
  }
}

}  // namespace scbf::index
