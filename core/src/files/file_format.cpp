// SPDX-License-Identifier: Apache-2.0
#include "files/file_format.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "files/field_io.hpp"
#include "files/geometry_fields.hpp"
#include "kit/word_ops.hpp"
#include "scbf/detail/packed.hpp"
#include "scbf/errors.hpp"
#include "scbf/filter.hpp"

// Chunks are copied between memory and file without conversion.
static_assert(std::endian::native == std::endian::little,
              "the payload is little-endian: a big-endian port must swap its words");

namespace scbf::file_format {

namespace {

constexpr std::uint64_t kTableEntryBytes = 8;
constexpr std::uint64_t kMostEpoch = std::uint64_t{1} << 62;

std::uint64_t fixed_bytes_of(std::uint32_t version) noexcept {
  return version == 1 ? kFixedBytes : kFixedBytes2;
}

std::uint64_t payload_offset_of(std::uint32_t version, bool packed, std::uint64_t chunks,
                                std::uint64_t metadata_bytes) noexcept {
  const std::uint64_t table = packed ? 0 : chunks * kTableEntryBytes;
  const std::uint64_t used = fixed_bytes_of(version) + table + metadata_bytes;
  const std::uint64_t alignment = packed ? 8 : kAlignment;
  return (used + alignment - 1) / alignment * alignment;
}

struct FixedFields {
  std::uint32_t version, header_fixed_bytes, hash, hash_version;
  std::uint64_t seed;
  std::uint32_t layout, probes, groups, counter_bits;
  std::uint64_t extent, keys_inserted, keys_removed, saturated;
  std::uint64_t payload_offset, payload_bytes, chunk_bytes, chunks, metadata_bytes, checksum;

  auto in_order() noexcept {
    return std::tie(version, header_fixed_bytes, hash, hash_version, seed, layout, probes, groups,
                    counter_bits, extent, keys_inserted, keys_removed, saturated, payload_offset,
                    payload_bytes, chunk_bytes, chunks, metadata_bytes, checksum);
  }
};

/// Those of version 2 alone.
struct FixedFields2 {
  std::uint32_t content, payload;
  std::uint64_t epoch, history, since, since_history, changes;

