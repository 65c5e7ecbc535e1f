// SPDX-License-Identifier: Apache-2.0
// Opening an index. Each region's filter is loaded and the later changes are replayed from the log.
// Where this is not possible, the filter is rebuilt from the local index, or else every query asks
// the region. Whatever belongs to no region is removed. An index that is open for reading only does
// the same in memory, and writes and removes nothing.
#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "crash_points.hpp"
#include "definition.hpp"
#include "encoding.hpp"
#include "filter_files.hpp"
#include "history.hpp"
#include "index_state.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/detail/io_error.hpp"

namespace scbf {

using namespace index;

namespace {

constexpr unsigned kMostThreads = 256;

struct Recovered : StoredRegion {
  std::optional<Filter> filter;  ///< empty: the region is always asked
  std::uint64_t saved = 0, log_entries = 0, left_over = 0;
  std::string reason;  ///< why the saved filter could not be used; empty if it could
};

/// Whether version 0.1 wrote the state last.
bool lacks_history(const RegionState& state) {
  return state.changes > 0 && state.history == kNoHistory;
}

/// Removes local indexes and logs of numbers that no region has.
void clear_remains(Store& store, const std::vector<Recovered>& regions) {
  std::set<RegionId> live;
  for (const Recovered& region : regions) live.insert(region.id);
  for (const Family family : {Family::postings, Family::values, Family::log}) {
    std::string from;
    for (auto it = live.begin();; ++it) {
      const std::string to = it == live.end() ? std::string(4, '\xFF') : region_key(*it);
      if (store.cursor(family, from, to).valid()) {
        StoreBatch batch = store.batch();
        batch.erase_range(family, from, to);
        store.write(std::move(batch), false);
      }
      if (it == live.end()) break;
      from = after_prefix(region_key(*it));
    }
  }
}

/// Removes the filter files of numbers that no region has. Makes the folder if there is none.
void clear_filter_files(const std::filesystem::path& folder,
                        const std::vector<Recovered>& regions) {
  std::filesystem::create_directories(folder);
  std::set<std::string> expected;
  for (const Recovered& region : regions) expected.insert(filter_file_name(region.id));
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (expected.contains(file.path().filename())) continue;
    std::error_code stays;  // ignored: what cannot be removed, such as a folder, stays
    std::filesystem::remove(file.path(), stays);
  }
}

/// The stages of a growth, each computed once. Thread-safe.
class Stages {
 public:
  explicit Stages(const Growth& growth) : growth_(growth) {}

  /// Whether the filter consists of these stages, in order.
  bool are_in(const Filter& filter) {
    const std::lock_guard lock(mutex_);
    for (std::size_t s = 0; s < filter.stages(); ++s) {
      if (s >= growth_.most_stages()) return false;
      if (s == shapes_.size()) shapes_.push_back(growth_.stage(static_cast<std::uint32_t>(s)));
      if (!(filter.stage(s).shape() == shapes_[s])) return false;
    }
    return true;
  }

 private:
  Growth growth_;
  std::mutex mutex_;
  std::vector<StageShape> shapes_;
};

/// Loads the filter file and replays the log from there. If that does not give the whole filter,
/// stores the reason.
void bring_up_to_date(const Store& store, const Router& router, Stages& stages,
                      std::uint64_t identity, const std::filesystem::path& file,
                      Recovered& region) {
  const auto refuse = [&](std::string reason) {
    region.reason = std::move(reason);
    region.filter.reset();
  };
  if (lacks_history(region.state)) {
    return refuse("its state is from version 0.1, which kept no history");
  }
  std::uint64_t seen = 0, history = kNoHistory;
  std::error_code none;
  if (!std::filesystem::exists(file, none)) {
    // A log that begins with change 1 is complete. The log of a region that began with values lacks
    // that change (kBornWithValues).
    const bool from_the_first = store.get(Family::log, log_key(region.id, 1)).has_value();
    if (!from_the_first && (region.state.changes > 0 || region.state.values > 0)) {
      return refuse("its filter was not saved");
    }
    region.filter = router.empty_filter();
  } else {
    try {
      region.filter = Filter::load(file, {.backend = router.empty_filter().backend().name()});
    } catch (const Error& error) {
      return refuse(error.what());
    }
    const auto said = parse_filter_file(region.filter->metadata());
    if (!said || said->index != identity || said->region != region.id ||
        region.filter->growth() != router.empty_filter().growth() ||
        region.filter->seed() != router.empty_filter().seed() || !stages.are_in(*region.filter)) {
      return refuse(fmt::format("{} belongs to another index, region or plan",
                                detail::in_quotes(file.string())));
    }
    if (said->changes > region.state.changes) {
      return refuse(fmt::format("{} contains {} changes, the store only {}",
                                detail::in_quotes(file.string()), said->changes,
                                region.state.changes));
    }
    seen = region.saved = said->changes;
    history = said->history;
    region.left_over = said->left_over;
  }
  const std::string end = region_key(region.id);
  for (auto record = store.cursor(Family::log, log_key(region.id, seen + 1), after_prefix(end));
       record.valid(); record.next()) {
    if (change_of(record.key()) != ++seen) {
      return refuse(fmt::format("its log lacks change {}", seen));
    }
    history = history_after(history, record.value());
    const FilterChange change = decode_change(record.value());
    region.filter->insert(KeyBatch::from_hashes(change.added), kAlone);
    const RemoveReport done =
        region.filter->remove(KeyBatch::from_hashes(change.removed), {}, kAlone);
    region.left_over += done.ambiguous + done.kept;
    region.log_entries += change.added.size() + change.removed.size();
  }
  if (seen != region.state.changes) {
    return refuse(fmt::format("its log ends at change {} of {}", seen, region.state.changes));
  }
  if (history != region.state.history) {
    refuse(fmt::format("{} and the log have other changes than the region",
                       detail::in_quotes(file.string())));
  }
}

void load_filter(const Store& store, const Router& router, Stages& stages, std::uint64_t identity,
                 const std::filesystem::path& file, Recovered& region) {
  try {
    bring_up_to_date(store, router, stages, identity, file, region);
  } catch (const Error& error) {  // from a damaged log or a full filter
    region.reason = error.what();
    region.filter.reset();
  }
  if (!region.filter) region.saved = region.log_entries = region.left_over = 0;
}

/// Throws CorruptFile if the numbers, key ranges or servers of regions are impossible.
void check_regions(const std::vector<Recovered>& regions, std::uint64_t next,
                   std::uint32_t servers) {
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const Recovered& region = regions[i];
    if (region.id >= next || next > kMaxRegionNumber) {
      throw CorruptFile(
          fmt::format("region {}: the next number, {}, must be above it and at most {}", region.id,
                      next, kMaxRegionNumber));
    }
    if (i > 0 && region.record.from == regions[i - 1].record.from) {
      throw CorruptFile(fmt::format("regions {} and {} both begin at {}", regions[i - 1].id,
                                    region.id, shown(region.record.from)));
    }
    if (region.record.server >= servers) {
      throw CorruptFile(fmt::format("region {} is on server {}: there are only {} servers",
                                    region.id, region.record.server, servers));
    }
  }
}

