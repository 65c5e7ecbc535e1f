// SPDX-License-Identifier: Apache-2.0
#include "files/container_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <tuple>

#include "files/field_io.hpp"
#include "scbf/errors.hpp"

namespace scbf::container_format {

namespace {

using file_format::FieldReader;
using file_format::FieldWriter;
using file_format::kChecksumOffset;

/// The bytes of the fields first_capacity and fpr.
constexpr std::size_t kCapacityOffset = 40, kCapacityBytes = 16;

struct FixedFields {
  std::uint32_t version, fixed_bytes, policy, layout;
  std::uint64_t seed;
  std::uint32_t stages, most_stages;
  std::uint64_t first_capacity;
  double fpr, growth, tightening;
  std::uint32_t probes, groups;
  std::uint64_t extent, payload, header_bytes, file_bytes, metadata_bytes, checksum;

  auto in_order() noexcept {
    return std::tie(version, fixed_bytes, policy, layout, seed, stages, most_stages, first_capacity,
                    fpr, growth, tightening, probes, groups, extent, payload, header_bytes,
                    file_bytes, metadata_bytes, checksum);
  }
};

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

[[noreturn]] void throw_damaged(const std::string& name, const std::string& what) {
  throw CorruptFile(fmt::format("{}: damaged container header: {}", name, what));
}

void require_equal(const std::string& name, const char* field, std::uint64_t value,
                   std::uint64_t expected) {
  if (value == expected) return;
  throw_damaged(name, fmt::format("{} {}: must be {}", field, value, expected));
}

std::uint64_t header_bytes_of(std::uint64_t stages, std::uint64_t metadata_bytes,
                              bool packed) noexcept {
  const std::uint64_t used = kFixedBytes + stages * kEntryBytes + metadata_bytes;
  return packed ? (used + 7) / 8 * 8 : aligned(used);
}

/// The payloads of the stages' files.
file_format::Payload payload_of(const FixedFields& f) noexcept {
  return f.payload == static_cast<std::uint64_t>(file_format::Payload::packed)
             ? file_format::Payload::packed
             : file_format::Payload::plain;
}

FixedFields checked_fields(std::span<const std::byte> first, const std::string& name) {
  if (first.size() < kFixedBytes) file_format::throw_truncated(first.size(), kFixedBytes, name);
  const auto version = FieldReader{first.data() + kMagic.size()}.get<std::uint32_t>();
  if (version > kNewestVersion) {
    throw CorruptFile(fmt::format(
        "{}: container version {}: this library reads versions up to {}; read it with a newer one",
        name, version, kNewestVersion));
  }
  if (version == 0) throw_damaged(name, "container version 0: must be 1 or 2");
  const auto f = FieldReader{first.data() + kMagic.size()}.get_all<FixedFields>();
  require_equal(name, "fixed header bytes", f.fixed_bytes, kFixedBytes);
  if (version == 1) {
    require_equal(name, "reserved field", f.payload, 0);
  } else if (f.payload < 1 || f.payload > 2) {
    throw_damaged(name, fmt::format("payload {}: must be 1 (plain) or 2 (packed)", f.payload));
  }
  if (f.stages < 1 || f.stages > kMaxStages) {
    throw_damaged(name, fmt::format("{} stages: must be 1 to {}", f.stages, kMaxStages));
  }
  if (f.metadata_bytes > kMaxMetadataBytes) {
    throw_damaged(name, fmt::format("metadata bytes {}: must be at most {}", f.metadata_bytes,
                                    kMaxMetadataBytes));
  }
  const bool packed = payload_of(f) == file_format::Payload::packed;
  require_equal(name, "header bytes", f.header_bytes,
                header_bytes_of(f.stages, f.metadata_bytes, packed));
  return f;
}

void require_about(const std::string& name, const char* field, double value, double expected,
                   double tolerance) {
  if (std::abs(value - expected) <= tolerance) return;
  throw_damaged(name, fmt::format("{} {}: must be {}", field, value, expected));
}

/// Finding the first stage of a tightening growth takes a search, and thousands of files may have
/// the same growth, so the last result is kept.
Growth tightening_growth(const FixedFields& f, Layout layout) {
  thread_local std::optional<Growth> last;
  if (!last || last->first_capacity() != f.first_capacity || last->fpr() != f.fpr ||
      last->layout() != layout || last->growth() != f.growth ||
      last->tightening() != f.tightening) {
    last = Growth::tightening(f.first_capacity, f.fpr, layout, f.growth, f.tightening);
  }
  return *last;
}

Growth checked_growth(const FixedFields& f, const std::string& name) {
  try {
    if (f.layout != static_cast<std::uint32_t>(Layout::split) &&
        f.layout != static_cast<std::uint32_t>(Layout::split_block) &&
        f.layout != static_cast<std::uint32_t>(Layout::ranked)) {
      throw_damaged(name, fmt::format("layout {}: must be 1, 2 or 3", f.layout));
    }
    const auto layout = static_cast<Layout>(f.layout);
    if (f.policy == static_cast<std::uint32_t>(Growth::Policy::fixed)) {
      if (layout == Layout::ranked)
        throw_damaged(name, "layout 3 of a fixed growth: must be 1 or 2");
      const Geometry stage = layout == Layout::split ? Geometry::split(f.probes, f.extent)
                                                     : Geometry::split_block(f.groups, f.extent);
      require_equal(name, "probes", f.probes, stage.probes());
      require_equal(name, "groups", f.groups, stage.groups());
      const Growth growth = Growth::fixed(stage, f.most_stages);
      require_about(name, "first capacity", static_cast<double>(f.first_capacity),
                    static_cast<double>(growth.first_capacity()), 1);
      require_about(name, "fpr", f.fpr, growth.fpr(), kClose * growth.fpr());
      if (f.first_capacity == 0 || f.fpr > 1) {
        throw_damaged(
            name, fmt::format(
                      "first capacity {}, fpr {}: must be at least 1 key, and a rate of at most 1",
                      f.first_capacity, f.fpr));
      }
      return growth;
    }
    if (f.policy == static_cast<std::uint32_t>(Growth::Policy::tightening)) {
      require_equal(name, "most stages", f.most_stages, kMaxStages);
      return tightening_growth(f, layout);
    }
  } catch (const InvalidArgument& error) {
    throw_damaged(name, error.what());
  }
  throw_damaged(name, fmt::format("policy {}: must be 1 (fixed) or 2 (tightening)", f.policy));
}

}  // namespace

bool is_container(std::span<const std::byte> first) noexcept {
  return first.size() >= kMagic.size() &&
         std::memcmp(first.data(), kMagic.data(), kMagic.size()) == 0;
}

std::uint64_t Header::bytes() const noexcept {
  return header_bytes_of(stages.size(), metadata.size(), packed());
}

std::uint64_t Header::lay_out() noexcept {
  if (packed()) {
    for (Entry& stage : stages) stage.offset = stage.bytes = 0;
    return 0;
  }
  std::uint64_t end = bytes();
  for (Entry& stage : stages) {
    stage.offset = aligned(end);
    end = stage.offset + stage.bytes;
  }
  return end;
}

std::vector<std::byte> encode_header(const Header& header, std::uint64_t file_bytes) {
  std::vector<std::byte> bytes(header.bytes());
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  FieldWriter out{bytes.data() + kMagic.size()};
  const Growth& growth = header.growth;
  const Geometry& g = growth.first_geometry();
  const bool fixed = growth.policy() == Growth::Policy::fixed;
  out.put_all(FixedFields{
      .version = header.version,
      .fixed_bytes = kFixedBytes,
      .policy = static_cast<std::uint32_t>(growth.policy()),
      .layout = static_cast<std::uint32_t>(growth.layout()),
      .seed = header.seed,
      .stages = static_cast<std::uint32_t>(header.stages.size()),
      .most_stages = growth.most_stages(),
      .first_capacity = growth.first_capacity(),
      .fpr = growth.fpr(),
      .growth = growth.growth(),
      .tightening = growth.tightening(),
      .probes = fixed ? g.probes() : 0,
      .groups = fixed ? g.groups() : 0,
      .extent = !fixed                              ? 0
                : g.layout() == Layout::split_block ? g.blocks_per_group()
                                                    : g.counters_per_slice(),
      .payload = header.version == 1 ? 0 : static_cast<std::uint64_t>(header.payload),
      .header_bytes = header.bytes(),
      .file_bytes = file_bytes,
      .metadata_bytes = header.metadata.size(),
      .checksum = 0,  // filled in at the end
  });
  for (const Entry& stage : header.stages) {
    out.put_all(EntryFields{stage.offset, stage.bytes, stage.full_at, stage.fpr, stage.index, 0,
                            stage.header_checksum});
  }
  std::memcpy(out.at, header.metadata.data(), header.metadata.size());
  FieldWriter{bytes.data() + kChecksumOffset}.put(file_format::header_checksum(bytes));
  return bytes;
}

std::uint64_t checked_header_bytes(std::span<const std::byte> first, const std::string& name) {
  return checked_fields(first, name).header_bytes;
}

Header decode_header(std::span<const std::byte> bytes, const std::string& name,
                     std::uint64_t& file_bytes) {
  const FixedFields f = checked_fields(bytes, name);
  const std::uint64_t computed = file_format::header_checksum(bytes);
  if (computed != f.checksum) {
    throw CorruptFile(
        fmt::format("{}: container header: checksum mismatch (file 0x{:016x}, computed 0x{:016x})",
                    name, f.checksum, computed));
  }
  Header header{.growth = checked_growth(f, name),
                .seed = f.seed,
                .version = f.version,
                .payload = payload_of(f)};
  if (f.stages > f.most_stages) {
    throw_damaged(name, fmt::format("{} stages: there may be {}", f.stages, f.most_stages));
  }
  FieldReader in{bytes.data() + kFixedBytes};
  std::vector<std::uint64_t> offsets, lengths;
  for (std::uint32_t i = 0; i < f.stages; ++i) {
    const auto stage = in.get_all<EntryFields>();
    require_equal(name, "reserved field of a stage", stage.reserved, 0);
    // 256 such lengths add up far below 2^64.
    if (!header.packed() &&
        (stage.bytes < file_format::kFixedBytes || stage.bytes > std::uint64_t{1} << 46)) {
      throw_damaged(name, fmt::format("stage {} of {} bytes: must be 128 to 2^46", i, stage.bytes));
    }
    if (!(stage.fpr > 0 && stage.fpr < 1)) {
      throw_damaged(name, fmt::format("stage {}: fpr {}: must be in (0, 1)", i, stage.fpr));
    }
    if (stage.index >= f.most_stages && stage.index != kForeignStage) {
      throw_damaged(name, fmt::format("stage {}: index {}: must be below {}, or 2^32 − 1", i,
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
  file_bytes = header.lay_out();
  for (std::uint32_t i = 0; i < f.stages; ++i) {
    require_equal(name, "offset of a stage", offsets[i], header.stages[i].offset);
    if (header.packed()) require_equal(name, "bytes of a stage", lengths[i], 0);
  }
  require_equal(name, "file bytes", f.file_bytes, file_bytes);
  // All other bytes must be what encode_header writes: zeros, and fields that follow from others.
  std::vector<std::byte> canonical = encode_header(header, file_bytes);
  // Exceptions are first_capacity and fpr, which checked_growth has compared, and therefore the
  // checksum.
  const auto as_it_is = [&](std::size_t offset, std::size_t count) {
    std::memcpy(canonical.data() + offset, bytes.data() + offset, count);
  };
  as_it_is(kCapacityOffset, kCapacityBytes);
  as_it_is(kChecksumOffset, sizeof f.checksum);
  const auto [here, there] = std::mismatch(bytes.begin(), bytes.end(), canonical.begin());
  if (here != bytes.end()) {
    throw_damaged(name,
                  fmt::format("byte {} is {}: must be {}", here - bytes.begin(),
                              std::to_integer<unsigned>(*here), std::to_integer<unsigned>(*there)));
  }
  return header;
}

}  // namespace scbf::container_format
