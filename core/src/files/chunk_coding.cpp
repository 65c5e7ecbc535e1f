// SPDX-License-Identifier: Apache-2.0
#include "files/chunk_coding.hpp"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace scbf::file_format {

namespace {

constexpr int kZstdLevel = 3;
constexpr unsigned kWordLanes = 64 / kLaneBits;

bool all_zero(std::span<const std::uint64_t> words) noexcept {
  return std::ranges::all_of(words, [](std::uint64_t word) { return word == 0; });
}

/// What decides how a chunk of bits is coded.
struct Census {
  std::uint64_t ones = 0, blocks = 0;
};

Census census_of(std::span<const std::uint64_t> words) noexcept {
  Census census;
  for (std::size_t i = 0; i + 2 <= words.size(); i += 2) {
    census.ones += static_cast<unsigned>(std::popcount(words[i]) + std::popcount(words[i + 1]));
    census.blocks += (words[i] | words[i + 1]) != 0;
  }
  return census;
}

/// The best parameter for `count` gaps of geometric distribution in `all` bits: 1 + ⌊log2(ln φ /
/// −ln(1 − p))⌋ with the golden ratio φ and the share p of the ones (Kiely 2004, "Selecting the
/// Golomb parameter in Rice coding"), where −ln(1 − p) is close to 1 / (mean gap + 1/2).
unsigned rice_parameter(std::uint64_t all, std::uint64_t count) noexcept {
  const std::uint64_t ratio = (481 * (all - count) + 240 * count) / (1000 * count);
  return std::min(static_cast<unsigned>(std::bit_width(ratio)), kMostRice);
}

void begin_rice(std::vector<std::byte>& out, std::uint64_t count, unsigned k) {
  out.clear();
  for (unsigned i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(count >> 8 * i));
  out.push_back(static_cast<std::byte>(k));
}

void put_gaps(std::span<const std::uint64_t> words, std::uint64_t ones,
              std::vector<std::byte>& out) {
  const unsigned k = rice_parameter(words.size() * 64, ones);
  begin_rice(out, ones, k);
  BitWriter bits(out);
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::uint64_t word = words[i]; word != 0; word &= word - 1) {
      const std::uint64_t number = i * 64 + static_cast<unsigned>(std::countr_zero(word));
      bits.put_rice(number - next, k);
      next = number + 1;
    }
  }
  bits.finish();
}

void put_blocks(std::span<const std::uint64_t> words, std::uint64_t blocks,
                std::vector<std::byte>& out) {
  const unsigned k = rice_parameter(words.size() / 2, blocks);
  begin_rice(out, blocks, k);
  BitWriter bits(out);
  std::uint64_t next = 0;
  for (std::size_t i = 0; i + 2 <= words.size(); i += 2) {
    if ((words[i] | words[i + 1]) == 0) continue;
    bits.put_rice(i / 2 - next, k);
    next = i / 2 + 1;
    const auto lane = [&](unsigned l) {
      return words[i + l / kWordLanes] >> l % kWordLanes * kLaneBits & 0xFFFF;
    };
    unsigned lanes = 0;
    for (unsigned l = 0; l < kLanes; ++l) lanes |= static_cast<unsigned>(lane(l) != 0) << l;
    bits.put(lanes, kLanes);
    for (; lanes != 0; lanes &= lanes - 1) {
      const std::uint64_t ones = lane(static_cast<unsigned>(std::countr_zero(lanes)));
      if (std::has_single_bit(ones)) {
        bits.put(static_cast<unsigned>(std::countr_zero(ones)) << 1, 5);
      } else {
        bits.put(ones << 1 | 1, kLaneBits + 1);
      }
    }
  }
  bits.finish();
}

/// Fresh memory is zero already, and pages of it that are only read cost nothing.
void clear(std::span<std::uint64_t> words) noexcept {
  if (!all_zero(words)) std::ranges::fill(words, 0);
}

}  // namespace

ChunkEncoder::ChunkEncoder(Cell cell, bool zstd) : cell_(cell) {
  if (!zstd) return;
  zstd_ = ZSTD_createCCtx();
  if (zstd_ == nullptr) throw std::bad_alloc();
}
ChunkEncoder::~ChunkEncoder() { ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(zstd_)); }

