// SPDX-License-Identifier: Apache-2.0
// Containers, the files of filters that grow. Their stages are filter files. Wrong contents with
// right checksums are refused, cheaply. Last digits may be those of another maths library.
// file_format_test covers what holds for both formats.
#include <gtest/gtest.h>

#include <cmath>

#include "files/container_format.hpp"
#include "files/file_test_support.hpp"

namespace scbf::test::container_test {
namespace {

TEST(Container, AStageIsAFilterFileOfItsOwn) {
  const TemporaryFolder folder;
  const Filter filter = growing_samples()[0];
  const Bytes bytes = to_bytes(filter);
  filter.save(folder / "f.scbf");
  for (std::size_t s = 0; const auto& stage : read_file_info(folder / "f.scbf").stages) {
    const Bytes part(bytes.begin() + static_cast<std::ptrdiff_t>(stage.offset), bytes.end());
    const Filter alone = Filter::read(source_of(part));
    EXPECT_EQ(alone.growth(), Growth::one(stage.shape.geometry));
    EXPECT_TRUE(std::ranges::equal(alone.words(), filter.stage(s++).words()));
  }
}

TEST(HostileContainer, EveryFieldWithEvilValues) {
  const TemporaryFolder folder;
  const fs::path path = folder / "f.scbf";
  const auto evil =
      evil_values(3, {0, 3, 4095, ~0ull, 0x7FF0'0000'0000'0000, 0xFFF8'0000'0000'0001});
  for (const Filter& filter : growing_samples()) {
    const Bytes good = to_bytes(filter);
    const auto header_bytes = get<std::uint64_t>(good, 96);
    const bool fixed = filter.growth().policy() == Growth::Policy::fixed;
    for (std::size_t at = 8; at < 128 + 2 * 48; at += at < 24 || (at >= 32 && at < 40) ? 4 : 8) {
      const std::size_t field = (at - 128) % 48;
      // Within bounds these may have any value: the parameters of growth, and a stage's full_at,
      // fpr and index.
      if ((at >= 36 && at < 72) || (at >= 128 && (field == 16 || field == 24 || field == 32)))
        continue;
      if (at >= 128 + 48 * filter.stages() || at == 120 || (!fixed && (at == 16 || at == 20)))
        continue;
      for (const std::uint64_t value : evil) {
        SCOPED_TRACE(std::to_string(at) + ": " + std::to_string(value));
        Bytes bytes = good;
        std::memcpy(bytes.data() + at, &value, at < 24 || (at >= 32 && at < 40) ? 4 : 8);
        if (bytes == good) continue;
        // Another length of the metadata is valid if the rest agrees.
        if (at == 112 && value < 3000) continue;
        if (fixed && (at == 72 || at == 80)) continue;  // the shape of future stages
        sign_header(bytes, header_bytes);
        write_bytes(path, bytes);
        EXPECT_THROW(Filter::read(source_of(bytes)), CorruptFile);
        EXPECT_THROW(Filter::map(path), CorruptFile);
      }
    }
    // Whatever the header says of growth, the result is a refusal or a filter.
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
  const Filter filter = sample(Growth::fixed(Geometry::split(5, 200), 20));
  const Bytes good = to_bytes(filter);
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
  // The same for stages: what is read equals what is computed here.
  for (const Growth& growth : {filter.growth(), Growth::tightening(30, 0.1)}) {
    const Filter here = sample(growth, 200);
    Bytes bytes = to_bytes(here);
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
    // A rate that differs by more stays as it is.
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
  const Filter filter = sample(Growth::fixed(Geometry::split(5, 200), 20));
  ASSERT_GT(filter.stages(), 2u);
  const Bytes good = to_bytes(filter);
  const auto first = static_cast<std::ptrdiff_t>(get<std::uint64_t>(good, 128)),
             second = static_cast<std::ptrdiff_t>(get<std::uint64_t>(good, 176));
  Bytes bytes = good;
  std::swap_ranges(bytes.begin() + first, bytes.begin() + second, bytes.begin() + second);
  EXPECT_THROW_WITH(Filter::read(source_of(bytes)), CorruptFile,
                    "not the one that the container knows");
  // A stage of 2^46 bytes is refused without memory for it.
  container_format::Header header{.growth = filter.growth(), .seed = 1};
  header.stages.push_back({0, std::uint64_t{1} << 46, 1, 0.5, 0, 0});
  const auto encoded = [&] {
    header.lay_out();
    return container_format::encode_header(header);
  };
  Bytes claim = encoded();
  EXPECT_THROW_WITH(Filter::read(source_of(claim)), CorruptFile, "stage 0: empty");
  const TemporaryFolder folder;
  write_bytes(folder / "f.scbf", claim);
  EXPECT_THROW_WITH(Filter::load(folder / "f.scbf"), CorruptFile, "truncated");
  header.stages[0].index = 20;
  claim = encoded();
  EXPECT_THROW_WITH(Filter::read(source_of(claim)), CorruptFile, "index 20: must be below 20");
  header.stages.resize(21, header.stages[0]);
  claim = encoded();
  EXPECT_THROW_WITH(Filter::read(source_of(claim)), CorruptFile, "21 stages: there may be 20");
  header.stages.resize(kMaxStages + 1, header.stages[0]);
  claim = encoded();
  EXPECT_THROW_WITH(Filter::read(source_of(claim)), CorruptFile, "257 stages: must be 1 to 256");
}

}  // namespace
}  // namespace scbf::test::container_test
