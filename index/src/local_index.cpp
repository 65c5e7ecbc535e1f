// SPDX-License-Identifier: Apache-2.0
#include "local_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "encoding.hpp"
#include "field_values.hpp"
#include "scbf/detail/in_quotes.hpp"

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
    throw InvalidArgument(
        fmt::format("row {}: {} value{}, the table has {} column{} beside the key", shown(row.key),
                    row.values.size(), row.values.size() == 1 ? "" : "s", schema.columns.size(),
                    schema.columns.size() == 1 ? "" : "s"));
  }
  const std::optional<RowExcess> excess = excess_of(schema, row);
  if (!excess) return;
  const std::string what = excess->part == RowExcess::Part::value
                               ? fmt::format("a value of the indexed column {} has ",
                                             detail::in_quotes(schema.columns[excess->column].name))
                               : "";
  throw InvalidArgument(fmt::format("row {}: {}{} bytes, at most {} are allowed", shown(row.key),
                                    what, excess->bytes, excess->limit));
}

namespace {

// Keys of one lookup in the store.
constexpr std::size_t kLookup = 1024;

std::vector<std::string_view> views_of(const std::vector<std::string>& keys) {
  return {keys.begin(), keys.end()};
}

/// A value that a row gets or loses. The bytes are in the row.
struct ValueChange {
  std::uint64_t head;  ///< its bytes behind the column's common beginning, big-endian
  const char* bytes;
  std::uint32_t size, row;
  bool comes;

  std::string_view value() const { return {bytes, size}; }
  /// Orders by value, then by row.
  bool operator<(const ValueChange& other) const {
    if (head != other.head) return head < other.head;
    if (const int order = value().compare(other.value()); order != 0) return order < 0;
    return row < other.row;
  }
};

/// Sorts the changes of a column. Comparing eight bytes decides nearly always.
void sort_by_value(std::vector<ValueChange>& changes) {
  if (changes.size() < 2) return;
  std::size_t common = changes[0].size;
  for (const ValueChange& change : changes) {
    const std::string_view first = changes[0].value().substr(0, common), own = change.value();
    common = static_cast<std::size_t>(
        std::mismatch(first.begin(), first.end(), own.begin(), own.end()).first - first.begin());
  }
  for (ValueChange& change : changes) {
    change.head = 0;
    for (std::size_t i = common; i < common + 8; ++i) {
      change.head =
          change.head << 8 | (i < change.size ? static_cast<unsigned char>(change.bytes[i]) : 0u);
    }
  }
  std::sort(changes.begin(), changes.end());
}

/// A value whose number of rows changes.
struct CountChange {
  std::string key;  ///< value_key
  std::int64_t by;
};

}  // namespace