  auto in_order() noexcept {
    return std::tie(content, payload, epoch, history, since, since_history, changes);
  }
};

[[noreturn]] void throw_damaged(const std::string& name, const std::string& what) {
  throw CorruptFile(fmt::format("{}: damaged header: {}", name, what));
}

void require_equal(const std::string& name, const char* field, std::uint64_t value,
                   std::uint64_t expected) {
  if (value == expected) return;
  throw_damaged(name, fmt::format("{} {}: must be {}", field, value, expected));
}

// The extent of ranked counters has no spill slots: they follow from the length of the payload.
// Bits have no table, so theirs says how many slots the counters have.
std::uint64_t spill_slots_in(const FixedFields& f, const std::string& name) {
  const Geometry without = Geometry::ranked(f.groups, f.extent, 0);
  if (f.payload_bytes < without.bytes()) {
    throw_damaged(name, fmt::format("payload bytes {}: must be at least {} for {} blocks",
                                    f.payload_bytes, without.bytes(), f.extent));
  }
  const std::uint64_t words = (f.payload_bytes - without.bytes()) / sizeof(std::uint64_t);
  return words / without.spill_entry_words();
}

// The limits of Geometry bound everything computed from it: at most 2^45 payload bytes.
Geometry checked_geometry(const FixedFields& f, const std::string& name) {
  if (f.counter_bits != kCounterBits && f.counter_bits != 1) {
    throw_damaged(
        name, fmt::format("counter bits {}: must be 4, or 1 (a filter of bits)", f.counter_bits));
  }
  const Cell cell = f.counter_bits == 1 ? Cell::bit : Cell::counter;
  try {
    if (f.layout == static_cast<std::uint32_t>(Layout::ranked) && cell == Cell::counter) {
      require_equal(name, "probes", f.probes, kRankedSlices);
      return Geometry::ranked(f.groups, f.extent, spill_slots_in(f, name));
    }
    return geometry_of({f.layout, f.probes, f.groups, f.extent}).with(cell);
  } catch (const InvalidArgument& error) {
    throw_damaged(name, error.what());
  }
}

void check_magic_and_version(std::span<const std::byte> first, const std::string& name) {
  if (first.empty()) throw CorruptFile(fmt::format("{}: empty, not a filter file", name));
  if (std::memcmp(first.data(), kMagic.data(), std::min(first.size(), kMagic.size())) != 0) {
    throw CorruptFile(
        fmt::format("{}: not a filter file (it does not begin with the magic)", name));
  }
  if (first.size() < kMagic.size() + sizeof(std::uint32_t)) {
    throw_truncated(first.size(), kFixedBytes, name);
  }
  FieldReader in{first.data() + kMagic.size()};
  const auto version = in.get<std::uint32_t>();
  if (version > kNewestVersion) {
    throw CorruptFile(fmt::format(
        "{}: format version {}: this library reads versions up to {}; read it with a newer one",
        name, version, kNewestVersion));
  }
  if (version == 0) throw_damaged(name, "format version 0: must be 1 or 2");
}

FixedFields checked_fields(std::span<const std::byte> first, const std::string& name) {
  check_magic_and_version(first, name);
  if (first.size() < kFixedBytes) throw_truncated(first.size(), kFixedBytes, name);
  const auto f = FieldReader{first.data() + kMagic.size()}.get_all<FixedFields>();
  require_equal(name, "fixed header bytes", f.header_fixed_bytes, fixed_bytes_of(f.version));
  require_equal(name, "hash", f.hash, kHashXxh3);
  require_equal(name, "hash version", f.hash_version, kHashVersion);
  const Geometry geometry = checked_geometry(f, name);
  if (geometry.cell() == Cell::bit) require_equal(name, "saturated bits", f.saturated, 0);
  if (f.saturated > geometry.counters()) {
    throw_damaged(name, fmt::format("saturated counters {}: the filter has {} counters",
                                    f.saturated, geometry.counters()));
  }
  require_equal(name, "payload bytes", f.payload_bytes, geometry.bytes());
  require_equal(name, "chunk bytes", f.chunk_bytes, kChunkBytes);
  require_equal(name, "chunks", f.chunks, chunk_count(geometry.bytes()));
  if (f.metadata_bytes > kMaxMetadataBytes) {
    throw_damaged(name, fmt::format("metadata bytes {}: must be at most {}", f.metadata_bytes,
                                    kMaxMetadataBytes));
  }
  // Further fields say whether the payload is packed: decode_header checks which offset it must be.
  const auto offset_if = [&](bool packed) {
    return payload_offset_of(f.version, packed, f.chunks, f.metadata_bytes);
  };
  if (f.version == 1 || f.payload_offset != offset_if(true)) {
    require_equal(name, "payload offset", f.payload_offset, offset_if(false));
  }
  return f;
}

/// The fields of version 2, as far as they can be checked without others.
void read_fields_2(std::span<const std::byte> bytes, Header& header, const std::string& name) {
  const auto f = FieldReader{bytes.data() + kFixedBytes}.get_all<FixedFields2>();
  if (f.content < 1 || f.content > 2) {
    throw_damaged(name, fmt::format("content {}: must be 1 (filter) or 2 (delta)", f.content));
  }
  if (f.payload < 1 || f.payload > 2) {
    throw_damaged(name, fmt::format("payload {}: must be 1 (plain) or 2 (packed)", f.payload));
  }
  header.content = static_cast<Content>(f.content);
  header.payload = static_cast<Payload>(f.payload);
  header.epoch = {f.epoch, f.history};
  header.since = {f.since, f.since_history};
  header.changes = f.changes;
  for (const Epoch& epoch : {header.epoch, header.since}) {
    if (const auto fault = epoch_fault(epoch)) throw_damaged(name, *fault);
  }
  if (header.content == Content::delta) {
    if (!header.epoch) throw_damaged(name, "epoch 0 of a delta: must be at least 1");
    if (!header.packed()) throw_damaged(name, "payload 1 (plain) of a delta: must be 2 (packed)");
    if (header.since.number >= header.epoch.number) {
      throw_damaged(name, fmt::format("epochs {} to {} of a delta: must rise", header.since.number,
                                      header.epoch.number));
    }
  } else {
    require_equal(name, "epoch before that of a filter", header.since.number, 0);
    require_equal(name, "changes of a filter", header.changes, 0);
  }
  if (header.geometry.cell() == Cell::counter) {
    require_equal(name, "epoch of counters", header.epoch.number, 0);
  }
  if (header.version() == 1)
    throw_damaged(name, "version 2: must be 1, as no field needs version 2");
}

}  // namespace

std::uint64_t header_checksum(std::span<const std::byte> header) noexcept {
  const std::uint64_t zero = 0;
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, header.data(), kChecksumOffset);
  XXH3_64bits_update(&state, &zero, sizeof zero);
  const auto rest = header.subspan(kChecksumOffset + sizeof zero);
  XXH3_64bits_update(&state, rest.data(), rest.size());
  return XXH3_64bits_digest(&state);
}

