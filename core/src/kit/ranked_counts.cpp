// SPDX-License-Identifier: Apache-2.0
#include "kit/ranked_counts.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kit/spill_table.hpp"

namespace scbf {

namespace {

/// Calls visit(position) for the positions of a slice that are in use, in order.
template <class Visit>
void for_each_in_use(const std::uint64_t* line, unsigned j, const RankedShape& shape, Visit visit) {
  for (unsigned w = 0; w < 2; ++w) {
    std::uint64_t used = w == 0 ? line[j] : line[kRankedSlices + j] & shape.bitmap;
    for (; used != 0; used &= used - 1) {
      visit(64 * w + static_cast<unsigned>(std::countr_zero(used)));
    }
  }
}

/// Clears the lists, and marks the block as spilled.
void clear_lists(std::uint64_t* line, const RankedShape& shape) noexcept {
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    const std::uint64_t bitmap = line[kRankedSlices + j] & shape.bitmap;
    store_word(line + kRankedSlices + j, j == 0 ? bitmap | kLast : bitmap);
  }
}

/// A list of counts in the making. Counts that do not fit are left out: no filter has them.
class List {
 public:
  void append(unsigned count) noexcept {
    length_ += count;
    if (count > 0 && length_ <= 64) bits_ |= std::uint64_t{1} << (length_ - 1);
  }
  std::uint64_t in(const RankedShape& shape) const noexcept { return bits_ << shape.upper; }

 private:
  unsigned length_ = 0;
  std::uint64_t bits_ = 0;
};

/// Do the counts of so many keys fit into lists? Lists have no room for a count that stays.
template <class CountAt>
bool fit_lists(const RankedShape& shape, unsigned keys, CountAt count_at) noexcept {
  if (keys > shape.most_keys) return false;
  bool stays = false;
  for (unsigned i = 0; i < kRankedSlices * shape.positions; ++i) {
    stays |= count_at(i) == kMostSpilled;
  }
  return !stays;
}

/// Adds the counts of a list, and the positions that are not in use, to a histogram.
void add_list(std::uint64_t list, unsigned positions, Histogram& histogram) noexcept {
  // The ones that end counts of at least 1, 2, 3 …: a count c is a one after c − 1 zeros.
  std::uint64_t at_least = list;
  unsigned many = detail::bits_set(list);
  histogram[0] += positions - many;
  for (unsigned count = 1; many > 0 && count < kCounterMax; ++count) {
    at_least &= ~(list << count | ((std::uint64_t{1} << count) - 1));
    const unsigned more = detail::bits_set(at_least);
    histogram[count] += many - more;
    many = more;
  }
  histogram[kCounterMax] += many;
}

/// Moves the counts of a full block to the table. Returns its entry, or null: the block is stuck.
std::uint64_t* spill(const SpillTable& table, std::uint64_t* line, std::uint64_t block,
                     const RankedShape& shape) noexcept {
  std::uint64_t* const entry = table.add(block);
  if (entry != nullptr) {
    for (unsigned j = 0; j < kRankedSlices; ++j) {
      for_each_count(shape, line, j, [&](unsigned position, unsigned count) {
        table.set_count(entry, shape.index_of(j, position), count);
      });
    }
  }
  clear_lists(line, shape);
  return entry;
}

/// Moves them back.
void take_back(const SpillTable& table, const std::uint64_t* entry, std::uint64_t* line,
               const RankedShape& shape) noexcept {
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    List list;
    for_each_in_use(line, j, shape, [&](unsigned position) {
      list.append(table.count(entry, shape.index_of(j, position)));
    });
    const std::uint64_t bitmap = line[kRankedSlices + j] & shape.bitmap;
    store_word(line + kRankedSlices + j, bitmap | list.in(shape));
  }
  table.erase(entry);
}

}  // namespace

// ---- one key ------------------------------------------------------------------------------------

