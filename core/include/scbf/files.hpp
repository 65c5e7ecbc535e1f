// SPDX-License-Identifier: Apache-2.0
// Files and streams of filters: how they are written, and what their headers say. The formats are
// in docs/file_format.md. Filters are saved, loaded and mapped by their own functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/epoch.hpp"
#include "scbf/errors.hpp"
#include "scbf/geometry.hpp"
#include "scbf/growth.hpp"

namespace scbf {

class Executor;

/// The largest size of a filter's metadata, in bytes.
inline constexpr std::size_t kMaxMetadataBytes = std::size_t{1} << 20;

/// Receives bytes in order. Used to stream a filter to any destination.
using ByteSink = std::function<void(std::span<const std::byte>)>;
/// Fills the span from its beginning and returns how many bytes it wrote; 0 means the end.
using ByteSource = std::function<std::size_t(std::span<std::byte>)>;

/// What a file or stream holds. `filter` where the reader did not look whether it has bits.
enum class FileKind : std::uint8_t {
  filter,          ///< of counters or of bits: for a Filter or a BloomFilter
  filter_of_bits,  ///< for a BloomFilter
  delta,           ///< changes of a BloomFilter: for a Delta
  bank,            ///< of counters: for a Bank or a BloomBank
  bank_of_bits     ///< for a BloomBank
};

/// A file or stream holds something else than was asked for. The message says what it holds, and
/// which class takes that. Nothing was changed.
class WrongKind : public Incompatible {
 public:
  /// The message is "finding: advice".
  WrongKind(FileKind found, const std::string& finding, const std::string& advice)
      : Incompatible(finding + ": " + advice), finding_bytes_(finding.size()), found_(found) {}
  FileKind found() const noexcept { return found_; }
  /// The message without its advice, as long as the exception lives.
  std::string_view finding() const noexcept {
    return std::string_view(what()).substr(0, finding_bytes_);
  }

 private:
  std::size_t finding_bytes_;
  FileKind found_;
};

/// How a filter is written.
struct SaveOptions {
  /// Packs each chunk of the payload by zstd or, where few bits are set, by their places, whichever
  /// is shortest. A young filter becomes much smaller, one at half fill does not (docs/readers.md,
  /// with the cost). Such a file can be loaded but not mapped.
  bool compress = false;
  /// Threads that check the counters and, unless they are packed, write them to the file; and where
  /// they come from, as in BatchOptions. The bytes do not depend on them.
  unsigned threads = 0;
  const Executor* executor = nullptr;
};

/// What a filter file says of one stage, field by field as in docs/file_format.md.
struct StageFileInfo {
  StageShape shape;
  std::uint32_t index;       ///< in the growth, or 2^32 − 1: merged in from another one
  std::uint64_t offset = 0;  ///< of the stage's own header in the file
  std::uint32_t version;
  std::string_view hash = "XXH3-64";
  std::uint32_t hash_version;
  std::uint32_t counter_bits;  ///< 4, or 1 in a filter of bits
  std::uint64_t keys_inserted, keys_removed, saturated = 0;
  std::uint64_t payload_offset = 0, payload_bytes, chunk_bytes = 0, chunks = 0;
  std::uint64_t stored_bytes = 0;  ///< of the payload in the file: payload_bytes unless compressed
  std::uint64_t changes = 0;       ///< in a delta: bits that changed
};

/// What the headers of a filter file say.
struct FileInfo {
  std::uint32_t version;  ///< of the filter format, or of the container format
  Growth growth;
  std::uint64_t seed;
  std::vector<StageFileInfo> stages;
  std::uint64_t file_bytes;
  std::string metadata;
  bool is_delta;    ///< not a filter: changes of a BloomFilter between epochs (delta.hpp)
  bool compressed;  ///< see SaveOptions::compress; deltas always are
  Epoch epoch;      ///< of the bits, or the one that a delta leads to
  Epoch since;      ///< where a delta begins

  /// Does it hold the counters of a Filter, or the bits of a BloomFilter?
  Cell cell() const noexcept { return stages.front().shape.geometry.cell(); }
  /// Is the file a container? Filters that grow are saved as containers: a header, then a filter
  /// file for each stage.
  bool is_container() const noexcept { return growth.policy() != Growth::Policy::one; }
};

/// Reads and verifies the headers only. Throws IoError, CorruptFile, or WrongKind if the file holds
/// a bank (bank.hpp).
FileInfo read_file_info(const std::filesystem::path& path);
/// Reads the whole file in bounded memory and verifies every checksum, the padding and the
/// saturated counts. Throws as read_file_info, naming the first error found.
FileInfo verify_file(const std::filesystem::path& path);

}  // namespace scbf
