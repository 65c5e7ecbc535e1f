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

// Keys in the first batch that is looked up, and in the later ones at most.
constexpr std::size_t kFirstKeys = 16, kMostKeys = 1024;
// Lists that are longer than the shortest one by this factor are not walked: what they have of its
// keys is looked up. A step costs about an eighth of a lookup.
constexpr std::uint64_t kLonger = 8;
// Steps of a cursor before it seeks instead.
constexpr int kSteps = 16;
// Deleted postings at the front of a list that are worth remembering.
constexpr std::uint64_t kDeleted = 64;
// Bytes of a row, on average, from which on it is not read to find out whether it is wanted.
constexpr std::size_t kLargeRow = 1024;

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
  /// Goes to the first key that is not before this one; a few keys further on it is a few steps.
  /// Returns whether it is this one.
  bool advance(std::string_view to) {
    for (int steps = 0; valid(); ++steps) {
      if (const int order = key().compare(to); order >= 0) return order == 0;
      if (steps < kSteps) {
        next();
      } else {
        target_.assign(prefix_).append(to);
        cursor().seek(target_);
      }
    }
    return false;
  }
  /// Keeps those of the keys that the list has.
  void keep(std::vector<std::string>& keys) const {
    std::vector<std::string> postings;
    postings.reserve(keys.size());
    for (const std::string& key : keys) postings.push_back(prefix_ + key);
    std::vector<bool> there(keys.size());
    store_.read(Family::postings, postings, at_,
                [&](std::size_t i, const std::string_view* found) { there[i] = found != nullptr; });
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

/// The keys that several lists have, in order.
class CommonKeys {
 public:
  explicit CommonKeys(std::vector<PostingList> lists) : lists_(std::move(lists)) {}

  /// Goes to the next key, at first to the first one. Returns false if there is none.
  bool next() {
    PostingList& first = lists_[0];
    if (started_) first.next();
    started_ = true;
    while (first.valid()) {
      std::size_t i = 1;
      while (i < lists_.size() && lists_[i].advance(first.key())) ++i;
      if (i == lists_.size()) return true;
      if (!lists_[i].valid()) return false;
      first.advance(lists_[i].key());
    }
    return false;
  }
  std::string_view key() { return lists_[0].key(); }
  /// The next key will not be before this one. Only after next() has returned true.
  void skip_to(std::string_view key) {
    lists_[0].advance(key);
    started_ = false;
  }

 private:
  std::vector<PostingList> lists_;
  bool started_ = false;
};

bool has_entry(const TableSchema& schema, const std::vector<std::string>& values,
               std::string_view entry) {
  const auto column = static_cast<std::size_t>(static_cast<unsigned char>(entry[0]) << 8 |
                                               static_cast<unsigned char>(entry[1]));
  bool has = false;
  for_each_field_value(schema.columns[column], values[column],
                       [&](std::string_view value) { has = has || value == entry.substr(2); });
  return has;
}

/// Numbers of the entries, those with the fewest rows first, with their numbers of rows.
std::vector<std::pair<std::uint64_t, std::size_t>> rarest_first(
    const Store& store, const Store::Snapshot& at, RegionId region,
    std::span<const std::string> entries) {
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  if (entries.size() == 1) return {{0, 0}};
  std::vector<std::string> keys;
  for (const std::string& entry : entries) keys.push_back(value_key(region, entry));
  store.read(Family::values, keys, at, [&](std::size_t i, const std::string_view* count) {
    order.emplace_back(count == nullptr ? 0 : decode_number(*count, "count of a value"), i);
  });
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

void find_rows(const Store& store, const TableSchema& schema, const Store::Snapshot& at,
               RegionId region, const Search& what, std::vector<Row>& rows, ListStarts* starts) {
  // The counts only decide in which order and how the lists are read.
  const auto order = rarest_first(store, at, region, what.entries);
  const std::uint64_t fewest = order[0].first;
  const auto list = [&](std::size_t entry, ListStarts* known) {
    return PostingList(store, at, region, what.entries[entry], what.from, what.to, known);
  };
  std::vector<PostingList> walked;
  std::vector<std::size_t> others;
  for (const auto& [count, entry] : order) {
    // Rows that are read anyway tell the other entries of a few keys.
    const bool few = !what.keys_only && fewest <= kFirstKeys;
    if (walked.empty() || (count / kLonger <= fewest && !few)) {
      walked.push_back(list(entry, starts));
    } else {
      others.push_back(entry);
    }
  }
  CommonKeys common(std::move(walked));
  bool by_rows = !what.keys_only;
  std::uint64_t left = what.limit;
  std::vector<std::string> keys;
  for (std::size_t most = kFirstKeys; left > 0; most = std::min(2 * most, kMostKeys)) {
    keys.clear();
    const std::uint64_t wanted = others.empty() ? std::min<std::uint64_t>(left, most) : most;
    while (keys.size() < wanted && common.next()) keys.emplace_back(common.key());
    if (keys.empty()) return;
    const bool last = keys.size() < wanted;
    const std::string end = keys.back();
    const std::size_t before = rows.size();
    if (!by_rows) {
      for (const std::size_t entry : others) list(entry, nullptr).keep(keys);
    }
    if (what.keys_only) {
      for (std::string& key : keys) {
        if (left == 0) break;
        rows.push_back({std::move(key), {}});
        --left;
      }
    } else {
      std::size_t bytes = 0;
      store.read(Family::rows, keys, at, [&](std::size_t i, const std::string_view* row) {
        if (row == nullptr) {
          throw CorruptFile(
              fmt::format("row {}: it is in the local index, but not in the table; check the index",
                          shown(keys[i])));
        }
        if (left == 0) return;
        bytes += row->size();
        auto values = decode_row(keys[i], *row, schema.columns.size());
        if (by_rows) {
          for (const std::size_t entry : others) {
            if (!has_entry(schema, values, what.entries[entry])) return;
          }
        }
        rows.push_back({std::move(keys[i]), std::move(values)});
        --left;
      });
      by_rows = by_rows && bytes <= kLargeRow * keys.size();
    }
    if (last) return;
    if (rows.size() > before || others.empty()) continue;
    // Nothing up to here has them all. Where a list goes on much later, so do all.
    PostingList other(store, at, region, what.entries[others[0]], end, what.to, nullptr);
    if (other.advance(end)) other.next();
    if (!other.valid()) return;
    common.skip_to(other.key());
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
