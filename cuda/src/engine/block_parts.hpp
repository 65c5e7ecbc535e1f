// SPDX-License-Identifier: Apache-2.0
// Demands on a group of split_block. A key asks for all its counters of one block at once, so its
// block's words get the demands of all its keys in registers (keys_by_block.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/keys_by_block.hpp"
#include "engine/marks.hpp"
#include "engine/partitions.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/words.hpp"

namespace scbf::cuda {

/// How many cells are not 0 in pair a and 0 in pair b.
template <class Cells>
SCBF_INLINE std::int32_t nonzero_only_in(const WordPair& a, const WordPair& b) noexcept {
  return static_cast<std::int32_t>(Cells::nonzero_only_in(a.low, b.low) +
                                   Cells::nonzero_only_in(a.high, b.high));
}

/// group += demand, part by part. If counting, *filled += how many cells were 0 and are not any
/// more.
template <class Cells, bool counting>
struct AddToBlocks {
  Partitions partitions;
  const std::uint64_t* positions;
  const Part* parts;
  const std::uint64_t* total;  ///< PartCount of all parts
  std::uint32_t chunk;         ///< keys
  bool alone;                  ///< see Tuning
  std::uint64_t* filled;

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t index,
                              std::uint64_t* shared) const {
    if (index >= PartCount::parts(*total)) return;
    const Part part = parts[index];
    const bool owns = alone && part.divided == Part::kWhole;
    const KeysByBlock<Cells> keys(reinterpret_cast<std::uint32_t*>(shared), partitions,
                                  part.partition);
    for (std::uint32_t first = 0; first < part.count; first += chunk) {
      const std::uint32_t left = part.count - first;
      keys.sort(threads, positions + part.first + first, left < chunk ? left : chunk);
      keys.template each_block<counting>(
          threads, filled,
          [&](const auto& warp, const auto& block, const auto& n, const auto& before) {
            const auto demand = warp.each([&](unsigned l) {
              return n[l] == 0 ? WordPair{0, 0} : keys.demand(block[l], n[l], l % keys.kSharers);
            });
            if (!owns) return join(warp, keys, block, demand, before);
            return warp.each([&](unsigned l) -> std::int32_t {
              if (n[l] == 0) return 0;
              const WordPair after{Cells::joined(before[l].low, demand[l].low),
                                   Cells::joined(before[l].high, demand[l].high)};
              Atomic().store_pair(keys.pair(block[l], l % keys.kSharers), after);
              return counting ? nonzero_only_in<Cells>(demand[l], before[l]) : 0;
            });
          });
    }
  }

 private:
  /// Adds the demand while others may change the words. The lanes of two neighbouring blocks first
  /// exchange a word of each pair, so that an access of the warp covers whole blocks and touches
  /// fewer sectors.
  template <class Warp>
  SCBF_INLINE auto join(const Warp& warp, const KeysByBlock<Cells>& keys,
                        const typename Warp::template PerLane<std::uint32_t>& block,
                        const typename Warp::template PerLane<WordPair>& demand,
                        const typename Warp::template PerLane<WordPair>& before) const {
    constexpr unsigned kSharers = KeysByBlock<Cells>::kSharers;
    const auto is_second = [](unsigned l) { return l / kSharers % 2 == 1; };
    const auto exchanged = [&](const auto& pairs) {
      const auto given = warp.template across<kSharers>(
          warp.each([&](unsigned l) { return is_second(l) ? pairs[l].low : pairs[l].high; }));
      return warp.each([&](unsigned l) {
        return is_second(l) ? WordPair{given[l], pairs[l].high} : WordPair{pairs[l].low, given[l]};
      });
    };
    const auto wanted = exchanged(demand), seen = exchanged(before);
    const auto other = warp.template across<kSharers>(block);
    // A lane now has one word of each block: the lower one of its pair if it belongs to the first
    // block, otherwise the higher one.
    return warp.each([&](unsigned l) -> std::int32_t {
      const std::uint32_t first = is_second(l) ? other[l] : block[l];
      const std::uint32_t second = is_second(l) ? block[l] : other[l];
      std::int32_t mine = 0;
      const auto add = [&](std::uint32_t to, std::uint64_t want, std::uint64_t saw) {
        if (want == 0) return;
        const std::uint64_t was =
            Cells::join(keys.pair(to, l % kSharers) + is_second(l), want, saw);
        if (counting) mine += static_cast<std::int32_t>(Cells::nonzero_only_in(want, was));
      };
      add(first, wanted[l].low, seen[l].low);
      add(second, wanted[l].high, seen[l].high);
      return mine;
    });
  }
};

