// SPDX-License-Identifier: Apache-2.0
#include "files/rows_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "files/bank_format.hpp"
#include "files/field_io.hpp"
#include "files/geometry_fields.hpp"
#include "files/parts_header.hpp"
#include "filter/member_fit.hpp"
#include "kit/row_kernels.hpp"
#include "scbf/bank.hpp"
#include "scbf/errors.hpp"

namespace scbf::rows_format {

namespace {

using file_format::FieldReader;
using file_format::FieldWriter;
using file_format::GeometryFields;
using parts_header::FixedFields;

/// Fixed fields that a bank of counters does not have; they stand behind the others.
struct FurtherFields {
  std::uint32_t hash = file_format::kHashXxh3, hash_version = file_format::kHashVersion;
  std::uint32_t levels, reserved = 0;
  std::uint64_t stages = 0;            ///< of all members
  std::uint64_t chunks = 0;            ///< of all levels whose checksums follow: none if packed
  std::uint64_t members_metadata = 0;  ///< bytes, including those of their stages

  auto in_order() noexcept {
    return std::tie(hash, hash_version, levels, reserved, stages, chunks, members_metadata);
  }
};
constexpr std::uint64_t kFurtherBytes = 40;

struct LevelFields {
  std::uint32_t index, slots, probes, groups;
  std::uint64_t extent, bytes, offset;

  auto in_order() noexcept { return std::tie(index, slots, probes, groups, extent, bytes, offset); }
};
constexpr std::uint64_t kLevelBytes = 40;

struct MemberFields {
  std::uint32_t number, asked_always, stages, metadata_bytes;
  std::uint64_t epoch, history;

  auto in_order() noexcept {
    return std::tie(number, asked_always, stages, metadata_bytes, epoch, history);
  }
};
constexpr std::uint64_t kMemberBytes = 32;

struct StageFields {
  std::uint32_t level, slot;
  std::uint64_t keys_inserted, keys_removed, metadata_bytes;