ChunkEncoder::Packed ChunkEncoder::encode(std::span<const std::uint64_t> words) {
  if (all_zero(words)) return {Coding::zeros, {}};
  Packed best{Coding::plain, std::as_bytes(words)};
  const auto take_if_shorter = [&](Coding coding) {
    if (other_.size() >= best.bytes.size()) return;
    std::swap(packed_, other_);
    best = {coding, packed_};
  };
  if (cell_ == Cell::bit) {
    const Census census = census_of(words);
    const std::uint64_t bits = words.size() * 64;
    // With more ones, the entropy is less than a tenth below the bits themselves, and zstd, if
    // asked for, is as good.
    if (census.ones < bits / 3) {
      put_gaps(words, census.ones, other_);
      take_if_shorter(Coding::gaps);
      // A lane with ones takes five bits or more, and each block eight and its gap.
      if (census.blocks * 9 + census.ones * 3 < best.bytes.size() * 8) {
        put_blocks(words, census.blocks, other_);
        take_if_shorter(Coding::blocks);
      }
    }
  }
  if (zstd_ != nullptr) {
    other_.resize(ZSTD_compressBound(words.size_bytes()));
    const std::size_t size =
        ZSTD_compressCCtx(static_cast<ZSTD_CCtx*>(zstd_), other_.data(), other_.size(),
                          words.data(), words.size_bytes(), kZstdLevel);
    if (ZSTD_isError(size)) throw std::bad_alloc();  // any result has room: only memory can fail
    other_.resize(size);
    take_if_shorter(Coding::zstd);
  }
  return best;
}

ChunkDecoder::ChunkDecoder() : zstd_(ZSTD_createDCtx()) {
  if (zstd_ == nullptr) throw std::bad_alloc();
}
ChunkDecoder::~ChunkDecoder() { ZSTD_freeDCtx(static_cast<ZSTD_DCtx*>(zstd_)); }

Fault ChunkDecoder::decode(Cell cell, Coding coding, std::span<const std::byte> bytes,
                           std::span<std::uint64_t> words) {
  const auto must_be = [&](std::size_t size) -> Fault {
    if (bytes.size() == size) return {};
    return fmt::format("{} bytes: must be {}", bytes.size(), size);
  };
  switch (coding) {
    case Coding::zeros:
      clear(words);
      return must_be(0);
    case Coding::plain:
      if (const Fault fault = must_be(words.size_bytes())) return fault;
      std::memcpy(words.data(), bytes.data(), bytes.size());
      return {};
    case Coding::zstd: {
      const std::size_t frame = ZSTD_findFrameCompressedSize(bytes.data(), bytes.size());
      if (ZSTD_isError(frame)) {
        return fmt::format("no zstd frame in {} bytes: {}", bytes.size(), ZSTD_getErrorName(frame));
      }
      if (frame != bytes.size()) {
        return fmt::format("a zstd frame of {} bytes: must take all {}", frame, bytes.size());
      }
      // Allocates nothing for what a frame claims: all of it must fit into the words.
      const std::size_t size = ZSTD_decompressDCtx(static_cast<ZSTD_DCtx*>(zstd_), words.data(),
                                                   words.size_bytes(), bytes.data(), bytes.size());
      if (ZSTD_isError(size)) {
        return fmt::format("no zstd frame of {} bytes: {}", words.size_bytes(),
                           ZSTD_getErrorName(size));
      }
      if (size == words.size_bytes()) return {};
      return fmt::format("a zstd frame of {} bytes: must be of {}", size, words.size_bytes());
    }
    case Coding::gaps:
    case Coding::blocks:
      if (cell != Cell::bit) return "a coding of bits, not of counters";
      clear(words);
      return for_each_one(coding, bytes, words.size() * 64, [&](std::uint64_t bit) {
        words[bit / 64] |= std::uint64_t{1} << bit % 64;
      });
  }
  return fmt::format("must be below {}", kCodings);
}

}  // namespace scbf::file_format
