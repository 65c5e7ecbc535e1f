// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/blocked_filter.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "bench/blocked_filter.hpp"
#include "scbf/detail/hash.hpp"

HWY_BEFORE_NAMESPACE();
namespace scbf::bench {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// A block, or as much of it as a vector has room for.
using Tag = hn::CappedTag<std::uint32_t, BlockedFilter::kWords>;

/// The bits of a key in the words of its block from `first` on.
HWY_INLINE hn::Vec<Tag> BitsOf(std::uint64_t hash, std::size_t first) {
  const Tag tag;
  const auto product = hn::Mul(hn::Set(tag, static_cast<std::uint32_t>(hash)),
                               hn::LoadU(tag, BlockedFilter::kOdd.data() + first));
  return hn::Shl(hn::Set(tag, 1), hn::ShiftRight<27>(product));
}

HWY_INLINE void Add(std::uint32_t* block, std::uint64_t hash) {
  const Tag tag;
  for (std::size_t i = 0; i < BlockedFilter::kWords; i += hn::Lanes(tag)) {
    hn::Store(hn::Or(hn::Load(tag, block + i), BitsOf(hash, i)), tag, block + i);
  }
}

HWY_INLINE bool Holds(const std::uint32_t* block, std::uint64_t hash) {
  const Tag tag;
  auto missing = hn::Zero(tag);
  for (std::size_t i = 0; i < BlockedFilter::kWords; i += hn::Lanes(tag)) {
    missing = hn::Or(missing, hn::AndNot(hn::Load(tag, block + i), BitsOf(hash, i)));
  }
  return hn::AllTrue(tag, hn::Eq(missing, hn::Zero(tag)));
}

/// The same as hash_of, in a form that compilers turn into vectors.
HWY_INLINE std::uint64_t HashOf(std::uint64_t key) {
  return detail::hash_u64<detail::PlainOps>(key, detail::u64_seed_mask(0));
}

/// Calls use(i, block, hash) for each key.
template <class Use>
HWY_INLINE void OneByOne(BlockedFilter::Blocks blocks, const std::uint64_t* keys, std::size_t n,
                         Use use) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t hash = HashOf(keys[i]);
    use(i, blocks.of(hash), hash);
  }
}

/// The same in strips of `length` keys, so that hashes are formed by vectors. `fetches`: meanwhile,
/// the blocks of the next strip are prefetched.
template <std::size_t length, bool fetches, class Use>
HWY_INLINE void InStrips(BlockedFilter::Blocks blocks, const std::uint64_t* keys, std::size_t n,
                         Use use) {
  std::uint64_t hashes[2][length];
  std::size_t used = 0, fetched = 0;
  for (std::size_t strip = 0; used < n; ++strip) {
    const std::uint64_t* now = hashes[strip % 2];
    std::uint64_t* next = hashes[1 - strip % 2];
    const std::size_t here = fetched - used, more = std::min(length, n - fetched);
    for (std::size_t i = 0; i < more; ++i) next[i] = HashOf(keys[fetched + i]);
    const std::size_t to_fetch = fetches ? more : 0, both = std::min(here, to_fetch);
    for (std::size_t i = 0; i < both; ++i) {
      hwy::Prefetch(blocks.of(next[i]));
      use(used + i, blocks.of(now[i]), now[i]);
    }
    for (std::size_t i = both; i < to_fetch; ++i) hwy::Prefetch(blocks.of(next[i]));
    for (std::size_t i = both; i < here; ++i) use(used + i, blocks.of(now[i]), now[i]);
    used = fetched;
    fetched += more;
  }
}

/// The fastest of the ways that were tried, on a Zen 5 only: nothing is fetched where a core's own
/// cache holds the filter; strips of 32 keys as long as the last cache holds it, of 128 beyond.
template <class Use>
HWY_INLINE void Ahead(BlockedFilter::Blocks blocks, const std::uint64_t* keys, std::size_t n,
                      Use use) {
  constexpr std::uint64_t kOwnCache = std::uint64_t{1} << 20, kLastCache = std::uint64_t{32} << 20;
  const std::uint64_t bytes = blocks.number * BlockedFilter::kWords * sizeof(std::uint32_t);
  if (bytes <= kOwnCache) return InStrips<32, false>(blocks, keys, n, use);
  if (bytes <= kLastCache) return InStrips<32, true>(blocks, keys, n, use);
  InStrips<128, true>(blocks, keys, n, use);
}

