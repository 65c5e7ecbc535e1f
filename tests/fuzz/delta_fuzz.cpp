// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: arbitrary bytes, read as a delta, give a delta, CorruptFile or Incompatible. An
// accepted one is written again as the same bytes, and a filter applies all of it or refuses it and
// stays as it is. Good seeds: tests/golden/*.delta, which begin where the filters below are.
#include <new>
#include <optional>

#include "fuzz_support.hpp"
#include "scbf/delta.hpp"

namespace {

using namespace scbf::fuzz;
using scbf::BloomFilter;
using scbf::Delta;
using scbf::Filter;

/// As in tests/files/golden_test.cpp.
std::vector<BloomFilter> make_readers() {
  std::vector<BloomFilter> all;
  for (Filter counters : {Filter(scbf::Geometry::split_block(2, 60), {.seed = 0}),
                          Filter(scbf::Geometry::split(7, 700), {.seed = 0}),
                          Filter(scbf::Geometry::ranked(82, 30, 5), {.seed = 0}),
                          Filter(scbf::Growth::tightening(60, 0.05), {.seed = 0})}) {
    for (std::uint64_t i = 0; i < 40; ++i) counters.insert(i * i * i);
    for (const int shift : {32, 63}) counters.insert(std::uint64_t{1} << shift);
    counters.insert(~std::uint64_t{0});
    counters.set_metadata("{\"sign\": \"✓\"}");
    BloomFilter& bits = all.emplace_back(counters);
    bits.advance(counters);
  }
  all.emplace_back(scbf::Geometry::split_block(1, 3));  // without an epoch
  return all;
}

void check(const Bytes& bytes) {
  static const std::vector<BloomFilter> readers = make_readers();
  Pieces pieces(bytes);
  std::optional<Delta> delta;
  try {
    delta = Delta::read(pieces.source());
  } catch (const scbf::CorruptFile&) {
    return;
  } catch (const scbf::Incompatible&) {
    return;
  } catch (const std::bad_alloc&) {
    require(bytes.size() > 1u << 20);
    return;
  }
  require(delta->message().size() == pieces.given());
  require(std::memcmp(delta->message().data(), bytes.data(), pieces.given()) == 0);
  require(delta->whole() || delta->since().number < delta->epoch().number);
  for (const BloomFilter& before : readers) {
    BloomFilter reader = before;
    try {
      reader.apply(*delta);
      require(reader.epoch() == delta->epoch());
      require(delta->whole() || before.epoch() == delta->since());
      for (std::uint64_t key = 0; key < 16; ++key) reader.contains(key);
      reader.insert(std::uint64_t{7});
      require(reader.contains(std::uint64_t{7}));
    } catch (const scbf::Incompatible&) {
      require(reader == before && reader.epoch() == before.epoch());
    } catch (const scbf::FilterFull&) {
    } catch (const std::bad_alloc&) {
      require(bytes.size() > 1u << 20);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  as_is_and_signed(data, size, sign, check);
  return 0;
}
