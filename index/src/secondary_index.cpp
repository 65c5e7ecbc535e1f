// SPDX-License-Identifier: Apache-2.0
// SecondaryIndex: creating, opening, statistics.
#include "scbf/secondary_index.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "encoding.hpp"
#include "history.hpp"
#include "index_state.hpp"

namespace scbf {

using namespace index;

namespace {

constexpr const char *kDefinition = "definition", *kIdentity = "identity", *kStore = "store";

void check_plan(const IndexPlan& plan) {
  if (plan.servers < 1 || plan.servers > kMaxServers) {
    throw InvalidArgument(fmt::format("{} servers: must be 1 to {}", plan.servers, kMaxServers));
  }
}

struct Existing {
  TableSchema schema;
  IndexPlan plan;
  std::unique_ptr<Store> store;
};

Existing open_store(const std::filesystem::path& path, std::uint64_t cache_bytes,
                    Store::Open how = Store::Open::existing) {
  std::error_code none;
  if (!std::filesystem::is_directory(path / kStore, none)) {
    throw IoError(fmt::format("{}: there is no index", path.string()));
  }
  Existing there;
  there.store = std::make_unique<Store>(path / kStore, how, cache_bytes);
  const auto definition = there.store->get(Family::meta, kDefinition);
  if (!definition) {
    throw IoError(
        fmt::format("{}: the creation of this index was interrupted: remove the "
                    "directory and create it again",
                    path.string()));
  }
  decode_definition(*definition, there.schema, there.plan);
  try {
    check_plan(there.plan);
    Growth::tightening(there.plan.region_values, there.plan.fpr, there.plan.layout);
  } catch (const InvalidArgument& error) {
    throw CorruptFile(fmt::format("the definition of the index is damaged: {}", error.what()));
  }
  if (how != Store::Open::read_only && !there.store->get(Family::meta, kIdentity)) {
    // The index is from before identities. Its filter files name none, so they are rebuilt.
    StoreBatch batch = there.store->batch();
    batch.put(Family::meta, kIdentity, encode_number(random_number()));
    there.store->write(std::move(batch), true);
  }
  return there;
}

}  // namespace

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
    throw ReadOnly(
        fmt::format("{}: cannot {}: the index is open for reading only", path.string(), change));
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

SecondaryIndex SecondaryIndex::create(const std::filesystem::path& path, const TableSchema& schema,
                                      const IndexPlan& plan, const IndexOptions& options) {
  schema.check();
  check_plan(plan);
  const std::string definition = encode_definition(schema, plan),
                    identity = encode_number(random_number());
  Router{plan, options};  // throws for an invalid plan before anything is written
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw IoError(fmt::format("{}: cannot create: {}", path.string(), error.message()));
  if (!std::filesystem::is_empty(path, error) || error) {
    throw IoError(fmt::format("{}: not empty: an index needs its own directory", path.string()));
  }
  auto store = std::make_unique<Store>(path / kStore, Store::Open::create, options.cache_bytes);
  StoreBatch batch = store->batch();
  batch.put(Family::meta, kDefinition, definition);
  batch.put(Family::meta, kIdentity, identity);
  batch.put(Family::meta, "region/" + region_key(0), encode_region({0, ""}));
  batch.put(Family::meta, "state/" + region_key(0), encode_state({}));
  batch.put(Family::meta, "next_region", encode_number(1));
  store->write(std::move(batch), true);
  return SecondaryIndex(std::make_unique<State>(path, schema, plan, options, std::move(store)));
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
  state_ = std::move(now.state_);
  return changed;
}

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

IndexStatistics SecondaryIndex::statistics() const {
  IndexStatistics sum;
  for (const RegionInfo& region : regions()) {
    sum.rows += region.rows;
    sum.values += region.values;
    sum.filter_bytes += region.filter_bytes;
    ++sum.regions;
  }
  sum.servers = state_->plan.servers;
  sum.bit_row_bytes = state_->router.read([](const Bank& bank) { return bank.memory().rows; });
  sum.store_bytes = state_->store->bytes();
  sum.queries = state_->tally.queries;
  sum.requests = state_->tally.requests;
  sum.broadcast_requests = state_->tally.broadcast_requests;
  sum.false_requests = state_->tally.false_requests;
  sum.queries_everywhere = state_->tally.everywhere;
  return sum;
}

}  // namespace scbf