  auto in_order() noexcept {
    return std::tie(level, slot, keys_inserted, keys_removed, metadata_bytes);
  }
};
constexpr std::uint64_t kStageBytes = 32;
constexpr std::uint64_t kChecksumBytes = 8;

constexpr parts_header::Kind kKind = {.magic = bank_format::kMagic,
                                      .name = "bank",
                                      .parts = "members",
                                      .newest_version = bank_format::kBitsVersion,
                                      .payload_since = 1,
                                      .fewest_parts = 0,
                                      .most_parts = kMaxBankMembers,
                                      .entry_bytes = kMemberBytes,
                                      .may_be_one = true,
                                      .further_bytes = kFurtherBytes};
// The first stages, and the later ones of each index.
constexpr std::uint32_t kMostLevels = kMaxStages + 1;

FurtherFields further_fields(const Header& header) noexcept {
  FurtherFields further{.levels = static_cast<std::uint32_t>(header.levels.size())};
  for (const Level& level : header.levels) further.chunks += level.chunk_checksums.size();
  for (const Member& member : header.members) {
    further.stages += member.stages.size();
    further.members_metadata += member.metadata.size();
    for (const Stage& stage : member.stages) further.members_metadata += stage.metadata.size();
  }
  return further;
}

/// Bytes between the fixed fields that all bank files have and the metadata of the bank.
std::uint64_t table_bytes(const FurtherFields& further, std::uint64_t members) noexcept {
  return kFurtherBytes + further.levels * kLevelBytes + members * kMemberBytes +
         further.stages * kStageBytes + further.chunks * kChecksumBytes + further.members_metadata;
}

}  // namespace

std::uint64_t Level::bytes() const noexcept {
  return (shape.geometry.padded_counters() * (slots / 8) + 15) / 16 * 16;
}

std::uint64_t Header::bytes() const noexcept {
  return parts_header::rounded_header_bytes(parts_header::kFixedBytes +
                                                table_bytes(further_fields(*this), members.size()) +
                                                metadata.size(),
                                            packed());
}

void Header::lay_out() noexcept {
  std::uint64_t end = bytes();
  for (Level& level : levels) {
    level.offset = packed() ? 0 : parts_header::aligned(end);
    end = level.offset + level.bytes();
  }
}

std::uint64_t Header::file_bytes() const noexcept {
  return packed() ? 0 : levels.back().offset + levels.back().bytes();
}

std::vector<std::vector<std::uint8_t>> used_slots(const Header& header) {
  std::vector<std::vector<std::uint8_t>> used;
  for (const Level& level : header.levels) used.emplace_back(level.slots / 8);
  for (const Member& member : header.members) {
    for (const Stage& stage : member.stages) {
      std::uint8_t& byte = used[stage.level][stage.slot / 8];
      byte = static_cast<std::uint8_t>(byte | 1u << stage.slot % 8);
    }
  }
  return used;
}

bool is_bank_of_bits(std::span<const std::byte> first) noexcept {
  std::uint32_t version = 0;
  if (!bank_format::is_bank(first) || first.size() < bank_format::kMagic.size() + sizeof version) {
    return false;
  }
  std::memcpy(&version, first.data() + bank_format::kMagic.size(), sizeof version);
  return version == bank_format::kBitsVersion;
}

bool has_plain_rows(std::span<const std::byte> first) noexcept {
  if (!is_bank_of_bits(first) || first.size() < parts_header::kFixedBytes) return false;
  return FieldReader{first.data() + bank_format::kMagic.size()}.get_all<FixedFields>().payload ==
         static_cast<std::uint64_t>(file_format::Payload::plain);
}

std::vector<std::byte> encode_header(const Header& header) {
  FixedFields fields = parts_header::fields_of(header.growth);
  fields.version = bank_format::kBitsVersion;
  fields.seed = header.seed;
  fields.parts = static_cast<std::uint32_t>(header.members.size());
  fields.payload = static_cast<std::uint64_t>(header.payload);
  fields.own = header.levels.front().slots;
  const FurtherFields further = further_fields(header);
  std::vector<std::byte> tables(table_bytes(further, header.members.size()));
  FieldWriter out{tables.data()};
  out.put_all(further);
  for (const Level& level : header.levels) {
    const GeometryFields g = file_format::fields_of(level.shape.geometry);
    out.put_all(LevelFields{level.index, level.slots, g.probes, g.groups, g.extent, level.bytes(),
                            level.offset});
  }
  for (const Member& member : header.members) {
    out.put_all(MemberFields{member.number, member.asked_always ? 1u : 0u,
                             static_cast<std::uint32_t>(member.stages.size()),
                             static_cast<std::uint32_t>(member.metadata.size()),
                             member.epoch.number, member.epoch.history});
  }
  for (const Member& member : header.members) {
    for (const Stage& stage : member.stages) {
      out.put_all(StageFields{stage.level, stage.slot, stage.keys_inserted, stage.keys_removed,
                              stage.metadata.size()});
    }
  }
  for (const Level& level : header.levels) {
    for (const std::uint64_t sum : level.chunk_checksums) out.put(sum);
  }
  for (const Member& member : header.members) {
    out.put_text(member.metadata);
    for (const Stage& stage : member.stages) out.put_text(stage.metadata);
  }
  return parts_header::encode(kKind, fields, tables, header.metadata);
}

std::uint64_t checked_header_bytes(std::span<const std::byte> first, const std::string& name) {
  return parts_header::Reader(kKind, name).fields(first).header_bytes;
}

namespace {

/// Reads the tables of a header whose length and checksum have been checked.
class TablesReader {
 public:
  TablesReader(const parts_header::Reader& reader, const FixedFields& f,
               std::span<const std::byte> bytes)
      : reader_(reader), f_(f), in_{bytes.data() + parts_header::kFixedBytes} {
    further_ = in_.get_all<FurtherFields>();
    reader_.require_equal("hash", further_.hash, file_format::kHashXxh3);
    reader_.require_equal("hash version", further_.hash_version, file_format::kHashVersion);
    if (further_.levels < 1 || further_.levels > kMostLevels) {
      reader_.throw_damaged(
          fmt::format("{} levels: must be 1 to {}", further_.levels, kMostLevels));
    }
    // None of these can be so large that the sum overflows.
    const std::uint64_t left = f.header_bytes;
    at_most("stages", further_.stages, left / kStageBytes);
    at_most("chunks", further_.chunks, left / kChecksumBytes);
    at_most("metadata bytes of members", further_.members_metadata, left);
    reader_.require_equal(
        "header bytes", f.header_bytes,
        parts_header::rounded_header_bytes(
            parts_header::kFixedBytes + table_bytes(further_, f.parts) + f.metadata_bytes,
            f.packed()));
  }

