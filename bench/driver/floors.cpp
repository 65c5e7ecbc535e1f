// SPDX-License-Identifier: Apache-2.0
// A slow floor flatters the filter, so each floor is tried in all ways that might be the fastest,
// and the best is timed: prefetch distances from 0 (the core's own out-of-order window) to 128,
// prefetching into all caches or past them, with or without intent to write; for copies, memcpy and
// non-temporal stores. One word per line is touched, because no filter can avoid fetching the line.
// Each position takes half a multiplicative hash, which is less than any filter does per key.
#include "floors.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <tuple>
#include <vector>

#include "machine.hpp"
#include "scbf/backend.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace scbf::bench {

namespace {

constexpr std::size_t kWordsPerLine = 8;
constexpr std::size_t kMemoryBytes = std::size_t{1} << 30;

enum class Hint { all_caches, non_temporal, write };

template <Hint hint>
inline void prefetch(const std::uint64_t* word) {
  if constexpr (hint == Hint::all_caches) {
    __builtin_prefetch(word, 0, 3);
  } else if constexpr (hint == Hint::non_temporal) {
    __builtin_prefetch(word, 0, 0);
  } else {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*word));  // the builtin would need a compiler flag
#else
    __builtin_prefetch(word, 1, 3);
#endif
  }
}