std::optional<std::string> epoch_fault(const Epoch& epoch) {
  if (!epoch && epoch.history != 0) {
    return fmt::format("history of no epoch {}: must be 0", epoch.history);
  }
  if (epoch.number > kMostEpoch) {
    return fmt::format("epoch {}: must be at most 2^62", epoch.number);
  }
  return {};
}

std::uint64_t checksum_in(std::span<const std::byte> header) noexcept {
  std::uint64_t value;
  std::memcpy(&value, header.data() + kChecksumOffset, sizeof value);
  return value;
}

std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t chunk_count(std::uint64_t payload_bytes) noexcept {
  return payload_bytes / kChunkBytes + (payload_bytes % kChunkBytes != 0);
}

std::uint32_t Header::version() const noexcept {
  return content == Content::filter && payload == Payload::plain && !epoch ? 1 : 2;
}

std::uint64_t Header::payload_offset() const noexcept {
  return payload_offset_of(version(), packed(), chunk_count(payload_bytes()), metadata.size());
}

std::uint64_t packed_checksum(const ChunkHeader& chunk_header, std::span<const std::byte> bytes,
                              std::uint64_t header_checksum, std::uint64_t chunk) noexcept {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);  // its seed is compared before it is set
  XXH3_64bits_reset_withSeed(&state, header_checksum + chunk);
  XXH3_64bits_update(&state, encode(chunk_header).data(), 8);  // its coding and its length
  if (!bytes.empty()) XXH3_64bits_update(&state, bytes.data(), bytes.size());
  return XXH3_64bits_digest(&state);
}

std::array<std::byte, ChunkHeader::kBytes> encode(const ChunkHeader& header) noexcept {
  std::array<std::byte, ChunkHeader::kBytes> bytes;
  FieldWriter{bytes.data()}.put_all(header);
  return bytes;
}

ChunkHeader decode_chunk_header(std::span<const std::byte, ChunkHeader::kBytes> bytes) noexcept {
  return FieldReader{bytes.data()}.get_all<ChunkHeader>();
}

void throw_chunk_mismatch(const std::string& name, std::uint64_t chunk, std::uint64_t expected,
                          std::uint64_t computed) {
  throw CorruptFile(
      fmt::format("{}: payload chunk {}: checksum mismatch (file 0x{:016x}, computed 0x{:016x})",
                  name, chunk, expected, computed));
}

void throw_truncated(std::uint64_t actual_bytes, std::uint64_t expected_bytes,
                     const std::string& name) {
  throw CorruptFile(
      fmt::format("{}: truncated: {} bytes, must be {}", name, actual_bytes, expected_bytes));
}

