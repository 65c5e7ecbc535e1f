// SPDX-License-Identifier: Apache-2.0
#include "counted_keys.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>

namespace scbf::cli {

namespace {

/// Hashes of one part: 8 MiB, so that parts are large batches and little memory is unused.
constexpr std::size_t kPart = std::size_t{1} << 20;

/// The number in a file of one line, or `otherwise`.
std::uint64_t number_in(const char* path, std::uint64_t otherwise) {
  std::uint64_t number = 0;
  return std::ifstream(path) >> number ? number : otherwise;
}

}  // namespace

std::uint64_t memory_to_spare() {
  const auto free = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_AVPHYS_PAGES))) *
                    static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t most = number_in("/sys/fs/cgroup/memory.max", ~std::uint64_t{0});
  const std::uint64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  return std::min(free, most > used ? most - used : 0);
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
      hashes_.emplace_back().reserve(std::max(kPart, keys.size()));
    }
    const std::vector<std::uint64_t> more = keys.hashes(seed);
    hashes_.back().insert(hashes_.back().end(), more.begin(), more.end());
    return true;
  };
  run.go_through(reader, "counting", [&](const KeyBlock& block) {
    if (!have_hashes_) return;
    try {
      have_hashes_ = keep(block.batch());
    } catch (const std::bad_alloc&) {
      have_hashes_ = false;
    }
    if (!have_hashes_) hashes_ = {};
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
