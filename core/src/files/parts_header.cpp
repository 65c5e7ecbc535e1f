// SPDX-License-Identifier: Apache-2.0
#include "files/parts_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "files/field_io.hpp"
#include "files/geometry_fields.hpp"
#include "filter/last_digits.hpp"
#include "scbf/errors.hpp"
#include "scbf/filter.hpp"

namespace scbf::parts_header {

namespace {

using file_format::FieldReader;
using file_format::FieldWriter;
using file_format::GeometryFields;
using file_format::kChecksumOffset;

/// The bytes of the fields first_capacity and fpr.
constexpr std::size_t kCapacityOffset = 40, kCapacityBytes = 16;

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

}  // namespace

bool begins(const Kind& kind, std::span<const std::byte> first) noexcept {
  return first.size() >= kind.magic.size() &&
         std::memcmp(first.data(), kind.magic.data(), kind.magic.size()) == 0;
}

std::uint64_t header_bytes(const Kind& kind, std::uint64_t parts, std::uint64_t metadata_bytes,
                           bool packed) noexcept {
  return rounded_header_bytes(kFixedBytes + parts * kind.entry_bytes + metadata_bytes, packed);
}

FixedFields fields_of(const Growth& growth) noexcept {
  const bool tightening = growth.policy() == Growth::Policy::tightening;
  const GeometryFields stage =
      tightening ? GeometryFields{} : file_format::fields_of(growth.first_geometry());
  return {.version = 0,
          .fixed_bytes = kFixedBytes,
          .policy = static_cast<std::uint32_t>(growth.policy()),
          .layout = static_cast<std::uint32_t>(growth.layout()),
          .seed = 0,
          .parts = 0,
          .most_stages = growth.most_stages(),
          .first_capacity = growth.first_capacity(),
          .fpr = growth.fpr(),
          .growth = growth.growth(),
          .tightening = growth.tightening(),
          .probes = stage.probes,
          .groups = stage.groups,
          .extent = stage.extent,
          .payload = 0,
          .header_bytes = 0,
          .own = 0,
          .metadata_bytes = 0,
          .checksum = 0};
}

std::vector<std::byte> encode(const Kind& kind, FixedFields fields,
                              std::span<const std::byte> entries, const std::string& metadata) {
  fields.fixed_bytes = static_cast<std::uint32_t>(kFixedBytes + kind.further_bytes);
  fields.header_bytes =
      rounded_header_bytes(kFixedBytes + entries.size() + metadata.size(), fields.packed());
  fields.metadata_bytes = metadata.size();
  fields.checksum = 0;
  std::vector<std::byte> bytes(fields.header_bytes);
  std::memcpy(bytes.data(), kind.magic.data(), kind.magic.size());
  FieldWriter{bytes.data() + kind.magic.size()}.put_all(fields);
  std::byte* const after = std::ranges::copy(entries, bytes.data() + kFixedBytes).out;
  std::memcpy(after, metadata.data(), metadata.size());
  FieldWriter{bytes.data() + kChecksumOffset}.put(file_format::header_checksum(bytes));
  return bytes;
}

void Reader::throw_damaged(const std::string& what) const {
  throw CorruptFile(fmt::format("{}: damaged {} header: {}", name_, kind_.name, what));
}

void Reader::require_equal(const char* field, std::uint64_t value, std::uint64_t expected) const {
  if (value == expected) return;
  throw_damaged(fmt::format("{} {}: must be {}", field, value, expected));
}

void Reader::require_about(const char* field, double value, double expected,
                           double tolerance) const {
  if (std::abs(value - expected) <= tolerance) return;
  throw_damaged(fmt::format("{} {}: must be {}", field, value, expected));
}

FixedFields Reader::fields(std::span<const std::byte> first) const {
  if (first.size() < kFixedBytes) file_format::throw_truncated(first.size(), kFixedBytes, name_);
  const auto f = FieldReader{first.data() + kind_.magic.size()}.get_all<FixedFields>();
  if (f.version > kind_.newest_version) {
    throw CorruptFile(fmt::format(
        "{}: {} version {}: this library reads versions up to {}; read it with a newer one", name_,
        kind_.name, f.version, kind_.newest_version));
  }
  if (f.version == 0) {
    throw_damaged(fmt::format("{} version 0: must be {}", kind_.name,
                              kind_.newest_version == 1 ? "1" : "1 or 2"));
  }
  require_equal("fixed header bytes", f.fixed_bytes, kFixedBytes + kind_.further_bytes);
  if (f.version < kind_.payload_since) {
    require_equal("reserved field", f.payload, 0);
  } else if (f.payload < 1 || f.payload > 2) {
    throw_damaged(fmt::format("payload {}: must be 1 (plain) or 2 (packed)", f.payload));
  }
  if (f.parts < kind_.fewest_parts || f.parts > kind_.most_parts) {
    throw_damaged(fmt::format("{} {}: must be {} to {}", f.parts, kind_.parts, kind_.fewest_parts,
                              kind_.most_parts));
  }
  if (f.metadata_bytes > kMaxMetadataBytes) {
    throw_damaged(
        fmt::format("metadata bytes {}: must be at most {}", f.metadata_bytes, kMaxMetadataBytes));
  }
  const std::uint64_t without_tables =
      header_bytes(kind_, f.parts, f.metadata_bytes + kind_.further_bytes, f.packed());
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48;
  if (kind_.further_bytes == 0) {
    require_equal("header bytes", f.header_bytes, without_tables);
  } else if (f.header_bytes < without_tables || f.header_bytes > kMostBytes) {
    throw_damaged(
        fmt::format("header bytes {}: must be {} to 2^48", f.header_bytes, without_tables));
  }
  return f;
}

void Reader::check_checksum(std::span<const std::byte> bytes, const FixedFields& f) const {
  const std::uint64_t computed = file_format::header_checksum(bytes);
  if (computed == f.checksum) return;
  throw CorruptFile(
      fmt::format("{}: {} header: checksum mismatch (file 0x{:016x}, computed 0x{:016x})", name_,
                  kind_.name, f.checksum, computed));
}

Growth Reader::growth(const FixedFields& f) const {
  const auto policy = static_cast<Growth::Policy>(f.policy);
  const GeometryFields stage{f.layout, f.probes, f.groups, f.extent};
  try {
    if (policy == Growth::Policy::one && kind_.may_be_one) {
      const Geometry geometry = file_format::geometry_of(stage);
      require_equal("first capacity", f.first_capacity, 0);
      require_about("fpr", f.fpr, 1, 0);
      return Growth::one(geometry);
    }
    if (policy == Growth::Policy::fixed) {
      if (file_format::layout_of(f.layout) == Layout::ranked) {
        throw_damaged("layout 3 (ranked) of a fixed growth: must be 1 (split) or 2 (split_block)");
      }
      const Growth growth = Growth::fixed(file_format::geometry_of(stage), f.most_stages);
      require_about("first capacity", static_cast<double>(f.first_capacity),
                    static_cast<double>(growth.first_capacity()), 1);
      require_about("fpr", f.fpr, growth.fpr(), kClose * growth.fpr());
      if (f.first_capacity == 0 || f.fpr > 1) {
        throw_damaged(fmt::format(
            "first capacity {}, fpr {}: must be at least 1 key, and a rate of at most 1",
            f.first_capacity, f.fpr));
      }
      return growth;
    }
    if (policy == Growth::Policy::tightening) {
      require_equal("most stages", f.most_stages, kMaxStages);
      return tightening_growth(f, file_format::layout_of(f.layout));
    }
  } catch (const InvalidArgument& error) {
    throw_damaged(error.what());
  }
  throw_damaged(fmt::format("policy {}: must be {}1 (fixed) or 2 (tightening)", f.policy,
                            kind_.may_be_one ? "0 (one), " : ""));
}

std::uint64_t Reader::after_member(std::uint32_t number, std::uint64_t least,
                                   const FixedFields& f) const {
  if (number < least || number >= f.own) {
    throw_damaged(
        fmt::format("number {} of a member: must be {} to below {}", number, least, f.own));
  }
  return std::uint64_t{number} + 1;
}

void Reader::check_bytes(std::span<const std::byte> bytes, std::vector<std::byte> canonical) const {
  // Leaves out first_capacity and fpr, which growth() has compared, and therefore the checksum.
  const auto as_it_is = [&](std::size_t offset, std::size_t count) {
    std::memcpy(canonical.data() + offset, bytes.data() + offset, count);
  };
  as_it_is(kCapacityOffset, kCapacityBytes);
  as_it_is(kChecksumOffset, sizeof(std::uint64_t));
  const auto [here, there] = std::mismatch(bytes.begin(), bytes.end(), canonical.begin());
  if (here == bytes.end()) return;
  throw_damaged(fmt::format("byte {} is {}: must be {}", here - bytes.begin(),
                            std::to_integer<unsigned>(*here), std::to_integer<unsigned>(*there)));
}

}  // namespace scbf::parts_header
