// SPDX-License-Identifier: Apache-2.0
#include "free_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace scbf::cli {

namespace {

namespace fs = std::filesystem;

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

}  // namespace scbf::cli
