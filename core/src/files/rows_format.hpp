// SPDX-License-Identifier: Apache-2.0
// The bytes of the file of a bank of bits (bank file version 2). Its header begins as that of a
// bank of counters (bank_format.hpp) and lists the members; their bits follow as rows, level by
// level, as they lie in memory. Pure functions of bytes. Described in docs/file_format.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/file_format.hpp"
#include "scbf/epoch.hpp"
#include "scbf/growth.hpp"

namespace scbf::rows_format {

/// Rows: in the first level those of all members' first stages, in each other level those of their
/// later stages of one index.
struct Level {
  std::uint32_t index;  ///< in the growth; 0 for the first
  std::uint32_t slots;  ///< bits of a row, used or not
  StageShape shape;     ///< of the stages, with counters
  /// chunk_count(bytes()) of them; none for a packed payload.
  std::vector<std::uint64_t> chunk_checksums = {};
  std::uint64_t offset = 0;  ///< in the file, a multiple of 4096; 0 if payloads are packed

  /// Before packing; a multiple of 16.
  std::uint64_t bytes() const noexcept;
};

struct Stage {
  std::uint32_t level;  ///< which one of the header's
  std::uint32_t slot;
  std::uint64_t keys_inserted = 0, keys_removed = 0;
  std::string metadata = {};  ///< of the stage itself: see scbf::Stage
};

struct Member {
  std::uint32_t number;
  bool asked_always = false;
  std::vector<Stage> stages = {};  ///< oldest first
  std::string metadata = {};
  Epoch epoch = {};
};

struct Header {
  Growth growth;
  std::uint64_t seed = 0;
  std::vector<Level> levels = {};    ///< the later ones ascend by index
  std::vector<Member> members = {};  ///< ascending by number
  std::string metadata = {};         ///< of the bank
  file_format::Payload payload = file_format::Payload::plain;

  bool packed() const noexcept { return payload == file_format::Payload::packed; }
  /// Length of the header; the rows of the first level begin there.
  std::uint64_t bytes() const noexcept;
  /// Fills in the offsets.
  void lay_out() noexcept;
  /// Length of the file, once it is laid out; 0 if payloads are packed.
  std::uint64_t file_bytes() const noexcept;
};

std::vector<std::byte> encode_header(const Header& header);

/// For each level, a row of 1s for the slots that have a stage.
std::vector<std::vector<std::uint8_t>> used_slots(const Header& header);

/// Does a file that begins like this hold a bank of bits?
bool is_bank_of_bits(std::span<const std::byte> first) noexcept;
/// Does it also have plain rows, which can be mapped? `first` are its first 128 bytes.
bool has_plain_rows(std::span<const std::byte> first) noexcept;

/// The length of the header of a file that begins with `first`, its first 128 bytes; throws
/// CorruptFile unless they make sense. The length is only a claim: read as far as there are bytes.
std::uint64_t checked_header_bytes(std::span<const std::byte> first, const std::string& name);
/// Verifies every byte. Throws CorruptFile.
Header decode_header(std::span<const std::byte> bytes, const std::string& name);

/// What can be wrong with rows whatever their checksums are.
struct StrayBit {
  std::uint64_t byte;  ///< of the level's rows
  const char* where;   ///< "a slot without a stage", "padding"
};

/// Checks the words of a level's rows: there must be no ones where there is no stage, in the rows
/// of padding, or behind the last row.
class RowsChecker {
 public:
  /// `used` has a bit for each slot with a stage, and is slots / 8 bytes long.
  RowsChecker(const Level& level, std::span<const std::uint8_t> used);

  /// The first fault among these words, the first of which is word `first` of the rows.
  std::optional<StrayBit> check(std::uint64_t first, std::span<const std::uint64_t> words) const;
  /// The same for all of the level's rows, where only those of padding are looked at.
  std::optional<StrayBit> check_padding(std::span<const std::uint64_t> rows) const;

 private:
  std::optional<StrayBit> padding_fault(std::uint64_t first,
                                        std::span<const std::uint64_t> words) const;

  Geometry geometry_;
  std::uint64_t stride_;
  std::vector<std::uint64_t> unused_;  ///< a row, or several that fill a word: bits that must be 0
};

}  // namespace scbf::rows_format
