// SPDX-License-Identifier: Apache-2.0
#include "local_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
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
  for (auto& [key, come_in] : postings) {
    if (come_in) {
      batch.put(Family::postings, key, {});
      write.postings.push_back(std::move(key));
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

namespace {

// Keys in the first and in later batches of an intersection.
constexpr std::size_t kFirstKeys = 16, kMostKeys = 1024;
// A list that is longer than the shortest one by this factor is asked for single keys. A shorter
// one is walked: a step costs about an eighth of a lookup.
constexpr std::uint64_t kLonger = 8;
// Steps of a cursor before it seeks instead.
constexpr int kSteps = 16;
// Deleted postings at the front of a list that are worth remembering.
constexpr std::uint64_t kDeleted = 64;

/// The postings of one entry in a range of keys, from one snapshot.
class PostingList {
 public:
  PostingList(const Store& store, const Store::Snapshot& at, RegionId region,
              std::string_view entry, std::string_view from, std::string_view to,
              ListStarts* starts)
      : store_(store),
        at_(at),
        prefix_(posting_prefix(region, entry)),
        begin_(prefix_ + std::string(from)),
        end_(to.empty() ? after_prefix(prefix_) : prefix_ + std::string(to)) {
    if (at == nullptr || starts == nullptr) return;
    const std::uint64_t sequence = store.sequence(at);
    std::string start = starts->of(prefix_, sequence);
    if (start < begin_) return;
    begin_ = std::min(std::move(start), end_);
    cursor_.emplace(store.cursor(Family::postings, begin_, end_, at));
    if (cursor_->skipped() < kDeleted) return;
    starts->learn(prefix_, cursor_->valid() ? std::string(cursor_->key()) : end_, sequence);
  }

  bool valid() { return cursor().valid(); }
  std::string_view key() { return cursor().key().substr(prefix_.size()); }
  void next() { cursor().next(); }
  /// Goes to the first key that is not before this one. Few keys further on it is a few steps.
  void advance(std::string_view to) {
    for (int steps = 0; valid() && key() < to; ++steps) {
      if (steps < kSteps) {
        next();
      } else {
        target_.assign(prefix_).append(to);
        cursor().seek(target_);
      }
    }
  }

  /// Keeps those of the sorted keys that the list has.
  void keep_by_walking(std::vector<std::string>& keys) {
    std::erase_if(keys, [&](const std::string& wanted) {
      advance(wanted);
      return !valid() || key() != wanted;
    });
  }
  void keep_by_lookup(std::vector<std::string>& keys) const {
    std::vector<std::string> postings;
    postings.reserve(keys.size());
    for (const std::string& key : keys) postings.push_back(prefix_ + key);
    const auto there = store_.get(Family::postings, postings, at_);
    std::size_t i = 0;
    std::erase_if(keys, [&](const std::string&) { return !there[i++]; });
  }

 private:
  Store::Cursor& cursor() {
    if (!cursor_) cursor_.emplace(store_.cursor(Family::postings, begin_, end_, at_));
    return *cursor_;
  }

  const Store& store_;
  const Store::Snapshot& at_;
  std::string prefix_, begin_, end_, target_;
  std::optional<Store::Cursor> cursor_;  // made when it is needed
};

}  // namespace

void find_rows(const Store& store, const Store::Snapshot& at, RegionId region,
               std::span<const std::string> entries, std::string_view from, std::string_view to,
               const std::function<bool(std::string_view key)>& found, ListStarts* starts) {
  if (entries.size() == 1) {
    PostingList list(store, at, region, entries[0], from, to, starts);
    for (; list.valid(); list.next()) {
      if (!found(list.key())) return;
    }
    return;
  }
  // The counts only decide in which order and how the lists are read.
  std::vector<std::string> value_keys;
  for (const std::string& entry : entries) value_keys.push_back(value_key(region, entry));
  const auto counts = store.get(Family::values, value_keys, at);
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    order.emplace_back(counts[i] ? decode_number(*counts[i], "count of a value") : 0, i);
  }
  std::sort(order.begin(), order.end());
  const std::uint64_t fewest = order[0].first;
  PostingList shortest(store, at, region, entries[order[0].second], from, to, starts);
  if (!shortest.valid()) return;
  struct Other {
    PostingList list;
    bool walk;
  };
  std::vector<Other> others;
  for (const auto& [rows, i] : std::span(order).subspan(1)) {
    const bool walk = rows / kLonger <= fewest;
    others.push_back(
        {PostingList(store, at, region, entries[i], from, to, walk ? starts : nullptr), walk});
  }
  std::vector<std::string> keys;
  std::string last;
  for (std::size_t most = kFirstKeys; shortest.valid(); most = std::min(2 * most, kMostKeys)) {
    keys.clear();
    for (; shortest.valid() && keys.size() < most; shortest.next()) {
      keys.emplace_back(shortest.key());
    }
    last = keys.back();
    for (Other& other : others) {
      if (other.walk) {
        other.list.keep_by_walking(keys);
      } else {
        other.list.keep_by_lookup(keys);
      }
      if (!keys.empty()) continue;
      // Nothing up to here has them all. Where this list goes on much later, so does the shortest.
      if (!shortest.valid()) return;
      other.list.advance(last);
      if (!other.list.valid()) return;
      shortest.advance(other.list.key());
      break;
    }
    for (const std::string& key : keys) {
      if (!found(key)) return;
    }
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
