// SPDX-License-Identifier: Apache-2.0
// Hostile files: the checksums are right, the contents are wrong. They are refused as corrupt,
// quickly and without allocating what they claim.
#include <sys/resource.h>

#include <chrono>
#include <optional>

#include "files/file_format.hpp"
#include "files/file_test_support.hpp"
#include "support/scale.hpp"

namespace scbf::test::file_hostile_test {
namespace {

std::uint64_t peak_memory_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

// Claims here go up to 2^45 bytes, with headers of 256 MiB. Sanitizers keep freed memory.
constexpr std::uint64_t kRefusalBytes = (scbf_test::kSanitized ? 512u : 64u) << 20;

/// Fails if the code in its scope takes more time or memory than a refusal should.
class CheapRefusal {
 public:
  CheapRefusal() = default;
  CheapRefusal(const CheapRefusal&) = delete;
  CheapRefusal& operator=(const CheapRefusal&) = delete;
  ~CheapRefusal() {
    EXPECT_LE(peak_memory_bytes(), memory_ + kRefusalBytes);
    EXPECT_LE(std::chrono::steady_clock::now() - start_, std::chrono::seconds(20));
  }

 private:
  std::uint64_t memory_ = peak_memory_bytes();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Every way to read must refuse the file, with `text` in the message.
void expect_refused(const fs::path& path, const Bytes& bytes, const std::string& text = "") {
  write_bytes(path, bytes);
  EXPECT_THROW_WITH(Filter::load(path), CorruptFile, text);
  EXPECT_THROW_WITH(verify_file(path), CorruptFile, text);
  EXPECT_THROW_WITH(read_file_info(path), CorruptFile, text);
  EXPECT_THROW_WITH(Filter::map(path), CorruptFile, text);
  EXPECT_THROW_WITH(Filter::read(source_of(bytes)), CorruptFile, text);
}

struct Field {
  const char* name;
  std::size_t offset, bytes;
};
// The fields that follow from others or have a limit. (The seed and the two numbers of keys may
// have any value; the number of saturated counters is compared with the payload.)
constexpr Field kCheckedFields[] = {
    {"version", 8, 4},         {"fixed bytes", 12, 4},    {"hash", 16, 4},
    {"hash version", 20, 4},   {"layout", 32, 4},         {"probes", 36, 4},
    {"groups", 40, 4},         {"counter bits", 44, 4},   {"extent", 48, 8},
    {"payload offset", 80, 8}, {"payload bytes", 88, 8},  {"chunk bytes", 96, 8},
    {"chunks", 104, 8},        {"metadata bytes", 112, 8}};

TEST(HostileFile, EveryFieldWithEvilValues) {
  const CheapRefusal cheap;
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  const auto evil = evil_values(1, {0, 3, 4095, 4160, ~0ull, ~0ull - 4095, ~0ull - 127});
  for (const Geometry& geometry : {Geometry::split_block(2, 7), Geometry::split(7, 100)}) {
    const Bytes good = to_bytes(sample(geometry));
    const auto metadata_bytes = get<std::uint64_t>(good, 112);
    for (const Field& field : kCheckedFields) {
      SCOPED_TRACE(field.name);
      for (const std::uint64_t value : evil) {
        SCOPED_TRACE(value);
        Bytes bytes = good;
        std::memcpy(bytes.data() + field.offset, &value, field.bytes);
        if (bytes == good) continue;
        // Two changes make another valid file: an extent with the same number of lines per slice,
        // and metadata that includes some of the zeros after it.
        if (field.offset == 48 && geometry.layout() == Layout::split && value > 0 && value <= 128) {
          continue;
        }
        if (field.offset == 112 && value > metadata_bytes && value <= 4096 - kTableAt - 8) continue;
        sign_header(bytes, 4096);
        expect_refused(path, bytes);
      }
    }
  }
}

TEST(HostileFile, ClaimsThatAgreeWithEachOther) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  struct Claim {
    std::uint32_t layout, probes, groups;
    std::uint64_t extent, payload_bytes;
  };
  // The largest geometries, and 2^40 bytes.
  for (const Claim& claim :
       {Claim{1, 64, 0, 1ull << 40, 64ull << 39},
        Claim{2, 64, 8, 0xFFFF'FFFF, 8 * 64 * 0xFFFF'FFFFull},
        Claim{2, 32, 4, 1ull << 32 >> 0, 1ull << 40}, Claim{1, 16, 0, 1ull << 37, 1ull << 40}}) {
    Bytes bytes = to_bytes(sample(Geometry::split_block(1, 10)));
    put(bytes, 32, claim.layout);
    put(bytes, 36, claim.probes);
    put(bytes, 40, claim.groups);
    put(bytes, 48, claim.extent);
    const std::uint64_t chunks = claim.payload_bytes >> 20 << 20 == claim.payload_bytes
                                     ? claim.payload_bytes >> 20
                                     : (claim.payload_bytes >> 20) + 1;
    put(bytes, 88, claim.payload_bytes);
    put(bytes, 104, chunks);
    put<std::uint64_t>(bytes, 112, 0);
    put(bytes, 80, (128 + 8 * chunks + 4095) / 4096 * 4096);
    sign_header(bytes, 4096);
    const CheapRefusal cheap;
    expect_refused(path, bytes, claim.extent == 1ull << 32 ? "blocks per group" : "truncated");
  }
}

TEST(HostileFile, AClaimWithItsWholeHeaderButNoPayload) {
  // A claim of 2^40 bytes costs its author 8 MiB of header. It must not cost the reader more.
  const Geometry huge = Geometry::split(16, 1ull << 37);
  ASSERT_EQ(huge.bytes(), 1ull << 40);
  file_format::Header header{.geometry = huge};
  header.chunk_checksums.resize(file_format::chunk_count(huge.bytes()));
  const Bytes bytes = file_format::encode_header(header);
  const CheapRefusal cheap;
  try {
    Filter::read(source_of(bytes));
    ADD_FAILURE() << "accepted";
  } catch (const CorruptFile& error) {
    EXPECT_TRUE(has(error.what(), "truncated"));
  } catch (const std::bad_alloc&) {
    // The system does not provide that much address space: refused as well.
  }
  const TemporaryFolder folder;
  write_bytes(folder / "filter.scbf", bytes);
  EXPECT_THROW_WITH(Filter::load(folder / "filter.scbf"), CorruptFile, "truncated");
  EXPECT_THROW_WITH(Filter::map(folder / "filter.scbf"), CorruptFile, "truncated");
}

TEST(HostileFile, AnEndlessStreamIsReadOnlyAsFarAsTheFilterGoes) {
  const Bytes good = to_bytes(sample(Geometry::split_block(1, 10)));
  std::uint64_t asked = 0;
  const ByteSource endless = [&, source = source_of(good)](std::span<std::byte> out) mutable {
    asked += out.size();
    const std::size_t n = source(out);
    return n > 0 ? n : out.size();
  };
  EXPECT_TRUE(Filter::read(endless) == sample(Geometry::split_block(1, 10)));
  EXPECT_EQ(asked, good.size());
}

TEST(HostileFile, HeaderPaddingMustBeZero) {
  const TemporaryFolder folder;
  const Bytes good = to_bytes(sample(Geometry::split_block(1, 10)));
  for (const std::size_t at : {kTableAt + 8 + get<std::uint64_t>(good, 112), std::size_t{4095}}) {
    Bytes bytes = good;
    bytes[at] = std::byte{7};
    sign_header(bytes, 4096);
    expect_refused(folder / "filter.scbf", bytes,
                   "padding at byte " + std::to_string(at) + " is 7: must be 0");
  }
}

void expect_payload_refused(const fs::path& path, const Bytes& bytes, const std::string& text) {
  write_bytes(path, bytes);
  EXPECT_THROW_WITH(Filter::load(path), CorruptFile, text);
  EXPECT_THROW_WITH(verify_file(path), CorruptFile, text);
  EXPECT_THROW_WITH(Filter::read(source_of(bytes)), CorruptFile, text);
}

/// Padding is so little that map checks it, too.
void expect_padding_refused(const fs::path& path, const Bytes& bytes, std::uint64_t slice,
                            std::size_t at) {
  const std::string text = "filter.scbf': padding after slice " + std::to_string(slice) +
                           " is not zero, at byte " + std::to_string(at);
  write_bytes(path, bytes);
  EXPECT_THROW_WITH(Filter::map(path), CorruptFile, text);
  expect_payload_refused(path, bytes, text.substr(text.find(':')));
}

TEST(HostileFile, EveryPaddingCounterMustBeZero) {
  const TemporaryFolder folder;
  for (const std::uint64_t m : {1ull, 15ull, 16ull, 100ull, 127ull, 129ull}) {
    SCOPED_TRACE(m);
    const Geometry geometry = Geometry::split(2, m);
    const Bytes good = to_bytes(sample(geometry, 0));
    const std::uint64_t stride = geometry.slice_stride_words() * kCountersPerWord;
    for (std::uint64_t slice = 0; slice < 2; ++slice) {
      for (std::uint64_t counter = m; counter < stride; ++counter) {
        Bytes bytes = good;
        const std::uint64_t nibble = slice * stride + counter;
        const std::size_t at = 4096 + nibble / 2;
        bytes[at] |= std::byte{1} << (nibble % 2 * 4);
        sign(bytes);
        expect_padding_refused(folder / "filter.scbf", bytes, slice, at);
      }
    }
  }
}

TEST(HostileFile, PaddingIsCheckedAcrossChunks) {
  const TemporaryFolder folder;
  // 2.4 chunks per slice: the last line of slice 1 lies in chunk 4, that of slice 2 ends the file.
  const Geometry geometry = Geometry::split(3, 5'000'001);
  const Bytes good = to_bytes(sample(geometry, 100));
  const std::uint64_t stride = geometry.slice_stride_words() * 8;
  for (std::uint64_t slice = 0; slice < 3; ++slice) {
    for (const std::uint64_t at : {slice * stride + 2'500'000, (slice + 1) * stride - 1}) {
      Bytes bytes = good;
      bytes[4096 + at] |= std::byte{0x40};  // the first or the last counter of the padding
      sign(bytes);
      expect_padding_refused(folder / "filter.scbf", bytes, slice, 4096 + at);
    }
    Bytes bytes = good;
    bytes[4096 + slice * stride + 2'500'000] |= std::byte{1};  // the last real counter
    sign(bytes);
    EXPECT_NO_THROW(Filter::read(source_of(bytes)));
  }
}

TEST(HostileFile, SaturatedCountersMustAgree) {
  const TemporaryFolder folder;
  for (const Geometry& geometry : small_geometries()) {
    const Bytes good = to_bytes(sample(geometry));
    const auto saturated = get<std::uint64_t>(good, 72);
    for (const std::uint64_t claim : {saturated - 1, saturated + 1, std::uint64_t{0}}) {
      Bytes bytes = good;
      put(bytes, 72, claim);
      sign(bytes);
      expect_payload_refused(folder / "filter.scbf", bytes,
                             "saturated counters: the header says " + std::to_string(claim) +
                                 ", the payload has " + std::to_string(saturated));
    }
    Bytes bytes = good;
    put(bytes, 72, geometry.counters() + 1);
    sign(bytes);
    expect_payload_refused(
        folder / "filter.scbf", bytes,
        "saturated counters " + std::to_string(geometry.counters() + 1) + ": the filter has");
  }
}

/// Whatever map believes can be asked everything, and what is saved of it verifies.
void expect_sane_if_believed(const fs::path& path, const Bytes& bytes, std::uint64_t* believed) {
  write_bytes(path, bytes);
  std::optional<Filter> filter;
  try {
    filter = Filter::map(path);
  } catch (const CorruptFile&) {
    return;
  }
  ++*believed;
  const Statistics statistics = filter->statistics();
  ASSERT_EQ(statistics.nonzero, filter->nonzero());
  for (const double share : {filter->fill(), statistics.fill, statistics.estimated_fpr,
                             statistics.fpr_bound, statistics.ambiguous_share}) {
    ASSERT_TRUE(share >= 0 && share <= 1) << share;
  }
  ASSERT_TRUE(Filter::read(source_of(to_bytes(*filter))) == *filter);
}

TEST(HostileFile, MapBelievesNothingThatCannotBe) {
  // Every byte of small files is changed, and the headers are signed again.
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  std::uint64_t believed = 0, tried = 0;
  for (const Geometry& geometry : {Geometry::split(3, 100), Geometry::split_block(1, 3)}) {
    const Bytes good = to_bytes(sample(geometry, 10));
    for (std::size_t at = 0; at < good.size(); ++at) {
      if (at % 4096 > 600 && at % 397 != 0) continue;  // mostly zeros
      for (const unsigned bits : {0x01, 0xF0}) {
        SCOPED_TRACE(std::to_string(at));
        Bytes bytes = good;
        bytes[at] ^= static_cast<std::byte>(bits);
        sign_header(bytes, 4096);
        ASSERT_NO_FATAL_FAILURE(expect_sane_if_believed(path, bytes, &believed));
        ++tried;
      }
    }
  }
  const Filter grown = sample(Growth::fixed(Geometry::split(2, 100), 20), 150);
  const Bytes good = to_bytes(grown);
  ASSERT_GT(grown.stages(), 2u);
  for (std::size_t at = 0; at < good.size(); ++at) {
    if (at % 4096 > 400 && at % 397 != 0) continue;
    for (const unsigned bits : {0x01, 0xF0}) {
      SCOPED_TRACE("container " + std::to_string(at));
      Bytes bytes = good;
      bytes[at] ^= static_cast<std::byte>(bits);
      sign_container(bytes, good);
      ASSERT_NO_FATAL_FAILURE(expect_sane_if_believed(path, bytes, &believed));
      ++tried;
    }
  }
  // Counters, numbers of keys, the seed, metadata and the like may be anything.
  EXPECT_GT(believed, tried / 20);
  EXPECT_LT(believed, tried / 2);
}

TEST(HostileFile, ChunksCannotBeExchanged) {
  Bytes bytes = to_bytes(sample(Geometry::split_block(1, 40'000), 5000));
  std::swap_ranges(bytes.begin() + 4096, bytes.begin() + 4096 + (1 << 20),
                   bytes.begin() + 4096 + (1 << 20));
  EXPECT_THROW_WITH(Filter::read(source_of(bytes)), CorruptFile, "payload chunk 0");
}

}  // namespace
}  // namespace scbf::test::file_hostile_test
