// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: arbitrary bytes, read as a filter, give a filter or CorruptFile, nothing else.
// An accepted filter is written again as the same bytes. Good seeds: tests/golden/*.scbf.
#include <new>

#include "fuzz_support.hpp"

namespace {

using namespace scbf::fuzz;

void check(const Bytes& bytes) {
  Pieces pieces(bytes);
  try {
    const scbf::Filter filter = scbf::Filter::read(pieces.source());
    require_same_bytes(filter, bytes, pieces.given());
    for (std::uint64_t key = 0; key < 16; ++key) filter.contains(key);
  } catch (const scbf::CorruptFile&) {
  } catch (const std::bad_alloc&) {
    // Only a complete header can claim so much memory: one byte for every 131072.
    require(bytes.size() > 1u << 20);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  as_is_and_signed(data, size, sign_filter, check);
  return 0;
}
