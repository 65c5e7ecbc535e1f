// SPDX-License-Identifier: Apache-2.0
// Arithmetic instructions: pure functions of rows. Nothing here knows memory or threads.
#pragma once

#include "ptx_program.hpp"

namespace ptx {

/// Writes, for each of these lanes, the result of an instruction up to Op::convert. `from` has as
/// many rows as the instruction has operands. Throws std::domain_error where a lane divides by
/// zero.
void compute(const Instruction& instruction, Lanes lanes, Row& to,
             const std::array<const Row*, 4>& from);

/// The lanes whose value is not 0.
inline Lanes lanes_where(const Row& row) {
  Lanes lanes = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) lanes |= Lanes{row[lane] != 0} << lane;
  return lanes;
}

/// Calls work(lane) for each lane of a set, in ascending order.
template <class Work>
void for_each_lane(Lanes lanes, Work work) {
  if (lanes == kAll) {
    for (unsigned lane = 0; lane < kLanes; ++lane) work(lane);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) work(static_cast<unsigned>(__builtin_ctz(lanes)));
}

}  // namespace ptx
