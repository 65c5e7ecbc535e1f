// SPDX-License-Identifier: Apache-2.0
// Operations on whole filters: merge, subtract, intersect, the bits of counters, counting counters
// or bits by value, and the books, which are the numbers of keys inserted and removed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/array.hpp"
#include "engine/loops.hpp"
#include "engine/warp.hpp"
#include "scbf/backend.hpp"
#include "scbf/cuda/atomic.hpp"
#include "scbf/cuda/cells.hpp"
#include "scbf/cuda/device_keys.hpp"
#include "scbf/detail/packed.hpp"

namespace scbf::cuda {

template <class Cells>
struct MergeWords {
  std::uint64_t* into;
  const std::uint64_t* from;
  SCBF_INLINE void operator()(std::size_t i) const noexcept {
    into[i] = Cells::joined(into[i], from[i]);
  }
};

/// Bits that are 1 in both.
struct IntersectWords {
  std::uint64_t* into;
  const std::uint64_t* from;
  SCBF_INLINE void operator()(std::size_t i) const noexcept { into[i] &= from[i]; }
};

/// How many bits of a word are 1 in one or both; summed.
struct OnesInEither {
  const std::uint64_t* a;
  const std::uint64_t* b;
  SCBF_INLINE std::uint64_t operator()(std::size_t i) const noexcept {
    return detail::bits_set(a[i] | b[i]);
  }
};

/// A word of bits, of four words of counters.
struct ProjectWords {
  std::uint64_t* bits;
  const std::uint64_t* counters;
  SCBF_INLINE void operator()(std::size_t i) const noexcept {
    bits[i] = detail::bits_of_four(counters + 4 * i);
  }
};

struct SubtractWords {
  std::uint64_t* from;
  const std::uint64_t* what;
  SCBF_INLINE void operator()(std::size_t i) const noexcept {
    from[i] = detail::subtracted(from[i], what[i]).word;
  }
};

/// What subtracting a word would meet; the results are summed.
struct CheckSubtract {
  const std::uint64_t* from;
  const std::uint64_t* what;

  struct Sum {
    std::uint64_t below = 0, inexact = 0;
    SCBF_INLINE friend Sum operator+(Sum a, Sum b) noexcept {
      return {a.below + b.below, a.inexact + b.inexact};
    }
  };
  SCBF_INLINE Sum operator()(std::size_t i) const noexcept {
    const detail::Difference d = detail::subtracted(from[i], what[i]);
    return {detail::bits_set(d.below), detail::bits_set(d.inexact)};
  }
};

/// Values of a histogram.
inline constexpr std::size_t kValues = kCounterMax + 1;

/// Counts the cells of one array by value: histogram[s][v] += how many cells of slice s are v,
/// padding included. An array of split is one slice; a group of split_block contains eight, each
/// with sixteen cells of every block, one behind the other.
template <class Cells>
struct CountValues {
  Array array;
  const std::uint64_t* filter_words;
  std::uint64_t* histogram;  ///< array.slices() × 16

  static constexpr std::uint64_t kSixteensPerTask = std::uint64_t{1} << 15;
  std::size_t tasks() const noexcept {
    return (sixteens() + kSixteensPerTask - 1) / kSixteensPerTask;
  }

  /// Words of shared memory.
  static constexpr std::size_t kShared = kWordsPerBlock * kValues;

  template <class Threads>
  SCBF_INLINE void operator()(const Threads& threads, std::size_t index,
                              std::uint64_t* shared) const {
    const std::uint64_t first = index * kSixteensPerTask, all = sixteens();
    const std::uint64_t last = all - first < kSixteensPerTask ? all : first + kSixteensPerTask;
    const std::uint32_t slices = array.slices();
    threads.each([&](unsigned rank) {
      for (std::size_t i = rank; i < kShared; i += threads.size()) shared[i] = 0;
    });
    threads.sync();
    // The number of threads is a multiple of eight, so each thread stays in one slice.
    threads.each([&](unsigned rank) {
      std::uint32_t mine[kValues] = {};
      for (std::uint64_t i = first + rank; i < last; i += threads.size()) {
        Cells::count_sixteen(filter_words + array.first_word(), i, mine);
      }
      for (std::size_t v = 0; v < kValues; ++v) {
        if (mine[v] != 0) Atomic().add(shared + rank % slices * kValues + v, mine[v]);
      }
    });
    threads.sync();
    threads.each([&](unsigned rank) {
      for (std::size_t i = rank; i < slices * kValues; i += threads.size()) {
        if (shared[i] != 0) Atomic().add(histogram + i, shared[i]);
      }
    });
  }

 private:
  SCBF_INLINE std::uint64_t sixteens() const noexcept {
    return array.words() * (Cells::kPerWord / 16);
  }
};

// Books are changed by atomic operations: insertions on several streams may run at once.

/// book += amount, by one thread.
struct Book {
  std::uint64_t* book;
  std::uint64_t amount;
  SCBF_INLINE void operator()(std::size_t) const noexcept { Atomic().add(book, amount); }
};
/// books[i] += others[i].
struct AddBooks {
  std::uint64_t* books;
  const std::uint64_t* others;
  SCBF_INLINE void operator()(std::size_t i) const noexcept { Atomic().add(books + i, others[i]); }
};
/// book += the number of i < n with holds(i); kThreads threads share the work.
template <class Holds>
struct BookThose {
  static constexpr std::size_t kThreads = 256 * 1024;

  Holds holds;
  std::size_t n;
  std::uint64_t* book;

  template <class Warp>
  SCBF_INLINE void operator()(const Warp& warp, std::size_t first) const {
    constexpr unsigned kAtOnce = 8;
    const auto held = warp.each([&](unsigned l) {
      std::int32_t mine = 0;
      SCBF_NOT_UNROLLED
      for (std::size_t i = first + l; i < n; i += kThreads * kAtOnce) {
        for (unsigned a = 0; a < kAtOnce; ++a) {
          const std::size_t k = i + a * kThreads;
          mine += holds(k < n ? k : i) && k < n;
        }
      }
      return mine;
    });
    add_up(warp, held, book);
  }
};
struct IsValid {
  Validity validity;
  SCBF_INLINE bool operator()(std::size_t i) const noexcept { return validity.valid(i); }
};

}  // namespace scbf::cuda
