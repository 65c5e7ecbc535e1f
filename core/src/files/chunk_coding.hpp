// SPDX-License-Identifier: Apache-2.0
// How a chunk of a payload is packed for travel: as it is, by zstd, or, as bits are near random and
// often few, by the places of the ones. Pure functions of bytes. Described in docs/file_format.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
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
  /// With zstd, it is tried too; without, only where ones are few do words become fewer bytes.
  ChunkEncoder(Cell cell, bool zstd);
  ~ChunkEncoder();
  ChunkEncoder(const ChunkEncoder&) = delete;
  ChunkEncoder& operator=(const ChunkEncoder&) = delete;

  struct Packed {
    Coding coding;
    std::span<const std::byte> bytes;  ///< never more than the words have; valid until the next
  };
  /// A short form of at most kChunkWords words. Throws std::bad_alloc.
  Packed encode(std::span<const std::uint64_t> words);

 private:
  Cell cell_;
  void* zstd_ = nullptr;  ///< ZSTD_CCtx, or null: not tried
  std::vector<std::byte> packed_, other_;
};

/// Unpacks chunks of one cell.
class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  ChunkDecoder(const ChunkDecoder&) = delete;
  ChunkDecoder& operator=(const ChunkDecoder&) = delete;

  /// Fills `words`. Returns null if that was possible, otherwise what is wrong with the bytes.
  const char* decode(Cell cell, Coding coding, std::span<const std::byte> bytes,
                     std::span<std::uint64_t> words) noexcept;

 private:
  void* zstd_;  ///< ZSTD_DCtx
};

/// Calls flip(bit) for each one of a chunk of bits in `gaps` or `blocks`, in rising order. Returns
/// what is wrong with the bytes, or null; flip may have been called before that is known.
template <class Flip>
const char* for_each_one(Coding coding, std::span<const std::byte> bytes, std::uint64_t bits,
                         Flip flip) {
  if (bytes.size() < kRiceHeaderBytes) return "too short";
  std::uint64_t count = 0;
  for (unsigned i = 0; i < 4; ++i) count |= std::to_integer<std::uint64_t>(bytes[i]) << 8 * i;
  const auto k = std::to_integer<unsigned>(bytes[4]);
  if (k > kMostRice) return "a Rice parameter above 24";
  BitReader in(bytes.subspan(kRiceHeaderBytes));
  const std::uint64_t places = coding == Coding::gaps ? bits : bits / (kLanes * kLaneBits);
  if (count > places) return "more ones than there are bits";
  std::uint64_t next = 0;  // the first place that may come
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t place = next + in.get_rice(k, places);
    if (place >= places) return "a one behind the last bit";
    next = place + 1;
    if (coding == Coding::gaps) {
      flip(place);
      continue;
    }
    auto lanes = static_cast<unsigned>(in.get(kLanes));
    if (lanes == 0) return "a block without a one";
    for (; lanes != 0; lanes &= lanes - 1) {
      const std::uint64_t first =
          (place * kLanes + static_cast<unsigned>(std::countr_zero(lanes))) * kLaneBits;
      if (in.get(1) == 0) {
        flip(first + in.get(4));
        continue;
      }
      auto ones = static_cast<unsigned>(in.get(kLaneBits));
      if (std::popcount(ones) < 2) return "a lane of several ones without them";
      for (; ones != 0; ones &= ones - 1) {
        flip(first + static_cast<unsigned>(std::countr_zero(ones)));
      }
    }
  }
  if (in.overrun()) return "too short";
  return in.at_end() ? nullptr : "too long";
}

}  // namespace scbf::file_format
