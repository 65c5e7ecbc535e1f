// SPDX-License-Identifier: Apache-2.0
// Splitting, merging and moving regions. First the local indexes of the new regions are written
// beside those of the old ones. Then one atomic write replaces the old regions by the new ones in
// the store, and the map changes with it. A crash can leave local indexes that belong to no region;
// the next open removes them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "crash_points.hpp"
#include "encoding.hpp"
#include "filter_files.hpp"
#include "history.hpp"
#include "index_state.hpp"

namespace scbf {

using namespace index;

namespace {

// Bytes per write while a local index is copied.
constexpr std::size_t kBatchBytes = 4u << 20;
constexpr Family kLocal[] = {Family::postings, Family::values, Family::log};

/// Writes the local indexes of new regions from those of the old ones, which are adjacent. It goes
/// value by value, so it also produces the counts and the filters.
class Rewriting {
 public:
  struct Target {
    RegionId id;
    std::string from;
    FilterBuilder filter;
    std::uint64_t rows_of_value = 0;
  };

  Rewriting(Store& store, std::span<const RegionId> sources, std::vector<Target>& targets)
      : store_(store), targets_(targets), batch_(store.batch()) {
    for (const RegionId source : sources) {
      const std::string prefix = region_key(source);
      sources_.push_back({store.cursor(Family::postings, prefix, after_prefix(prefix)), {}});
    }
  }

  void run() {
    for (Source& source : sources_) source.look();
    while (true) {
      // Postings sort by value. Within a value, the rows of the left region come first.
      const Source* least = nullptr;
      for (const Source& source : sources_) {
        if (source.posting && (least == nullptr || source.posting->entry < least->posting->entry)) {
          least = &source;
        }
      }
      if (least == nullptr) break;
      const std::string entry = least->posting->entry;
      for (Source& source : sources_) {
        for (; source.posting && source.posting->entry == entry; source.next()) {
          take(entry, source.cursor.key().substr(source.posting->prefix));
        }
      }
      finish(entry);
    }
    store_.write(std::move(batch_), false);
  }

 private:
  struct Source {
    Store::Cursor cursor;
    std::optional<Posting> posting;

    void look() {
      posting.reset();
      if (cursor.valid()) posting = parse_posting(cursor.key());
    }
    void next() {
      cursor.next();
      look();
    }
  };

  void take(const std::string& entry, std::string_view row) {
    auto target = std::prev(targets_.end());
    while (target != targets_.begin() && row < target->from) --target;
    ++target->rows_of_value;
    batch_.put(Family::postings, posting_key(target->id, entry, row), {});
    if (batch_.bytes() >= kBatchBytes) {
      store_.write(std::move(batch_), false);
      batch_ = store_.batch();
    }
  }
  void finish(const std::string& entry) {
    for (Target& target : targets_) {
      if (target.rows_of_value == 0) continue;
      batch_.put(Family::values, value_key(target.id, entry), encode_number(target.rows_of_value));
      target.filter.add(entry);
      target.rows_of_value = 0;
    }
  }

