// SPDX-License-Identifier: Apache-2.0
// Saving and rebuilding filters. A filter file records how many of its region's changes it
// contains. Later changes are in the store's log until the next save.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "copies.hpp"
#include "crash_points.hpp"
#include "encoding.hpp"
#include "filter_files.hpp"
#include "forecast.hpp"
#include "index_state.hpp"
#include "scbf/detail/io_error.hpp"

namespace scbf {

using namespace index;

namespace {

// Limits of a batch of values that is hashed and inserted together.
constexpr std::size_t kBuildValues = 16 * 1024, kBuildBytes = 4u << 20;
// A filter is rebuilt when its left-over entries exceed 1 / kLeftOverParts of its region's values,
// or when it is oversized; between saves, only if more than kBetweenSaves entries are left over or,
// in an oversized filter, were removed. So no more than kLeftOverParts values are read for each
// removal. The rest of a rebuild costs about as much as a save, or is shared by kBetweenSaves
// removals.
constexpr std::uint64_t kLeftOverParts = 8, kBetweenSaves = 1000;
// The rate is estimated again when this part of the region's values has changed, or this part of
// the values that its filter was planned for, if those are more.
constexpr std::uint64_t kRateParts = 64;

}  // namespace

namespace index {

std::string describe_filter_file(const FilterFile& file) {
  return nlohmann::json{{"index", file.index},
                        {"region", file.region},
                        {"changes", file.changes},
                        {"history", file.history},
                        {"left_over", file.left_over}}
      .dump();
}

std::optional<FilterFile> parse_filter_file(const std::string& metadata) {
  const auto json = nlohmann::json::parse(metadata, nullptr, false);
  const auto number = [&](const char* name) -> std::optional<std::uint64_t> {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<std::uint64_t>();
  };
  if (!json.is_object()) return std::nullopt;
  const auto index = number("index"), region = number("region"), changes = number("changes"),
             history = number("history"), left = number("left_over");
  if (!index || !region || *region >= kMaxRegionNumber || !changes || !history || !left) {
    return std::nullopt;
  }
  return FilterFile{*index, static_cast<RegionId>(*region), *changes, *history, *left};
}

std::string filter_file_name(RegionId region) { return fmt::format("{}.scbf", region); }

FilterBuilder::FilterBuilder(const Router& router)
    : router_(router), filter_(router.empty_filter()) {}

void FilterBuilder::add(std::string_view entry) {
  entries_.emplace_back(entry);
  bytes_ += entry.size();
  ++values_;
  if (entries_.size() == kBuildValues || bytes_ >= kBuildBytes) flush();
}

void FilterBuilder::flush() {
  const std::vector<std::string_view> views(entries_.begin(), entries_.end());
  filter_.insert(KeyBatch::from_hashes(router_.hash(views)), kAlone);
  entries_.clear();
  bytes_ = 0;
}

Filter FilterBuilder::take() {
  flush();
  return std::move(filter_);
}

}  // namespace index

std::filesystem::path SecondaryIndex::State::filter_path(RegionId region) const {
  return path / kFilterFolder / filter_file_name(region);
}

void SecondaryIndex::State::remove_filter_file(RegionId region) const {
  std::error_code error;
  std::filesystem::remove(filter_path(region), error);
  if (error) throw detail::io_error(filter_path(region), "cannot remove", error.value());
  index::sync_entries(path / kFilterFolder);  // the file must not reappear after a power failure
}

Filter SecondaryIndex::State::built_from_values(RegionId region, std::uint64_t* values) const {
  FilterBuilder builder(router);
  for_each_value(*store, {}, region, [&](std::string_view entry, std::uint64_t) {
    // A reader meets entries of other columns while a writer adds or drops them.
    if (is_indexed(schema, entry)) builder.add(entry);
  });
  if (values != nullptr) *values = builder.values();
  return builder.take();
}

void SecondaryIndex::State::rebuild(Region& region) {
  std::uint64_t values = 0;
  Filter filter = built_from_values(region.id, &values);
  router.change([&](Bank& bank) { bank.replace_member(region.member, std::move(filter), kAlone); });
  region.values = values;
  region.trusted = true;
  region.left_over = region.removed = 0;
  estimate_rate(region);
  crash_point("rebuild: the filter is replaced");
}

bool SecondaryIndex::State::oversized(const Region& region) const {
  // The filter grew to its last stage with more values than the other stages have room for. So at
  // least a third of those values are gone, and the region has room for half as many again before
  // it grows once more: a region whose size varies by less is not rebuilt again and again.
  const std::uint64_t values = region.values, half = values / 2;
  return region.removed >= half &&
         region.stages > stages_for(router.empty_filter().growth(), values + half);
}

std::uint64_t SecondaryIndex::State::rebuilds_due(const Region& region) const {
  const std::uint64_t left = region.left_over;
  return (oversized(region) ? std::max(left, region.removed) : left) /
         std::max(kBetweenSaves + 1, region.values / kLeftOverParts + 1);
}

void SecondaryIndex::State::distrust(Region& region) {
  router.change([&](Bank& bank) { bank.ask_always(region.member, true); });
  region.trusted = false;
  estimate_rate(region);
  if (!read_only) remove_filter_file(region.id);
}

void SecondaryIndex::State::save(Region& region) {
  if (!region.trusted) return;
  if (region.left_over > region.values / kLeftOverParts || oversized(region)) {
    rebuild(region);
  } else if (region.changes == region.saved) {
    std::error_code none;
    if (region.changes == 0 || std::filesystem::exists(filter_path(region.id), none)) return;
  }
  // Sync the store first. Otherwise the machine might crash and bring back values that the saved
  // filter no longer contains.
  store->sync();
  crash_point("save: the log is on disk");
  const std::uint64_t changes = region.changes;
  Filter filter = router.read([&](const Bank& bank) { return bank.copy_member(region.member); });
  filter.set_metadata(
      describe_filter_file({identity, region.id, changes, region.history, region.left_over}));
  filter.save(filter_path(region.id));
  crash_point("save: the filter is on disk");
  StoreBatch batch = store->batch();
  batch.erase_range(Family::log, log_key(region.id, 0), log_key(region.id, changes + 1));
  store->write(std::move(batch), false);
  crash_point("save: the log is shorter");
  region.saved = changes;
  region.log_entries = 0;
}

void SecondaryIndex::State::estimate_rate(Region& region) {
  const FilterFacts facts =
      router.read([&](const Bank& bank) { return facts_of(bank, region.member); });
  region.stages = facts.stages;
  region.filter_bytes = facts.bytes;
  region.fpr = facts.fpr;
  region.unrated = 0;
  ++rates_as_of;
}

void SecondaryIndex::State::refresh_rate(Region& region, std::uint64_t changed) {
  region.unrated += changed;
  if (region.unrated > std::max<std::uint64_t>(region.values, plan.region_values) / kRateParts) {
    estimate_rate(region);
  }
}

void SecondaryIndex::checkpoint() {
  state_->must_write("save filters");
  const auto now = state_->current_map();
  std::exception_ptr first;  // a failure does not stop the other filters from being saved
  for (const RegionLocation& location : now->locations()) {
    const std::lock_guard lock(location.region->writers);
    if (location.region->retired) continue;
    try {
      state_->save(*location.region);
    } catch (const std::exception&) {
      if (!first) first = std::current_exception();
    }
  }
  try {
    state_->store->shorten_log();
  } catch (const std::exception&) {
    if (!first) first = std::current_exception();
  }
  if (first) std::rethrow_exception(first);
}

void SecondaryIndex::rebuild(RegionId region) {
  state_->must_write("rebuild a filter");
  state_->with_region(region, [&](std::size_t at, const RegionMap& now) {
    state_->remove_filter_file(region);
    state_->rebuild(*now[at].region);
    state_->save(*now[at].region);
  });
}

void SecondaryIndex::distrust(RegionId region) {
  state_->must_write("discard a filter");
  state_->with_region(
      region, [&](std::size_t at, const RegionMap& now) { state_->distrust(*now[at].region); });
}

}  // namespace scbf
