// SPDX-License-Identifier: Apache-2.0
// What the headers of containers (container_format.hpp) and of bank files (bank_format.hpp,
// rows_format.hpp) have in common: fixed fields, which describe the growth, then an entry for each
// stage or member, metadata, and padding. Pure functions of bytes. Described in
// docs/file_format.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "files/file_format.hpp"
#include "scbf/growth.hpp"

namespace scbf::parts_header {

/// What tells one kind of file from another.
struct Kind {
  std::array<unsigned char, 8> magic;
  const char* name;   ///< in messages: "container"
  const char* parts;  ///< likewise: "stages"
  std::uint32_t newest_version;
  std::uint32_t payload_since;  ///< the first version that says how payloads lie
  std::uint64_t fewest_parts, most_parts;
  std::uint64_t entry_bytes;
  bool may_be_one;  ///< whether the growth may be Growth::one
  /// Bytes of fixed fields that only this kind has, behind the others. They describe further
  /// tables, so the number of parts does not tell how long the header is.
  std::uint64_t further_bytes = 0;
};

inline constexpr std::uint64_t kFixedBytes = 128;

struct FixedFields {
  std::uint32_t version, fixed_bytes, policy, layout;
  std::uint64_t seed;
  std::uint32_t parts, most_stages;
  std::uint64_t first_capacity;
  double fpr, growth, tightening;
  std::uint32_t probes, groups;
  std::uint64_t extent, payload, header_bytes;
  std::uint64_t own;  ///< of a container, the length of the file; of a bank, its capacity
  std::uint64_t metadata_bytes, checksum;

  auto in_order() noexcept {
    return std::tie(version, fixed_bytes, policy, layout, seed, parts, most_stages, first_capacity,
                    fpr, growth, tightening, probes, groups, extent, payload, header_bytes, own,
                    metadata_bytes, checksum);
  }

  /// How the payloads of the parts lie.
  file_format::Payload payloads() const noexcept {
    return payload == static_cast<std::uint64_t>(file_format::Payload::packed)
               ? file_format::Payload::packed
               : file_format::Payload::plain;
  }
  bool packed() const noexcept { return payloads() == file_format::Payload::packed; }
};

/// The first offset at or after this length at which a part can begin.
constexpr std::uint64_t aligned(std::uint64_t bytes) noexcept {
  return (bytes + file_format::kAlignment - 1) / file_format::kAlignment * file_format::kAlignment;
}

/// Does a file that begins like this hold this kind?
bool begins(const Kind& kind, std::span<const std::byte> first) noexcept;

/// Fills in where each part begins, if its payload is plain: at a multiple of 4096 behind the one
/// before it. For packed payloads nothing is known, and all are 0.
template <class Entry>
void lay_out(std::vector<Entry>& parts, std::uint64_t header_bytes, bool packed) noexcept {
  if (packed) {
    for (Entry& part : parts) part.offset = part.bytes = 0;
    return;
  }
  std::uint64_t end = header_bytes;
  for (Entry& part : parts) {
    part.offset = aligned(end);
    end = part.offset + part.bytes;
  }
}
/// The length of a file whose parts lie so; 0 for packed payloads.
template <class Entry>
std::uint64_t file_bytes(const std::vector<Entry>& parts, std::uint64_t header_bytes,
                         bool packed) noexcept {
  if (packed) return 0;
  return parts.empty() ? header_bytes : parts.back().offset + parts.back().bytes;
}

/// Length of a header that uses so many bytes.
constexpr std::uint64_t rounded_header_bytes(std::uint64_t used, bool packed) noexcept {
  return packed ? (used + 7) / 8 * 8 : aligned(used);
}
/// Length of the header of a kind without tables; the first part begins there.
std::uint64_t header_bytes(const Kind& kind, std::uint64_t parts, std::uint64_t metadata_bytes,
                           bool packed) noexcept;

/// The fields that describe the growth; all others are 0.
FixedFields fields_of(const Growth& growth) noexcept;

/// Makes a header from these fields, filling in lengths and checksums, and from entries, or all
/// that stands between the fields and the metadata.
std::vector<std::byte> encode(const Kind& kind, FixedFields fields,
                              std::span<const std::byte> entries, const std::string& metadata);

/// Reads a header, and throws CorruptFile where it makes no sense.
class Reader {
 public:
  /// `name` begins every message; both are borrowed.
  Reader(const Kind& kind, const std::string& name) noexcept : kind_(kind), name_(name) {}

  /// Checks the fields that tell how long the header is. `first` are its first kFixedBytes.
  FixedFields fields(std::span<const std::byte> first) const;
  /// Checks the checksum of a whole header.
  void check_checksum(std::span<const std::byte> bytes, const FixedFields& f) const;
  Growth growth(const FixedFields& f) const;
  /// Checks that the number of a bank's member is not below `least`. Returns the lowest number that
  /// the next one may have.
  std::uint64_t after_member(std::uint32_t number, std::uint64_t least, const FixedFields& f) const;
  /// All bytes must be what writers write: zeros, and fields that follow from others.
  void check_bytes(std::span<const std::byte> bytes, std::vector<std::byte> canonical) const;

  [[noreturn]] void throw_damaged(const std::string& what) const;
  void require_equal(const char* field, std::uint64_t value, std::uint64_t expected) const;

 private:
  void require_about(const char* field, double value, double expected, double tolerance) const;

  const Kind& kind_;
  const std::string& name_;
};

}  // namespace scbf::parts_header
