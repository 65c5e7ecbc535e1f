// SPDX-License-Identifier: Apache-2.0
// Floors: the best that this machine's memory can do, measured in the same run, to compare filters
// with. They use no filter code, and hash only to scatter positions.
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
  std::string variant;  ///< the fastest way, which was timed
};

/// The bytes that a floor works on: per thread for `cache`, for all threads together for `memory`.
std::size_t floor_bytes(Where where);

/// Measures a floor for about 0.1 s. The first call for a floor tries all ways (prefetch distance,
/// kind of prefetch, copy routine) and picks the fastest. Two threads work on disjoint halves. The
/// first call for `memory` allocates 1 GiB and keeps it.
FloorResult measure_floor(Floor floor, Where where, unsigned threads);

}  // namespace scbf::bench
