// SPDX-License-Identifier: Apache-2.0
#include "counted_keys.hpp"

#include <algorithm>
#include <fstream>
#include <new>
#include <string>
#include <string_view>

namespace scbf::cli {

namespace {

/// Hashes of one part: 8 MiB, so that parts are large batches and little memory is unused.
constexpr std::size_t kPart = std::size_t{1} << 20;

/// The number in a file of one line, or `otherwise`.
std::uint64_t number_in(const char* path, std::uint64_t otherwise) {
  std::uint64_t number = 0;
  return std::ifstream(path) >> number ? number : otherwise;
}

/// The number after this word in a file of words and numbers, or `otherwise`.
std::uint64_t number_after(std::string_view word, const char* path, std::uint64_t otherwise) {
  std::ifstream file(path);
  for (std::string next; file >> next;) {
    if (std::uint64_t number = 0; next == word && file >> number) return number;
  }
  return otherwise;
}

}  // namespace

std::uint64_t memory_to_spare() {
  // What the system would give without pressing programs out; caches of files do not count as used.
  constexpr std::uint64_t kKiB = 1024;
  const std::uint64_t free = kKiB * number_after("MemAvailable:", "/proc/meminfo", 0);
  const std::uint64_t most = number_in("/sys/fs/cgroup/memory.max", ~std::uint64_t{0});
  const std::uint64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  const std::uint64_t files = number_after("inactive_file", "/sys/fs/cgroup/memory.stat", 0);
  const std::uint64_t held = used - std::min(used, files);
  return std::min(free, most > held ? most - held : 0);
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
    if (hashes_.empty() || hashes_.back().size() + keys.size() > kPart) {
      if ((hashes_.size() + 1) * kPart * sizeof(std::uint64_t) > most_bytes) return false;
      hashes_.emplace_back().reserve(kPart);  // a block has fewer keys
    }
    const std::vector<std::uint64_t> more = keys.hashes(seed);
    hashes_.back().insert(hashes_.back().end(), more.begin(), more.end());
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
}

void CountedKeys::take_hashes(const std::function<void(const KeyBatch&, std::uint64_t)>& use) {
  std::uint64_t used = 0;
  for (std::vector<std::uint64_t>& part : hashes_) {
    used += part.size();
    use(KeyBatch::from_hashes(part), used);
    part = {};
  }
  hashes_ = {};
}

}  // namespace scbf::cli