/// group −= demand for partitions that are not divided; a block in which a counter would fall below
/// zero is left as it is, and its line marked. The parts of divided ones are added up in
/// `divided_demand`, zeroed before, with partition_words() words for each. If counting, *emptied +=
/// how many counters became 0.
template <bool counting>
struct TakeFromBlocks {
  Partitions partitions;
  const std::uint64_t* positions;
  const Part* parts;
  const std::uint64_t* total;
  std::uint32_t chunk;
  std::uint64_t* divided_demand;
  Marks marks;
  std::uint64_t* emptied;

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t index,
                              std::uint64_t* shared) const {
    if (index >= PartCount::parts(*total)) return;
    const Part part = parts[index];
    auto* numbers = reinterpret_cast<std::uint32_t*>(shared);
    const Failures failures{numbers, numbers + 2};
    const auto blocks = static_cast<std::uint32_t>(partitions.partition_words() / kWordsPerBlock);
    const Keys keys(numbers + 2 + blocks, partitions, part.partition);
    if (part.divided != Part::kWhole) {
      std::uint64_t* all = divided_demand + (std::uint64_t{part.divided} << partitions.log2_words);
      return each_chunk(threads, part, keys,
                        [&](std::uint32_t) { add_demand(threads, keys, all); });
    }
    failures.clear(threads, blocks);
    each_chunk(threads, part, keys,
               [&](std::uint32_t number) { take(threads, part, keys, number, failures); });
    // What earlier chunks took from a block in which a later one failed is given back.
    if (part.count <= chunk) return;
    threads.sync();
    if (!failures.there_are()) return;
    each_chunk(threads, part, keys,
               [&](std::uint32_t number) { give_back(threads, keys, number, failures); });
  }

 private:
  using Keys = KeysByBlock<CounterCells>;

  /// In which chunk a block failed.
  struct Failures {
    static constexpr std::uint32_t kNever = 0xFFFF'FFFFu;
    std::uint32_t* any;
    std::uint32_t* chunk_of;

    template <class Threads>
    SCBF_INLINE void clear(const Threads& threads, std::uint32_t blocks) const {
      threads.each([&](unsigned rank) {
        for (std::uint32_t b = rank; b < blocks; b += threads.size()) chunk_of[b] = kNever;
        if (rank == 0) *any = 0;
      });
    }
    SCBF_INLINE void note(std::uint32_t block, std::uint32_t number) const {
      Atomic().store(chunk_of + block, number);
      Atomic().store(any, 1);
    }
    SCBF_INLINE std::uint32_t of(std::uint32_t block) const {
      return Atomic().load(chunk_of + block);
    }
    SCBF_INLINE bool there_are() const { return Atomic().load(any) != 0; }
  };

  template <class Threads, class Act>
  SCBF_INLINE void each_chunk(const Threads& threads, const Part& part, const Keys& keys,
                              Act act) const {
    std::uint32_t number = 0;
    for (std::uint32_t first = 0; first < part.count; first += chunk) {
      const std::uint32_t left = part.count - first;
      keys.sort(threads, positions + part.first + first, left < chunk ? left : chunk);
      act(number++);
    }
  }

  template <class Threads>
  SCBF_INLINE void add_demand(const Threads& threads, const Keys& keys, std::uint64_t* all) const {
    keys.template each_block<false, false>(
        threads, nullptr, [&](const auto& warp, const auto& block, const auto& n, const auto&) {
          return warp.each([&](unsigned l) -> std::int32_t {
            if (n[l] == 0) return 0;
            const unsigned i = l % keys.kSharers;
            const WordPair demand = keys.demand(block[l], n[l], i);
            std::uint64_t* pair = all + std::uint64_t{block[l]} * kWordsPerBlock + 2 * i;
            add_all(Atomic(), pair, demand.low);
            add_all(Atomic(), pair + 1, demand.high);
            return 0;
          });
        });
  }

  template <class Threads>
  SCBF_INLINE void take(const Threads& threads, const Part& part, const Keys& keys,
                        std::uint32_t number, const Failures& failures) const {
    keys.template each_block<counting>(
        threads, emptied,
        [&](const auto& warp, const auto& block, const auto& n, const auto& before) {
          constexpr unsigned kSharers = Keys::kSharers;
          const auto takes = warp.each(
              [&](unsigned l) { return n[l] != 0 && failures.of(block[l]) == Failures::kNever; });
          const auto demand = warp.each([&](unsigned l) {
            return takes[l] ? keys.demand(block[l], n[l], l % kSharers) : WordPair{0, 0};
          });
          const auto low =
              warp.each([&](unsigned l) { return subtracted_fast(before[l].low, demand[l].low); });
          const auto high = warp.each(
              [&](unsigned l) { return subtracted_fast(before[l].high, demand[l].high); });
          const std::uint32_t failing = warp.ballot(
              warp.each([&](unsigned l) { return (low[l].below | high[l].below) != 0; }));
          if (failing != 0) warp.sync();  // `failures` has been read
          return warp.each([&](unsigned l) -> std::int32_t {
            if (!takes[l]) return 0;
            if ((failing >> l / kSharers * kSharers & ((1u << kSharers) - 1)) != 0) {
              if (l % kSharers != 0) return 0;
              marks.mark(partitions.line_of(part.partition, block[l]));
              failures.note(block[l], number);
              return 0;
            }
            const WordPair after{low[l].word, high[l].word};
            Atomic().store_pair(keys.pair(block[l], l % kSharers), after);
            return counting ? nonzero_only_in<CounterCells>(before[l], after) : 0;
          });
        });
  }

  template <class Threads>
  SCBF_INLINE void give_back(const Threads& threads, const Keys& keys, std::uint32_t number,
                             const Failures& failures) const {
    keys.template each_block<counting>(
        threads, emptied,
        [&](const auto& warp, const auto& block, const auto& n, const auto& before) {
          return warp.each([&](unsigned l) -> std::int32_t {
            if (n[l] == 0) return 0;
            const std::uint32_t failed_in = failures.of(block[l]);
            if (failed_in == Failures::kNever || number >= failed_in) return 0;
            const WordPair demand = keys.demand(block[l], n[l], l % keys.kSharers);
            const WordPair after = {CounterCells::joined(before[l].low, demand.low),
                                    CounterCells::joined(before[l].high, demand.high)};
            Atomic().store_pair(keys.pair(block[l], l % keys.kSharers), after);
            return counting ? -nonzero_only_in<CounterCells>(after, before[l]) : 0;
          });
        });
  }
};

}  // namespace scbf::cuda
