// SPDX-License-Identifier: Apache-2.0
// Batches in windows, for who asks several filters about the same keys: the keys are hashed once
// per window, and its hashes and answers lie in cache meanwhile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kit/executor.hpp"
#include "scbf/backend.hpp"

namespace scbf {

/// Hashes of a window of keys, and what is known of each.
struct KeyWindow {
  explicit KeyWindow(std::size_t keys) : hashes(keys), index(keys), answers(keys) {}
  std::vector<std::uint64_t> hashes;
  std::vector<std::uint32_t> index;  ///< of hashes[i], among the window's valid keys
  std::vector<std::uint8_t> answers;
};

/// Is each filter to be asked about all keys at once? On a device, and where the backend partitions
/// batches for a filter as large as the largest.
inline bool ask_in_bulk(const Backend& backend, std::uint64_t largest_bytes, const KeyBatch& keys,
                        const BatchOptions& options) noexcept {
  constexpr std::uint64_t kBulkBytes = 512u << 20;
  if (backend.memory() != kHostMemory || options.path == Path::partitioned) return true;
  if (options.path == Path::direct) return false;
  return largest_bytes > kBulkBytes && keys.size() >= largest_bytes / 64;
}

/// Calls ask(window, first, count, options) for all keys, window by window: in strips that stay in
/// the first-level cache, shared among threads, or in bulk, where each filter shares its work among
/// threads, and at most so many keys at once that the temporary memory is bounded.
template <class Ask>
void for_each_window(bool bulk, const KeyBatch& keys, const BatchOptions& options, const Ask& ask) {
  constexpr std::size_t kWindowKeys = 1024, kBulkKeys = 1u << 24;
  constexpr std::size_t kKeysPerTask = 64 * 1024;
  const std::size_t most = bulk ? kBulkKeys : kWindowKeys;
  BatchOptions inside = options;
  if (!bulk) inside.threads = 1;
  const auto work = [&](std::size_t begin, std::size_t end) {
    KeyWindow window(std::min(most, end - begin));
    for (std::size_t first = begin; first < end; first += most) {
      ask(window, first, std::min(most, end - first), inside);
    }
  };
  const unsigned threads = bulk || keys.size() <= kKeysPerTask ? 1 : thread_count(options);
  if (threads == 1) {
    if (!keys.empty()) work(0, keys.size());
    return;
  }
  run_tasks(options, threads, (keys.size() + kKeysPerTask - 1) / kKeysPerTask,
            [&](std::size_t task) {
              work(task * kKeysPerTask, std::min(keys.size(), (task + 1) * kKeysPerTask));
            });
}

}  // namespace scbf
