// SPDX-License-Identifier: Apache-2.0
// Kernels of warps are written over a policy Warp, so that they also run on the host
// (tests/support/host_device.hpp). A PerLane<T> has a value for each lane and is indexed by lane;
// work inside `each` may index it only by its own lane.
//   each(f)               PerLane of f(lane), or nothing if f returns nothing
//   of_neighbour<w>(v, i) PerLane of v of the i-th among w neighbouring lanes, w | 32
//   joined_among<w>(v, f) PerLane of all v among them, joined by f, which is associative and
//                         commutative
//   across<d>(v)          PerLane of v of lane l ^ d
//   ballot(v)             bit i = v[i] is not 0
//   sum(v)                v[0] + … + v[31], of 32-bit integers
//   sync()                what lanes have read or written in memory comes before what they do next
#pragma once

#include <cstdint>

#include "scbf/cuda/atomic.hpp"

namespace scbf::cuda {

/// Lanes.
inline constexpr unsigned kWarp = 32;

/// *total += the sum of what the lanes have counted, which may be negative.
template <class Warp>
SCBF_INLINE void add_up(const Warp& warp,
                        const typename Warp::template PerLane<std::int32_t>& counted,
                        std::uint64_t* total) {
  const std::int64_t sum = warp.sum(counted);
  warp.each([&](unsigned l) {
    if (l == 0 && sum != 0) Atomic().add(total, static_cast<std::uint64_t>(sum));
  });
}

}  // namespace scbf::cuda
