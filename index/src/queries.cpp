// SPDX-License-Identifier: Apache-2.0
// Queries: the filters route them and the local indexes answer them, all from one snapshot.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "encoding.hpp"
#include "index_state.hpp"
#include "scbf/detail/in_quotes.hpp"

namespace scbf {

using namespace index;

namespace {

// Of an answer that is handed out row by row, the first batch has kFirstRows, and each later one
// twice as many as the one before, up to kMostRows.
constexpr std::uint64_t kFirstRows = 16, kMostRows = 256;
// Most queries routed together, with the same snapshot.
constexpr std::size_t kQueries = 1024;

std::string names_of_indexed(const TableSchema& schema) {
  std::vector<std::string> names;
  for (const Column& column : schema.columns) {
    if (column.indexed) names.push_back(detail::in_quotes(column.name));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> entries_of(const TableSchema& schema, const Query& query) {
  if (query.all_of.empty()) throw InvalidArgument("a query needs at least one condition");
  if (!query.to.empty() && query.to < query.from) {
    throw InvalidArgument(fmt::format("keys from {} to {}: the end is before the beginning",
                                      shown(query.from), shown(query.to)));
  }
  std::vector<std::string> entries;
  for (const Condition& condition : query.all_of) {
    const std::size_t column = schema.column(condition.column);
    if (!schema.columns[column].indexed) {
      throw InvalidArgument(fmt::format("column {} is not indexed; indexed columns: {}",
                                        detail::in_quotes(condition.column),
                                        names_of_indexed(schema)));
    }
    if (condition.value.empty()) {
      throw InvalidArgument(fmt::format("column {}: empty values are not indexed",
                                        detail::in_quotes(condition.column)));
    }
    if (condition.value.size() > kMaxIndexedBytes) {
      throw InvalidArgument(fmt::format("column {}: a value of {} bytes, at most {} are allowed",
                                        detail::in_quotes(condition.column), condition.value.size(),
                                        kMaxIndexedBytes));
    }
    entries.push_back(entry_key(column, condition.value));
  }
  return entries;
}

/// The smallest key that is greater than this one.
std::string key_after(const std::string& key) { return key + '\0'; }

/// Takes the next row of an answer. Returns false if it wants no more.
using Taker = std::function<bool(Row&&)>;

/// Answers one query from one snapshot.
class Answering {
 public:
  /// The first batch of rows of a region has at most `batch_rows`.
  Answering(const Store& store, const TableSchema& schema, const Store::Snapshot& at,
            const Outlook& outlook, const Query& query, std::span<const std::string> entries,
            std::uint64_t batch_rows, const Taker& take)
      : store_(store),
        schema_(schema),
        at_(at),
        outlook_(outlook),
        map_(*outlook.map),
        query_(query),
        entries_(entries),
        batch_rows_(batch_rows),
        take_(take) {
    if (!query.after.empty()) from_ = key_after(query.after);
    from_ = std::max(from_, query.from);
    first_ = map_.at(from_);
    last_ = query.to.empty() ? map_.size() : map_.at(query.to) + 1;
    // `to` is exclusive: a region that begins there is not in the range.
    if (!query.to.empty() && map_[last_ - 1].from == query.to && last_ - 1 > first_) --last_;
    if (!query.to.empty() && from_ >= query.to) last_ = first_;
  }

  /// `candidates`: the members whose filters claim all conditions, ascending. A broadcast ignores
  /// them.
  RoutingReport answer(std::span<const std::uint32_t> candidates) {
    std::vector<std::size_t> asked;
    if (query_.broadcast) {
      for (std::size_t at = first_; at < last_; ++at) asked.push_back(at);
    } else {
      for (const std::uint32_t member : candidates) {
        const std::size_t at = map_.of_member(member);
        if (at >= first_ && at < last_) asked.push_back(at);
      }
      std::sort(asked.begin(), asked.end());
    }
    std::size_t next = 0;
    while (next < asked.size() && !is_over()) ask(asked[next++]);
    if (is_over())
      last_ = next > 0 ? asked[next - 1] + 1 : first_;  // where a broadcast would end, too
    report();
    return routing_;
  }

 private:
  bool is_over() const { return found_ >= query_.limit || stopped_; }
  void ask(std::size_t at) {
    bool holds = false;
    std::vector<Row> rows;
    for (std::string from = from_; !stopped_;) {
      const std::uint64_t most = std::min(query_.limit - found_, batch_rows_);
      rows.clear();
      find_rows(store_, schema_, at_, map_[at].region->id,
                {.entries = entries_,
                 .from = from,
                 .to = query_.to,
                 .limit = most,
                 .keys_only = query_.keys_only},
                rows, &map_[at].region->gaps);
      if (rows.empty()) break;
      holds = true;
      found_ += rows.size();
      const bool more = rows.size() == most && found_ < query_.limit;
      if (more) from = key_after(rows.back().key);
      for (std::size_t i = 0; i < rows.size() && !stopped_; ++i) {
        stopped_ = !take_(std::move(rows[i]));
      }
      if (!more) break;
      batch_rows_ = std::min(2 * batch_rows_, kMostRows);
    }
    bool& server_holds = holds_[map_.server_of(at)];
    server_holds = server_holds || holds;
    ++routing_.regions_asked;
    routing_.regions_holding += holds;
  }

  void report() {
    double of_others = outlook_.requests;
    for (const auto& [server, holds] : holds_) {
      ++routing_.requests;
      routing_.servers_holding += holds;
      if (holds) of_others -= 1 - outlook_.unclaimed[server];
    }
    const double expected = routing_.servers_holding + std::max(0.0, of_others);
    routing_.regions = static_cast<std::uint32_t>(last_ - first_);
    routing_.servers = static_cast<std::uint32_t>(servers_in_range());
    // A range of keys may cut a region. Its filter then rightly claims values outside the range.
    const bool whole = from_.empty() && query_.to.empty() && !stopped_;
    if (query_.all_of.size() == 1 && query_.limit == UINT64_MAX && whole) {
      routing_.expected_requests = expected;
    }
  }

  std::size_t servers_in_range() const {
    if (last_ - first_ == map_.size()) return map_.servers();
    std::vector<bool> seen(map_.servers());
    for (std::size_t at = first_; at < last_; ++at) seen[map_.server_of(at)] = true;
    return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), true));
  }

