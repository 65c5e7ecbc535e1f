// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the file format: filters with known contents, files as bytes, and right
// checksums for damaged bytes, so that the checks behind the checksums are reached. The offsets
// repeat docs/file_format.md on purpose.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "scbf/filter.hpp"
#include "support/keys.hpp"
#include "support/temporary_folder.hpp"

namespace scbf::test {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;
using scbf_test::TemporaryFolder;

inline constexpr std::size_t kChecksumAt = 120, kTableAt = 128;

inline Bytes read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline void write_bytes(const fs::path& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

/// What a filter, a bank or a delta writes.
template <class Written>
Bytes to_bytes(const Written& written, const SaveOptions& options = {}) {
  Bytes bytes;
  const ByteSink sink = [&](std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  };
  if constexpr (requires { written.write(sink, options); }) {
    written.write(sink, options);
  } else {
    written.write(sink);
  }
  return bytes;
}

/// Gives out bytes, at most `most` at a time.
inline ByteSource source_of(const Bytes& bytes, std::size_t most = SIZE_MAX) {
  return [&bytes, most, at = std::size_t{0}](std::span<std::byte> out) mutable {
    const std::size_t n = std::min({most, out.size(), bytes.size() - at});
    if (n > 0) std::memcpy(out.data(), bytes.data() + at, n);
    at += n;
    return n;
  };
}

template <class T>
T get(const Bytes& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void put(Bytes& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// Corrects the header's checksum. The length is `header_bytes`, whatever the header says.
inline void sign_header(Bytes& bytes, std::size_t header_bytes) {
  put<std::uint64_t>(bytes, kChecksumAt, 0);
  put<std::uint64_t>(bytes, kChecksumAt,
                     XXH3_64bits(bytes.data(), std::min(header_bytes, bytes.size())));
}

/// Corrects all checksums of a filter file whose header is otherwise sound.
inline void sign(Bytes& bytes) {
  constexpr std::size_t kChunk = 1u << 20;
  const auto offset = get<std::uint64_t>(bytes, 80);
  for (std::size_t i = 0, at = offset; at < bytes.size(); ++i, at += kChunk) {
    put<std::uint64_t>(bytes, kTableAt + 8 * i,
                       XXH3_64bits(bytes.data() + at, std::min(kChunk, bytes.size() - at)));
  }
  sign_header(bytes, offset);
}

/// Corrects the headers' checksums of a container, whose parts lie as in `good`.
inline void sign_container(Bytes& bytes, const Bytes& good) {
  for (std::size_t i = 0, at = 128; i < get<std::uint32_t>(good, 32); ++i, at += 48) {
    const auto offset = get<std::uint64_t>(good, at);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
    Bytes header(begin, begin + static_cast<std::ptrdiff_t>(get<std::uint64_t>(good, offset + 80)));
    sign_header(header, header.size());
    std::ranges::copy(header, begin);
    put(bytes, at + 40, get<std::uint64_t>(header, kChecksumAt));
  }
  sign_header(bytes, get<std::uint64_t>(good, 96));
}

/// A filter with some of everything: seed, metadata, repeated, saturated and removed keys.
inline Filter sample(const Geometry& geometry, std::uint64_t keys = 60) {
  Filter filter(geometry, {.seed = 0x0123'4567'89AB'CDEF});
  for (std::uint64_t key = 0; key < keys; ++key) filter.insert(key * key);
  for (int i = 0; i < 20; ++i) filter.insert("often");
  filter.insert("once");
  filter.insert(std::string_view("", 0));
  filter.remove(std::uint64_t{9});
  filter.set_metadata("{\"made by\": \"a test\"}");
  return filter;
}
/// The same for a growth: several stages, unless `keys` is small.
inline Filter sample(const Growth& growth, std::size_t keys = 700) {
  Filter filter(growth, {.seed = 0x0123'4567'89AB'CDEF});
  filter.insert(scbf_test::random_keys(keys, 1));
  filter.remove(scbf_test::random_keys(keys / 5, 1));
  for (int i = 0; i < 20; ++i) filter.insert("often");
  filter.set_metadata("{\"made by\": \"a test\"}");
  return filter;
}

/// Filters that grow: every policy and layout, an empty one, one with stages of another growth.
inline std::vector<Filter> growing_samples() {
  std::vector<Filter> all = {sample(Growth::tightening(100, 0.05)),
                             sample(Growth::tightening(100, 0.05, Layout::split, 1.5, 0.7)),
                             sample(Growth::fixed(Geometry::split(5, 200), 20)),
                             sample(Growth::fixed(Geometry::split_block(2, 7), 256)),
                             Filter(10, 0.1)};
  all.push_back(all[0]);
  all.back().merge(sample(Growth::tightening(150, 0.01, Layout::split)));
  return all;
}

inline void expect_same(const Filter& got, const Filter& want) {
  EXPECT_TRUE(got == want);
  EXPECT_EQ(got.metadata(), want.metadata());
  EXPECT_EQ(got.keys_inserted(), want.keys_inserted());
  EXPECT_EQ(got.keys_removed(), want.keys_removed());
}

inline std::vector<Geometry> small_geometries() {
  return {Geometry::split_block(1, 10), Geometry::split_block(2, 7), Geometry::split(7, 100),
          Geometry::split(3, 128)};
}

/// Values that break arithmetic: around powers of two, and `more`.
inline std::vector<std::uint64_t> evil_values(int every_shift, std::vector<std::uint64_t> more) {
  for (int shift = 0; shift < 64; shift += every_shift) {
    for (const int around : {-1, 0, 1}) more.push_back((std::uint64_t{1} << shift) + around);
  }
  return more;
}

/// For EXPECT_TRUE: `text` contains `part`.
inline testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << '"' << text << "\" lacks \"" << part << '"';
}

/// Expects that `statement` throws `Type` with a message that contains `text`.
#define EXPECT_THROW_WITH(statement, Type, text)        \
  try {                                                 \
    statement;                                          \
    ADD_FAILURE() << "no exception from " #statement;   \
  } catch (const Type& error) {                         \
    EXPECT_TRUE(::scbf::test::has(error.what(), text)); \
  } catch (const std::exception& error) {               \
    ADD_FAILURE() << "not " #Type ": " << error.what(); \
  }

}  // namespace scbf::test