std::uint32_t add_to_closed(const Geometry& geometry, std::uint64_t* words,
                            std::uint64_t place) noexcept {
  const RankedShape shape(geometry);
  const SpillTable table(geometry, words);
  const std::uint64_t block = detail::block_of(place);
  std::uint64_t* const line = ranked_line(words, place);
  const std::scoped_lock lock(spill_lock(words));
  std::uint64_t* const entry =
      is_spilled(line) ? table.find(block) : spill(table, line, block, shape);
  std::uint32_t filled = 0;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    const unsigned position = detail::position_of(place, j);
    if (entry != nullptr) {
      const unsigned i = shape.index_of(j, position);
      table.set_count(entry, i, std::min(table.count(entry, i) + 1, kMostSpilled));
    }
    const RankedSlice slice = ranked_slice(line, j, position);
    filled += !slice.in_use();
    store_word(line + j, slice.first | slice.low);
    store_word(line + kRankedSlices + j, slice.second | slice.high);
  }
  return filled;
}

std::uint32_t take_from_spilled(const Geometry& geometry, std::uint64_t* words,
                                std::uint64_t place) noexcept {
  const RankedShape shape(geometry);
  const SpillTable table(geometry, words);
  std::uint64_t* const line = ranked_line(words, place);
  const std::scoped_lock lock(spill_lock(words));
  std::uint64_t* const entry = table.find(detail::block_of(place));
  if (entry == nullptr) {
    removals_from_stuck(words).fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  std::uint32_t emptied = 0;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    const unsigned position = detail::position_of(place, j);
    const unsigned i = shape.index_of(j, position), count = table.count(entry, i);
    if (count == kMostSpilled || count == 0) continue;  // 0 only if the entry is damaged
    table.set_count(entry, i, count - 1);
    if (count > 1) continue;
    const RankedSlice slice = ranked_slice(line, j, position);
    store_word(line + j, slice.first & ~slice.low);
    store_word(line + kRankedSlices + j, slice.second & ~slice.high);
    ++emptied;
  }
  const unsigned keys = table.sum_of_first(entry, shape.positions);  // each counts there once
  if (fit_lists(shape, keys, [&](unsigned i) { return table.count(entry, i); })) {
    take_back(table, entry, line, shape);
  }
  return emptied;
}

bool is_stuck(const Geometry& geometry, const std::uint64_t* words, std::uint64_t place) noexcept {
  if (!is_spilled(ranked_line(words, place))) return false;
  const ConstSpillTable table(geometry, words);
  const std::scoped_lock lock(spill_lock(words));
  return table.find(detail::block_of(place)) == nullptr;
}

unsigned least_of_spilled(const Geometry& geometry, const std::uint64_t* words,
                          std::uint64_t place) noexcept {
  const RankedShape shape(geometry);
  const ConstSpillTable table(geometry, words);
  const std::scoped_lock lock(spill_lock(words));
  const std::uint64_t* const entry = table.find(detail::block_of(place));
  if (entry == nullptr) return kCounterMax;  // stuck: it may be there as often as that, or more
  unsigned least = kCounterMax;
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    least = std::min(least, table.count(entry, shape.index_of(j, detail::position_of(place, j))));
  }
  return std::max(least, 1u);  // 0 only if the entry is damaged
}

// ---- blocks -------------------------------------------------------------------------------------

BlockCounts read_block(const Geometry& geometry, const std::uint64_t* words, std::uint64_t block) {
  const RankedShape shape(geometry);
  const ConstSpillTable table(geometry, words);
  const std::uint64_t* const line = words + block * kWordsPerBlock;
  BlockCounts all;
  const std::uint64_t* entry = nullptr;
  if (is_spilled(line)) {
    const std::scoped_lock lock(spill_lock(words));
    entry = table.find(block);
    all.stuck = entry == nullptr;
    if (entry != nullptr) {
      for (unsigned j = 0; j < kRankedSlices; ++j) {
        for (unsigned position = 0; position < shape.positions; ++position) {
          all.counts[j][position] =
              static_cast<std::uint8_t>(table.count(entry, shape.index_of(j, position)));
        }
      }
      return all;
    }
  }
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    for_each_count(shape, line, j, [&](unsigned position, unsigned count) {
      all.counts[j][position] = static_cast<std::uint8_t>(all.stuck ? 1 : count);
    });
  }
  return all;
}

namespace {

/// The counts of a slice in the making.
struct SliceOfCounts {
  std::uint64_t in_use[2] = {};  ///< positions
  List list;
  unsigned keys = 0;
  bool stays = false;  ///< a count is at kMostSpilled