  Store& store_;
  std::vector<Target>& targets_;
  StoreBatch batch_;
  std::vector<Source> sources_;
};

void rewrite(Store& store, std::span<const RegionId> sources,
             std::vector<Rewriting::Target>& targets) {
  try {
    Rewriting(store, sources, targets).run();
  } catch (...) {
    // What has been written belongs to no region. If it cannot be removed now, the next open does.
    try {
      StoreBatch batch = store.batch();
      for (const Rewriting::Target& target : targets) {
        const std::string prefix = region_key(target.id);
        for (const Family family : kLocal) batch.erase_range(family, prefix, after_prefix(prefix));
      }
      store.write(std::move(batch), false);
    } catch (const std::exception&) {
    }
    throw;
  }
}

}  // namespace

RegionId SecondaryIndex::State::new_number() {
  if (next_region >= kMaxRegionNumber) {
    throw IoError(
        fmt::format("this index has had {} regions and no region numbers are left: "
                    "load its rows into a new index",
                    next_region));
  }
  return next_region++;
}

ServerId SecondaryIndex::State::least_loaded_server() const {
  std::vector<std::size_t> load(plan.servers);
  const auto now = current_map();
  for (const RegionLocation& location : now->locations()) ++load[location.server];
  return static_cast<ServerId>(std::min_element(load.begin(), load.end()) - load.begin());
}

/// Replaces `count` regions from location `first` on by the regions `fresh`. Their local indexes
/// must be written already, and the caller must hold the `writers` of the old regions.
void SecondaryIndex::State::switch_regions(std::size_t first, std::size_t count,
                                           std::vector<NewRegion> fresh, OldMembers old_members) {
  const auto before = current_map();
  const std::size_t reused = old_members == OldMembers::reuse_first ? 1 : 0;
  std::vector<Filter> filters;
  for (NewRegion& region : std::span(fresh).subspan(reused)) {
    filters.push_back(std::move(region.filter));
  }
  const std::vector<std::uint32_t> added =
      router.change([&](Bank& bank) { return bank.add_members(std::move(filters), kAlone); });
  const auto drop = [&](std::uint32_t member) {
    router.change([&](Bank& bank) { bank.remove_member(member, kAlone); });
  };
  std::vector<std::uint32_t> members = added;

  std::vector<RegionLocation> old;
  try {
    StoreBatch batch = store->batch();
    std::vector<RegionLocation> locations(before->locations());
    old.assign(locations.begin() + static_cast<std::ptrdiff_t>(first),
               locations.begin() + static_cast<std::ptrdiff_t>(first + count));
    locations.erase(locations.begin() + static_cast<std::ptrdiff_t>(first),
                    locations.begin() + static_cast<std::ptrdiff_t>(first + count));
    if (reused > 0) {
      router.change([&](Bank& bank) {
        bank.replace_member(old[0].region->member, std::move(fresh[0].filter), kAlone);
      });
      members.insert(members.begin(), old[0].region->member);
    }
    for (const RegionLocation& location : old) {
      batch.erase(Family::meta, region_record_key(location.region->id));
      batch.erase(Family::meta, region_state_key(location.region->id));
    }
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      auto region = std::make_shared<Region>(fresh[i].id, members[i]);
      region->set(fresh[i].state);
      estimate_rate(*region);
      batch.put(Family::meta, region_record_key(region->id),
                encode_region({fresh[i].server, fresh[i].from}));
      batch.put(Family::meta, region_state_key(region->id), encode_state(fresh[i].state));
      locations.insert(locations.begin() + static_cast<std::ptrdiff_t>(first + i),
                       {fresh[i].from, fresh[i].server, std::move(region)});
    }
    batch.put(Family::meta, kNextRegion, encode_number(next_region));
    crash_point("regions: all is written");
    auto after = std::make_shared<const RegionMap>(std::move(locations));
    const std::lock_guard lock(topology);
    store->write(std::move(batch), true);
    map = std::move(after);
    for (const RegionLocation& location : old) location.region->retired = true;
  } catch (...) {
    for (const std::uint32_t member : added) drop(member);
    throw;
  }
  crash_point("regions: the map has changed");
  try {
    StoreBatch gone = store->batch();
    for (const RegionLocation& location : old) {
      if (location.region->member != members[0]) drop(location.region->member);
      const std::string prefix = region_key(location.region->id);
      for (const Family family : kLocal) gone.erase_range(family, prefix, after_prefix(prefix));
      remove_filter_file(location.region->id);
    }
    store->write(std::move(gone), false);
  } catch (const std::exception&) {  // no query uses the old regions; the next open removes them
  }
  crash_point("regions: the old ones are gone");
}

void SecondaryIndex::presplit(std::span<const std::string> points) {
  state_->must_write("split regions");
  for (std::size_t i = 0; i < points.size(); ++i) {
    check_key(points[i]);
    if (i > 0 && points[i] <= points[i - 1]) {
      throw InvalidArgument(fmt::format("points {} and {}: points must ascend",
                                        shown(points[i - 1]), shown(points[i])));
    }
  }
  State& state = *state_;
  const std::lock_guard reshaping(state.reshaping);
  const auto now = state.current_map();
  std::vector<std::unique_lock<std::mutex>> writers;
  for (const RegionLocation& location : now->locations())
    writers.emplace_back(location.region->writers);
  if (state.store->cursor(Family::rows, {}, {}).valid()) {
    throw InvalidArgument(
        "the index has rows: only an empty index can be presplit; split its regions");
  }
  std::vector<State::NewRegion> fresh;
  for (std::size_t i = 0; i <= points.size(); ++i) {
    fresh.push_back({state.new_number(),
                     i == 0 ? std::string() : points[i - 1],
                     static_cast<ServerId>(i % state.plan.servers),
                     {},
                     state.router.empty_filter()});
  }
  state.switch_regions(0, now->size(), std::move(fresh), State::OldMembers::reuse_first);
}