  void read_levels(Header& header) {
    MemberFit fit(header.growth, header.seed);
    std::uint64_t sum = 0, chunks = 0;
    for (std::uint32_t i = 0; i < further_.levels; ++i) {
      const auto level = in_.get_all<LevelFields>();
      const std::uint32_t least = i < 2 ? 0 : header.levels.back().index + 1;
      const std::uint32_t end = i == 0 ? 1 : header.growth.most_stages();
      if (level.index < least || level.index >= end) {
        reader_.throw_damaged(fmt::format("index {} of level {}: must be {} to below {}",
                                          level.index, i, least, end));
      }
      check_slots(level.slots);
      header.levels.push_back({level.index, level.slots, shape_of(fit, level.index)});
      const Level& made = header.levels.back();
      check_geometry(i, level, made.shape.geometry);
      constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;
      const std::uint64_t rows = made.shape.geometry.padded_counters();
      if (rows > kMostBytes / (level.slots / 8) || made.bytes() > kMostBytes - sum) {
        reader_.throw_damaged(
            fmt::format("level {}: {} rows of {} bytes: must be at most 2^62 bytes in all", i, rows,
                        level.slots / 8));
      }
      sum += made.bytes();
      chunks += file_format::chunk_count(made.bytes());
    }
    reader_.require_equal("chunks", further_.chunks, header.packed() ? 0 : chunks);
  }

  void read_members(Header& header) {
    std::uint64_t least = 0, stages = 0, metadata = 0;
    for (std::uint32_t i = 0; i < f_.parts; ++i) {
      const auto member = in_.get_all<MemberFields>();
      least = reader_.after_member(member.number, least, f_);
      at_most("metadata bytes of a member", member.metadata_bytes, kMaxMetadataBytes);
      const std::uint64_t most =
          std::min<std::uint64_t>(header.growth.most_stages(), further_.stages - stages);
      if (member.stages < 1 || member.stages > most) {
        reader_.throw_damaged(fmt::format("{} stages of member {}: must be 1 to {}", member.stages,
                                          member.number, most));
      }
      stages += member.stages;
      metadata += member.metadata_bytes;
      at_most("metadata bytes of members", metadata, further_.members_metadata);
      const Epoch epoch = {member.epoch, member.history};
      if (const auto fault = file_format::epoch_fault(epoch)) {
        reader_.throw_damaged(fmt::format("member {}: {}", member.number, *fault));
      }
      header.members.push_back({member.number, member.asked_always != 0,
                                std::vector<Stage>(member.stages, Stage{0, 0}),
                                std::string(member.metadata_bytes, '\0'), epoch});
    }
    reader_.require_equal("stages", further_.stages, stages);
    read_stages(header, metadata);
  }

  void read_checksums(Header& header) {
    if (header.packed()) return;
    for (Level& level : header.levels) {
      level.chunk_checksums.resize(file_format::chunk_count(level.bytes()));
      for (std::uint64_t& sum : level.chunk_checksums) sum = in_.get<std::uint64_t>();
    }
  }

  void read_metadata(Header& header) {
    for (Member& member : header.members) {
      in_.get_text(member.metadata);
      for (Stage& stage : member.stages) in_.get_text(stage.metadata);
    }
    header.metadata.resize(f_.metadata_bytes);
    in_.get_text(header.metadata);
  }

 private:
  StageShape shape_of(MemberFit& fit, std::uint32_t index) const {
    try {
      return fit.shape(index);
    } catch (const InvalidArgument& error) {  // no filter is so large
      reader_.throw_damaged(error.what());
    }
  }

  void check_geometry(std::uint32_t i, const LevelFields& level, const Geometry& geometry) const {
    const GeometryFields expected = file_format::fields_of(geometry);
    const GeometryFields said{expected.layout, level.probes, level.groups, level.extent};
    if (said == expected) return;
    const auto text = [](const GeometryFields& fields) {
      return fmt::format("probes {}, groups {}, extent {}", fields.probes, fields.groups,
                         fields.extent);
    };
    reader_.throw_damaged(fmt::format("level {}: {}: this growth has {} in stage {}", i, text(said),
                                      text(expected), level.index));
  }

  void at_most(const char* field, std::uint64_t value, std::uint64_t most) const {
    if (value <= most) return;
    reader_.throw_damaged(fmt::format("{} {}: must be at most {}", field, value, most));
  }

  void check_slots(std::uint32_t slots) const {
    at_most("slots", slots, kMaxBankMembers);
    reader_.require_equal("slots", slots, row_stride(slots) * 8);
  }

