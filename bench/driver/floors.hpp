// SPDX-License-Identifier: Apache-2.0
// Floors: what this machine's memory can do at best, measured here and now, for filters to be
// held against. No filter code, no key hashing beyond what scatters positions.
#pragma once

#include <cstddef>
#include <string>

namespace scbf::bench {

enum class Floor {
  line_read,    ///< ns per random 64-byte line, read
  line_update,  ///< ns per random 64-byte line, read, changed and written back
  stream_read,  ///< ns per 64-byte line of a sequential read
  stream_copy,  ///< ns per 64-byte line copied (read once, written once)
};

enum class Where {
  cache,   ///< half of the L2 cache per thread, rounded down to a power of two, at most 4 MiB
  memory,  ///< 1 GiB, huge pages where offered
};

struct FloorResult {
  double ns_per_line;   ///< wall time / lines of all threads together
  std::string variant;  ///< which of the tried ways was the fastest and has been timed
};

/// Bytes that the floor works on, per thread for `cache`, together for `memory`.
std::size_t floor_bytes(Where where);

/// One measurement of about 0.1 s, by the way (prefetch distance, prefetch kind, copy routine)
/// that was the fastest for this floor in a trial made at the first call. Two threads work on
/// disjoint halves. Allocates 1 GiB at the first call for `memory` and keeps it.
FloorResult measure_floor(Floor floor, Where where, unsigned threads);

}  // namespace scbf::bench
