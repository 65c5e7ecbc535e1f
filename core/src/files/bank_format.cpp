// SPDX-License-Identifier: Apache-2.0
#include "files/bank_format.hpp"

#include <fmt/format.h>

#include <tuple>

#include "files/field_io.hpp"
#include "files/parts_header.hpp"
#include "kit/row_kernels.hpp"
#include "scbf/bank.hpp"

namespace scbf::bank_format {

namespace {

using file_format::FieldReader;
using file_format::FieldWriter;
using parts_header::FixedFields;

constexpr parts_header::Kind kKind = {.magic = kMagic,
                                      .name = "bank",
                                      .parts = "members",
                                      .newest_version = kBitsVersion,
                                      .payload_since = 1,
                                      .fewest_parts = 0,
                                      .most_parts = kMaxBankMembers,
                                      .entry_bytes = kEntryBytes,
                                      .may_be_one = true};

struct EntryFields {
  std::uint32_t number, asked_always;
  std::uint64_t offset, bytes, header_checksum;

  auto in_order() noexcept {
    return std::tie(number, asked_always, offset, bytes, header_checksum);
  }
};

}  // namespace

bool is_bank(std::span<const std::byte> first) noexcept {
  return parts_header::begins(kKind, first);
}

std::uint64_t Header::bytes() const noexcept {
  return parts_header::header_bytes(kKind, members.size(), metadata.size(), packed());
}

void Header::lay_out() noexcept { parts_header::lay_out(members, bytes(), packed()); }

std::uint64_t Header::file_bytes() const noexcept {
  return parts_header::file_bytes(members, bytes(), packed());
}

std::vector<std::byte> encode_header(const Header& header) {
  FixedFields fields = parts_header::fields_of(header.growth);
  fields.version = kVersion;
  fields.seed = header.seed;
  fields.parts = static_cast<std::uint32_t>(header.members.size());
  fields.payload = static_cast<std::uint64_t>(header.payload);
  fields.own = header.capacity;
  std::vector<std::byte> entries(header.members.size() * kEntryBytes);
  FieldWriter out{entries.data()};
  for (const Entry& member : header.members) {
    out.put_all(EntryFields{member.number, member.asked_always ? 1u : 0u, member.offset,
                            member.bytes, member.header_checksum});
  }
  return parts_header::encode(kKind, fields, entries, header.metadata);
}

std::uint64_t checked_header_bytes(std::span<const std::byte> first, const std::string& name) {
  return parts_header::Reader(kKind, name).fields(first).header_bytes;
}

Header decode_header(std::span<const std::byte> bytes, const std::string& name) {
  const parts_header::Reader reader(kKind, name);
  const FixedFields f = reader.fields(bytes);
  reader.check_checksum(bytes, f);
  if (f.own > kMaxBankMembers) {
    reader.throw_damaged(
        fmt::format("capacity {}: must be at most {} members", f.own, kMaxBankMembers));
  }
  reader.require_equal("capacity", f.own, row_stride(static_cast<std::uint32_t>(f.own)) * 8);
  Header header{.growth = reader.growth(f),
                .seed = f.seed,
                .capacity = static_cast<std::uint32_t>(f.own),
                .payload = f.payloads()};
  FieldReader in{bytes.data() + parts_header::kFixedBytes};
  std::uint64_t least = 0;  // number of the next member
  std::uint64_t sum = 0;    // of lengths; far below 2^64, so that no offset overflows
  for (std::uint32_t i = 0; i < f.parts; ++i) {
    const auto member = in.get_all<EntryFields>();
    least = reader.after_member(member.number, least, f);
    constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;
    if (header.packed()) {
      reader.require_equal("bytes of a member", member.bytes, 0);
    } else if (member.bytes < file_format::kFixedBytes || member.bytes > kMostBytes - sum) {
      reader.throw_damaged(fmt::format("member {} of {} bytes: must be 128 to 2^62 in all",
                                       member.number, member.bytes));
    }
    sum += member.bytes;
    header.members.push_back({.number = member.number,
                              .asked_always = member.asked_always != 0,
                              .header_checksum = member.header_checksum,
                              .bytes = member.bytes});
  }
  header.metadata.assign(reinterpret_cast<const char*>(in.at), f.metadata_bytes);
  header.lay_out();
  // Also finds offsets that do not follow from the lengths, and marks that are neither 0 nor 1.
  reader.check_bytes(bytes, encode_header(header));
  return header;
}

}  // namespace scbf::bank_format
