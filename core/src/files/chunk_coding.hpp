// SPDX-License-Identifier: Apache-2.0
// How a chunk of a payload is packed for travel: as it is, by zstd or, since bits are nearly random
// and often few, by the gaps between the ones. Pure functions of bytes. Described in
// docs/file_format.md.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/bit_stream.hpp"
#include "scbf/geometry.hpp"

namespace scbf::file_format {

enum class Coding : std::uint32_t {
  zeros = 0,   ///< every word is 0; no bytes
  plain = 1,   ///< the words
  zstd = 2,    ///< one zstd frame of the words
  gaps = 3,    ///< of bits: how many zeros precede each one
  blocks = 4,  ///< of bits: the ones of each 128-bit block that has any, lane by lane
};

inline constexpr std::uint32_t kCodings = 5;
/// `gaps` and `blocks` begin with the number of ones, or of blocks, and the parameter of the Rice
/// code of the gaps.
inline constexpr std::size_t kRiceHeaderBytes = 5;
inline constexpr unsigned kMostRice = 24;
inline constexpr unsigned kLanes = 8, kLaneBits = 16;

/// Packs chunks. Keeps its buffers from one chunk to the next.
class ChunkEncoder {
 public:
  /// If `zstd`, that is tried, too; otherwise, words become fewer bytes only where ones are few.
  ChunkEncoder(Cell cell, bool zstd);
  ~ChunkEncoder();
  ChunkEncoder(const ChunkEncoder&) = delete;
  ChunkEncoder& operator=(const ChunkEncoder&) = delete;

  struct Packed {
    Coding coding;
    std::span<const std::byte> bytes;  ///< at most those of the words; valid until the next call
  };
  /// A short form of at most kChunkWords words. Throws std::bad_alloc.
  Packed encode(std::span<const std::uint64_t> words);

 private:
  Cell cell_;
  void* zstd_ = nullptr;  ///< ZSTD_CCtx, or null: not tried
  std::vector<std::byte> packed_, other_;
};

/// What is wrong with the bytes of a chunk, with the value and its limit; none if nothing is.
using Fault = std::optional<std::string>;

/// Unpacks chunks. Keeps zstd's context between them.
class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  ChunkDecoder(const ChunkDecoder&) = delete;
  ChunkDecoder& operator=(const ChunkDecoder&) = delete;

  /// Fills `words`, if nothing is wrong with the bytes.
  Fault decode(Cell cell, Coding coding, std::span<const std::byte> bytes,
               std::span<std::uint64_t> words);

 private:
  void* zstd_;  ///< ZSTD_DCtx
};

/// Calls flip(bit) for each one of a chunk of bits in `gaps` or `blocks`, in rising order. flip may
/// be called before a fault is found.
template <class Flip>
Fault for_each_one(Coding coding, std::span<const std::byte> bytes, std::uint64_t bits, Flip flip) {
  if (bytes.size() < kRiceHeaderBytes) {
    return fmt::format("{} bytes: must be at least {}", bytes.size(), kRiceHeaderBytes);
  }
  std::uint64_t count = 0;
  for (unsigned i = 0; i < 4; ++i) count |= std::to_integer<std::uint64_t>(bytes[i]) << 8 * i;
  const auto k = std::to_integer<unsigned>(bytes[4]);
  if (k > kMostRice) return fmt::format("Rice parameter {}: must be at most {}", k, kMostRice);
  BitReader in(bytes.subspan(kRiceHeaderBytes));
  const bool of_bits = coding == Coding::gaps;
  const std::uint64_t end = of_bits ? bits : bits / (kLanes * kLaneBits);
  const char* const things = of_bits ? "ones" : "blocks";
  if (count > end) return fmt::format("{} {}: must be at most {}", count, things, end);
  std::uint64_t next = 0;  // the lowest number that may come
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t number = next + in.get_rice(k, end);
    if (number >= end) {
      return fmt::format("number {} of {} {} lies behind the last of {} places, or is missing",
                         i + 1, count, things, end);
    }
    next = number + 1;
    if (of_bits) {
      flip(number);
      continue;
    }
    auto lanes = static_cast<unsigned>(in.get(kLanes));
    if (lanes == 0) return fmt::format("block {} has no ones: must have some", number);
    for (; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
      const std::uint64_t first = (number * kLanes + lane) * kLaneBits;
      if (in.get(1) == 0) {
        flip(first + in.get(4));
        continue;
      }
      auto ones = static_cast<unsigned>(in.get(kLaneBits));
      if (std::popcount(ones) < 2) {
        return fmt::format("lane {} of block {} has {} ones: must have at least 2", lane, number,
                           std::popcount(ones));
      }
      for (; ones != 0; ones &= ones - 1) {
        flip(first + static_cast<unsigned>(std::countr_zero(ones)));
      }
    }
  }
  if (!in.overrun() && in.at_end()) return {};
  return fmt::format("{} bytes: too {} for {} {}", bytes.size(), in.overrun() ? "few" : "many",
                     count, things);
}

}  // namespace scbf::file_format
