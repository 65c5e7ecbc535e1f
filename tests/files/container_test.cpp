// SPDX-License-Identifier: Apache-2.0
// Containers: what is written is read, mapped, streamed; every damaged byte is noticed; claims with
// right checksums and wrong contents are refused, cheaply; and the golden file holds still.
#include <gtest/gtest.h>

#include <cmath>

#include "files/container_format.hpp"
#include "files/file_test_support.hpp"
#include "scbf/filter.hpp"
#include "support/far_backend.hpp"
#include "support/keys.hpp"

namespace scbf::test {
namespace {

const bool kAdded = scbf_test::add_far_backends();

Filter grown(const Growth& growth, std::size_t keys = 700) {
  Filter filter(growth, {.seed = 0x0123'4567'89AB'CDEF});
  filter.insert(scbf_test::random_keys(keys, 1));
  filter.remove(scbf_test::random_keys(keys / 5, 1));
  for (int i = 0; i < 20; ++i) filter.insert("often");
  filter.set_metadata("{\"made by\": \"a test\"}");
  return filter;
}

std::vector<Filter> samples() {
  std::vector<Filter> all;
  all.push_back(grown(Growth::tightening(100, 0.05)));
  all.push_back(grown(Growth::tightening(100, 0.05, Layout::split, 1.5, 0.7)));
  all.push_back(grown(Growth::fixed(Geometry::split(5, 200), 20)));
  all.push_back(grown(Growth::fixed(Geometry::split_block(2, 7), 256)));
  all.push_back(Filter(10, 0.1));
  // Stages of a growth of another kind.
  Filter mixed = grown(Growth::tightening(100, 0.05));
  mixed.merge(grown(Growth::tightening(150, 0.01, Layout::split)));
  all.push_back(mixed);
  return all;
}

Bytes bytes_of(const Filter& filter) {
  Bytes bytes;
  filter.write([&](std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  });
  return bytes;
}

void expect_same(const Filter& got, const Filter& want) {
  EXPECT_TRUE(got == want);
  EXPECT_EQ(got.metadata(), want.metadata());
  EXPECT_EQ(got.keys_inserted(), want.keys_inserted());
  EXPECT_EQ(got.keys_removed(), want.keys_removed());
}

TEST(Container, EveryWayInGivesTheFilterThatWentOut) {
  const TemporaryFolder folder;
  const fs::path path = folder / "f.scbf";
  for (const Filter& filter : samples()) {
    SCOPED_TRACE(filter.growth().describe());
    filter.save(path);
    const Bytes bytes = bytes_of(filter);
    EXPECT_EQ(read_bytes(path), bytes);
    expect_same(Filter::load(path), filter);
    expect_same(Filter::load(path, {.backend = "far"}), filter);
    expect_same(Filter::read(source_of(bytes)), filter);
    Filter mapped = Filter::map(path);
    expect_same(mapped, filter);
    EXPECT_TRUE(mapped.read_only());
    EXPECT_THROW(mapped.insert(1), ReadOnly);
    EXPECT_THROW(mapped.remove(1), ReadOnly);
    EXPECT_THROW(mapped.clear(), ReadOnly);
    EXPECT_THROW(mapped.merge(filter), ReadOnly);
    expect_same(Filter::map(path, {.backend = "far"}), filter);
    // And it goes on as if it had never been away.
    Filter loaded = Filter::load(path), there = filter;
    const auto more = scbf_test::random_keys(500, 2);
    loaded.insert(more);
    there.insert(more);
    EXPECT_TRUE(loaded == there);
    EXPECT_EQ(bytes_of(loaded), bytes_of(there));
    const FileInfo info = verify_file(path);
    EXPECT_EQ(info.file_bytes, bytes.size());
    EXPECT_EQ(info.growth, filter.growth());
    ASSERT_EQ(info.stages.size(), filter.stages());
    for (std::size_t s = 0; s < filter.stages(); ++s) {
      EXPECT_EQ(info.stages[s].shape, filter.stage(s).shape());
      EXPECT_EQ(info.stages[s].keys_inserted, filter.stage(s).keys_inserted());
    }
    EXPECT_EQ(read_file_info(path).stages.size(), filter.stages());
  }
}

TEST(Container, IsToldFromAFilterFileByItsFirstBytes) {
  const TemporaryFolder folder;
  const fs::path path = folder / "f.scbf";
  for (const Filter& filter :
       {sample(Geometry::split(3, 100)), grown(Growth::tightening(100, 0.05))}) {
    filter.save(path);
    EXPECT_EQ(read_file_info(path).is_container(), filter.growth().policy() != Growth::Policy::one);
    EXPECT_EQ(Filter::load(path).growth(), filter.growth());
    EXPECT_EQ(Filter::map(path).growth(), filter.growth());
    EXPECT_EQ(Filter::read(source_of(bytes_of(filter))).growth(), filter.growth());
  }
}

TEST(Container, AStageIsAFilterFileOfItsOwn) {
  const TemporaryFolder folder;
  const Filter filter = samples()[0];
  const Bytes bytes = bytes_of(filter);
  filter.save(folder / "f.scbf");
  for (std::size_t s = 0; const auto& stage : read_file_info(folder / "f.scbf").stages) {
    const Bytes part(bytes.begin() + static_cast<std::ptrdiff_t>(stage.offset), bytes.end());
    const Filter alone = Filter::read(source_of(part));
    EXPECT_EQ(alone.growth(), Growth::one(stage.shape.geometry));
    EXPECT_TRUE(std::ranges::equal(alone.words(), filter.stage(s++).words()));
  }
}

TEST(Container, EveryDamagedByteIsNoticed) {
  const TemporaryFolder folder;
  const fs::path path = folder / "f.scbf";
  const Filter filter = grown(Growth::tightening(30, 0.1), 200);
  ASSERT_GT(filter.stages(), 2u);
  const Bytes good = bytes_of(filter);
  std::size_t step = 1;
  for (std::size_t at = 0; at < good.size(); at += step) {
    step = at < 700 ? 1 : 61;
    Bytes bytes = good;
    bytes[at] ^= std::byte{0x10};
    EXPECT_THROW(Filter::read(source_of(bytes)), CorruptFile) << at;
    write_bytes(path, bytes);
    EXPECT_THROW(verify_file(path), CorruptFile) << at;
  }
  for (std::size_t size = 0; size < good.size(); size += size < 300 ? 1 : 997) {
    const Bytes bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    write_bytes(path, bytes);
    EXPECT_THROW(Filter::read(source_of(bytes)), CorruptFile) << size;
    EXPECT_THROW(Filter::load(path), CorruptFile) << size;
    EXPECT_THROW(Filter::map(path), CorruptFile) << size;
    EXPECT_THROW(read_file_info(path), CorruptFile) << size;
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  write_bytes(path, longer);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(Filter::load(path), CorruptFile);
  EXPECT_THROW_WITH(Filter::map(path), CorruptFile, "bytes follow");
}

TEST(HostileContainer, EveryFieldWithEvilValues) {
  const TemporaryFolder folder;
  const fs::path path = folder / "f.scbf";
  std::vector<std::uint64_t> evil = {
      0, 3, 4095, ~0ull, 0x7FF0'0000'0000'0000, 0xFFF8'0000'0000'0001};
  for (int shift = 0; shift < 64; shift += 3) {
    for (const int around : {-1, 0, 1}) evil.push_back((std::uint64_t{1} << shift) + around);
  }
  for (const Filter& filter : samples()) {
    const Bytes good = bytes_of(filter);
    const auto header_bytes = get<std::uint64_t>(good, 96);
    const bool fixed = filter.growth().policy() == Growth::Policy::fixed;
    for (std::size_t at = 8; at < 128 + 2 * 48; at += at < 24 || (at >= 32 && at < 40) ? 4 : 8) {
      const std::size_t field = (at - 128) % 48;
      // What may be anything: how large, how strict and how many stages are meant to be, and in a
      // stage when it is full and its rate, within bounds.
      if ((at >= 36 && at < 72) || (at >= 128 && (field == 16 || field == 24 || field == 32)))
        continue;
      if (at >= 128 + 48 * filter.stages() || at == 120 || (!fixed && (at == 16 || at == 20)))
        continue;
      for (const std::uint64_t value : evil) {
        SCOPED_TRACE(std::to_string(at) + ": " + std::to_string(value));
        Bytes bytes = good;
        std::memcpy(bytes.data() + at, &value, at < 24 || (at >= 32 && at < 40) ? 4 : 8);
        if (bytes == good) continue;
        // Metadata that is longer, or shorter, is other metadata, if the rest agrees.
        if (at == 112 && value < 3000) continue;
        if (fixed && (at == 72 || at == 80)) continue;  // the shape of stages to come
        sign_header(bytes, header_bytes);
        write_bytes(path, bytes);
        EXPECT_THROW(Filter::read(source_of(bytes)), CorruptFile);
        EXPECT_THROW(Filter::map(path), CorruptFile);
      }
    }
    // Nothing that is said of growth makes anything but a refusal or a filter.
    for (std::size_t at = 32; at < 96; at += 4) {
      for (const std::uint64_t value : evil) {
        Bytes bytes = good;
        std::memcpy(bytes.data() + at, &value, 4);
        if (at % 8 == 0) std::memcpy(bytes.data() + at, &value, 8);
        sign_header(bytes, header_bytes);
        try {
          Filter::read(source_of(bytes));
        } catch (const CorruptFile&) {
        }
      }
    }
  }
}

TEST(Container, LastDigitsMayBeAnotherLibrarys) {
  const Filter filter = grown(Growth::fixed(Geometry::split(5, 200), 20));
  const Bytes good = bytes_of(filter);
  const auto read = [&](double fpr, std::uint64_t more_keys) {
    Bytes bytes = good;
    const std::uint64_t capacity = get<std::uint64_t>(good, 40) + more_keys;
    std::memcpy(bytes.data() + 40, &capacity, sizeof capacity);
    std::memcpy(bytes.data() + 48, &fpr, sizeof fpr);
    sign_header(bytes, get<std::uint64_t>(good, 96));
    return Filter::read(source_of(bytes));
  };
  const double fpr = filter.growth().fpr();
  expect_same(read(std::nextafter(fpr, 1), 0), filter);
  expect_same(read(fpr, 1), filter);
  // And those of stages: what was read is joined with what was made here.
  for (const Growth& growth : {filter.growth(), Growth::tightening(30, 0.1)}) {
    const Filter here = grown(growth, 200);
    Bytes bytes = bytes_of(here);
    for (std::size_t s = 0; s < here.stages(); ++s) {
      const std::size_t at = 128 + 48 * s;
      const double rate = std::nextafter(get<double>(bytes, at + 24), 1);
      const std::uint64_t full_at = get<std::uint64_t>(bytes, at + 16) - 1;
      std::memcpy(bytes.data() + at + 24, &rate, sizeof rate);
      std::memcpy(bytes.data() + at + 16, &full_at, sizeof full_at);
    }
    sign_header(bytes, get<std::uint64_t>(bytes, 96));
    expect_same(Filter::read(source_of(bytes)), here);
    const TemporaryFolder folder;
    write_bytes(folder / "f.scbf", bytes);
    expect_same(Filter::map(folder / "f.scbf"), here);
    // A rate that is another one stays as it is.
    const double other = get<double>(bytes, 128 + 24) * 0.99;
    std::memcpy(bytes.data() + 128 + 24, &other, sizeof other);
    sign_header(bytes, get<std::uint64_t>(bytes, 96));
    EXPECT_EQ(Filter::read(source_of(bytes)).stage(0).shape().fpr, other);
  }
  EXPECT_THROW_WITH(read(fpr * (1 + 1e-6), 0), CorruptFile, "fpr");
  EXPECT_THROW_WITH(read(std::nan(""), 0), CorruptFile, "fpr nan");
  EXPECT_THROW_WITH(read(fpr, 2), CorruptFile, "first capacity");
}

TEST(HostileContainer, StagesCannotBeExchangedOrClaimed) {
  const Filter filter = grown(Growth::fixed(Geometry::split(5, 200), 20));
  ASSERT_GT(filter.stages(), 2u);
  const Bytes good = bytes_of(filter);
  const auto first = static_cast<std::ptrdiff_t>(get<std::uint64_t>(good, 128)),
             second = static_cast<std::ptrdiff_t>(get<std::uint64_t>(good, 176));
  Bytes bytes = good;
  std::swap_ranges(bytes.begin() + first, bytes.begin() + second, bytes.begin() + second);
  EXPECT_THROW_WITH(Filter::read(source_of(bytes)), CorruptFile,
                    "not the one that the container knows");
  // A stage of 2^46 bytes: refused without memory for it.
  container_format::Header header{.growth = filter.growth(), .seed = 1};
  header.stages.push_back({0, std::uint64_t{1} << 46, 1, 0.5, 0, 0});
  const std::uint64_t file_bytes = header.lay_out();
  Bytes claim = container_format::encode_header(header, file_bytes);
  EXPECT_THROW_WITH(Filter::read(source_of(claim)), CorruptFile, "stage 0: empty");
  const TemporaryFolder folder;
  write_bytes(folder / "f.scbf", claim);
  EXPECT_THROW_WITH(Filter::load(folder / "f.scbf"), CorruptFile, "truncated");
  header.stages.resize(kMaxStages + 1, header.stages[0]);
  claim = container_format::encode_header(header, header.lay_out());
  EXPECT_THROW_WITH(Filter::read(source_of(claim)), CorruptFile, "257 stages: must be 1 to 256");
}

TEST(GoldenContainer, HoldsStill) {
  const fs::path path = fs::path(SCBF_TEST_DATA_DIR) / "golden" / "scalable.scbf";
  Filter filter(Growth::tightening(20, 0.05), {.seed = 0xFEDC'BA98'7654'3210});
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 90; ++i) keys.push_back(i * i * i);
  filter.insert(keys);
  filter.insert(std::vector<std::string>(17, "saturated"));
  filter.remove(keys[5]);
  filter.set_metadata("{\"sign\": \"✓\"}");
  const Bytes written = bytes_of(filter);
  const char* write = std::getenv("SCBF_WRITE_GOLDEN");
  if (write != nullptr && *write == '1' && !fs::exists(path)) write_bytes(path, written);
  EXPECT_EQ(written, read_bytes(path));
  EXPECT_EQ(verify_file(path).stages.size(), 3u);
  expect_same(Filter::load(path), filter);
}

}  // namespace
}  // namespace scbf::test
