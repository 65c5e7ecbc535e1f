// SPDX-License-Identifier: Apache-2.0
// A launch while it is executed: its state, and what can be done with it. ptx_execute.cpp steps
// through instructions, ptx_access.cpp does those of memory, ptx_together.cpp those that threads do
// together.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <unordered_map>

#include "ptx_execute.hpp"

namespace ptx {

/// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9E37'79B9'7F4A'7C15;
    z = (z ^ z >> 30) * 0xBF58'476D'1CE4'E5B9;
    z = (z ^ z >> 27) * 0x94D0'49BB'1331'11EB;
    return z ^ z >> 31;
  }
  std::size_t below(std::size_t n) { return (*this)() % n; }
  bool one_in(unsigned n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

struct Warp {
  unsigned first_thread = 0;  ///< of its block
  std::unique_ptr<Row[]> registers;
  std::array<std::int32_t, kLanes> at{};  ///< the next instruction of each lane
  // Each lane that has not exited is in one of these:
  Lanes ready = 0, at_barrier = 0, at_sync = 0;
  std::array<Lanes, kLanes> mask{};            ///< which lanes those at_sync wait for
  std::array<std::uint8_t, kLanes> barrier{};  ///< which barrier those at_barrier wait at

  // When lanes last met at a bar.warp.sync: all of them, or two.
  std::uint32_t time = 1, all_met = 0;
  std::vector<std::array<std::uint32_t, kLanes>> met;  ///< empty if never two without the others

  Lanes live() const { return ready | at_barrier | at_sync; }
};

struct Barrier {
  unsigned arrived = 0;
  bool any = false, all = true;
};

struct Block {
  unsigned number = 0;
  std::uint32_t era = 0;
  std::vector<std::uint64_t> shared;
  std::vector<Warp> warps;
  unsigned live_threads = 0;
  std::array<Barrier, 16> barriers{};
  std::uint32_t epoch = 0;  ///< how many barriers it has passed
  StaleCache cache;
  Shadow shadow;  ///< of its shared memory
  /// Of each block, the epochs before which all it did is known to have happened.
  std::vector<std::uint32_t> seen;
};

class Grid {
 public:
  Grid(const Launch& launch, const Settings& settings);
  Report run();

 private:
  // ---- ptx_execute.cpp
  void start(Block& block, unsigned number);
  std::uint64_t special(Special which, const Block& block, unsigned thread) const;
  void run_some(Block& block);
  void run_warp(Warp& warp, unsigned steps);
  /// Executes instructions of lanes that are at the same one, until they part or wait or have done
  /// this many. Returns how many are left.
  unsigned run_group(Warp& warp, Lanes group, unsigned steps);
  void pack(Warp& warp, const Instruction& i, Lanes lanes);
  void unpack(Warp& warp, const Instruction& i, Lanes lanes);
  [[noreturn]] void nothing_goes_on(const char* what);
  [[noreturn]] void fault(const std::string& what, unsigned lane) const;
  void problem(const std::string& what, unsigned lane);
  std::string where(unsigned lane) const;

  // ---- ptx_access.cpp
  void load(Warp& warp, const Instruction& i, Lanes lanes);
  void store(Warp& warp, const Instruction& i, Lanes lanes);
  void atomic(Warp& warp, const Instruction& i, Lanes lanes);
  void order(const Instruction& i, std::uint64_t address);
  std::byte* located(const Instruction& i, std::uint64_t address, std::size_t bytes, unsigned lane);
  void note(Warp& warp, const Instruction& i, std::uint64_t address, unsigned bytes, bool writes,
            unsigned lane);
  bool is_before(const Access& past, const Access& now, const Warp& warp) const;

  // ---- ptx_together.cpp
  void wait_at_barrier(Warp& warp, const Instruction& i, Lanes lanes);
  void complete_barrier(unsigned id);
  void wait_for_lanes(Warp& warp, const Instruction& i, Lanes lanes);
  void complete_sync(Warp& warp, unsigned lane);
  void shuffle(Warp& warp, const Instruction& i, Lanes lanes);
  void vote(Warp& warp, const Instruction& i, Lanes lanes);
  void sum_lanes(Warp& warp, const Instruction& i, Lanes lanes);
  void exit(Warp& warp, Lanes lanes);

  Row& row(Warp& warp, RowNumber number) const {
    return warp.registers[static_cast<std::size_t>(number)];
  }
  const Row& value(const Warp& warp, RowNumber number) const {
    return number >= 0 ? warp.registers[static_cast<std::size_t>(number)]
                       : kernel_.constants[static_cast<std::size_t>(~number)];
  }

  const Launch& launch_;
  const Kernel& kernel_;
  const Settings& settings_;
  Random random_;
  std::vector<std::uint64_t> workspace_;  ///< for the barrier of a cooperative grid
  ValidRanges valid_;
  Report report_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> races_reported_;
  Shadow& shadow_;  ///< of global memory
  std::uint32_t era_;
  unsigned threads_;
  std::uint64_t quiet_ = 0;  ///< instructions since something changed
  std::deque<Block> blocks_;
  /// What is known to have happened before the last value that was released to an address.
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> released_;
  // what is being executed:
  Block* block_ = nullptr;
  Warp* warp_ = nullptr;
  const Instruction* instruction_ = nullptr;
};

/// The lane with the smallest number.
inline unsigned first_of(Lanes lanes) { return static_cast<unsigned>(__builtin_ctz(lanes)); }

}  // namespace ptx
