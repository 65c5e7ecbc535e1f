// SPDX-License-Identifier: Apache-2.0
// Filter::map and BloomFilter::map of bytes in memory: the filter of load, without a copy, and the
// same refusals.
#include <algorithm>
#include <optional>

#include "files/file_test_support.hpp"
#include "kit/host_memory.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/delta.hpp"
#include "support/far_backend.hpp"
#include "support/setups.hpp"

namespace scbf::test::mapped_memory_test {
namespace {

using scbf_test::contains;
using scbf_test::random_keys;
using scbf_test::same_answers;

const bool kAdded = scbf_test::add_far_backends();

/// The bytes of a file, `shift` bytes behind a multiple of 4096.
class InMemory {
 public:
  explicit InMemory(const Bytes& bytes, std::size_t shift = 0)
      : memory_(shift + bytes.size() + 1),
        bytes_(reinterpret_cast<std::byte*>(memory_.words()) + shift, bytes.size()) {
    std::ranges::copy(bytes, bytes_.begin());
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  bool holds(const void* address) const {
    return address >= bytes_.data() && address < bytes_.data() + bytes_.size();
  }

 private:
  HostMemory memory_;
  std::span<std::byte> bytes_;
};

std::vector<Growth> growths() {
  return {
      Growth::one(Geometry::split_block(2, 30'001)), Growth::one(Geometry::split(7, 150)),
      Growth::one(Geometry::ranked(101, 400, 10)),   Growth::tightening(300, 0.05),
      Growth::tightening(200, 0.05, Layout::ranked), Growth::fixed(Geometry::split(5, 400), 200)};
}

template <class AnyFilter>
void expect_mapped(const AnyFilter& filter) {
  SCOPED_TRACE(filter.growth().describe());
  std::optional<InMemory> memory(std::in_place, to_bytes(filter));
  AnyFilter mapped = AnyFilter::map(memory->bytes());
  EXPECT_TRUE(mapped == filter);
  EXPECT_EQ(mapped.metadata(), filter.metadata());
  EXPECT_EQ(to_bytes(mapped), to_bytes(filter));
  const auto asked = random_keys(5000, 2);
  EXPECT_TRUE(same_answers(contains(mapped, asked), contains(filter, asked)));
  for (std::size_t s = 0; s < mapped.stages(); ++s) {
    EXPECT_TRUE(memory->holds(mapped.stage(s).words().data())) << "nothing is copied";
  }
  EXPECT_TRUE(mapped.read_only());
  EXPECT_THROW_WITH(mapped.insert(std::uint64_t{1}), ReadOnly,
                    "the filter is mapped, read-only: copy it, or load the file, to change it");
  AnyFilter copy = mapped;
  const AnyFilter moved = std::move(mapped);
  EXPECT_TRUE(memory->holds(moved.stage(0).words().data()));
  memory.reset();
  copy.insert(std::uint64_t{1});  // it has its own memory
  EXPECT_TRUE(copy.contains(std::uint64_t{1}));
}

TEST(MappedMemory, IsTheFilterOfTheFileWithoutACopy) {
  for (const Growth& growth : growths()) {
    const Filter filter = sample(growth);
    expect_mapped(filter);
    expect_mapped(BloomFilter(filter));
    // Of counters, only the bits are kept, which are a copy.
    const InMemory counters(to_bytes(filter));
    EXPECT_TRUE(BloomFilter::map(counters.bytes()) == BloomFilter(filter));
    // A backend with its own memory takes a copy.
    ASSERT_TRUE(kAdded);
    if (growth.layout() == Layout::ranked) continue;  // which this one does not have
    Filter far = Filter::map(counters.bytes(), {.backend = "far"});
    EXPECT_FALSE(far.read_only());
    EXPECT_TRUE(far.to("scalar") == filter);
  }
}

TEST(MappedMemory, MustBeAligned) {
  const Bytes bytes = to_bytes(sample(growths()[0]));
  for (const std::size_t shift : {0u, 64u, 4032u}) {
    EXPECT_TRUE(Filter::map(InMemory(bytes, shift).bytes()).read_only()) << shift;
  }
  for (const std::size_t shift : {1u, 8u, 63u, 100u}) {
    const InMemory memory(bytes, shift);
    EXPECT_THROW_WITH(Filter::map(memory.bytes()), InvalidArgument,
                      "bytes after a multiple of 64: align it, or read it");
  }
}

TEST(MappedMemory, RefusesWhatFilesAreRefusedFor) {
  for (const Filter& filter : {sample(growths()[1]), sample(growths()[3])}) {
    const Bytes good = to_bytes(filter);
    for (std::size_t n = 0; n < good.size(); n += n < 300 ? 1 : 97) {
      const InMemory memory(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)));
      EXPECT_THROW(Filter::map(memory.bytes()), CorruptFile) << n;
    }
    Bytes longer = good;
    longer.push_back({});
    EXPECT_THROW_WITH(Filter::map(InMemory(longer).bytes()), CorruptFile, "bytes follow");
    for (std::size_t at = 0; at < 300; ++at) {
      Bytes damaged = good;
      damaged[at] ^= std::byte{1};
      EXPECT_THROW(Filter::map(InMemory(damaged).bytes()), Error) << at;
    }
    EXPECT_THROW_WITH(Filter::map(InMemory(to_bytes(filter, {.compress = true})).bytes()), IoError,
                      "cannot map: the payload is compressed; read it");
    EXPECT_THROW_WITH(Filter::map(InMemory(to_bytes(BloomFilter(filter))).bytes()), Incompatible,
                      "a filter of bits");
  }
  BloomFilter bits(Geometry::split_block(1, 13));
  BloomFilter now = bits;
  bits.advance(now);  // the first epoch: as a whole
  now.insert(std::uint64_t{1});
  const Delta delta = bits.advance(now);
  EXPECT_THROW_WITH(BloomFilter::map(InMemory(to_bytes(delta)).bytes()), Incompatible, "a delta");
}

}  // namespace
}  // namespace scbf::test::mapped_memory_test
