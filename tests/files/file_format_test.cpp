// SPDX-License-Identifier: Apache-2.0
// Filters of both formats come back unchanged from files and streams. Every flipped bit and every
// wrong length is detected, and messages tell what is wrong. file_hostile_test has hostile headers,
// file_fault_test failing systems, golden_test fixed bytes.
#include <fcntl.h>

#include <regex>

#include "files/file_test_support.hpp"
#include "support/far_backend.hpp"

namespace scbf::test::file_format_test {
namespace {

const bool kAdded = scbf_test::add_far_backends();

bool refused(auto&& action) {
  try {
    action();
    return false;
  } catch (const CorruptFile&) {
    return true;
  }
}

/// Changes single bytes of a file in place.
class ByteEditor {
 public:
  explicit ByteEditor(const fs::path& path) : fd_(::open(path.c_str(), O_WRONLY | O_CLOEXEC)) {}
  ByteEditor(const ByteEditor&) = delete;
  ByteEditor& operator=(const ByteEditor&) = delete;
  ~ByteEditor() { ::close(fd_); }
  void put(std::size_t at, std::byte value) {
    if (::pwrite(fd_, &value, 1, static_cast<off_t>(at)) != 1) throw std::runtime_error("pwrite");
  }

 private:
  int fd_;
};

// More than two chunks, the last one short; slices of `split` cross chunks.
std::vector<Geometry> large_geometries() {
  return {Geometry::split_block(1, 40'000), Geometry::split_block(3, 12'345),
          Geometry::split(5, 1'000'003)};
}

/// Filters of both formats.
std::vector<Filter> samples() {
  std::vector<Filter> all = growing_samples();
  for (const Geometry& geometry : small_geometries()) all.push_back(sample(geometry));
  for (const Geometry& geometry : large_geometries()) all.push_back(sample(geometry, 5000));
  return all;
}

TEST(FileFormat, EveryWayInGivesTheFilterThatWentOut) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  for (const Filter& filter : samples()) {
    SCOPED_TRACE(filter.growth().describe());
    filter.save(path);
    const Bytes bytes = to_bytes(filter);
    EXPECT_EQ(read_bytes(path), bytes);
    expect_same(Filter::load(path), filter);
    expect_same(Filter::load(path, {.backend = "far"}), filter);
    expect_same(Filter::read(source_of(bytes)), filter);
    expect_same(Filter::map(path, {.backend = "far"}), filter);
    EXPECT_EQ(to_bytes(Filter::map(path)), bytes);
    // A loaded filter goes on like the original.
    Filter loaded = Filter::load(path), there = filter;
    const auto more = scbf_test::random_keys(500, 2);
    loaded.insert(more);
    there.insert(more);
    EXPECT_EQ(to_bytes(loaded), to_bytes(there));
  }
}

TEST(FileFormat, InfoSaysWhatIsInTheFile) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  for (const Filter& filter : samples()) {
    SCOPED_TRACE(filter.growth().describe());
    filter.save(path);
    const FileInfo info = verify_file(path);
    EXPECT_EQ(info.version, 1u);
    EXPECT_EQ(info.growth, filter.growth());
    EXPECT_EQ(info.is_container(), filter.growth().policy() != Growth::Policy::one);
    EXPECT_EQ(info.seed, filter.seed());
    EXPECT_EQ(info.file_bytes, fs::file_size(path));
    EXPECT_EQ(info.metadata, filter.metadata());
    ASSERT_EQ(info.stages.size(), filter.stages());
    for (std::size_t s = 0; s < filter.stages(); ++s) {
      const auto& stage = info.stages[s];
      EXPECT_EQ(stage.shape, filter.stage(s).shape());
      EXPECT_EQ(stage.keys_inserted, filter.stage(s).keys_inserted());
      EXPECT_EQ(stage.keys_removed, filter.stage(s).keys_removed());
      EXPECT_EQ(stage.saturated, filter.statistics().stages[s].histogram[15]);
      EXPECT_EQ(stage.payload_offset % 4096, 0u);
      EXPECT_EQ(stage.payload_bytes, stage.shape.geometry.bytes());
      EXPECT_EQ(stage.chunk_bytes, 1u << 20);
    }
    EXPECT_EQ(read_file_info(path).file_bytes, info.file_bytes);
    EXPECT_EQ(read_file_info(path).stages.size(), filter.stages());
  }
}