std::vector<std::byte> encode_header(const Header& header) {
  if (header.metadata.size() > kMaxMetadataBytes) {
    throw InvalidArgument(fmt::format("metadata of {} bytes: must be at most {}",
                                      header.metadata.size(), kMaxMetadataBytes));
  }
  const std::uint64_t chunks = chunk_count(header.payload_bytes());
  const std::uint64_t in_table = header.packed() ? 0 : chunks;
  if (header.chunk_checksums.size() != in_table) {
    throw InvalidArgument(
        fmt::format("{} chunk checksums: must be {}", header.chunk_checksums.size(), in_table));
  }
  std::vector<std::byte> bytes(header.payload_offset());
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  FieldWriter out{bytes.data() + kMagic.size()};
  GeometryFields g = fields_of(header.geometry);
  if (has_ranked_counts(header.geometry)) g.extent = header.geometry.blocks_per_group();
  const std::uint32_t version = header.version();
  out.put_all(FixedFields{
      .version = version,
      .header_fixed_bytes = static_cast<std::uint32_t>(fixed_bytes_of(version)),
      .hash = kHashXxh3,
      .hash_version = kHashVersion,
      .seed = header.seed,
      .layout = g.layout,
      .probes = g.probes,
      .groups = g.groups,
      .counter_bits = header.geometry.cell_bits(),
      .extent = g.extent,
      .keys_inserted = header.keys_inserted,
      .keys_removed = header.keys_removed,
      .saturated = header.saturated,
      .payload_offset = header.payload_offset(),
      .payload_bytes = header.payload_bytes(),
      .chunk_bytes = kChunkBytes,
      .chunks = chunks,
      .metadata_bytes = header.metadata.size(),
      .checksum = 0,  // filled in at the end
  });
  if (version > 1) {
    out.put_all(FixedFields2{
        .content = static_cast<std::uint32_t>(header.content),
        .payload = static_cast<std::uint32_t>(header.payload),
        .epoch = header.epoch.number,
        .history = header.epoch.history,
        .since = header.since.number,
        .since_history = header.since.history,
        .changes = header.changes,
    });
  }
  for (const std::uint64_t sum : header.chunk_checksums) out.put(sum);
  std::memcpy(out.at, header.metadata.data(), header.metadata.size());
  FieldWriter{bytes.data() + kChecksumOffset}.put(header_checksum(bytes));
  return bytes;
}

std::uint64_t checked_header_bytes(std::span<const std::byte> first, const std::string& name) {
  return checked_fields(first, name).payload_offset;
}

Header decode_header(std::span<const std::byte> bytes, const std::string& name) {
  const FixedFields f = checked_fields(bytes, name);
  if (bytes.size() < f.payload_offset) throw_truncated(bytes.size(), f.payload_offset, name);
  bytes = bytes.first(f.payload_offset);
  const std::uint64_t computed = header_checksum(bytes);
  if (computed != f.checksum) {
    throw CorruptFile(
        fmt::format("{}: header: checksum mismatch (file 0x{:016x}, computed 0x{:016x})", name,
                    f.checksum, computed));
  }
  Header header{.geometry = checked_geometry(f, name),
                .seed = f.seed,
                .keys_inserted = f.keys_inserted,
                .keys_removed = f.keys_removed,
                .saturated = f.saturated,
                .metadata = std::string(f.metadata_bytes, '\0')};
  if (f.version > 1) read_fields_2(bytes, header, name);
  require_equal(name, "payload offset", f.payload_offset, header.payload_offset());
  if (!header.packed()) header.chunk_checksums.resize(f.chunks);
  const auto table =
      bytes.subspan(fixed_bytes_of(f.version), header.chunk_checksums.size() * kTableEntryBytes);
  if (!table.empty()) std::memcpy(header.chunk_checksums.data(), table.data(), table.size());
  const auto rest = bytes.subspan(fixed_bytes_of(f.version) + table.size());
  const auto metadata = rest.first(f.metadata_bytes);
  std::memcpy(header.metadata.data(), metadata.data(), metadata.size());
  const auto padding = rest.subspan(metadata.size());
  const auto stray =
      std::find_if(padding.begin(), padding.end(), [](std::byte b) { return b != std::byte{0}; });
  if (stray != padding.end()) {
    throw_damaged(name, fmt::format("padding at byte {} is {}: must be 0",
                                    f.payload_offset - (padding.end() - stray),
                                    std::to_integer<unsigned>(*stray)));
  }
  return header;
}

