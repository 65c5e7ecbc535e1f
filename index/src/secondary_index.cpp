// SPDX-License-Identifier: Apache-2.0
// SecondaryIndex: creating, opening, statistics.
#include "scbf/secondary_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "definition.hpp"
#include "encoding.hpp"
#include "forecast.hpp"
#include "history.hpp"
#include "index_state.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/detail/io_error.hpp"

namespace scbf {

using namespace index;

SecondaryIndex::State::State(std::filesystem::path where, const TableSchema& table,
                             const IndexPlan& what, const IndexOptions& how,
                             std::unique_ptr<Store> opened, bool reads_only)
    : path(std::move(where)),
      schema(table),
      plan(what),
      options(how),
      store(std::move(opened)),
      read_only(reads_only),
      // Only an index from before identities that is open for reading only has none.
      identity(decode_number(store->get(Family::meta, kIdentity).value_or(encode_number(0)),
                             "number of the index")),
      router(what, how) {
  recover();
}

void SecondaryIndex::State::must_write(std::string_view change) const {
  if (read_only) {
    throw ReadOnly(fmt::format("{}: cannot {}: the index is open for reading only",
                               detail::in_quotes(path.string()), change));
  }
}

SecondaryIndex::SecondaryIndex(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
SecondaryIndex::SecondaryIndex(SecondaryIndex&&) noexcept = default;
SecondaryIndex& SecondaryIndex::operator=(SecondaryIndex&& other) noexcept {
  if (this == &other) return *this;
  const SecondaryIndex before = std::move(*this);  // its destructor saves the filters
  state_ = std::move(other.state_);
  return *this;
}
SecondaryIndex::~SecondaryIndex() {
  if (!state_ || state_->read_only) return;
  try {
    checkpoint();
  } catch (const std::exception&) {  // the log holds every change
  }
}

namespace {

/// Throws InvalidArgument unless exported files can hold this name.
void check_name(const std::string& name) {
  if (name.find('\0') != std::string::npos) {
    throw InvalidArgument(
        fmt::format("name {}: a byte that is 0 cannot be in it", detail::in_quotes(name)));
  }
  if (name.starts_with("\xEF\xBB\xBF")) {
    throw InvalidArgument(
        fmt::format("name {}: it begins with U+FEFF, which is a mark at the beginning of files",
                    detail::in_quotes(name)));
  }
}

}  // namespace

SecondaryIndex SecondaryIndex::create(const std::filesystem::path& path, const TableSchema& schema,
                                      const IndexPlan& plan, const IndexOptions& options) {
  schema.check();
  check_name(schema.key);
  for (const Column& column : schema.columns) check_name(column.name);
  check_plan(plan);
  const std::string definition = encode_definition(schema, plan),
                    identity = encode_number(random_number());
  Router{plan, options};  // throws for an invalid plan before anything is written
  std::error_code error;
  const bool is_made = std::filesystem::create_directories(path, error);
  if (error) throw detail::io_error(path, "cannot create", error.value());
  bool store_is_made = false;  // by this call, which then may remove it
  try {
    const bool is_empty = std::filesystem::is_empty(path, error);
    if (error) throw detail::io_error(path, "cannot read", error.value());
    store_is_made = is_empty && std::filesystem::create_directory(path / kStore, error);
    if (error) throw detail::io_error(path, "cannot create", error.value());
    if (!store_is_made) {
      throw IoError(fmt::format("{}: not empty: an index needs its own directory",
                                detail::in_quotes(path.string())),
                    ENOTEMPTY, path.string());
    }
    auto store = std::make_unique<Store>(path / kStore, Store::Open::create, options.cache_bytes);
    StoreBatch batch = store->batch();
    batch.put(Family::meta, kDefinition, definition);
    batch.put(Family::meta, kIdentity, identity);
    batch.put(Family::meta, region_record_key(0), encode_region({0, ""}));
    batch.put(Family::meta, region_state_key(0), encode_state({}));
    batch.put(Family::meta, kNextRegion, encode_number(1));
    store->write(std::move(batch), true);
    return SecondaryIndex(std::make_unique<State>(path, schema, plan, options, std::move(store)));
  } catch (...) {  // so that the call can be repeated
    if (store_is_made) std::filesystem::remove_all(path / kStore, error);
    if (is_made) std::filesystem::remove(path, error);  // if it is empty
    throw;
  }
}

SecondaryIndex SecondaryIndex::open(const std::filesystem::path& path,
                                    const IndexOptions& options) {
  Existing there = open_store(path, options.cache_bytes);
  return SecondaryIndex(
      std::make_unique<State>(path, there.schema, there.plan, options, std::move(there.store)));
}

SecondaryIndex SecondaryIndex::open_read_only(const std::filesystem::path& path,
                                              const IndexOptions& options) {
  Existing there = open_store(path, options.cache_bytes, Store::Open::read_only);
  return SecondaryIndex(std::make_unique<State>(path, there.schema, there.plan, options,
                                                std::move(there.store), true));
}

bool SecondaryIndex::read_only() const { return state_->read_only; }
Freshness SecondaryIndex::freshness() const { return state_->store->freshness(); }
bool SecondaryIndex::refresh() {
  if (state_->store->is_current()) return false;
  IndexOptions options = state_->options;
  options.backend = state_->router.empty_filter().backend().name();
  SecondaryIndex now = open_read_only(state_->path, options);
  const bool changed = now.freshness().number != freshness().number;
  now.state_->tally = state_->tally;
  state_ = std::move(now.state_);
  return changed;
}

const TableSchema& SecondaryIndex::schema() const { return state_->schema; }
const IndexPlan& SecondaryIndex::plan() const { return state_->plan; }
const RecoveryReport& SecondaryIndex::recovery() const { return state_->recovery; }

std::vector<RegionInfo> SecondaryIndex::regions() const {
  // The map never changes, and its regions stay what they were when others replace them.
  const auto now = state_->current_map();
  std::vector<RegionInfo> infos;
  infos.reserve(now->size());
  for (std::size_t i = 0; i < now->size(); ++i) {
    const Region& region = *(*now)[i].region;
    const std::uint64_t saved = region.saved,
                        unsaved = std::max(region.changes.load(), saved) - saved;
    infos.push_back({region.id, (*now)[i].from, std::string(now->end(i)), (*now)[i].server,
                     region.rows, region.values, region.stages, region.filter_bytes, region.fpr,
                     region.left_over, unsaved, !region.trusted});
  }
  return infos;
}

IndexPlan SecondaryIndex::plan_for(double fpr) const {
  // Where regions differ in size, the filters of small ones are too large if the first stage is
  // made for the largest, and those of large ones have many stages if it is made for small ones.
  constexpr std::uint64_t kLeastValues = 64;
  std::vector<std::uint64_t> values;
  for (const RegionInfo& region : regions()) values.push_back(region.values + region.values / 4);
  IndexPlan best = plan(), tried = plan();
  best.fpr = tried.fpr = fpr;
  std::uint64_t least = UINT64_MAX;
  tried.region_values = std::max(*std::max_element(values.begin(), values.end()), kLeastValues);
  for (; tried.region_values >= kLeastValues; tried.region_values /= 2) {
    Forecast forecast(growth_of(tried));
    std::uint64_t bytes = 0;
    for (const std::uint64_t held : values) bytes += forecast.bytes(held);
    if (bytes >= least) continue;
    least = bytes;
    best.region_values = tried.region_values;
  }
  return best;
}

FilterForecast SecondaryIndex::forecast(const IndexPlan& plan) const {
  Forecast each(growth_of(plan));
  FilterForecast all;
  const std::vector<RegionInfo> now = regions();
  for (const RegionInfo& region : now) {
    const double fpr = each.fpr(region.values);
    all.filter_bytes += each.bytes(region.values);
    all.highest_fpr = std::max(all.highest_fpr, fpr);
    all.mean_fpr += fpr / static_cast<double>(now.size());
  }
  return all;
}

IndexStatistics SecondaryIndex::statistics() const {
  IndexStatistics sum;
  for (const RegionInfo& region : regions()) {
    sum.rows += region.rows;
    sum.values += region.values;
    sum.filter_bytes += region.filter_bytes;
    ++sum.regions;
  }
  sum.servers = state_->plan.servers;
  sum.bit_row_bytes = state_->router.row_bytes();
  sum.store_bytes = state_->store->bytes();
  sum.queries = state_->tally->queries;
  sum.requests = state_->tally->requests;
  sum.broadcast_requests = state_->tally->broadcast_requests;
  sum.false_requests = state_->tally->false_requests;
  sum.queries_everywhere = state_->tally->everywhere;
  return sum;
}

}  // namespace scbf
