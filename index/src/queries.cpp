// SPDX-License-Identifier: Apache-2.0
// Queries: the filters route them and the local indexes answer them, all from one snapshot.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "encoding.hpp"
#include "index_state.hpp"

namespace scbf {

using namespace index;

namespace {

// Most queries routed together, with the same snapshot.
constexpr std::size_t kQueries = 1024;

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
      throw InvalidArgument(fmt::format("column '{}' is not indexed", condition.column));
    }
    if (condition.value.empty()) {
      throw InvalidArgument(
          fmt::format("column '{}': empty values are not indexed", condition.column));
    }
    if (condition.value.size() > kMaxIndexedBytes) {
      throw InvalidArgument(fmt::format("column '{}': a value of {} bytes, at most {} are allowed",
                                        condition.column, condition.value.size(),
                                        kMaxIndexedBytes));
    }
    entries.push_back(entry_key(column, condition.value));
  }
  return entries;
}

/// Answers one query from one snapshot.
class Answering {
 public:
  Answering(const Store& store, const TableSchema& schema, const Store::Snapshot& at,
            const Outlook& outlook, const Query& query, std::span<const std::string> entries)
      : store_(store),
        schema_(schema),
        at_(at),
        outlook_(outlook),
        map_(*outlook.map),
        query_(query),
        entries_(entries) {
    first_ = map_.at(query.from);
    last_ = query.to.empty() ? map_.size() : map_.at(query.to) + 1;
    // `to` is exclusive: a region that begins there is not in the range.
    if (!query.to.empty() && map_[last_ - 1].from == query.to && last_ - 1 > first_) --last_;
  }

  /// `candidates`: the members whose filters claim all conditions, ascending. A broadcast ignores
  /// them.
  QueryAnswer answer(std::span<const std::uint32_t> candidates) {
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
    for (const std::size_t at : asked) {
      if (answer_.rows.size() >= query_.limit) break;
      ask(at);
    }
    report();
    return std::move(answer_);
  }

 private:
  void ask(std::size_t at) {
    const std::size_t before = answer_.rows.size();
    find_rows(store_, schema_, at_, map_[at].region->id,
              {.entries = entries_,
               .from = query_.from,
               .to = query_.to,
               .limit = query_.limit - before,
               .keys_only = query_.keys_only},
              answer_.rows, &map_[at].region->starts);
    const bool holds = answer_.rows.size() > before;
    bool& server_holds = holds_[map_.server_of(at)];
    server_holds = server_holds || holds;
    ++answer_.routing.regions_asked;
    answer_.routing.regions_holding += holds;
  }

  void report() {
    RoutingReport& routing = answer_.routing;
    double of_others = outlook_.requests;
    for (const auto& [server, holds] : holds_) {
      ++routing.requests;
      routing.servers_holding += holds;
      if (holds) of_others -= 1 - outlook_.unclaimed[server];
    }
    const double expected = routing.servers_holding + std::max(0.0, of_others);
    routing.regions = static_cast<std::uint32_t>(last_ - first_);
    routing.servers = static_cast<std::uint32_t>(servers_in_range());
    // A range of keys may cut a region. Its filter then rightly claims values outside the range.
    const bool whole = query_.from.empty() && query_.to.empty();
    if (query_.all_of.size() == 1 && query_.limit == UINT64_MAX && whole) {
      routing.expected_requests = expected;
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
  std::size_t first_, last_;           // the regions in the query's range: first_ ≤ at < last_
  std::map<std::size_t, bool> holds_;  // the servers asked: whether they have a row
  QueryAnswer answer_;
};

}  // namespace

QueryAnswer SecondaryIndex::query(const Query& one) const {
  return std::move(query(std::span(&one, 1)).front());
}

std::vector<QueryAnswer> SecondaryIndex::query(std::span<const Query> queries) const {
  if (queries.size() > kQueries) {  // in parts, so that writers get their turn
    for (const Query& query : queries) entries_of(state_->schema, query);
    std::vector<QueryAnswer> all;
    for (std::size_t first = 0; first < queries.size(); first += kQueries) {
      auto part = query(queries.subspan(first, std::min(kQueries, queries.size() - first)));
      std::move(part.begin(), part.end(), std::back_inserter(all));
    }
    return all;
  }
  std::vector<std::vector<std::string>> entries;
  std::vector<std::string_view> all;
  for (const Query& query : queries) entries.push_back(entries_of(state_->schema, query));
  for (const auto& own : entries) all.insert(all.end(), own.begin(), own.end());
  const std::vector<std::uint64_t> hashes = state_->router.hash(all);

  MemberLists lists;
  Store::Snapshot at;
  std::shared_ptr<const RegionMap> map;
  {
    // The snapshot comes first. The values of its rows were in the filters before, so the filters,
    // which are probed afterwards, claim them.
    const std::shared_lock lock(state_->topology);
    map = state_->map;
    at = state_->store->snapshot();
    state_->router.read(
        [&](const Bank& bank) { bank.find(KeyBatch::from_hashes(hashes), lists, kAlone); });
  }
  const auto outlook = state_->outlook(map);
  std::vector<QueryAnswer> answers;
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
    answers.push_back(
        Answering(*state_->store, state_->schema, at, *outlook, queries[q], entries[q])
            .answer(candidates));
    const RoutingReport& routing = answers.back().routing;
    auto& tally = state_->tally;
    ++tally.queries;
    tally.requests += routing.requests;
    tally.broadcast_requests += routing.servers;
    tally.false_requests += routing.false_requests();
    tally.everywhere += routing.everywhere();
  }
  return answers;
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