RegionWrite write_rows(const Store& store, const TableSchema& schema, RegionId region,
                       bool has_rows, std::span<const Mutation> mutations, StoreBatch& batch,
                       LostPostings* lost) {
  RegionWrite write;
  // Of several mutations of the same key only the last one has an effect on the store.
  std::vector<std::size_t> firsts;
  std::vector<std::string_view> keys;
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    if (i > 0 && *mutations[i].key == *mutations[i - 1].key) continue;
    firsts.push_back(i);
    keys.push_back(*mutations[i].key);
  }
  firsts.push_back(mutations.size());
  std::vector<std::vector<ValueChange>> columns(schema.columns.size());
  const auto change = [&](std::size_t row, const std::vector<std::string>& values, bool comes) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!schema.columns[i].indexed) continue;
      for_each_field_value(schema.columns[i], values[i], [&](std::string_view value) {
        columns[i].push_back({0, value.data(), static_cast<std::uint32_t>(value.size()),
                              static_cast<std::uint32_t>(row), comes});
      });
    }
  };
  std::deque<std::vector<std::string>> old_values;
  const auto apply = [&](std::size_t i, const std::string_view* old) {
    bool is_there = old != nullptr;
    for (std::size_t m = firsts[i]; m < firsts[i + 1]; ++m) {
      const bool put = mutations[m].row != nullptr;
      ++(put ? (is_there ? write.report.replaced : write.report.put)
             : (is_there ? write.report.removed : write.report.absent));
      is_there = put;
    }
    if (old != nullptr) {
      old_values.push_back(decode_row(keys[i], *old, schema.columns.size()));
      change(i, old_values.back(), false);
    }
    if (const Row* row = mutations[firsts[i + 1] - 1].row) {
      change(i, row->values, true);
      batch.put(Family::rows, keys[i], encode_row(row->values));
    } else if (old != nullptr) {
      batch.erase(Family::rows, keys[i]);
    }
    write.rows += int{is_there} - int{old != nullptr};
  };
  for (std::size_t first = 0; first < keys.size(); first += kLookup) {
    const auto some = std::span(keys).subspan(first, std::min(kLookup, keys.size() - first));
    if (has_rows) {
      store.read(Family::rows, some, {},
                 [&](std::size_t i, const std::string_view* old) { apply(first + i, old); });
    } else {
      for (std::size_t i = 0; i < some.size(); ++i) apply(first + i, nullptr);
    }
  }

  // In key order, as tables are written, and so that each insertion into the store's tables in
  // memory starts at the previous one.
  std::vector<CountChange> counts;
  std::string posting;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::vector<ValueChange>& changes = columns[c];
    sort_by_value(changes);
    for (auto at = changes.begin(); at != changes.end();) {
      const std::string_view value = at->value();
      const std::string entry = entry_key(c, value);
      posting = posting_prefix(region, entry);
      const std::size_t prefix = posting.size();
      std::int64_t by = 0;
      std::uint64_t erased = 0;
      bool first = true;
      while (at != changes.end() && at->value() == value) {
        const std::uint32_t row = at->row;
        bool gone = false, comes = false;  // a row may name a value twice
        for (; at != changes.end() && at->row == row && at->value() == value; ++at) {
          (at->comes ? comes : gone) = true;
        }
        if (gone == comes) continue;
        posting.resize(prefix);
        posting.append(keys[row]);
        if (comes) {
          batch.put(Family::postings, posting, {});
          if (first) write.postings.push_back(posting);
          first = false;
          ++by;
        } else {
          batch.erase(Family::postings, posting);
          --by;
          ++erased;
        }
      }
      posting.resize(prefix);
      if (erased > 0 && lost != nullptr && lost->add(posting, erased)) {
        write.worn.push_back(posting);
      }
      if (by != 0) counts.push_back({value_key(region, entry), by});
    }
    changes = {};
  }
  const auto count = [&](CountChange& changed, std::uint64_t before) {
    if (changed.by < 0 && before < static_cast<std::uint64_t>(-changed.by)) {
      throw CorruptFile(fmt::format("region {}: {} rows are counted for value {}, but {} lose it",
                                    region, before, shown(changed.key.substr(6)), -changed.by));
    }
    const std::uint64_t after = before + static_cast<std::uint64_t>(changed.by);
    if (after == 0) {
      batch.erase(Family::values, changed.key);
      write.removed.push_back(std::move(changed.key));
    } else {
      batch.put(Family::values, changed.key, encode_number(after));
      if (before == 0) write.added.push_back(std::move(changed.key));
    }
  };
  for (std::size_t first = 0; first < counts.size(); first += kLookup) {
    const auto some = std::span(counts).subspan(first, std::min(kLookup, counts.size() - first));
    if (!has_rows) {
      for (CountChange& changed : some) count(changed, 0);
      continue;
    }
    std::vector<std::string_view> wanted;
    for (const CountChange& changed : some) wanted.push_back(changed.key);
    std::vector<std::uint64_t> before;
    store.read(Family::values, wanted, {}, [&](std::size_t, const std::string_view* number) {
      before.push_back(number == nullptr ? 0 : decode_number(*number, "count of a value"));
    });
    for (std::size_t i = 0; i < some.size(); ++i) count(some[i], before[i]);
  }
  write.values = static_cast<std::int64_t>(write.added.size()) -
                 static_cast<std::int64_t>(write.removed.size());
  return write;
}

