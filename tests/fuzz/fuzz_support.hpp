// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzzers of files. A fuzzer cannot guess checksums, so each input is used twice: as
// it is, and with correct checksums ("signed"), so that the checks behind them are reached too.
#pragma once

#define XXH_INLINE_ALL
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "scbf/filter.hpp"

namespace scbf::fuzz {

using Bytes = std::vector<std::byte>;

inline constexpr std::size_t kFixedBytes = 128, kChecksumAt = 120;

inline void require(bool condition) {
  if (!condition) std::abort();
}

template <class T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
inline void put(std::span<std::byte> bytes, std::size_t at, std::uint64_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// Corrects the checksum of a header of this length.
inline void sign_header(std::span<std::byte> bytes, std::uint64_t header_bytes) {
  put(bytes, kChecksumAt, 0);
  put(bytes, kChecksumAt,
      XXH3_64bits(bytes.data(), std::min<std::uint64_t>(header_bytes, bytes.size())));
}

inline constexpr std::size_t kFixedBytes2 = 176;

/// Does a filter file or container have packed payloads?
inline bool is_packed(std::span<const std::byte> bytes) {
  if (bytes.size() < kFixedBytes2 || get<std::uint32_t>(bytes, 8) != 2) return false;
  const bool container = bytes[4] == std::byte{'S'};
  return get<std::uint32_t>(bytes, container ? 88 : 132) == 2;
}

/// Corrects the checksums of packed chunks from `at` on, at most this many, of a file whose header
/// is signed. Returns where they end.
inline std::size_t sign_chunks(std::span<std::byte> bytes, std::size_t at, std::uint64_t chunks) {
  const auto seed = get<std::uint64_t>(bytes, kChecksumAt);
  for (std::uint64_t i = 0; i < chunks && at < bytes.size() && bytes.size() - at >= 16; ++i) {
    const std::size_t length =
        std::min<std::size_t>(get<std::uint32_t>(bytes, at + 4), bytes.size() - at - 16);
    Bytes covered(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                  bytes.begin() + static_cast<std::ptrdiff_t>(at + 8));
    const auto chunk = bytes.subspan(at + 16, length);
    covered.insert(covered.end(), chunk.begin(), chunk.end());
    put(bytes, at + 8, XXH3_64bits_withSeed(covered.data(), covered.size(), seed + i));
    at += 16 + length;
  }
  return at;
}

/// Corrects all checksums of a filter file, as far as the bytes go. Returns where it ends.
inline std::size_t sign_filter(std::span<std::byte> bytes) {
  constexpr std::size_t kPayloadOffsetAt = 80, kChunksAt = 104, kChunk = 1u << 20;
  if (bytes.size() < kFixedBytes) return bytes.size();
  const auto payload =
      std::min<std::uint64_t>(get<std::uint64_t>(bytes, kPayloadOffsetAt), bytes.size());
  if (is_packed(bytes)) {
    sign_header(bytes, payload);
    return sign_chunks(bytes, payload, get<std::uint64_t>(bytes, kChunksAt));
  }
  const bool second = get<std::uint32_t>(bytes, 8) == 2;
  for (std::size_t at = payload, entry = second ? kFixedBytes2 : kFixedBytes;
       at < bytes.size() && entry + 8 <= payload; at += kChunk, entry += 8) {
    put(bytes, entry, XXH3_64bits(bytes.data() + at, std::min(kChunk, bytes.size() - at)));
  }
  sign_header(bytes, payload);
  return bytes.size();
}

/// Corrects all checksums of a container and of its stages, as far as the bytes go. Returns where
/// it ends, if it is packed.
inline std::size_t sign_container(std::span<std::byte> bytes) {
  constexpr std::size_t kStagesAt = 32, kHeaderBytesAt = 96, kEntry = 48, kStageChecksumAt = 40;
  if (bytes.size() < kFixedBytes) return bytes.size();
  const auto stages = get<std::uint32_t>(bytes, kStagesAt);
  const auto header_bytes = get<std::uint64_t>(bytes, kHeaderBytesAt);
  const bool packed = is_packed(bytes);
  std::uint64_t next = header_bytes;
  for (std::size_t i = 0, at = kFixedBytes;
       i < stages && i < scbf::kMaxStages && at + kEntry <= bytes.size(); ++i, at += kEntry) {
    const auto offset = packed ? next : get<std::uint64_t>(bytes, at);
    if (offset >= bytes.size()) continue;
    const auto length = packed ? bytes.size() : get<std::uint64_t>(bytes, at + 8);
    const std::span<std::byte> stage =
        bytes.subspan(offset, std::min<std::uint64_t>(length, bytes.size() - offset));
    next = offset + sign_filter(stage);
    if (stage.size() < kFixedBytes) continue;
    put(bytes, at + kStageChecksumAt, get<std::uint64_t>(stage, kChecksumAt));
  }
  sign_header(bytes, header_bytes);
  return std::min<std::uint64_t>(next, bytes.size());
}

/// Does a file that begins so hold a bank?
inline bool is_bank(std::span<const std::byte> bytes) {
  return bytes.size() > 4 && bytes[4] == std::byte{'K'};
}
inline bool is_bank_of_bits(std::span<const std::byte> bytes) {
  return is_bank(bytes) && bytes.size() >= 12 && get<std::uint32_t>(bytes, 8) == 2;
}

/// Corrects all checksums of either. Returns where it ends, if it is packed.
inline std::size_t sign(std::span<std::byte> bytes) {
  if (bytes.size() > 4 && bytes[4] == std::byte{'S'}) return sign_container(bytes);
  return sign_filter(bytes);
}

/// A regular file in memory.
class File {
 public:
  File() : fd_(::memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    require(fd_ >= 0);
  }
  void assign(const Bytes& bytes) {
    require(::ftruncate(fd_, 0) == 0);
    require(::pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

/// Gives out bytes in pieces of uneven size, as a pipe does.
class Pieces {
 public:
  explicit Pieces(const Bytes& bytes)
      : bytes_(bytes), most_(1 + XXH3_64bits(bytes.data(), bytes.size()) % 10'000) {}
  ByteSource source() {
    return [this](std::span<std::byte> out) {
      const std::size_t n = std::min({most_, out.size(), bytes_.size() - given_});
      if (n > 0) std::memcpy(out.data(), bytes_.data() + given_, n);
      given_ += n;
      return n;
    };
  }
  std::size_t given() const { return given_; }

 private:
  const Bytes& bytes_;
  std::size_t most_, given_ = 0;
};

/// A filter that was read from the first `read` of these bytes must write the same bytes; where
/// they are packed, for which there are several ways, others that give the same filter.
template <class AnyFilter>
void require_same_bytes(const AnyFilter& filter, const Bytes& bytes, std::size_t read) {
  if (is_packed(bytes)) {
    Bytes packed;
    filter.write(
        [&](std::span<const std::byte> part) {
          packed.insert(packed.end(), part.begin(), part.end());
        },
        {.compress = true});
    Pieces pieces(packed);
    require(AnyFilter::read(pieces.source()) == filter && pieces.given() == packed.size());
    return;
  }
  std::size_t same = 0;
  filter.write([&](std::span<const std::byte> part) {
    require(same + part.size() <= read &&
            std::memcmp(bytes.data() + same, part.data(), part.size()) == 0);
    same += part.size();
  });
  require(same == read);
}

/// Calls check(bytes) with the input as it is, then signed.
template <class Sign, class Check>
void as_is_and_signed(const std::uint8_t* data, std::size_t size, Sign sign, Check check) {
  Bytes bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  check(bytes);
  sign(bytes);
  check(bytes);
}

}  // namespace scbf::fuzz