  explicit SliceOfCounts(const std::array<std::uint8_t, kMaxRankedPositions>& counts) noexcept {
    static_assert(kMaxRankedPositions % 8 == 0);
    for (unsigned first = 0; first < kMaxRankedPositions; first += 8) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, counts.data() + first, sizeof eight);
      while (eight != 0) {
        const auto i = static_cast<unsigned>(std::countr_zero(eight)) / 8;
        const auto count = static_cast<unsigned>(eight >> 8 * i & 0xFF);
        eight &= ~(std::uint64_t{0xFF} << 8 * i);
        in_use[(first + i) / 64] |= std::uint64_t{1} << (first + i) % 64;
        list.append(count);
        keys += count;
        stays |= count == kMostSpilled;
      }
    }
  }
};

}  // namespace

void write_block(const Geometry& geometry, std::uint64_t* words, std::uint64_t block,
                 const BlockCounts& counts) {
  const RankedShape shape(geometry);
  const SpillTable table(geometry, words);
  std::uint64_t* const line = words + block * kWordsPerBlock;
  const SliceOfCounts slices[kRankedSlices] = {
      SliceOfCounts(counts.counts[0]), SliceOfCounts(counts.counts[1]),
      SliceOfCounts(counts.counts[2]), SliceOfCounts(counts.counts[3])};
  // Lists have no room for a count that stays.
  const bool in_lists =
      !counts.stuck && slices[0].keys <= shape.most_keys &&
      std::ranges::none_of(slices, [](const SliceOfCounts& slice) { return slice.stays; });
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    line[j] = slices[j].in_use[0];
    line[kRankedSlices + j] = slices[j].in_use[1] | (in_lists ? slices[j].list.in(shape) : 0);
  }
  if (!in_lists) line[kRankedSlices] |= kLast;
  const std::scoped_lock lock(spill_lock(words));
  std::uint64_t* entry = table.find(block);
  if (in_lists || counts.stuck) {
    if (entry != nullptr) table.erase(entry);
    return;
  }
  if (entry == nullptr) entry = table.add(block);
  if (entry == nullptr) return;  // stuck
  for (unsigned j = 0; j < kRankedSlices; ++j) {
    for (unsigned position = 0; position < shape.positions; ++position) {
      table.set_count(entry, shape.index_of(j, position), counts.counts[j][position]);
    }
  }
}

// ---- ranges of blocks ---------------------------------------------------------------------------

namespace {

/// The lines of a block in two filters.
template <class View>
auto lines_of(const View& a, const ConstCounterView& b, std::uint64_t block) noexcept {
  return std::pair(a.words + block * kWordsPerBlock, b.words + block * kWordsPerBlock);
}
bool in_lists(const std::uint64_t* a, const std::uint64_t* b) noexcept {
  return !is_spilled(a) && !is_spilled(b);
}

}  // namespace

void merge_stuck_blocks(const CounterView& into, const ConstCounterView& from, FilterPart blocks) {
  const RankedShape shape(into.geometry);
  const SpillTable table(into.geometry, into.words);
  const ConstSpillTable others(from.geometry, from.words);
  for (std::uint64_t block = blocks.first; block < blocks.last; ++block) {
    if (!is_spilled(from.words + block * kWordsPerBlock)) continue;
    {
      const std::scoped_lock lock(spill_lock(from.words));
      if (others.find(block) != nullptr) continue;
    }
    const std::scoped_lock lock(spill_lock(into.words));
    clear_lists(into.words + block * kWordsPerBlock, shape);
    if (const std::uint64_t* const entry = table.find(block)) table.erase(entry);
  }
}

void merge_blocks(const CounterView& into, const ConstCounterView& from, FilterPart blocks,
                  const RankedLists* lists) {
  const RankedShape shape(into.geometry);
  for (std::uint64_t block = blocks.first; block < blocks.last; ++block) {
    if (const auto [to, add] = lines_of(into, from, block);
        lists != nullptr && in_lists(to, add) && lists->add(shape, to, add)) {
      continue;
    }
    const BlockCounts more = read_block(from.geometry, from.words, block);
    BlockCounts sum = read_block(into.geometry, into.words, block);
    for (unsigned j = 0; j < kRankedSlices; ++j) {
      for (unsigned position = 0; position < kMaxRankedPositions; ++position) {
        std::uint8_t& count = sum.counts[j][position];
        count = static_cast<std::uint8_t>(
            std::min(unsigned{count} + more.counts[j][position], kMostSpilled));
      }
    }
    write_block(into.geometry, into.words, block, sum);
  }
}