  const Store& store_;
  const TableSchema& schema_;
  const Store::Snapshot& at_;
  const Outlook& outlook_;
  const RegionMap& map_;
  const Query& query_;
  std::span<const std::string> entries_;
  std::uint64_t batch_rows_;
  const Taker& take_;
  std::string from_;                   // first key of the query's range
  std::size_t first_, last_;           // the regions in the range: first_ ≤ at < last_
  std::map<std::size_t, bool> holds_;  // the servers asked: whether they have a row
  std::uint64_t found_ = 0;
  bool stopped_ = false;  // take_ wants no more
  RoutingReport routing_;
};

}  // namespace

QueryAnswer SecondaryIndex::query(const Query& one) const {
  return std::move(query(std::span(&one, 1)).front());
}

std::vector<QueryAnswer> SecondaryIndex::query(std::span<const Query> queries) const {
  const State& state = *state_;  // throws also if there are no queries
  for (const Query& query : queries) entries_of(state.schema, query);
  std::vector<QueryAnswer> answers(queries.size());
  for (std::size_t first = 0; first < queries.size(); first += kQueries) {
    // In parts, so that writers get their turn.
    const auto part = queries.subspan(first, std::min(kQueries, queries.size() - first));
    const auto routing = state.answer(part, UINT64_MAX, [&](std::size_t q, Row&& row) {
      answers[first + q].rows.push_back(std::move(row));
      return true;
    });
    for (std::size_t q = 0; q < part.size(); ++q) answers[first + q].routing = routing[q];
  }
  return answers;
}

RoutingReport SecondaryIndex::query(const Query& query,
                                    const std::function<bool(const Row&)>& each) const {
  return state_->answer(std::span(&query, 1), kFirstRows,
                        [&](std::size_t, Row&& row) { return each(row); })[0];
}

std::vector<RoutingReport> SecondaryIndex::State::answer(
    std::span<const Query> queries, std::uint64_t batch_rows,
    const std::function<bool(std::size_t query, Row&& row)>& take) const {
  std::vector<std::vector<std::string>> entries;
  std::vector<std::string_view> all;
  for (const Query& query : queries) entries.push_back(entries_of(schema, query));
  for (const auto& own : entries) all.insert(all.end(), own.begin(), own.end());
  const std::vector<std::uint64_t> hashes = router.hash(all);

  MemberLists lists;
  Store::Snapshot at;
  std::shared_ptr<const RegionMap> now;
  {
    // The snapshot comes first. The values of its rows were in the filters before, so the filters,
    // which are probed afterwards, claim them.
    const std::shared_lock lock(topology);
    now = map;
    at = store->snapshot();
    router.find(hashes, lists);
  }
  const auto expected = outlook(now);
  std::vector<RoutingReport> reports;
  std::size_t next = 0;
  for (std::size_t q = 0; q < queries.size(); ++q) {
    const auto first = lists.of(next);
    std::vector<std::uint32_t> candidates(first.begin(), first.end()), both;
    for (std::size_t i = 1; i < entries[q].size(); ++i) {
      const auto also = lists.of(next + i);
      both.clear();
      std::set_intersection(candidates.begin(), candidates.end(), also.begin(), also.end(),
                            std::back_inserter(both));
      candidates.swap(both);
    }
    next += entries[q].size();
    std::uint64_t rows = 0;
    const Taker take_of_this = [&](Row&& row) {
      ++rows;
      return take(q, std::move(row));
    };
    reports.push_back(
        Answering(*store, schema, at, *expected, queries[q], entries[q], batch_rows, take_of_this)
            .answer(candidates));
    const RoutingReport& routing = reports.back();
    ++tally->queries;
    tally->requests += routing.requests;
    tally->broadcast_requests += routing.servers;
    tally->false_requests += routing.false_requests();
    tally->everywhere += routing.everywhere();
    tally->regions_asked += routing.regions_asked;
    tally->regions_skipped += routing.regions - routing.regions_asked;
    tally->rows_found += rows;
  }
  return reports;
}

std::optional<Row> SecondaryIndex::get(std::string_view key) const {
  const std::string own(key);
  return std::move(get(std::span(&own, 1)).front());
}

std::vector<std::optional<Row>> SecondaryIndex::get(std::span<const std::string> keys) const {
  for (const std::string& key : keys) check_key(key);
  std::vector<std::optional<Row>> rows(keys.size());
  const auto bytes = state_->store->get(Family::rows, keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (bytes[i]) {
      rows[i] = Row{keys[i], decode_row(keys[i], *bytes[i], state_->schema.columns.size())};
    }
  }
  return rows;
}

void SecondaryIndex::scan(std::string_view from, std::string_view to,
                          const std::function<bool(const Row&)>& each) const {
  const auto at = state_->store->snapshot();
  for (auto row = state_->store->cursor(Family::rows, from, to, at); row.valid(); row.next()) {
    if (!each({std::string(row.key()),
               decode_row(row.key(), row.value(), state_->schema.columns.size())})) {
      return;
    }
  }
}

}  // namespace scbf