TEST(FileFormat, MappedAnswersEqualLoadedOnesAndMappedIsReadOnly) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  std::vector<std::uint64_t> queries(20'000);
  for (std::size_t i = 0; i < queries.size(); ++i) queries[i] = i;
  for (const Filter& filter : samples()) {
    SCOPED_TRACE(filter.growth().describe());
    filter.save(path);
    Filter mapped = Filter::map(path);
    expect_same(mapped, filter);
    std::vector<std::uint8_t> expected(queries.size()), actual(queries.size());
    Filter::load(path).count(queries, expected);
    mapped.count(queries, actual);
    EXPECT_EQ(actual, expected);
    EXPECT_TRUE(mapped.read_only());
    EXPECT_THROW(mapped.insert(std::uint64_t{1}), ReadOnly);
    EXPECT_THROW(mapped.remove(std::uint64_t{1}), ReadOnly);
    EXPECT_THROW(mapped.clear(), ReadOnly);
    EXPECT_THROW(mapped.merge(filter), ReadOnly);
    Filter copy = mapped;
    copy.insert(std::uint64_t{1});
    EXPECT_FALSE(copy.read_only());
    // A mapped filter survives the replacement of its file, and may be saved over it.
    copy.save(path);
    mapped.count(queries, actual);
    EXPECT_EQ(actual, expected);
    mapped.save(path);
    expect_same(Filter::load(path), filter);
  }
}

TEST(FileFormat, StreamsOfSmallPiecesAndFiltersInARow) {
  const Filter a = sample(Geometry::split(7, 100)), b = sample(Geometry::split_block(2, 7));
  Bytes both = to_bytes(a);
  const Bytes second = to_bytes(b);
  both.insert(both.end(), second.begin(), second.end());
  for (const std::size_t most : {std::size_t{1}, std::size_t{3}, std::size_t{4095}}) {
    const ByteSource source = source_of(both, most);
    expect_same(Filter::read(source), a);
    expect_same(Filter::read(source), b);
    EXPECT_THROW_WITH(Filter::read(source), CorruptFile, "stream: empty");
  }
  EXPECT_THROW(Filter::read([](std::span<std::byte> out) { return out.size() + 1; }),
               InvalidArgument);
  struct SourceBroke {};
  EXPECT_THROW(Filter::read([](std::span<std::byte>) -> std::size_t { throw SourceBroke{}; }),
               SourceBroke);
}

TEST(FileFormat, MetadataOfEveryLengthAroundTheAlignment) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  Filter filter = sample(Geometry::split_block(1, 2));
  const std::size_t room = 4096 - 128 - 8;
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, room - 1, room, room + 1,
                                   room + 4096, std::size_t{1} << 20}) {
    std::string metadata(length, '\0');
    for (std::size_t i = 0; i < length; ++i) metadata[i] = static_cast<char>(i * 7);
    filter.set_metadata(metadata);
    filter.save(path);
    EXPECT_EQ(fs::file_size(path), (128 + 8 + length + 4095) / 4096 * 4096 + 128);
    expect_same(Filter::load(path), filter);
    expect_same(Filter::map(path), filter);
  }
}

/// Small filters to damage: one with padding inside the payload (split, 100 counters = 6.25 words),
/// one without, and one with padding between its stages.
std::vector<Filter> damageable() {
  return {sample(Geometry::split(2, 100)), sample(Geometry::split_block(1, 2)),
          sample(Growth::tightening(30, 0.1), 200)};
}

TEST(FileFormat, EveryFlippedBitIsDetected) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  for (const Filter& filter : damageable()) {
    SCOPED_TRACE(filter.growth().describe());
    Bytes bytes = to_bytes(filter);
    write_bytes(path, bytes);
    ByteEditor editor(path);
    const bool grows = filter.stages() > 1;
    for (std::size_t bit = 0; bit < bytes.size() * 8;) {
      const std::size_t at = bit / 8;
      const std::byte whole = bytes[at];
      bytes[at] ^= std::byte{1} << (bit % 8);
      editor.put(at, bytes[at]);
      ASSERT_TRUE(refused([&] { Filter::load(path); })) << "bit " << bit;
      ASSERT_TRUE(refused([&] { verify_file(path); })) << "bit " << bit;
      ASSERT_TRUE(refused([&] { Filter::read(source_of(bytes)); })) << "bit " << bit;
      if (at < 4096) {
        ASSERT_TRUE(refused([&] { read_file_info(path); })) << "bit " << bit;
        ASSERT_TRUE(refused([&] { Filter::map(path); })) << "bit " << bit;
      }
      bytes[at] = whole;
      editor.put(at, whole);
      // Every bit of fields and counters, one in each byte of padding, some bits of stages.
      bit += at < 300 ? 1 : at < 4096 ? 9 : grows ? 61 * 9 : 1;
    }
    EXPECT_NO_THROW(verify_file(path));
  }
}