SubtractCounts check_subtract_blocks(const ConstCounterView& from, const ConstCounterView& what,
                                     FilterPart blocks, const RankedLists* lists) {
  const RankedShape shape(from.geometry);
  SubtractCounts met;
  for (std::uint64_t block = blocks.first; block < blocks.last; ++block) {
    if (const auto [in, less] = lines_of(from, what, block);
        lists != nullptr && in_lists(in, less)) {
      met.below += lists->too_large(shape, in, less);
      continue;
    }
    const BlockCounts less = read_block(what.geometry, what.words, block);
    const BlockCounts had = read_block(from.geometry, from.words, block);
    for (unsigned j = 0; j < kRankedSlices; ++j) {
      for (unsigned position = 0; position < kMaxRankedPositions; ++position) {
        const unsigned a = had.counts[j][position], b = less.counts[j][position];
        if (b == 0) continue;
        // The counts of a block that is stuck are not known: nothing is taken from it, nor for it.
        const bool stays = a > 0 && (had.stuck || less.stuck || a == kMostSpilled);
        met.inexact += stays;
        met.below += !stays && a < b;
      }
    }
  }
  return met;
}

void subtract_blocks(const CounterView& from, const ConstCounterView& what, FilterPart blocks,
                     const RankedLists* lists) {
  const RankedShape shape(from.geometry);
  for (std::uint64_t block = blocks.first; block < blocks.last; ++block) {
    if (const auto [in, less] = lines_of(from, what, block);
        lists != nullptr && in_lists(in, less)) {
      lists->subtract(shape, in, less);
      continue;
    }
    const BlockCounts less = read_block(what.geometry, what.words, block);
    BlockCounts rest = read_block(from.geometry, from.words, block);
    if (rest.stuck || less.stuck) continue;
    for (unsigned j = 0; j < kRankedSlices; ++j) {
      for (unsigned position = 0; position < kMaxRankedPositions; ++position) {
        std::uint8_t& count = rest.counts[j][position];
        if (count == kMostSpilled) continue;
        count = static_cast<std::uint8_t>(count - less.counts[j][position]);
      }
    }
    write_block(from.geometry, from.words, block, rest);
  }
}

std::array<Histogram, kRankedSlices> histograms_of_blocks(const ConstCounterView& view,
                                                          FilterPart blocks) {
  std::array<Histogram, kRankedSlices> histograms{};
  const RankedShape shape(view.geometry);
  const unsigned positions = shape.positions;
  for (std::uint64_t block = blocks.first; block < blocks.last; ++block) {
    const std::uint64_t* const line = view.words + block * kWordsPerBlock;
    if (!is_spilled(line)) {
      for (unsigned j = 0; j < kRankedSlices; ++j) {
        add_list(line[kRankedSlices + j] >> shape.upper, positions, histograms[j]);
      }
      continue;
    }
    const BlockCounts all = read_block(view.geometry, view.words, block);
    for (unsigned j = 0; j < kRankedSlices; ++j) {
      for (unsigned position = 0; position < positions; ++position) {
        const unsigned count = all.counts[j][position];
        ++histograms[j][all.stuck && count > 0 ? kCounterMax : std::min(count, kCounterMax)];
      }
    }
  }
  return histograms;
}

std::uint64_t total_positions_in_use(const ConstCounterView& view, FilterPart blocks) noexcept {
  const RankedShape shape(view.geometry);
  std::uint64_t used = 0;
  const std::uint64_t* const end = view.words + blocks.last * kWordsPerBlock;
  for (const std::uint64_t* line = view.words + blocks.first * kWordsPerBlock; line < end;
       line += kWordsPerBlock) {
    for (unsigned j = 0; j < kRankedSlices; ++j) used += positions_in_use(line, j, shape);
  }
  return used;
}

}  // namespace scbf