  /// `metadata`: bytes of the members' own metadata.
  void read_stages(Header& header, std::uint64_t metadata) {
    std::vector<std::vector<bool>> taken;
    for (const Level& level : header.levels) taken.emplace_back(level.slots, false);
    std::vector<bool> used(header.levels.size(), false);
    used[0] = true;  // there are first rows even if there are no members
    for (Member& member : header.members) {
      for (std::size_t s = 0; s < member.stages.size(); ++s) {
        const auto stage = in_.get_all<StageFields>();
        const bool fits = s == 0 ? stage.level == 0 && stage.slot == member.number
                                 : stage.level > 0 && stage.level < header.levels.size() &&
                                       stage.slot < header.levels[stage.level].slots;
        if (!fits || taken[stage.level][stage.slot]) {
          reader_.throw_damaged(
              fmt::format("stage {} of member {}: level {}, slot {}: there is none, or it is "
                          "another stage's",
                          s, member.number, stage.level, stage.slot));
        }
        taken[stage.level][stage.slot] = used[stage.level] = true;
        at_most("metadata bytes of a stage", stage.metadata_bytes, kMaxMetadataBytes);
        metadata += stage.metadata_bytes;
        at_most("metadata bytes of members", metadata, further_.members_metadata);
        member.stages[s] = {stage.level, stage.slot, stage.keys_inserted, stage.keys_removed,
                            std::string(stage.metadata_bytes, '\0')};
      }
    }
    reader_.require_equal("metadata bytes of members", further_.members_metadata, metadata);
    const auto empty = std::ranges::find(used, false);
    if (empty != used.end()) {
      reader_.throw_damaged(
          fmt::format("level {} has no stage: must have one", empty - used.begin()));
    }
  }

  const parts_header::Reader& reader_;
  const FixedFields& f_;
  FieldReader in_;
  FurtherFields further_{};
};

}  // namespace

Header decode_header(std::span<const std::byte> bytes, const std::string& name) {
  const parts_header::Reader reader(kKind, name);
  const FixedFields f = reader.fields(bytes);
  reader.check_checksum(bytes, f);
  Header header{.growth = reader.growth(f), .seed = f.seed, .payload = f.payloads()};
  TablesReader tables(reader, f, bytes);
  tables.read_levels(header);
  reader.require_equal("capacity", f.own, header.levels.front().slots);
  tables.read_members(header);
  tables.read_checksums(header);
  tables.read_metadata(header);
  header.lay_out();
  // Also finds offsets that do not follow from the rest, and marks that are neither 0 nor 1.
  reader.check_bytes(bytes, encode_header(header));
  return header;
}

// ---- rows ---------------------------------------------------------------------------------------

RowsChecker::RowsChecker(const Level& level, std::span<const std::uint8_t> used)
    : geometry_(level.shape.geometry), stride_(level.slots / 8) {
  const std::uint64_t bytes = std::max<std::uint64_t>(stride_, sizeof(std::uint64_t));
  std::vector<std::uint8_t> unused(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) {
    unused[i] = static_cast<std::uint8_t>(~used[i % stride_]);
  }
  unused_.resize(bytes / sizeof(std::uint64_t));
  std::memcpy(unused_.data(), unused.data(), bytes);
}

std::optional<StrayBit> RowsChecker::padding_fault(std::uint64_t first,
                                                   std::span<const std::uint64_t> words) const {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(words.data());
  const std::uint64_t begin = first * sizeof(std::uint64_t), end = begin + words.size_bytes();
  // Bytes `from` to before `to` of all rows, as far as they are among these words.
  const auto stray_in = [&](std::uint64_t from, std::uint64_t to) -> std::optional<StrayBit> {
    from = std::clamp(from, begin, end), to = std::clamp(to, begin, end);
    const auto* const at =
        std::find_if(bytes + (from - begin), bytes + (to - begin), [](auto b) { return b != 0; });
    if (at == bytes + (to - begin)) return {};
    return StrayBit{begin + static_cast<std::uint64_t>(at - bytes), "padding"};
  };
  if (geometry_.layout() == Layout::split) {
    const std::uint64_t slice = geometry_.slice_stride();
    for (std::uint64_t s = 0; s < geometry_.probes(); ++s) {
      const auto stray = stray_in((s * slice + geometry_.counters_per_slice()) * stride_,
                                  (s + 1) * slice * stride_);
      if (stray) return stray;
    }
  }
  return stray_in(geometry_.padded_counters() * stride_, end);
}

std::optional<StrayBit> RowsChecker::check(std::uint64_t first,
                                           std::span<const std::uint64_t> words) const {
  std::size_t in_row = first % unused_.size();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (const std::uint64_t stray = words[i] & unused_[in_row]; stray != 0) {
      return StrayBit{
          (first + i) * sizeof(std::uint64_t) + static_cast<unsigned>(std::countr_zero(stray)) / 8,
          "a slot without a stage"};
    }
    if (++in_row == unused_.size()) in_row = 0;
  }
  return padding_fault(first, words);
}

std::optional<StrayBit> RowsChecker::check_padding(std::span<const std::uint64_t> rows) const {
  return padding_fault(0, rows);
}

}  // namespace scbf::rows_format
