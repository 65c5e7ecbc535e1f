// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: arbitrary bytes, read as a filter of counters or of bits, give a filter,
// CorruptFile, or, for another kind than is asked for, Incompatible; nothing else. An accepted
// filter is written again as the same bytes. Good seeds: tests/golden/*.scbf.
#include <new>
#include <optional>

#include "fuzz_support.hpp"
#include "scbf/bloom_filter.hpp"

namespace {

using namespace scbf::fuzz;

/// Reads a filter from the bytes, or nothing.
template <class AnyFilter>
std::optional<AnyFilter> read(const Bytes& bytes, std::size_t& given, bool& other_kind) {
  Pieces pieces(bytes);
  try {
    AnyFilter filter = AnyFilter::read(pieces.source());
    given = pieces.given();
    return filter;
  } catch (const scbf::CorruptFile&) {
  } catch (const scbf::Incompatible&) {
    other_kind = true;
  } catch (const std::bad_alloc&) {
    // Only a complete header can claim so much memory: one byte for every 131072.
    require(bytes.size() > 1u << 20);
  }
  return {};
}

void check(const Bytes& bytes) {
  std::size_t given = 0;
  bool holds_bits = false, is_delta = false;
  const auto counters = read<scbf::Filter>(bytes, given, holds_bits);
  if (counters) {
    require_same_bytes(*counters, bytes, given);
    for (std::uint64_t key = 0; key < 16; ++key) counters->contains(key);
  }
  bool other_kind = false;
  const auto bits = read<scbf::BloomFilter>(bytes, given, other_kind);
  is_delta = other_kind;
  require(!is_delta || (holds_bits && !bits));
  if (bits) {
    // Whether spilled counts fit their bitmaps is looked at only where there are counts.
    const bool ranked = bits->geometry().layout() == scbf::Layout::ranked;
    require(counters.has_value() != holds_bits || (ranked && !counters && !holds_bits));
    for (std::uint64_t key = 0; key < 16; ++key) bits->contains(key);
  }
  if (bits && holds_bits) require_same_bytes(*bits, bytes, given);
  if (counters) require(scbf::BloomFilter(*counters) == *bits);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  as_is_and_signed(data, size, sign_filter, check);
  return 0;
}
