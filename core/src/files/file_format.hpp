// SPDX-License-Identifier: Apache-2.0
// The bytes of a filter file: header encoded and decoded, payload chunks checked. Pure functions of
// bytes: no input or output (file_io.hpp), no Filter (filter_files.cpp). How chunks are packed is
// in chunk_coding.hpp. The format itself is described in docs/file_format.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kit/ranked_check.hpp"
#include "scbf/epoch.hpp"
#include "scbf/geometry.hpp"

namespace scbf::file_format {

/// Byte 0 has its high bit set and 5 – 7 are CR, LF and control-Z, so that a transfer in text
/// mode damages the magic and is noticed at once.
inline constexpr std::array<unsigned char, 8> kMagic = {0x89, 'S', 'C', 'B', 'F', 0x0D, 0x0A, 0x1A};
inline constexpr std::uint32_t kNewestVersion = 2;
inline constexpr std::uint32_t kHashXxh3 = 1;
inline constexpr std::uint32_t kHashVersion = 1;
inline constexpr std::uint64_t kFixedBytes = 128;   ///< fields that all versions have
inline constexpr std::uint64_t kFixedBytes2 = 176;  ///< and those of version 2
inline constexpr std::uint64_t kChecksumOffset = 120;
inline constexpr std::uint64_t kAlignment = 4096;  ///< of the payload in the file
inline constexpr std::uint64_t kChunkBytes = 1u << 20;
inline constexpr std::uint64_t kChunkWords = kChunkBytes / sizeof(std::uint64_t);

/// XXH3-64, seed 0.
std::uint64_t checksum(std::span<const std::byte> bytes) noexcept;

/// Checksum of a header. The checksum field itself, at kChecksumOffset, is taken as zero.
std::uint64_t header_checksum(std::span<const std::byte> header) noexcept;
/// The checksum that an encoded header contains.
std::uint64_t checksum_in(std::span<const std::byte> header) noexcept;

/// What is wrong with an epoch of a file.
std::optional<std::string> epoch_fault(const Epoch& epoch);

/// What the payload is.
enum class Content : std::uint32_t {
  filter = 1,  ///< all cells
  delta = 2,   ///< the bits that changed since another epoch
};

/// How the payload lies in the file.
enum class Payload : std::uint32_t {
  plain = 1,   ///< as in memory, at a multiple of kAlignment; its checksums stand before it
  packed = 2,  ///< chunk by chunk, each with a header of its own
};

/// What stands before each chunk of a packed payload.
struct ChunkHeader {
  static constexpr std::size_t kBytes = 16;
  std::uint32_t coding;
  std::uint32_t bytes;  ///< that follow; at most as many as the words of the chunk have
  std::uint64_t checksum;

  auto in_order() noexcept { return std::tie(coding, bytes, checksum); }
};

/// The fields of a header that do not follow from others.
struct Header {
  Geometry geometry;
  std::uint64_t seed = 0;
  std::uint64_t keys_inserted = 0;
  std::uint64_t keys_removed = 0;
  std::uint64_t saturated = 0;
  /// chunk_count(geometry.bytes()) of them; none for a packed payload.
  std::vector<std::uint64_t> chunk_checksums{};
  std::string metadata{};
  Content content = Content::filter;
  Payload payload = Payload::plain;
  Epoch epoch{};              ///< of the bits; none for counters
  Epoch since{};              ///< of a delta: what it is applied to; none: to bits that are all 0
  std::uint64_t changes = 0;  ///< of a delta: bits that changed