TEST(FileFormat, TruncationAtEveryLengthIsDetected) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  for (const Filter& filter : damageable()) {
    SCOPED_TRACE(filter.growth().describe());
    Bytes bytes = to_bytes(filter);
    const std::size_t step = filter.stages() > 1 ? 97 : 1;
    write_bytes(path, bytes);
    while (!bytes.empty()) {
      bytes.resize(bytes.size() - (bytes.size() <= 300 ? 1 : step));
      fs::resize_file(path, bytes.size());
      // With several stages, the message depends on what is missing.
      const std::string expected = bytes.empty() ? "empty" : step == 1 ? "truncated: " : "";
      EXPECT_THROW_WITH(Filter::load(path), CorruptFile, expected);
      EXPECT_THROW_WITH(verify_file(path), CorruptFile, expected);
      EXPECT_THROW_WITH(read_file_info(path), CorruptFile, expected);
      EXPECT_THROW_WITH(Filter::map(path), CorruptFile, expected);
      EXPECT_THROW_WITH(Filter::read(source_of(bytes)), CorruptFile, expected);
    }
  }
}

TEST(FileFormat, AppendedBytesAreDetected) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  for (const Filter& filter : damageable()) {
    Bytes longer = to_bytes(filter);
    for (const std::size_t more : {1u, 63u, 4032u}) {
      longer.resize(longer.size() + more);
      write_bytes(path, longer);
      EXPECT_THROW_WITH(Filter::load(path), CorruptFile, "bytes follow");
      EXPECT_THROW_WITH(verify_file(path), CorruptFile, "bytes follow");
      EXPECT_THROW_WITH(read_file_info(path), CorruptFile, "bytes follow");
      EXPECT_THROW_WITH(Filter::map(path), CorruptFile, "bytes follow");
    }
  }
}

TEST(FileFormat, MessagesTellWhatIsWrong) {
  const TemporaryFolder folder;
  const fs::path path = folder / "filter.scbf";
  const Bytes good = to_bytes(sample(Geometry::split_block(1, 70'000)));  // 5 chunks
  const auto message = [&](const Bytes& bytes) -> std::string {
    write_bytes(path, bytes);
    try {
      Filter::load(path);
    } catch (const CorruptFile& error) {
      return error.what();
    }
    return "accepted";
  };

  EXPECT_TRUE(has(message({}), "filter.scbf': empty, not a filter file"));
  const Bytes other(5000, std::byte{'x'});
  EXPECT_TRUE(has(message(other), "filter.scbf': not a filter file"));
  EXPECT_TRUE(has(message(Bytes(3, std::byte{'x'})), "not a filter file"));
  EXPECT_TRUE(
      has(message(Bytes(good.begin(), good.begin() + 3)), "truncated: 3 bytes, must be 128"));
  EXPECT_TRUE(
      has(message(Bytes(good.begin(), good.begin() + 200)), "truncated: 200 bytes, must be 4096"));
  EXPECT_TRUE(has(message(Bytes(good.begin(), good.begin() + 5000)),
                  "truncated: 5000 bytes, must be 4484096"));
  Bytes newer = good;
  put<std::uint32_t>(newer, 8, 3);
  EXPECT_TRUE(has(message(newer), "format version 3: this library reads versions up to 2"));
  Bytes bad = good;
  bad[bad.size() - 1] ^= std::byte{1};
  EXPECT_TRUE(std::regex_match(message(bad),
                               std::regex(".*filter.scbf': payload chunk 4: checksum mismatch "
                                          "\\(file 0x[0-9a-f]+, computed 0x[0-9a-f]+\\)")));
  bad = good;
  bad[4096 + (3u << 20)] ^= std::byte{1};
  EXPECT_TRUE(has(message(bad), "filter.scbf': payload chunk 3: checksum mismatch (file 0x"));
  bad = good;
  bad[24] ^= std::byte{1};  // the seed: any value is valid
  EXPECT_TRUE(has(message(bad), "filter.scbf': header: checksum mismatch (file 0x"));
  EXPECT_EQ(message(good), "accepted");
}

TEST(FileFormat, FilesThatCannotBeReadAreIoErrors) {
  const TemporaryFolder folder;
  EXPECT_THROW_WITH(Filter::load(folder / "absent"), IoError, "absent': cannot open: No such file");
  EXPECT_THROW_WITH(Filter::map(folder / "absent"), IoError, "No such file");
  EXPECT_THROW_WITH(verify_file(folder / "absent"), IoError, "No such file");
  EXPECT_THROW_WITH(read_file_info(folder / "absent"), IoError, "No such file");
  EXPECT_THROW_WITH(Filter::load(folder.path()), IoError, "Is a directory");
  EXPECT_THROW_WITH(Filter::map("/dev/null"), IoError, "not a regular file");
  EXPECT_THROW_WITH(Filter::load("/dev/null"), CorruptFile, "empty");
}

}  // namespace
}  // namespace scbf::test::file_format_test
