// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes, read as a filter, give a filter or CorruptFile, nothing else, and
// what is accepted is written again as the very same bytes.
//
// A fuzzer cannot guess checksums, so the last byte of the input chooses: even, the bytes are
// taken as they are; odd, they are first signed, so that the checks behind the checksums are
// reached. Good seeds: tests/golden/*.scbf.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "scbf/filter.hpp"

namespace {

constexpr std::size_t kPayloadOffsetAt = 80, kChecksumAt = 120, kTableAt = 128;
constexpr std::size_t kChunk = 1u << 20;

void sign(std::vector<std::byte>& bytes) {
  if (bytes.size() < kTableAt) return;
  std::uint64_t payload;
  std::memcpy(&payload, bytes.data() + kPayloadOffsetAt, sizeof payload);
  payload = std::min<std::uint64_t>(payload, bytes.size());
  for (std::size_t at = payload, entry = kTableAt; at < bytes.size() && entry + 8 <= payload;
       at += kChunk, entry += 8) {
    const std::uint64_t sum = XXH3_64bits(bytes.data() + at, std::min(kChunk, bytes.size() - at));
    std::memcpy(bytes.data() + entry, &sum, sizeof sum);
  }
  std::memset(bytes.data() + kChecksumAt, 0, 8);
  const std::uint64_t sum = XXH3_64bits(bytes.data(), payload);
  std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof sum);
}

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::byte> bytes(size - 1);
  if (size > 1) std::memcpy(bytes.data(), data, size - 1);
  if (data[size - 1] % 2 != 0) sign(bytes);

  // Pieces of uneven size, as a pipe gives them.
  std::size_t at = 0;
  const std::size_t most = 1 + data[size - 1] * std::size_t{37};
  const scbf::ByteSource source = [&](std::span<std::byte> out) {
    const std::size_t n = std::min({most, out.size(), bytes.size() - at});
    if (n > 0) std::memcpy(out.data(), bytes.data() + at, n);
    at += n;
    return n;
  };
  try {
    const scbf::Filter filter = scbf::Filter::read(source);
    std::size_t same = 0;
    filter.write([&](std::span<const std::byte> part) {
      require(same + part.size() <= at &&
              std::memcmp(bytes.data() + same, part.data(), part.size()) == 0);
      same += part.size();
    });
    require(same == at);
    for (std::uint64_t key = 0; key < 16; ++key) filter.contains(key);
  } catch (const scbf::CorruptFile&) {
  } catch (const std::bad_alloc&) {
    // Only after all of a header was there that justifies it: one byte in 131072.
    require(bytes.size() > 1u << 20);
  }
  return 0;
}