namespace {

// Keys in the first batch that is looked up, and in the later ones at most.
constexpr std::size_t kFirstKeys = 16, kMostKeys = 1024;
// Lists that are longer than the shortest one by this factor are not walked: its keys are looked up
// in them. A step costs about an eighth of a lookup.
constexpr std::uint64_t kLonger = 8;
// Steps of a cursor before it seeks instead.
constexpr int kSteps = 16;
// Deleted postings in a gap that is worth remembering, and those that are worth erasing as a range.
constexpr std::uint64_t kDeleted = 64, kDeletedRange = 1024;
// Gaps are looked for behind so many of the first postings that a cursor meets.
constexpr int kWatched = 64;
// Rows of more bytes than this, on average, are not read to find out whether they are wanted.
constexpr std::size_t kLargeRow = 1024;

/// A cursor over postings of a list. It passes known gaps at once, and notes others.
class ListCursor {
 public:
  /// From `begin` on, a posting_key or the list's prefix, and before `end`. Without `gaps` it steps
  /// over deleted postings.
  ListCursor(const Store& store, const Store::Snapshot& at, const std::string& prefix,
             const std::string& begin, const std::string& end, ListGaps* gaps)
      : prefix_(prefix),
        end_(end),
        gaps_(gaps),
        sequence_(gaps != nullptr ? store.sequence(at) : 0) {
    if (gaps_ != nullptr) known_ = gaps_->of(prefix, sequence_);
    const Gap* covering = nullptr;
    for (const Gap& gap : known_) {
      if ((gap.after < begin || gap.after == prefix) && begin < gap.to) covering = &gap;
    }
    cursor_.emplace(store.cursor(
        Family::postings, covering != nullptr ? std::min(covering->to, end) : begin, end, at));
    if (covering != nullptr) {
      passed(covering->after, covering);
    } else if (begin == prefix) {
      passed(prefix, nullptr);
    } else if (begin.back() == '\0') {  // right behind the key without it
      passed(begin.substr(0, begin.size() - 1), nullptr);
    }
  }

  bool valid() const { return cursor_->valid(); }
  std::string_view key() const { return cursor_->key(); }
  void next() {
    if (gaps_ == nullptr || watched_ == kWatched) return cursor_->next();
    ++watched_;
    before_.assign(key());
    const auto gap = std::ranges::find(known_, before_, &Gap::after);
    if (gap != known_.end()) {
      cursor_->seek(std::min(gap->to, end_));
    } else {
      cursor_->next();
    }
    passed(before_, gap != known_.end() ? &*gap : nullptr);
  }
  void seek(std::string_view key) { cursor_->seek(key); }
  /// The gap right before this posting, if it is worth remembering; otherwise nothing is deleted in
  /// it. Valid at the beginning of a list, and after each of the first kWatched steps.
  const Gap& gap_before() const { return before_this_; }
  /// That gap has been erased as a range.
  void note_erased() {
    before_this_.erased = before_this_.deleted;
    gaps_->learn(prefix_, before_this_, sequence_);
  }

 private:
  /// The cursor has come here from `after`, perhaps through a gap that was known.
  void passed(const std::string& after, const Gap* known) {
    const std::uint64_t skipped = cursor_->skipped();
    if (skipped < kDeleted && known == nullptr) {  // nearly always: nothing is copied
      before_this_.deleted = before_this_.erased = 0;
      return;
    }
    before_this_ = {after, valid() ? std::string(key()) : end_, skipped};
    if (known != nullptr) {
      before_this_.deleted += known->deleted;
      before_this_.erased = known->erased;
    }
    if (gaps_ != nullptr && skipped >= kDeleted) gaps_->learn(prefix_, before_this_, sequence_);
  }