void check_file_bytes(const Header& header, std::uint64_t actual_bytes, const std::string& name) {
  const std::uint64_t expected = header.file_bytes();
  if (actual_bytes < expected) throw_truncated(actual_bytes, expected, name);
  if (actual_bytes > expected) {
    throw CorruptFile(fmt::format("{}: bytes follow its end: {} bytes, must be {}", name,
                                  actual_bytes, expected));
  }
}

WordsChecker::WordsChecker(const Geometry& geometry) noexcept : cell_(geometry.cell()) {
  if (has_ranked_counts(geometry)) ranked_.emplace(geometry);
}

std::optional<RankedFault> WordsChecker::add(std::span<const std::uint64_t> words) noexcept {
  if (cell_ == Cell::bit) return std::nullopt;
  if (ranked_) return ranked_->next(words);
  // Saturated counters are rare, and lines without one are scanned at the speed of memory.
  using detail::saturated_bits;
  std::size_t i = 0;
  for (; i + kWordsPerBlock <= words.size(); i += kWordsPerBlock) {
    std::uint64_t any = 0;
    for (std::size_t j = 0; j < kWordsPerBlock; ++j) any |= saturated_bits(words[i + j]);
    if (any == 0) continue;
    for (std::size_t j = 0; j < kWordsPerBlock; ++j) {
      counters_ += static_cast<std::uint64_t>(std::popcount(saturated_bits(words[i + j])));
    }
  }
  for (; i < words.size(); ++i) {
    counters_ += static_cast<std::uint64_t>(std::popcount(saturated_bits(words[i])));
  }
  return std::nullopt;
}

std::uint64_t WordsChecker::saturated() const noexcept {
  return ranked_ ? ranked_->saturated() : counters_;
}

void check_padding(const Header& header, std::uint64_t first_word,
                   std::span<const std::uint64_t> words, const std::string& name) {
  if (const auto stray = stray_padding(header.geometry, first_word, words)) {
    const std::uint64_t begin = header.packed() ? 0 : header.payload_offset();
    throw CorruptFile(fmt::format("{}: padding after slice {} is not zero, at byte {}{}", name,
                                  stray->slice, begin + stray->byte,
                                  header.packed() ? " of the payload" : ""));
  }
}

void PayloadChecker::check_chunk(std::span<const std::uint64_t> words) {
  if (!header_.packed()) {
    const std::uint64_t expected = header_.chunk_checksums[chunk_];
    const std::uint64_t computed = checksum(std::as_bytes(words));
    if (computed != expected) throw_chunk_mismatch(name_, chunk_, expected, computed);
  }
  check_padding(header_, word_, words, name_);
  if (const auto fault = words_.add(words)) {
    throw CorruptFile(
        fmt::format("{}: {}, at byte {} of the payload", name_, fault->what, fault->byte));
  }
  if (header_.content == Content::delta) {
    changes_ += ones_in(words.data(), words.size());
  }
  ++chunk_;
  word_ += words.size();
}

void PayloadChecker::finish() const {
  const auto check = [&](const char* what, std::uint64_t said, std::uint64_t found) {
    if (found == said) return;
    throw CorruptFile(
        fmt::format("{}: {}: the header says {}, the payload has {}", name_, what, said, found));
  };
  check("saturated counters", header_.saturated, words_.saturated());
  check("changed bits", header_.changes, changes_);
}

}  // namespace scbf::file_format