std::pair<RegionId, RegionId> SecondaryIndex::split(RegionId id,
                                                    const std::optional<std::string>& at) {
  state_->must_write("split a region");
  State& state = *state_;
  const std::lock_guard reshaping(state.reshaping);
  const auto now = state.current_map();
  const std::size_t number = now->of(id);
  Region& region = *(*now)[number].region;
  const std::lock_guard writers(region.writers);
  const std::string& from = (*now)[number].from;
  const std::string to(now->end(number));
  // `point` will be the first key of the right half, `left` the number of rows before it.
  std::string point = at.value_or("");
  std::uint64_t left = 0;
  if (at) check_key(*at);
  if (at && (*at <= from || (!to.empty() && *at >= to))) {
    throw InvalidArgument(
        fmt::format("region {}: cannot be split at {}: it holds keys from {} "
                    "to {}",
                    id, shown(*at), shown(from), shown(to)));
  }
  auto row = state.store->cursor(Family::rows, from, to);
  for (; row.valid(); row.next(), ++left) {
    if (at ? row.key() >= *at : left == std::max<std::uint64_t>(region.rows / 2, 1)) break;
  }
  if (!at) {
    if (!row.valid()) {
      throw InvalidArgument(fmt::format("region {}: {} row{} cannot be split in the middle", id,
                                        region.rows.load(), region.rows == 1 ? "" : "s"));
    }
    point = row.key();
  }
  const std::uint64_t histories[] = {random_number(), random_number()};
  std::vector<Rewriting::Target> targets;
  for (const std::string& begin : {from, point}) {
    targets.push_back({state.new_number(), begin, FilterBuilder(state.router)});
  }
  rewrite(*state.store, {&id, 1}, targets);
  std::vector<State::NewRegion> fresh;
  const ServerId servers[] = {(*now)[number].server, state.least_loaded_server()};
  const std::uint64_t rows[] = {left, region.rows - left};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::uint64_t values = targets[i].filter.values();
    fresh.push_back({targets[i].id,
                     targets[i].from,
                     servers[i],
                     {rows[i], values, kBornWithValues, histories[i]},
                     targets[i].filter.take()});
  }
  state.switch_regions(number, 1, std::move(fresh));
  return {targets[0].id, targets[1].id};
}

RegionId SecondaryIndex::merge(RegionId left, RegionId right) {
  state_->must_write("merge regions");
  State& state = *state_;
  const std::lock_guard reshaping(state.reshaping);
  const auto now = state.current_map();
  const std::size_t at = now->of(left);
  if (now->of(right) != at + 1) {
    throw InvalidArgument(
        fmt::format("regions {} and {}: the second must follow the first", left, right));
  }
  Region &a = *(*now)[at].region, &b = *(*now)[at + 1].region;
  const std::scoped_lock writers(a.writers, b.writers);
  const std::uint64_t history = random_number();
  std::vector<Rewriting::Target> targets;
  targets.push_back({state.new_number(), (*now)[at].from, FilterBuilder(state.router)});
  const RegionId sources[] = {left, right};
  rewrite(*state.store, sources, targets);
  const std::uint64_t values = targets[0].filter.values();
  std::vector<State::NewRegion> fresh;
  fresh.push_back({targets[0].id,
                   (*now)[at].from,
                   (*now)[at].server,
                   {a.rows + b.rows, values, kBornWithValues, history},
                   targets[0].filter.take()});
  state.switch_regions(at, 2, std::move(fresh));
  return targets[0].id;
}

void SecondaryIndex::move(RegionId id, ServerId server) {
  state_->must_write("move a region");
  State& state = *state_;
  if (server >= state.plan.servers) {
    throw InvalidArgument(fmt::format("server {}: must be below {}, the number of servers", server,
                                      state.plan.servers));
  }
  const std::lock_guard reshaping(state.reshaping);
  const auto now = state.current_map();
  const std::size_t at = now->of(id);
  std::vector<RegionLocation> locations = now->locations();
  locations[at].server = server;
  auto after = std::make_shared<const RegionMap>(std::move(locations));
  StoreBatch batch = state.store->batch();
  batch.put(Family::meta, region_record_key(id), encode_region({server, (*now)[at].from}));
  const std::lock_guard lock(state.topology);
  state.store->write(std::move(batch), true);
  state.map = std::move(after);
}

}  // namespace scbf