  /// 1 if version 1 can say everything, else 2.
  std::uint32_t version() const noexcept;
  bool packed() const noexcept { return payload == Payload::packed; }
  std::uint64_t payload_offset() const noexcept;
  /// Before packing.
  std::uint64_t payload_bytes() const noexcept { return geometry.bytes(); }
  /// 0 if the payload is packed: the header does not tell how long it is then.
  std::uint64_t file_bytes() const noexcept {
    return packed() ? 0 : payload_offset() + payload_bytes();
  }
};

/// How many chunks a payload is cut into; the last may be short. Never overflows.
std::uint64_t chunk_count(std::uint64_t payload_bytes) noexcept;

/// Returns the payload_offset() bytes before the payload. Throws InvalidArgument if the metadata is
/// longer than kMaxMetadataBytes or the number of chunk checksums is wrong.
std::vector<std::byte> encode_header(const Header& header);

/// Checks the fixed fields and returns the length of the whole header, so that a reader knows how
/// far to read: at most 257 MiB, and at most 1/131072 of the payload + 1 MiB + 4 KiB. `first` holds
/// the first kFixedBytes of the file, or all of it if it is shorter; `name` begins every message.
/// Allocates nothing. Throws CorruptFile.
std::uint64_t checked_header_bytes(std::span<const std::byte> first, const std::string& name);

/// The inverse of encode_header. `bytes` is the whole header, of the length that
/// checked_header_bytes returned. Verifies every bit of it. Throws CorruptFile.
Header decode_header(std::span<const std::byte> bytes, const std::string& name);

/// Throws CorruptFile ("truncated", "bytes follow") unless actual_bytes is what the header of a
/// plain payload says.
void check_file_bytes(const Header& header, std::uint64_t actual_bytes, const std::string& name);

/// Throws CorruptFile: the file ends after `actual_bytes` where it should have `expected_bytes`.
[[noreturn]] void throw_truncated(std::uint64_t actual_bytes, std::uint64_t expected_bytes,
                                  const std::string& name);
[[noreturn]] void throw_chunk_mismatch(const std::string& name, std::uint64_t chunk,
                                       std::uint64_t expected, std::uint64_t computed);

/// The checksum of chunk number `chunk` of a packed payload, over its bytes and the header before
/// it. It depends on the checksum of the file's header, so that no chunk can take another's place.
std::uint64_t packed_checksum(const ChunkHeader& chunk_header, std::span<const std::byte> bytes,
                              std::uint64_t header_checksum, std::uint64_t chunk) noexcept;
std::array<std::byte, ChunkHeader::kBytes> encode(const ChunkHeader& header) noexcept;
ChunkHeader decode_chunk_header(std::span<const std::byte, ChunkHeader::kBytes> bytes) noexcept;

/// Looks at all words of a filter in order, chunk by chunk: counts the saturated counters, whose
/// number is in the header, and finds the first fault of a ranked filter.
class WordsChecker {
 public:
  explicit WordsChecker(const Geometry& geometry) noexcept;
  std::optional<RankedFault> add(std::span<const std::uint64_t> chunk) noexcept;
  /// Counters at 15; none for bits; for a ranked filter, see RankedCheck. To be called at the end,
  /// if there was no fault.
  std::uint64_t saturated() const noexcept;

 private:
  Cell cell_;
  std::uint64_t counters_ = 0;
  std::optional<RankedCheck> ranked_;
};

/// Throws CorruptFile, naming the byte, if there is padding that is not zero among these words of
/// the payload. Reads no other words.
void check_padding(const Header& header, std::uint64_t first_word,
                   std::span<const std::uint64_t> words, const std::string& name);

/// Checks the words of a payload chunk by chunk, in order: zero padding, the blocks and entries of
/// a ranked filter, and at the end the number of saturated counters, or of changed bits. Borrows
/// header and name.
class PayloadChecker {
 public:
  PayloadChecker(const Header& header, const std::string& name) noexcept
      : header_(header), name_(name), words_(header.geometry) {}
  /// Checks the words of the next chunk; in a plain payload, against the chunk's checksum, too.
  /// Throws CorruptFile.
  void check_chunk(std::span<const std::uint64_t> words);
  /// To be called after the last chunk. Throws CorruptFile.
  void finish() const;

 private:
  const Header& header_;
  const std::string& name_;
  std::uint64_t chunk_ = 0;
  std::uint64_t word_ = 0;
  WordsChecker words_;
  std::uint64_t changes_ = 0;
};

}  // namespace scbf::file_format
