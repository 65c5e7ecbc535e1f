// SPDX-License-Identifier: Apache-2.0
// The bytes of the file of a bank of counters: the header before its members. Each member is a
// whole filter file or container of its own. The file of a bank of bits, which is version 2 of this
// format, is in rows_format.hpp. Pure functions of bytes. Described in docs/file_format.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/file_format.hpp"
#include "scbf/growth.hpp"

namespace scbf::bank_format {

/// No single flipped bit turns it into another format's.
inline constexpr std::array<unsigned char, 8> kMagic = {0x89, 'S', 'C', 'B', 'K', 0x0D, 0x0A, 0x1A};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kBitsVersion = 2;  ///< of banks of bits: the newest of bank files
inline constexpr std::uint64_t kEntryBytes = 32;

struct Entry {
  std::uint32_t number;           ///< of the member
  bool asked_always;              ///< Bank::ask_always
  std::uint64_t header_checksum;  ///< the one in the header of the member's file
  // Both are 0 if payloads are packed: then only reading tells how long a member is.
  std::uint64_t offset = 0;  ///< of the member's file, a multiple of 4096
  std::uint64_t bytes = 0;   ///< its length
};

struct Header {
  Growth growth;
  std::uint64_t seed = 0;
  std::uint32_t capacity = 0;       ///< Bank::capacity; above every number
  std::vector<Entry> members = {};  ///< ascending by number
  std::string metadata = {};
  file_format::Payload payload = file_format::Payload::plain;

  bool packed() const noexcept { return payload == file_format::Payload::packed; }
  /// Length of the header; the first member begins there.
  std::uint64_t bytes() const noexcept;
  /// Fills in the offsets.
  void lay_out() noexcept;
  /// Length of the file, once it is laid out; 0 if payloads are packed.
  std::uint64_t file_bytes() const noexcept;
};

std::vector<std::byte> encode_header(const Header& header);

/// Does a file that begins like this hold a bank, of counters or of bits?
bool is_bank(std::span<const std::byte> first) noexcept;

/// The length of the header of a bank file that begins with `first`, its first 128 bytes; throws
/// CorruptFile unless they make sense. Bounded by 34 MiB.
std::uint64_t checked_header_bytes(std::span<const std::byte> first, const std::string& name);
/// Verifies every byte. Throws CorruptFile.
Header decode_header(std::span<const std::byte> bytes, const std::string& name);

}  // namespace scbf::bank_format