/// Gives the region of version 0.1 a history to begin with. Its filter is rebuilt.
void begin_history(Store& store, Recovered& region) {
  region.state.history = random_number();
  StoreBatch batch = store.batch();
  batch.put(Family::meta, region_state_key(region.id), encode_state(region.state));
  try {
    store.write(std::move(batch), false);
  } catch (const Error&) {  // the next write to the region stores it, or the next open begins again
  }
}

}  // namespace

void SecondaryIndex::State::recover() {
  try {
    read_everything();
  } catch (const std::filesystem::filesystem_error& error) {
    throw detail::io_error(error);
  }
}

void SecondaryIndex::State::read_everything() {
  std::vector<Recovered> regions;
  for (StoredRegion& region : read_regions(*store)) regions.push_back({std::move(region)});
  const auto next = store->get(Family::meta, kNextRegion);
  if (!next) throw CorruptFile("the store has no record of the next region's number");
  check_regions(regions, decode_number(*next, "number of regions"), plan.servers);
  next_region = static_cast<RegionId>(decode_number(*next, "number of regions"));
  if (!read_only) {
    clear_remains(*store, regions);
    clear_filter_files(path / kFilterFolder, regions);
  }

  oneapi::tbb::task_arena arena(options.threads == 0
                                    ? oneapi::tbb::task_arena::automatic
                                    : static_cast<int>(std::min(options.threads, kMostThreads)));
  Stages stages(router.empty_filter().growth());
  arena.execute([&] {
    oneapi::tbb::parallel_for(std::size_t{0}, regions.size(), [&](std::size_t i) {
      Recovered& region = regions[i];
      load_filter(*store, router, stages, identity, filter_path(region.id), region);
      if (!region.filter && options.rebuild) {
        region.filter = built_from_values(region.id, &region.state.values);
        region.left_over = region.log_entries = 0;
      }
    });
  });

  std::vector<Filter> filters;
  for (Recovered& region : regions) {
    filters.push_back(region.filter ? std::move(*region.filter) : router.empty_filter());
  }
  const std::vector<std::uint32_t> members =
      router.change([&](Bank& bank) { return bank.add_members(std::move(filters), kAlone); });
  std::vector<RegionLocation> locations;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    Recovered& from = regions[i];
    if (lacks_history(from.state) && !read_only) begin_history(*store, from);
    auto region = std::make_shared<Region>(from.id, members[i]);
    region->set(from.state);
    region->saved = from.saved;
    region->log_entries = from.log_entries;
    region->left_over = from.left_over;
    if (from.reason.empty()) region->removed = region->values;
    ++recovery.regions;
    recovery.changes_replayed += from.log_entries;
    recovery.replayed += from.log_entries > 0;
    if (!from.reason.empty()) {
      recovery.reasons.push_back(fmt::format("region {}: {}", from.id, from.reason));
      // Remove the file before anything is written. Later its number of changes might look valid.
      if (!read_only) remove_filter_file(from.id);
      if (from.filter) {
        ++recovery.rebuilt;
        try {
          if (!read_only) save(*region);
        } catch (const Error&) {  // without a file the next open rebuilds it
        }
      } else {
        ++recovery.asked_always;
        distrust(*region);
      }
    }
    locations.push_back({from.record.from, from.record.server, std::move(region)});
  }
  arena.execute([&] {
    oneapi::tbb::parallel_for(std::size_t{0}, locations.size(),
                              [&](std::size_t i) { estimate_rate(*locations[i].region); });
  });
  map = std::make_shared<const RegionMap>(std::move(locations));
  if (read_only) router.keep_bits_only();
}

}  // namespace scbf
