// SPDX-License-Identifier: Apache-2.0
#include "ptx_execute.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "ptx_arithmetic.hpp"
#include "ptx_grid.hpp"

namespace ptx {

namespace {

/// One number for each launch, and for each block's time in shared memory.
std::uint32_t next_era() {
  static std::uint32_t era = 0;
  return ++era;
}

Shadow& shadow_of_global_memory() {
  static auto* shadow = new Shadow;  // kept, because most launches touch the same pages
  return *shadow;
}

std::vector<Range> with(std::vector<Range> ranges, const std::vector<std::uint64_t>& words) {
  const auto begin = reinterpret_cast<std::uintptr_t>(words.data());
  ranges.push_back({begin, begin + 8 * words.size()});
  return ranges;
}

/// Blocks of a grid that is not cooperative which are executed at the same time.
constexpr std::size_t kMostResident = 4;

}  // namespace

Grid::Grid(const Launch& launch, const Settings& settings)
    : launch_(launch),
      kernel_(*launch.kernel),
      settings_(settings),
      random_(settings.seed),
      workspace_(launch.cooperative ? 32 : 0),
      valid_(with(launch.memory, workspace_)),
      shadow_(shadow_of_global_memory()),
      era_(next_era()),
      threads_(static_cast<unsigned>(launch.block.count())) {
  if (threads_ > kernel_.most_threads) {
    throw Fault("a launch of " + std::to_string(threads_) + " threads a block; the kernel allows " +
                std::to_string(kernel_.most_threads));
  }
}

Report Grid::run() {
  const std::size_t blocks = launch_.grid.count();
  const std::size_t resident =
      std::min(blocks, launch_.cooperative ? blocks : 1 + random_.below(kMostResident));
  unsigned next = 0;
  while (blocks_.size() < resident) start(blocks_.emplace_back(), next++);
  while (!blocks_.empty()) {
    Block& block = blocks_[random_.below(blocks_.size())];
    run_some(block);
    if (block.live_threads > 0) continue;
    if (next < blocks) {
      start(block, next++);
    } else {
      std::swap(block, blocks_.back());
      blocks_.pop_back();
    }
  }
  return std::move(report_);
}

void Grid::start(Block& block, unsigned number) {
  block.number = number;
  block.era = next_era();
  const std::size_t bytes = kernel_.shared_bytes + launch_.dynamic_shared_bytes;
  block.shared.assign(bytes / 8 + 1, 0xA5A5'A5A5'A5A5'A5A5);
  block.live_threads = threads_;
  block.barriers = {};
  block.epoch = 0;
  block.cache.clear();
  if (launch_.cooperative) block.seen.assign(launch_.grid.count(), 0);
  block.warps.resize((threads_ + kLanes - 1) / kLanes);
  for (std::size_t w = 0; w < block.warps.size(); ++w) {
    Warp& warp = block.warps[w];
    warp.first_thread = static_cast<unsigned>(w) * kLanes;
    if (warp.registers == nullptr) warp.registers = std::make_unique<Row[]>(kernel_.registers);
    warp.at.fill(0);
    const unsigned lanes = std::min(kLanes, threads_ - warp.first_thread);
    warp.ready = lanes == kLanes ? kAll : (Lanes{1} << lanes) - 1;
    warp.at_barrier = warp.at_sync = 0;
    warp.time = 1;
    warp.all_met = 0;
    warp.met.clear();
    for (const auto& [which, number_of_row] : kernel_.specials) {
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        row(warp, number_of_row)[lane] = special(which, block, warp.first_thread + lane);
      }
    }
  }
}

std::uint64_t Grid::special(Special which, const Block& block, unsigned thread) const {
  const Dim &threads = launch_.block, &grid = launch_.grid;
  const unsigned lane = thread % kLanes;
  const Lanes self = Lanes{1} << lane;
  const auto workspace =
      workspace_.empty() ? 0 : reinterpret_cast<std::uintptr_t>(workspace_.data());
  switch (which) {
    case Special::tid_x:
      return thread % threads.x;
    case Special::tid_y:
      return thread / threads.x % threads.y;
    case Special::tid_z:
      return thread / threads.x / threads.y;
    case Special::ntid_x:
      return threads.x;
    case Special::ntid_y:
      return threads.y;
    case Special::ntid_z:
      return threads.z;
    case Special::ctaid_x:
      return block.number % grid.x;
    case Special::ctaid_y:
      return block.number / grid.x % grid.y;
    case Special::ctaid_z:
      return block.number / grid.x / grid.y;
    case Special::nctaid_x:
      return grid.x;
    case Special::nctaid_y:
      return grid.y;
    case Special::nctaid_z:
      return grid.z;
    case Special::laneid:
      return lane;
    case Special::warpid:
      return thread / kLanes;
    case Special::lanemask_eq:
      return self;
    case Special::lanemask_lt:
      return self - 1;
    case Special::lanemask_le:
      return self | (self - 1);
    case Special::lanemask_gt:
      return ~(self | (self - 1));
    case Special::lanemask_ge:
      return ~(self - 1);
    case Special::envreg1:
      return workspace >> 32;
    case Special::envreg2:
      return workspace & 0xFFFF'FFFF;
  }
  return 0;
}

/// Lets one of a block's warps run, if any can.
void Grid::run_some(Block& block) {
  block_ = &block;
  const std::size_t first = random_.below(block.warps.size());
  for (std::size_t w = 0; w < block.warps.size(); ++w) {
    Warp& warp = block.warps[(first + w) % block.warps.size()];
    if (warp.ready == 0) continue;
    run_warp(warp, 1u << random_.below(10));
    if (quiet_ > settings_.patience) nothing_goes_on("nothing changes any more");
    if (report_.instructions > settings_.most_instructions) nothing_goes_on("no end");
    return;
  }
  const auto waits = [](const Block& b) {
    return std::all_of(b.warps.begin(), b.warps.end(), [](const Warp& w) { return w.ready == 0; });
  };
  if (std::all_of(blocks_.begin(), blocks_.end(), waits)) nothing_goes_on("a deadlock");
}

void Grid::run_warp(Warp& warp, unsigned steps) {
  warp_ = &warp;
  // Usually the lanes that are behind go on, so that lanes come together again.
  bool any = settings_.scatter && random_.one_in(4);
  while (steps > 0 && warp.ready != 0) {
    std::int32_t at = INT32_MAX;
    if (any) {
      Lanes lanes = warp.ready;
      for (auto skip = random_.below(static_cast<std::size_t>(__builtin_popcount(lanes))); skip > 0;
           --skip) {
        lanes &= lanes - 1;
      }
      at = warp.at[first_of(lanes)];
    } else {
      for_each_lane(warp.ready, [&](unsigned lane) { at = std::min(at, warp.at[lane]); });
    }
    any = false;
    Lanes group = 0;
    for_each_lane(warp.ready, [&](unsigned lane) { group |= Lanes{warp.at[lane] == at} << lane; });
    steps = run_group(warp, group, steps);
  }
}

unsigned Grid::run_group(Warp& warp, Lanes group, unsigned steps) {
  std::int32_t at = warp.at[first_of(group)];
  const auto stay = [&](Lanes lanes, std::int32_t where) {
    for_each_lane(lanes, [&](unsigned lane) { warp.at[lane] = where; });
  };
  for (bool first = true;; first = false) {
    const Instruction& i = kernel_.code[static_cast<std::size_t>(at)];
    // Others may have come here, or be behind.
    if (steps == 0 || (i.labelled && !first && group != warp.ready)) {
      stay(group, at);
      return steps;
    }
    --steps;
    ++quiet_;
    instruction_ = &i;
    const bool accesses = i.op == Op::load || i.op == Op::store || i.op == Op::atomic;
    if (accesses && settings_.scatter && i.space != Space::param && random_.one_in(32)) {
      const Lanes some = group & static_cast<Lanes>(random_());
      if (some != 0 && some != group) {
        stay(group & ~some, at);
        group = some;
        steps = std::min(steps, 4u);
      }
    }
    report_.instructions += static_cast<unsigned>(__builtin_popcount(group));
    Lanes lanes = group;
    if (i.guard != kNoRow) {
      const Lanes yes = lanes_where(value(warp, i.guard));
      lanes &= i.if_not ? ~yes : yes;
      if (lanes == 0) {
        ++at;
        continue;
      }
    }
    switch (i.op) {
      case Op::pack:
        pack(warp, i, lanes);
        break;
      case Op::unpack:
        unpack(warp, i, lanes);
        break;
      case Op::load:
        load(warp, i, lanes);
        break;
      case Op::store:
        store(warp, i, lanes);
        break;
      case Op::atomic:
        atomic(warp, i, lanes);
        break;
      case Op::fence:
        if (i.acquires) block_->cache.clear();
        break;
      case Op::branch:
        if (lanes != group) {
          stay(lanes, i.target);
          stay(group & ~lanes, at + 1);
          return steps;
        }
        at = i.target - 1;
        break;
      case Op::pause:
        stay(group, at + 1);
        return 0;
      case Op::trap:
        fault("a trap", first_of(lanes));
      case Op::finish:
      case Op::barrier:
      case Op::sync_warp:
      case Op::shuffle:
      case Op::vote:
      case Op::sum_lanes:
        stay(lanes, at);
        stay(group & ~lanes, at + 1);
        if (i.op == Op::finish) {
          exit(warp, lanes);
        } else if (i.op == Op::barrier) {
          wait_at_barrier(warp, i, lanes);
        } else {
          wait_for_lanes(warp, i, lanes);
        }
        // All together, as they mostly are: they go on.
        if ((warp.ready & group) != group || group != lanes || i.op == Op::barrier) return steps;
        break;
      default: {
        std::array<const Row*, 4> from{};
        for (std::size_t o = 0; o < from.size() && i.from_rows[o] != kNoRow; ++o) {
          from[o] = &value(warp, i.from_rows[o]);
        }
        try {
          compute(i, lanes, row(warp, i.to[0]), from);
        } catch (const std::domain_error& error) {
          fault(error.what(), first_of(lanes));
        }
      }
    }
    ++at;
  }
}

void Grid::pack(Warp& warp, const Instruction& i, Lanes lanes) {
  const unsigned bits = 8 * bytes_of(i.type) / i.vector;
  const std::uint64_t ones = (std::uint64_t{1} << bits) - 1;
  for_each_lane(lanes, [&](unsigned lane) {
    std::uint64_t packed = 0;
    for (unsigned v = 0; v < i.vector; ++v) {
      packed |= (value(warp, i.from_rows[v])[lane] & ones) << (bits * v);
    }
    row(warp, i.to[0])[lane] = packed;
  });
}

void Grid::unpack(Warp& warp, const Instruction& i, Lanes lanes) {
  const unsigned bits = 8 * bytes_of(i.type) / i.vector;
  const std::uint64_t ones = (std::uint64_t{1} << bits) - 1;
  for_each_lane(lanes, [&](unsigned lane) {
    const std::uint64_t packed = value(warp, i.from_rows[0])[lane];
    for (unsigned v = 0; v < i.vector; ++v) {
      if (i.to[v] != kNoRow) row(warp, i.to[v])[lane] = packed >> (bits * v) & ones;
    }
  });
}

// ---- reports ------------------------------------------------------------------------------------

std::string Grid::where(unsigned lane) const {
  return " [PTX line " + std::to_string(instruction_ == nullptr ? 0 : instruction_->line) +
         ", block " + std::to_string(block_->number) + ", thread " +
         std::to_string(warp_->first_thread + lane) + ", " + readable_name(kernel_.name) + "]";
}

void Grid::fault(const std::string& what, unsigned lane) const { throw Fault(what + where(lane)); }

void Grid::problem(const std::string& what, unsigned lane) {
  constexpr std::size_t kEnough = 10;
  if (report_.problems.size() < kEnough) report_.problems.push_back(what + where(lane));
}

void Grid::nothing_goes_on(const char* what) {
  std::string text = std::string(what) + " in " + readable_name(kernel_.name) + ":";
  unsigned listed = 0;
  for (const Block& block : blocks_) {
    for (const Warp& warp : block.warps) {
      if (warp.live() == 0 || ++listed > 8) continue;
      const unsigned lane = first_of(warp.live());
      text += " thread " + std::to_string(warp.first_thread + lane) + " of block " +
              std::to_string(block.number) +
              ((warp.at_barrier >> lane & 1) != 0 ? " waits at a barrier,"
               : (warp.at_sync >> lane & 1) != 0  ? " waits for lanes of its warp,"
                                                  : " is") +
              " at line " +
              std::to_string(kernel_.code[static_cast<std::size_t>(warp.at[lane])].line) + ";";
    }
  }
  throw Fault(text);
}

std::string readable_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : mangled;
}

Report execute(const Launch& launch, const Settings& settings) {
  return Grid(launch, settings).run();
}

}  // namespace ptx
