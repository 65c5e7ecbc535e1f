// SPDX-License-Identifier: Apache-2.0
#include "files/container_format.hpp"

#include <fmt/format.h>

#include <tuple>

#include "files/field_io.hpp"
#include "files/parts_header.hpp"

namespace scbf::container_format {

namespace {

using file_format::FieldReader;
using file_format::FieldWriter;
using parts_header::FixedFields;

constexpr parts_header::Kind kKind = {.magic = kMagic,
                                      .name = "container",
                                      .parts = "stages",
                                      .newest_version = kNewestVersion,
                                      .payload_since = 2,
                                      .fewest_parts = 1,
                                      .most_parts = kMaxStages,
                                      .entry_bytes = kEntryBytes,
                                      .may_be_one = false};

/// An Entry, with a field that is 0.
struct EntryFields {
  std::uint64_t offset, bytes, full_at;
  double fpr;
  std::uint32_t index, reserved;
  std::uint64_t header_checksum;

  auto in_order() noexcept {
    return std::tie(offset, bytes, full_at, fpr, index, reserved, header_checksum);
  }
};

}  // namespace

bool is_container(std::span<const std::byte> first) noexcept {
  return parts_header::begins(kKind, first);
}

std::uint64_t Header::bytes() const noexcept {
  return parts_header::header_bytes(kKind, stages.size(), metadata.size(), packed());
}

void Header::lay_out() noexcept { parts_header::lay_out(stages, bytes(), packed()); }

std::uint64_t Header::file_bytes() const noexcept {
  return parts_header::file_bytes(stages, bytes(), packed());
}

std::vector<std::byte> encode_header(const Header& header) {
  FixedFields fields = parts_header::fields_of(header.growth);
  fields.version = header.version;
  fields.seed = header.seed;
  fields.parts = static_cast<std::uint32_t>(header.stages.size());
  fields.payload = header.version == 1 ? 0 : static_cast<std::uint64_t>(header.payload);
  fields.own = header.file_bytes();
  std::vector<std::byte> entries(header.stages.size() * kEntryBytes);
  FieldWriter out{entries.data()};
  for (const Entry& stage : header.stages) {
    out.put_all(EntryFields{stage.offset, stage.bytes, stage.full_at, stage.fpr, stage.index, 0,
                            stage.header_checksum});
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
  Header header{
      .growth = reader.growth(f), .seed = f.seed, .version = f.version, .payload = f.payloads()};
  if (f.parts > f.most_stages) {
    reader.throw_damaged(fmt::format("{} stages: there may be {}", f.parts, f.most_stages));
  }
  FieldReader in{bytes.data() + parts_header::kFixedBytes};
  std::vector<std::uint64_t> offsets, lengths;
  for (std::uint32_t i = 0; i < f.parts; ++i) {
    const auto stage = in.get_all<EntryFields>();
    reader.require_equal("reserved field of a stage", stage.reserved, 0);
    // 256 such lengths add up far below 2^64.
    if (!header.packed() &&
        (stage.bytes < file_format::kFixedBytes || stage.bytes > std::uint64_t{1} << 46)) {
      reader.throw_damaged(
          fmt::format("stage {} of {} bytes: must be 128 to 2^46", i, stage.bytes));
    }
    if (!(stage.fpr > 0 && stage.fpr < 1)) {
      reader.throw_damaged(fmt::format("stage {}: fpr {}: must be in (0, 1)", i, stage.fpr));
    }
    if (stage.index >= f.most_stages && stage.index != kForeignStage) {
      reader.throw_damaged(fmt::format("stage {}: index {}: must be below {}, or 2^32 − 1", i,
                                       stage.index, f.most_stages));
    }
    offsets.push_back(stage.offset);
    lengths.push_back(stage.bytes);
    header.stages.push_back({.offset = stage.offset,
                             .bytes = stage.bytes,
                             .full_at = stage.full_at,
                             .fpr = stage.fpr,
                             .index = stage.index,
                             .header_checksum = stage.header_checksum});
  }
  header.metadata.assign(reinterpret_cast<const char*>(in.at), f.metadata_bytes);
  header.lay_out();
  for (std::uint32_t i = 0; i < f.parts; ++i) {
    reader.require_equal("offset of a stage", offsets[i], header.stages[i].offset);
    if (header.packed()) reader.require_equal("bytes of a stage", lengths[i], 0);
  }
  reader.require_equal("file bytes", f.own, header.file_bytes());
  reader.check_bytes(bytes, encode_header(header));
  return header;
}

}  // namespace scbf::container_format