  std::string prefix_, end_, before_;
  ListGaps* gaps_;
  std::uint64_t sequence_;
  std::vector<Gap> known_;
  std::optional<Store::Cursor> cursor_;
  int watched_ = 0;
  Gap before_this_;
};

/// The postings of one entry in a range of keys, from one snapshot.
class PostingList {
 public:
  PostingList(const Store& store, const Store::Snapshot& at, RegionId region,
              std::string_view entry, std::string_view from, std::string_view to, ListGaps* gaps)
      : store_(store),
        at_(at),
        prefix_(posting_prefix(region, entry)),
        begin_(prefix_ + std::string(from)),
        end_(to.empty() ? after_prefix(prefix_) : prefix_ + std::string(to)),
        gaps_(at != nullptr || store.is_frozen() ? gaps : nullptr) {}

  bool valid() { return cursor().valid(); }
  std::string_view key() { return cursor().key().substr(prefix_.size()); }
  void next() { cursor().next(); }
  /// Goes to the first key that is not before this one, in single steps if it is only a few keys
  /// away. Returns whether it is this one.
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
  /// Keeps only the keys that the list has.
  void keep(std::vector<std::string>& keys) const {
    std::vector<std::string> postings;
    postings.reserve(keys.size());
    for (const std::string& key : keys) postings.push_back(prefix_ + key);
    std::vector<bool> there(keys.size());
    store_.read(Family::postings, views_of(postings), at_,
                [&](std::size_t i, const std::string_view* found) { there[i] = found != nullptr; });
    std::size_t i = 0;
    std::erase_if(keys, [&](const std::string&) { return !there[i++]; });
  }

 private:
  ListCursor& cursor() {
    if (!cursor_) cursor_.emplace(store_, at_, prefix_, begin_, end_, gaps_);
    return *cursor_;
  }

  const Store& store_;
  const Store::Snapshot& at_;
  std::string prefix_, begin_, end_, target_;
  ListGaps* gaps_;                    // where the store keeps still
  std::optional<ListCursor> cursor_;  // made when it is needed
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
  const std::size_t column = column_of(entry);
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
  store.read(Family::values, views_of(keys), at, [&](std::size_t i, const std::string_view* count) {
    order.emplace_back(count == nullptr ? 0 : decode_number(*count, "count of a value"), i);
  });
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

void find_rows(const Store& store, const TableSchema& schema, const Store::Snapshot& at,
               RegionId region, const Search& what, std::vector<Row>& rows, ListGaps* gaps) {
  // The counts only decide in which order and how the lists are read.
  const auto order = rarest_first(store, at, region, what.entries);
  const std::uint64_t fewest = order[0].first;
  const auto list = [&](std::size_t entry, ListGaps* known) {
    return PostingList(store, at, region, what.entries[entry], what.from, what.to, known);
  };
  std::vector<PostingList> walked;
  std::vector<std::size_t> others;
  for (const auto& [count, entry] : order) {
    // If there are few keys, their rows, which are read anyway, show the other entries.
    const bool few = !what.keys_only && fewest <= kFirstKeys;
    if (walked.empty() || (count / kLonger <= fewest && !few)) {
      walked.push_back(list(entry, gaps));
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
      store.read(Family::rows, views_of(keys), at, [&](std::size_t i, const std::string_view* row) {
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
    // No key up to here is in all lists. If another list goes on only much later, skip to there.
    PostingList other(store, at, region, what.entries[others[0]], end, what.to, nullptr);
    if (other.advance(end)) other.next();
    if (!other.valid()) return;
    common.skip_to(other.key());
  }
}

void erase_worn(Store& store, const std::string& prefix, ListGaps& gaps) {
  // No snapshot: the caller's lock keeps the list as it is, and a snapshot would make RocksDB
  // compact every table that was loaded since the last one.
  const std::string end = after_prefix(prefix);
  ListCursor next(store, {}, prefix, prefix, end, &gaps);
  for (int live = 0;; ++live) {
    const Gap& gap = next.gap_before();
    if (gap.deleted - gap.erased >= kDeletedRange) {
      StoreBatch batch = store.batch();
      batch.erase_range(Family::postings, gap.after == prefix ? prefix : gap.after + '\0', gap.to);
      store.write(std::move(batch), false);
      next.note_erased();
    }
    if (!next.valid() || live == kWatched) return;
    next.next();
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
