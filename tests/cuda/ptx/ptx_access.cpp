// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomic operations, and what is checked of them.
#include <bit>
#include <cstring>

#include "ptx_arithmetic.hpp"
#include "ptx_grid.hpp"

namespace ptx {

namespace {

std::uint64_t read(const std::byte* from, unsigned bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, bytes);  // little-endian, as the host is
  return value;
}

std::int64_t sign_extended(std::uint64_t value, unsigned bytes) {
  const unsigned unused = 64 - 8 * bytes;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

std::uint64_t combined(const Instruction& i, std::uint64_t old, std::uint64_t a, std::uint64_t b) {
  const unsigned bytes = bytes_of(i.type);
  const auto less = [&](std::uint64_t x, std::uint64_t y) {
    return is_signed(i.type) ? sign_extended(x, bytes) < sign_extended(y, bytes) : x < y;
  };
  switch (static_cast<AtomicOp>(i.mode)) {
    case AtomicOp::add:
      return old + a;
    case AtomicOp::cas:
      return old == a ? b : old;
    case AtomicOp::min:
      return less(a, old) ? a : old;
    case AtomicOp::max:
      return less(old, a) ? a : old;
    case AtomicOp::bit_or:
      return old | a;
    case AtomicOp::bit_and:
      return old & a;
    case AtomicOp::bit_xor:
      return old ^ a;
    case AtomicOp::exchange:
      return a;
  }
  return old;
}

constexpr std::uint64_t word_of(std::uint64_t address) { return address & ~std::uint64_t{7}; }

}  // namespace

std::byte* Grid::located(const Instruction& i, std::uint64_t address, std::size_t bytes,
                         unsigned lane) {
  if (address % bytes != 0) {
    fault("an access of " + std::to_string(bytes) + " bytes at an address that is not aligned",
          lane);
  }
  const auto outside = [&](const char* space) {
    fault(std::string(i.op == Op::load ? "a read" : "a write") + " outside of " + space, lane);
  };
  switch (i.space) {
    case Space::global:
      if (!valid_.contain(address, bytes)) outside("the device's memory");
      return reinterpret_cast<std::byte*>(address);
    case Space::shared: {
      const std::uint64_t end = kernel_.shared_bytes + launch_.dynamic_shared_bytes;
      if (address >= end || bytes > end - address) outside("the shared memory");
      return reinterpret_cast<std::byte*>(block_->shared.data()) + address;
    }
    case Space::param:
      if (i.op != Op::load || address + bytes > launch_.parameters.size())
        outside("the parameters");
      return const_cast<std::byte*>(launch_.parameters.data()) + address;
  }
  return nullptr;
}

/// Whether an access of another thread is known to have happened before this one. Between parts of
/// a warp only what two lanes did together counts, not what a third passed on; no kernel relies on
/// that.
bool Grid::is_before(const Access& past, const Access& now, const Warp& warp) const {
  if (past.block != now.block) {
    return past.block < block_->seen.size() && past.epoch < block_->seen[past.block];
  }
  if (past.epoch != now.epoch) return true;
  if (past.thread / kLanes != now.thread / kLanes) return false;
  if (past.time <= warp.all_met) return true;
  return !warp.met.empty() && past.time <= warp.met[past.thread % kLanes][now.thread % kLanes];
}

void Grid::note(Warp& warp, const Instruction& i, std::uint64_t address, unsigned bytes,
                bool writes, unsigned lane) {
  if (!settings_.races || i.space == Space::param) return;
  const bool global = i.space == Space::global;
  const Access now{.era = global ? era_ : block_->era,
                   .block = block_->number,
                   .epoch = block_->epoch,
                   .time = warp.time,
                   .line = i.line,
                   .thread = static_cast<std::uint16_t>(warp.first_thread + lane),
                   .writes = writes,
                   .order = i.order};
  const auto before = [&](const Access& past) { return is_before(past, now, warp); };
  for (unsigned done = 0; done < bytes; done += 8) {
    const auto past =
        (global ? shadow_ : block_->shadow).note(address + done, std::min(bytes, 8u), now, before);
    if (!past || !races_reported_.emplace(past->line, i.line).second) continue;
    const bool cached = past->order == Order::read_only || i.order == Order::read_only;
    problem(std::string(cached ? "what is read through the read-only cache is written: a "
                               : "a race: a ") +
                (writes ? "write" : "read") + " of " + (global ? "global" : "shared") +
                " memory, and the " + (past->writes ? "write" : "read") + " of line " +
                std::to_string(past->line) + " by thread " + std::to_string(past->thread) +
                " of block " + std::to_string(past->block),
            lane);
  }
}

/// Accesses that acquire or release.
void Grid::order(const Instruction& i, std::uint64_t address) {
  if (i.releases && !block_->seen.empty()) {
    auto& known = released_[address];
    known.resize(block_->seen.size());
    for (std::size_t b = 0; b < known.size(); ++b) known[b] = std::max(known[b], block_->seen[b]);
    known[block_->number] = std::max(known[block_->number], block_->epoch);
  }
  if (!i.acquires) return;
  block_->cache.clear();
  const auto found = released_.find(address);
  if (found == released_.end()) return;
  for (std::size_t b = 0; b < block_->seen.size(); ++b) {
    block_->seen[b] = std::max(block_->seen[b], found->second[b]);
  }
}

void Grid::load(Warp& warp, const Instruction& i, Lanes lanes) {
  const Row& base = value(warp, i.from_rows[0]);
  const unsigned bytes = bytes_of(i.type);
  const bool may_be_stale = settings_.stale_loads && i.space == Space::global &&
                            i.order != Order::strong && launch_.grid.count() > 1;
  // A result may be the register of the address.
  std::array<std::uint64_t, kLanes> addresses;
  for_each_lane(lanes, [&](unsigned lane) {
    addresses[lane] = base[lane] + static_cast<std::uint64_t>(i.offset);
    if (i.space == Space::shared) addresses[lane] &= 0xFFFF'FFFF;
  });
  for_each_lane(lanes, [&](unsigned lane) {
    const std::byte* from = located(i, addresses[lane], bytes * i.vector, lane);
    note(warp, i, addresses[lane], bytes * i.vector, false, lane);
    if (i.acquires) order(i, addresses[lane]);
    for (unsigned v = 0; v < i.vector; ++v) {
      if (i.to[v] == kNoRow) continue;
      const std::uint64_t address = addresses[lane] + v * bytes;
      std::uint64_t value = read(from + v * bytes, bytes);
      if (may_be_stale) {
        const std::uint64_t word = word_of(address);
        // Read in bytes: what lies around may be outside of the memory.
        const bool whole = valid_.contain(word, 8);
        if (whole) {
          const std::uint64_t now = read(reinterpret_cast<const std::byte*>(word), 8);
          const std::uint64_t seen = block_->cache.load(word, now, random_.one_in(8));
          value = seen >> (8 * (address - word)) &
                  (bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1);
        }
      }
      row(warp, i.to[v])[lane] =
          is_signed(i.type) ? static_cast<std::uint64_t>(sign_extended(value, bytes)) : value;
    }
  });
}

void Grid::store(Warp& warp, const Instruction& i, Lanes lanes) {
  const Row& base = value(warp, i.from_rows[0]);
  const unsigned bytes = bytes_of(i.type);
  for_each_lane(lanes, [&](unsigned lane) {
    std::uint64_t address = base[lane] + static_cast<std::uint64_t>(i.offset);
    if (i.space == Space::shared) address &= 0xFFFF'FFFF;
    std::byte* to = located(i, address, bytes * i.vector, lane);
    note(warp, i, address, bytes * i.vector, true, lane);
    if (i.releases) order(i, address);
    for (unsigned v = 0; v < i.vector; ++v) {
      const std::uint64_t stored = value(warp, i.from_rows[1 + v])[lane];
      std::byte* at = to + v * bytes;
      if (std::memcmp(at, &stored, bytes) != 0) quiet_ = 0;
      std::memcpy(at, &stored, bytes);
      if (i.space == Space::global) block_->cache.forget(word_of(address + v * bytes));
    }
  });
}

void Grid::atomic(Warp& warp, const Instruction& i, Lanes lanes) {
  const Row& base = value(warp, i.from_rows[0]);
  const unsigned bytes = bytes_of(i.type);
  const std::uint64_t ones = bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1;
  // Lanes come in any order: ascending from a random one.
  const auto rotation = static_cast<int>(random_() % kLanes);
  for_each_lane(std::rotr(lanes, rotation), [&](unsigned rotated) {
    const unsigned lane = (rotated + static_cast<unsigned>(rotation)) % kLanes;
    std::uint64_t address = base[lane] + static_cast<std::uint64_t>(i.offset);
    if (i.space == Space::shared) address &= 0xFFFF'FFFF;
    std::byte* at = located(i, address, bytes, lane);
    note(warp, i, address, bytes, true, lane);
    if (i.releases || i.acquires) order(i, address);
    const std::uint64_t old = read(at, bytes);
    const std::uint64_t a = value(warp, i.from_rows[1])[lane] & ones;
    const std::uint64_t b = i.from_rows[2] == kNoRow ? 0 : value(warp, i.from_rows[2])[lane];
    const std::uint64_t wanted = combined(i, old, a, b) & ones;
    if (wanted != old) quiet_ = 0;
    std::memcpy(at, &wanted, bytes);
    if (i.space == Space::global) block_->cache.forget(word_of(address));
    if (i.to[0] != kNoRow) row(warp, i.to[0])[lane] = old;
  });
}

}  // namespace ptx
