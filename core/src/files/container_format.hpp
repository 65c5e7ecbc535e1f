// SPDX-License-Identifier: Apache-2.0
// The bytes of a container: the header before the stages of a filter that grows. Each stage is a
// whole filter file (file_format.hpp) of its own. Pure functions of bytes. Described in
// docs/file_format.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/file_format.hpp"
#include "filter/stage.hpp"
#include "scbf/growth.hpp"

namespace scbf::container_format {

inline constexpr std::array<unsigned char, 8> kMagic = {0x89, 'S', 'C', 'B', 'S', 0x0D, 0x0A, 0x1A};
inline constexpr std::uint32_t kNewestVersion = 2;
inline constexpr std::uint64_t kEntryBytes = 48;

struct Entry {
  // Both are 0 if payloads are packed: then only reading tells how long a stage is.
  std::uint64_t offset;           ///< of the stage's file, a multiple of 4096
  std::uint64_t bytes;            ///< its length
  std::uint64_t full_at;          ///< StageShape::full_at
  double fpr;                     ///< StageShape::fpr
  std::uint32_t index;            ///< in the growth, or kForeignStage
  std::uint64_t header_checksum;  ///< the one in the stage's header
};

struct Header {
  Growth growth;
  std::uint64_t seed = 0;
  std::vector<Entry> stages{};
  std::string metadata{};
  std::uint32_t version = 1;  ///< version of the format of the stages' files
  file_format::Payload payload = file_format::Payload::plain;

  bool packed() const noexcept { return payload == file_format::Payload::packed; }
  /// Length of the header; the first stage begins there.
  std::uint64_t bytes() const noexcept;
  /// Fills in the offsets.
  void lay_out() noexcept;
  /// Length of the file, once it is laid out; 0 if payloads are packed.
  std::uint64_t file_bytes() const noexcept;
};

std::vector<std::byte> encode_header(const Header& header);

/// Does a file that begins like this hold a container?
bool is_container(std::span<const std::byte> first) noexcept;

/// The length of the header of a container that begins with `first`, its first 128 bytes; throws
/// CorruptFile unless they make sense. Bounded by 2 MiB.
std::uint64_t checked_header_bytes(std::span<const std::byte> first, const std::string& name);
/// Verifies every byte. Throws CorruptFile.
Header decode_header(std::span<const std::byte> bytes, const std::string& name);

}  // namespace scbf::container_format
