// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzzers of files. A fuzzer cannot guess checksums, so each input is used twice: as
// it is, and with correct checksums ("signed"), so that the checks behind them are reached too.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
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

/// Corrects all checksums of a filter file, as far as the bytes go.
inline void sign_filter(std::span<std::byte> bytes) {
  constexpr std::size_t kPayloadOffsetAt = 80, kChunk = 1u << 20;
  if (bytes.size() < kFixedBytes) return;
  const auto payload =
      std::min<std::uint64_t>(get<std::uint64_t>(bytes, kPayloadOffsetAt), bytes.size());
  for (std::size_t at = payload, entry = kFixedBytes; at < bytes.size() && entry + 8 <= payload;
       at += kChunk, entry += 8) {
    put(bytes, entry, XXH3_64bits(bytes.data() + at, std::min(kChunk, bytes.size() - at)));
  }
  sign_header(bytes, payload);
}

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

/// A filter that was read from the first `read` of these bytes must write the same bytes.
template <class AnyFilter>
void require_same_bytes(const AnyFilter& filter, const Bytes& bytes, std::size_t read) {
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
