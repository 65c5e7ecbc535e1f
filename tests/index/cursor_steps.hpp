// SPDX-License-Identifier: Apache-2.0
// Counts what cursors of the store do, by RocksDB's own counters.
#pragma once

#include <rocksdb/perf_context.h>

#include <cstdint>
#include <functional>

namespace scbf::test {

/// Single steps of cursors, and deleted entries that they pass, while `work` runs in this thread.
inline std::uint64_t steps_of(const std::function<void()>& work) {
  rocksdb::PerfContext& counted = *rocksdb::get_perf_context();
  counted.Reset();
  work();
  return counted.internal_key_skipped_count + counted.internal_delete_skipped_count;
}

}  // namespace scbf::test
