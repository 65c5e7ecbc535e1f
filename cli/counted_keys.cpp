// SPDX-License-Identifier: Apache-2.0
#include "counted_keys.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "filter_file.hpp"
#include "progress.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

namespace fs = std::filesystem;

/// Hashes of one part: 8 MiB, so that parts are large batches and little memory is unused.
constexpr std::size_t kPart = std::size_t{1} << 20;

/// The first number of a file, or `otherwise`.
std::uint64_t number_in(const fs::path& path, std::uint64_t otherwise) {
  std::uint64_t number = 0;
  return std::ifstream(path) >> number ? number : otherwise;
}

/// The number after this word in a file of words and numbers, or `otherwise`.
std::uint64_t number_after(std::string_view word, const fs::path& path, std::uint64_t otherwise) {
  std::ifstream file(path);
  for (std::string next; file >> next;) {
    if (std::uint64_t number = 0; next == word && file >> number) return number;
  }
  return otherwise;
}

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

/// The files in which one version of control groups reports memory.
struct GroupFiles {
  const char *root, *most, *used, *files_in_cache;
};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                  "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                  "inactive_file"};

std::uint64_t left_in_group(const fs::path& group, const GroupFiles& of) {
  const std::uint64_t most = number_in(group / of.most, kNoLimit);
  const std::uint64_t used = number_in(group / of.used, 0);
  const std::uint64_t cached = number_after(of.files_in_cache, group / "memory.stat", 0);
  const std::uint64_t held = used - std::min(used, cached);
  return most > held ? most - held : 0;
}

/// The memory that control groups leave to this process: its own group, and all that contain it.
std::uint64_t left_in_groups() {
  std::uint64_t least = kNoLimit;
  std::ifstream groups("/proc/self/cgroup");
  // Version 2: "0::/path"; version 1: "4:memory:/path", perhaps with other controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool old = controllers.find(",memory,") != std::string::npos;
    if (!old && controllers != ",,") continue;
    const GroupFiles& of = old ? kVersion1 : kVersion2;
    // A container may see its own group at the root, and not under the path that it is told.
    for (fs::path path = line.substr(second + 1);; path = path.parent_path()) {
      least = std::min(least, left_in_group(of.root / path.relative_path(), of));
      if (!path.has_relative_path()) break;
    }
  }
  return least;
}

/// What `ulimit -v` leaves.
std::uint64_t left_of_addresses() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  const std::uint64_t used =
      number_in("/proc/self/statm", 0) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

}  // namespace

std::uint64_t memory_to_spare() {
  // What the system would give without crowding programs out; caches of files do not count as used.
  constexpr std::uint64_t kKiB = 1024;
  const std::uint64_t free = kKiB * number_after("MemAvailable:", "/proc/meminfo", 0);
  return std::min({free, left_in_groups(), left_of_addresses()});
}

CountedKeys::CountedKeys(const std::vector<std::string>& inputs, const KeyFormat& format,
                         std::uint64_t seed, const RunOptions& run, std::uint64_t most_bytes) {
  if (const auto keys = keys_by_length(inputs, format)) {
    totals_.keys = *keys;
    return;
  }
  were_read_ = true;
  have_hashes_ = true;
  KeyReader reader(inputs, format);
  const auto keep = [&](const KeyBatch& keys) {
    for (std::size_t first = 0, taken = 0; first < keys.size(); first += taken) {
      if (hashes_.empty() || hashes_.back().size == kPart) {
        if ((hashes_.size() + 1) * kPart * sizeof(std::uint64_t) > most_bytes) return false;
        // Not cleared: it is written before it is read.
        hashes_.push_back({std::make_unique_for_overwrite<std::uint64_t[]>(kPart)});
      }
      Hashes& last = hashes_.back();
      taken = std::min(keys.size() - first, kPart - last.size);
      keys.slice(first, taken).hashes(seed, {last.words.get() + last.size, taken});
      last.size += taken;
    }
    return true;
  };
  run.go_through(reader, "counting", [&](const KeyBlock& block) {
    if (!have_hashes_) return;
    try {
      if (!keep(block.batch())) forget_hashes();
    } catch (const std::bad_alloc&) {
      forget_hashes();
    }
  });
  totals_ = reader.totals();
  // Otherwise each of many small inputs would keep room for a million hashes.
  if (!hashes_.empty()) hashes_.back().shrink();
}

void CountedKeys::Hashes::shrink() noexcept {
  try {
    auto fitting = std::make_unique_for_overwrite<std::uint64_t[]>(size);
    std::copy_n(words.get(), size, fitting.get());
    words = std::move(fitting);
  } catch (const std::bad_alloc&) {
    // The room stays.
  }
}

void CountedKeys::take_hashes(const std::function<void(const KeyBatch&, std::uint64_t)>& use) {
  std::uint64_t used = 0;
  for (Hashes& part : hashes_) {
    const Hashes now = std::exchange(part, {});  // freed when it is used
    used += now.size;
    use(KeyBatch::from_hashes({now.words.get(), now.size}), used);
  }
  hashes_.clear();
}

KeyTotals insert_keys(FilterBase& filter, const std::vector<std::string>& inputs, KeyFormat format,
                      std::optional<CountedKeys>& counted, const RunOptions& run,
                      const char* what) {
  BulkInserter bulk = filter.bulk(run.batch());
  KeyTotals totals;
  if (counted && counted->have_hashes()) {
    totals = counted->totals();
    Progress progress(run.progress, what, totals.keys);
    counted->take_hashes([&](const KeyBatch& hashes, std::uint64_t so_far) {
      bulk.insert(hashes);
      progress.update(so_far, so_far);
    });
    progress.finish(totals.keys, totals.keys);
  } else {
    if (counted && counted->were_read()) format.tell = false;
    KeyReader reader(inputs, format, KeyReader::Pace::bulk, bulk_block(filter.backend()));
    run.go_through(reader, what, [&](const KeyBlock& block) { bulk.insert(block.batch()); });
    totals = reader.totals();
  }
  bulk.finish();
  if (counted && totals.keys < counted->keys()) {
    throw IoError(fmt::format("{} counted, and then only {} read: an input was cut meanwhile",
                              scbf::cli::counted(counted->keys(), "key"), grouped(totals.keys)));
  }
  return totals;
}

}  // namespace scbf::cli
