// SPDX-License-Identifier: Apache-2.0
// Writes filters in both formats, plain or packed, to any sink. The counterpart of read_stages.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/chunk_coding.hpp"
#include "files/container_format.hpp"
#include "files/file_format.hpp"
#include "files/file_io.hpp"
#include "filter/state.hpp"

namespace scbf {

/// The header of a stage of a filter, without checksums of its payload.
file_format::Header header_fields(const Stage& stage, const std::string& metadata);

/// What is written of a filter. It borrows the metadata and the stages.
struct FilterParts {
  Growth growth;
  std::uint64_t seed;
  Epoch epoch;
  const std::string* metadata;
  std::vector<const Stage*> stages;
};
FilterParts parts_of(const FilterState& filter);

/// The header of a container, laid out, whose stages have these headers, in their order, with these
/// checksums once encoded. The headers give the entries their lengths.
container_format::Header container_header(const FilterParts& filter,
                                          std::span<const file_format::Header> headers,
                                          std::span<const std::uint64_t> checksums);

/// Writes a filter, which must not change meanwhile.
class FilterWriter {
 public:
  /// Checks the filter, so that its checksum and length are known before anything is written. Cost:
  /// one pass over the counters. Throws CorruptFile if a mapped filter is damaged.
  FilterWriter(FilterParts parts, const SaveOptions& options)
      : FilterWriter(std::move(parts), options, nullptr) {}
  /// Writes the file meanwhile: each chunk while it is in cache, headers at the end. For plain
  /// payloads and a file with write_at. Throws what that throws, too.
  static FilterWriter write_in_one_pass(FilterParts parts, const SaveOptions& options,
                                        const OutputFile& file) {
    return {std::move(parts), options, &file};
  }

  /// The checksum of the header that is written first.
  std::uint64_t header_checksum() const noexcept { return checksum_; }
  /// How many bytes are written; 0 if payloads are packed.
  std::uint64_t bytes() const noexcept {
    return container_ ? container_->file_bytes() : headers_[0].file_bytes();
  }
  void write(const ByteSink& sink) const;
  /// Of each stage: counters that no removal lowers.
  std::vector<std::uint64_t> saturated() const;

 private:
  FilterWriter(FilterParts parts, const SaveOptions& options, const OutputFile* file);
  /// Where the header of a stage is in the file.
  std::uint64_t offset_of(std::size_t stage) const {
    return container_ ? container_->stages[stage].offset : 0;
  }

  FilterParts parts_;
  std::vector<file_format::Header> headers_;           ///< of each stage
  std::vector<std::uint64_t> checksums_;               ///< of these headers
  std::optional<container_format::Header> container_;  ///< of a filter that grows
  std::uint64_t checksum_;
};

/// Packs a chunk, which has this number in a file whose header has this checksum, and writes it.
void write_packed_chunk(file_format::ChunkEncoder& encoder, std::span<const std::uint64_t> words,
                        std::uint64_t header_checksum, std::uint64_t number, const ByteSink& sink);

void write_filter(const FilterState& filter, const SaveOptions& options, const ByteSink& sink);

/// The same to a file, in one pass where that is possible. Returns FilterWriter::saturated.
std::vector<std::uint64_t> write_filter(const FilterState& filter, const SaveOptions& options,
                                        const OutputFile& file);

}  // namespace scbf