struct Adding {
  HWY_INLINE void operator()(std::size_t, std::uint32_t* block, std::uint64_t hash) const {
    Add(block, hash);
  }
};
void Insert(BlockedFilter::Blocks blocks, const std::uint64_t* keys, std::size_t n, bool ahead) {
  ahead ? Ahead(blocks, keys, n, Adding()) : OneByOne(blocks, keys, n, Adding());
}

struct Testing {
  std::uint8_t* out;
  std::uint64_t* hits;

  HWY_INLINE void operator()(std::size_t i, const std::uint32_t* block, std::uint64_t hash) const {
    const bool holds = Holds(block, hash);
    out[i] = holds;
    *hits += holds;
  }
};
std::uint64_t Contains(BlockedFilter::Blocks blocks, const std::uint64_t* keys, std::size_t n,
                       std::uint8_t* out, bool ahead) {
  std::uint64_t hits = 0;
  const Testing test = {out, &hits};
  ahead ? Ahead(blocks, keys, n, test) : OneByOne(blocks, keys, n, test);
  return hits;
}

const char* Target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace scbf::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scbf::bench {

namespace {

HWY_EXPORT(Insert);
HWY_EXPORT(Contains);
HWY_EXPORT(Target);

/// The rate when the number of keys in a block is distributed as Poisson(load): the expectation of
/// (1 − (31/32)^keys)^8, multiplied out.
double fpr_at(double load) noexcept {
  double sum = 0, choose = 1;
  for (unsigned i = 0; i <= BlockedFilter::kWords; ++i) {
    const double term = choose * std::exp(load * (std::pow(31.0 / 32, i) - 1));
    sum += i % 2 == 0 ? term : -term;
    choose *= static_cast<double>(BlockedFilter::kWords - i) / (i + 1);
  }
  return sum;
}

/// The fewest blocks with which n keys have this rate.
std::uint64_t blocks_for(std::size_t n, double fpr) {
  double low = 0, high = 1000;  // keys in a block: at 1000, hardly a bit is zero
  for (unsigned step = 0; step < 60; ++step) {
    const double load = (low + high) / 2;
    (fpr_at(load) <= fpr ? low : high) = load;
  }
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(n) / low));
}

std::uint32_t bit(std::uint64_t hash, unsigned word) noexcept {
  return std::uint32_t{1} << (static_cast<std::uint32_t>(hash) * BlockedFilter::kOdd[word] >> 27);
}

}  // namespace

BlockedFilter::BlockedFilter(std::size_t n, double fpr) : BlockedFilter(blocks_for(n, fpr)) {}

BlockedFilter::BlockedFilter(std::uint64_t blocks)
    : memory_(blocks * kWords * sizeof(std::uint32_t)),
      blocks_{reinterpret_cast<std::uint32_t*>(memory_.words().data()), blocks} {}

void BlockedFilter::insert(std::span<const std::uint64_t> keys, bool ahead) noexcept {
  HWY_DYNAMIC_DISPATCH(Insert)(blocks_, keys.data(), keys.size(), ahead);
}

std::uint64_t BlockedFilter::contains(std::span<const std::uint64_t> keys, std::uint8_t* out,
                                      bool ahead) const noexcept {
  return HWY_DYNAMIC_DISPATCH(Contains)(blocks_, keys.data(), keys.size(), out, ahead);
}

const char* BlockedFilter::target() { return HWY_DYNAMIC_DISPATCH(Target)(); }

bool BlockedFilter::insert(std::uint64_t hash) noexcept {
  std::uint32_t* block = blocks_.of(hash);
  for (unsigned i = 0; i < kWords; ++i) block[i] |= bit(hash, i);
  return true;
}

bool BlockedFilter::contains(std::uint64_t hash) const noexcept {
  const std::uint32_t* block = blocks_.of(hash);
  bool all = true;
  for (unsigned i = 0; i < kWords; ++i) all &= (block[i] & bit(hash, i)) != 0;
  return all;
}

double BlockedFilter::predicted_fpr(std::size_t n) const noexcept {
  return fpr_at(static_cast<double>(n) / static_cast<double>(blocks_.number));
}

}  // namespace scbf::bench
#endif