/// Two scattered line numbers below `lines` (< 2^32) from one hash.
struct Pair {
  std::uint64_t first, second;
};
inline Pair scatter(std::uint64_t i, std::uint64_t lines) {
  std::uint64_t x = (i + 1) * 0x9E37'79B9'7F4A'7C15ull;
  x ^= x >> 32;  // without this, multiples of the golden ratio would be evenly spread, not random
  x *= 0xD6E8'FEB8'6659'FD93ull;
  return {((x >> 32) * lines) >> 32, ((x & 0xFFFF'FFFFu) * lines) >> 32};
}

/// Touches `accesses` (even) random lines. Each is prefetched `distance` accesses ahead.
template <bool update, Hint hint, unsigned distance>
std::uint64_t random_lines(std::uint64_t* words, std::uint64_t lines, std::uint64_t accesses,
                           std::uint64_t seed) {
  std::uint64_t sum = 0;
  const auto touch = [&](std::uint64_t line) {
    std::uint64_t& word = words[line * kWordsPerLine];
    if constexpr (update) {
      word += 1;
    } else {
      sum += word;
    }
  };
  if constexpr (distance == 0) {
    for (std::uint64_t i = 0; i < accesses; i += 2) {
      const Pair line = scatter(seed + i, lines);
      touch(line.first);
      touch(line.second);
    }
  } else {
    constexpr unsigned ring_size = 128;
    static_assert(distance <= ring_size && distance % 2 == 0);
    std::array<std::uint32_t, ring_size> ring;
    for (unsigned i = 0; i < distance; i += 2) {
      const Pair line = scatter(seed + i, lines);
      ring[i] = static_cast<std::uint32_t>(line.first);
      ring[i + 1] = static_cast<std::uint32_t>(line.second);
      prefetch<hint>(words + line.first * kWordsPerLine);
      prefetch<hint>(words + line.second * kWordsPerLine);
    }
    for (std::uint64_t i = 0; i < accesses; i += 2) {
      touch(ring[i % ring_size]);
      touch(ring[i % ring_size + 1]);
      const Pair line = scatter(seed + i + distance, lines);
      ring[(i + distance) % ring_size] = static_cast<std::uint32_t>(line.first);
      ring[(i + distance) % ring_size + 1] = static_cast<std::uint32_t>(line.second);
      prefetch<hint>(words + line.first * kWordsPerLine);
      prefetch<hint>(words + line.second * kWordsPerLine);
    }
  }
  return sum;
}

/// The same, for memory so near that even half a hash per line would matter: line numbers come from
/// a table that stays in L1 and are scattered anew in every round. `lines` is a power of two ≤
/// 2^16.
template <bool update>
std::uint64_t tabled_lines(std::uint64_t* words, std::uint64_t lines, std::uint64_t accesses,
                           std::uint64_t seed) {
  static const std::array<std::uint16_t, 4096> table = [] {
    std::array<std::uint16_t, 4096> t{};
    for (std::size_t i = 0; i < t.size(); ++i) {
      t[i] = static_cast<std::uint16_t>(scatter(i, 1u << 16).first);
    }
    return t;
  }();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < accesses; i += table.size()) {
    const std::uint64_t salt = scatter(seed + i, lines).first;
    for (const std::uint16_t entry : table) {
      std::uint64_t& word = words[((entry ^ salt) & (lines - 1)) * kWordsPerLine];
      if constexpr (update) {
        word += 1;
      } else {
        sum += word;
      }
    }
  }
  return sum;
}

template <unsigned ahead_lines>
std::uint64_t read_stream(const std::uint64_t* words, std::uint64_t lines) {
  std::array<std::uint64_t, kWordsPerLine> sum{};
  for (std::uint64_t line = 0; line < lines; ++line) {
    const std::uint64_t* const p = words + line * kWordsPerLine;
    // Prefetching past the end is harmless and cheaper than a check.
    if constexpr (ahead_lines > 0) __builtin_prefetch(p + ahead_lines * kWordsPerLine, 0, 0);
    for (std::size_t i = 0; i < kWordsPerLine; ++i) sum[i] += p[i];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t s : sum) total += s;
  return total;
}

void copy_past_caches(std::uint64_t* to, const std::uint64_t* from, std::uint64_t lines) {
#if defined(__SSE2__)
  auto* out = reinterpret_cast<__m128i*>(to);
  const auto* in = reinterpret_cast<const __m128i*>(from);
  for (std::uint64_t i = 0; i < lines * 4; i += 4) {
    __builtin_prefetch(in + i + 32, 0, 0);
    const __m128i a = _mm_load_si128(in + i), b = _mm_load_si128(in + i + 1);
    const __m128i c = _mm_load_si128(in + i + 2), d = _mm_load_si128(in + i + 3);
    _mm_stream_si128(out + i, a);
    _mm_stream_si128(out + i + 1, b);
    _mm_stream_si128(out + i + 2, c);
    _mm_stream_si128(out + i + 3, d);
  }
  _mm_sfence();
#else
  std::memcpy(to, from, lines * 64);
#endif
}

/// One way to measure a floor. It works on `lines` lines at `words`, touches about `accesses` of
/// them and returns how many it touched.
struct Variant {
  std::string name;
  std::function<std::uint64_t(std::uint64_t* words, std::uint64_t lines, std::uint64_t accesses,
                              std::uint64_t seed)>
      run;
};

template <bool update, Hint hint, unsigned distance>
void add_random(std::vector<Variant>& all, const std::string& hint_name) {
  const std::string name =
      distance == 0 ? "no prefetch" : "prefetch " + std::to_string(distance) + " ahead" + hint_name;
  all.push_back({name, [](std::uint64_t* words, std::uint64_t lines, std::uint64_t accesses,
                          std::uint64_t seed) {
                   benchmark::DoNotOptimize(
                       random_lines<update, hint, distance>(words, lines, accesses, seed));
                   benchmark::ClobberMemory();
                   return accesses;
                 }});
}

template <bool update, Hint hint>
void add_distances(std::vector<Variant>& all, const std::string& hint_name) {
  add_random<update, hint, 16>(all, hint_name);
  add_random<update, hint, 24>(all, hint_name);
  add_random<update, hint, 32>(all, hint_name);
  add_random<update, hint, 48>(all, hint_name);
  add_random<update, hint, 64>(all, hint_name);
  add_random<update, hint, 128>(all, hint_name);
}

template <bool update>
void add_tabled(std::vector<Variant>& all) {
  all.push_back({"line numbers from a table", [](std::uint64_t* words, std::uint64_t lines,
                                                 std::uint64_t accesses, std::uint64_t seed) {
                   const std::uint64_t whole = (accesses + 4095) / 4096 * 4096;
                   benchmark::DoNotOptimize(tabled_lines<update>(words, lines, whole, seed));
                   benchmark::ClobberMemory();
                   return whole;
                 }});
}

template <unsigned ahead_lines>
void add_read_stream(std::vector<Variant>& all, const std::string& name) {
  all.push_back(
      {name, [](std::uint64_t* words, std::uint64_t lines, std::uint64_t accesses, std::uint64_t) {
         std::uint64_t done = 0;
         for (; done < accesses; done += lines) {
           benchmark::DoNotOptimize(read_stream<ahead_lines>(words, lines));
           benchmark::ClobberMemory();
         }
         return done;
       }});
}

std::vector<Variant> variants_of(Floor floor, Where where) {
  std::vector<Variant> all;
  switch (floor) {
    case Floor::line_read:
      add_random<false, Hint::all_caches, 0>(all, "");
      if (where == Where::cache) add_tabled<false>(all);
      add_distances<false, Hint::all_caches>(all, "");
      add_distances<false, Hint::non_temporal>(all, ", non-temporal");
      break;
    case Floor::line_update:
      add_random<true, Hint::all_caches, 0>(all, "");
      if (where == Where::cache) add_tabled<true>(all);
      add_distances<true, Hint::all_caches>(all, "");
      add_distances<true, Hint::write>(all, ", for writing");
      break;
    case Floor::stream_read:
      add_read_stream<0>(all, "plain loop");
      add_read_stream<8>(all, "prefetch 8 lines ahead");
      add_read_stream<32>(all, "prefetch 32 lines ahead");
      break;
    case Floor::stream_copy: {
      const auto copy = [&](const char* name, auto routine) {
        all.push_back({name, [routine](std::uint64_t* words, std::uint64_t lines,
                                       std::uint64_t accesses, std::uint64_t) {
                         const std::uint64_t half = lines / 2;
                         std::uint64_t done = 0;
                         for (; done < accesses; done += half) {
                           routine(words + half * kWordsPerLine, words, half);
                           benchmark::ClobberMemory();
                         }
                         return done;
                       }});
      };
      copy("memcpy", [](std::uint64_t* to, const std::uint64_t* from, std::uint64_t lines) {
        std::memcpy(to, from, lines * 64);
      });
      copy("non-temporal stores", copy_past_caches);
      break;
    }
  }
  return all;
}

/// The memory that a floor is measured in. It is allocated like the counters of filters, so that it
/// has huge pages too.
std::span<std::uint64_t> memory_of(Where where, unsigned threads) {
  static std::map<std::pair<Where, unsigned>, std::unique_ptr<CounterStore>> memories;
  // For `memory`, the threads share the 1 GiB. For `cache`, each thread has its own part.
  const unsigned parts = where == Where::memory ? 1 : threads;
  std::unique_ptr<CounterStore>& memory = memories[{where, parts}];
  const std::size_t words = floor_bytes(where) * parts / sizeof(std::uint64_t);
  if (!memory) {
    memory = find_backend("scalar").allocate(words);
    // Every word is written, because untouched pages all map to the zero page, which is in cache.
    for (std::size_t i = 0; i < words; ++i) memory->words()[i] = i;
  }
  return {memory->words(), words};
}

FloorResult run_variant(const Variant& variant, Where where, unsigned threads,
                        std::uint64_t accesses, std::uint64_t seed) {
  const std::span<std::uint64_t> memory = memory_of(where, threads);
  const std::uint64_t lines = memory.size() / kWordsPerLine / threads;
  std::vector<std::uint64_t> done(threads);
  const auto work = [&](unsigned t) {
    done[t] = variant.run(memory.data() + lines * kWordsPerLine * t, lines,
                          accesses / threads / 2 * 2, seed + t * accesses);
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& thread : others) thread.join();
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  std::uint64_t total = 0;
  for (const std::uint64_t d : done) total += d;
  return {time.count() / static_cast<double>(total), variant.name};
}

std::uint64_t accesses_for(Floor floor, Where where) {
  if (where == Where::cache) return 1u << 26;
  const bool random = floor == Floor::line_read || floor == Floor::line_update;
  return random ? 1u << 24 : 1u << 25;
}

}  // namespace

std::size_t floor_bytes(Where where) {
  if (where == Where::memory) return kMemoryBytes;
  const std::size_t l2 = cache_bytes(2);
  const std::size_t half = (l2 > 0 ? l2 : std::size_t{512} << 10) / 2;
  return std::min(std::bit_floor(half), std::size_t{1} << 22);
}

FloorResult measure_floor(Floor floor, Where where, unsigned threads) {
  static std::map<std::tuple<Floor, Where, unsigned>, Variant> best;
  static std::uint64_t seed = 0;
  const std::uint64_t accesses = accesses_for(floor, where);
  const auto key = std::tuple(floor, where, threads);
  if (!best.contains(key)) {
    double best_ns = 0;
    for (const Variant& variant : variants_of(floor, where)) {
      // The better of two short trials counts, so that a disturbance decides nothing.
      for (int trial = 0; trial < 2; ++trial) {
        const FloorResult result =
            run_variant(variant, where, threads, accesses / 8, seed += accesses);
        if (!best.contains(key) || result.ns_per_line < best_ns) {
          best_ns = result.ns_per_line;
          best[key] = variant;
        }
      }
    }
  }
  return run_variant(best.at(key), where, threads, accesses, seed += accesses);
}

}  // namespace scbf::bench
