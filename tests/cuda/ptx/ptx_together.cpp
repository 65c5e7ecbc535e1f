// SPDX-License-Identifier: Apache-2.0
// What threads do together: barriers of a block, and what lanes of a warp exchange.
#include <utility>

#include "ptx_arithmetic.hpp"
#include "ptx_grid.hpp"

namespace ptx {

// ---- barriers -----------------------------------------------------------------------------------

void Grid::wait_at_barrier(Warp& warp, const Instruction& i, Lanes lanes) {
  const Row& number = value(warp, i.from_rows[0]);
  const bool reduces = i.to[0] != kNoRow;
  Lanes arrived = 0;  // at which barriers, one bit each
  for_each_lane(lanes, [&](unsigned lane) {
    const std::uint64_t id = number[lane];
    if (id >= block_->barriers.size()) fault("a barrier's number is not below 16", lane);
    warp.barrier[lane] = static_cast<std::uint8_t>(id);
    Barrier& barrier = block_->barriers[id];
    ++barrier.arrived;
    arrived |= Lanes{1} << id;
    if (reduces) {
      const bool term = value(warp, i.from_rows[1])[lane] != 0;
      barrier.any = barrier.any || term;
      barrier.all = barrier.all && term;
    }
  });
  warp.ready &= ~lanes;
  warp.at_barrier |= lanes;
  for_each_lane(arrived, [&](unsigned id) {
    if (block_->barriers[id].arrived == block_->live_threads) complete_barrier(id);
  });
}

void Grid::complete_barrier(unsigned id) {
  const Barrier done = std::exchange(block_->barriers[id], {});
  if (done.arrived < threads_) problem("a barrier after some threads of the block have exited", 0);
  for (Warp& warp : block_->warps) {
    Lanes lanes = 0;
    for_each_lane(warp.at_barrier, [&](unsigned lane) {
      if (warp.barrier[lane] == id) lanes |= Lanes{1} << lane;
    });
    if (lanes == 0) continue;
    const std::int32_t first = warp.at[first_of(lanes)];
    for_each_lane(lanes, [&](unsigned lane) {
      const Instruction& i = kernel_.code[static_cast<std::size_t>(warp.at[lane])];
      if (i.aligned && warp.at[lane] != first) {
        problem("lanes of one warp wait at different barriers, which must be reached together",
                lane);
      }
      if (i.to[0] != kNoRow) {
        const auto mode = static_cast<BarrierMode>(i.mode);
        row(warp, i.to[0])[lane] = mode == BarrierMode::reduce_or ? done.any : done.all;
      }
      ++warp.at[lane];
    });
    warp.at_barrier &= ~lanes;
    warp.ready |= lanes;
  }
  ++block_->epoch;
  quiet_ = 0;
}

// ---- lanes of a warp ----------------------------------------------------------------------------

/// The lanes wait until all lanes of their masks have come.
void Grid::wait_for_lanes(Warp& warp, const Instruction& i, Lanes lanes) {
  const RowNumber which = i.op == Op::shuffle     ? i.from_rows[3]
                          : i.op == Op::sync_warp ? i.from_rows[0]
                                                  : i.from_rows[1];
  const Row& masks = value(warp, which);
  warp.ready &= ~lanes;
  warp.at_sync |= lanes;
  for_each_lane(lanes, [&](unsigned lane) {
    warp.mask[lane] = static_cast<Lanes>(masks[lane]);
    if ((warp.mask[lane] >> lane & 1) == 0) fault("a lane is not in the mask that it names", lane);
    if ((warp.mask[lane] & ~warp.live()) != 0) {
      fault("a mask names lanes that have exited or do not exist", lane);
    }
  });
  for_each_lane(lanes, [&](unsigned lane) {
    if ((warp.at_sync >> lane & 1) != 0) complete_sync(warp, lane);
  });
}

/// Lets the lanes of this lane's mask go on if all of them have come.
void Grid::complete_sync(Warp& warp, unsigned lane) {
  const Lanes mask = warp.mask[lane];
  if ((mask & ~warp.at_sync) != 0) return;
  const std::int32_t at = warp.at[lane];
  const Instruction& i = kernel_.code[static_cast<std::size_t>(at)];
  bool all = true;
  for_each_lane(mask, [&](unsigned other) {
    const bool here = warp.at[other] == at;
    const Instruction& its = kernel_.code[static_cast<std::size_t>(warp.at[other])];
    // Lanes may meet at different bar.warp.sync, but exchange values only at one instruction.
    all = all && warp.mask[other] == mask &&
          (here || (i.op == Op::sync_warp && its.op == Op::sync_warp));
  });
  if (!all) return;
  if (i.op == Op::shuffle) shuffle(warp, i, mask);
  if (i.op == Op::vote) vote(warp, i, mask);
  if (i.op == Op::sum_lanes) sum_lanes(warp, i, mask);
  if (i.op == Op::sync_warp) {
    // Only this orders accesses of memory; what lanes exchange does not.
    if (mask == kAll) {
      warp.all_met = warp.time;
    } else {
      if (warp.met.empty()) warp.met.resize(kLanes);
      for_each_lane(mask, [&](unsigned a) {
        for_each_lane(mask, [&](unsigned b) { warp.met[a][b] = warp.time; });
      });
    }
    ++warp.time;
  }
  warp.at_sync &= ~mask;
  warp.ready |= mask;
  for_each_lane(mask, [&](unsigned other) { ++warp.at[other]; });
}

void Grid::shuffle(Warp& warp, const Instruction& i, Lanes lanes) {
  const Row from = value(warp, i.from_rows[0]);
  const Row& operands = value(warp, i.from_rows[1]);
  const Row& clamps = value(warp, i.from_rows[2]);
  std::array<std::uint64_t, kLanes> values, within;
  for_each_lane(lanes, [&](unsigned lane) {
    // As the PTX manual computes it: segments, and the last lane of each.
    const unsigned operand = operands[lane] & 31, clamp = clamps[lane] & 31;
    const unsigned segment = clamps[lane] >> 8 & 31;
    const int last = static_cast<int>((lane & segment) | (clamp & ~segment));
    const int first = static_cast<int>(lane & segment);
    const int own = static_cast<int>(lane), by = static_cast<int>(operand);
    int source = own;
    bool valid = false;
    switch (static_cast<ShuffleMode>(i.mode)) {
      case ShuffleMode::up:
        source = own - by;
        valid = source >= last;
        break;
      case ShuffleMode::down:
        source = own + by;
        valid = source <= last;
        break;
      case ShuffleMode::butterfly:
        source = own ^ by;
        valid = source <= last;
        break;
      case ShuffleMode::index:
        source = first | (by & ~static_cast<int>(segment) & 31);
        valid = source <= last;
        break;
    }
    if (!valid) source = own;
    const auto chosen = static_cast<unsigned>(source);
    if ((lanes >> chosen & 1) == 0) problem("a shuffle reads a lane that does not take part", lane);
    values[lane] = from[chosen];
    within[lane] = valid;
  });
  for_each_lane(lanes, [&](unsigned lane) {
    row(warp, i.to[0])[lane] = values[lane];
    if (i.to[1] != kNoRow) row(warp, i.to[1])[lane] = within[lane];
  });
}

void Grid::vote(Warp& warp, const Instruction& i, Lanes lanes) {
  const Lanes yes = lanes_where(value(warp, i.from_rows[0])) & lanes;
  const auto mode = static_cast<VoteMode>(i.mode);
  const std::uint64_t result = mode == VoteMode::ballot ? yes
                               : mode == VoteMode::any  ? yes != 0
                                                        : yes == lanes;
  for_each_lane(lanes, [&](unsigned lane) { row(warp, i.to[0])[lane] = result; });
}

void Grid::sum_lanes(Warp& warp, const Instruction& i, Lanes lanes) {
  const Row& from = value(warp, i.from_rows[0]);
  std::uint32_t sum = 0;
  for_each_lane(lanes, [&](unsigned lane) { sum += static_cast<std::uint32_t>(from[lane]); });
  for_each_lane(lanes, [&](unsigned lane) { row(warp, i.to[0])[lane] = sum; });
}

// ---- the end ------------------------------------------------------------------------------------

void Grid::exit(Warp& warp, Lanes lanes) {
  warp.ready &= ~lanes;
  block_->live_threads -= static_cast<unsigned>(__builtin_popcount(lanes));
  quiet_ = 0;
  for_each_lane(warp.at_sync, [&](unsigned lane) {
    if ((warp.mask[lane] & lanes) != 0) fault("a mask names lanes that have exited", lane);
  });
  for (unsigned id = 0; id < block_->barriers.size(); ++id) {
    const unsigned arrived = block_->barriers[id].arrived;
    if (arrived > 0 && arrived == block_->live_threads) complete_barrier(id);
  }
}

}  // namespace ptx
