// SPDX-License-Identifier: Apache-2.0
#include "files/write_stages.hpp"

#include <algorithm>
#include <utility>

#include "filter/store_copies.hpp"
#include "kit/ranked_check.hpp"
#include "kit/word_ops.hpp"

namespace scbf {

namespace {

using container_format::Entry;
using file_format::ChunkHeader;
using file_format::Header;
using file_format::kChunkWords;
using file_format::Payload;

template <class Use>
void for_each_chunk(const Stage& stage, Use use) {
  std::vector<std::uint64_t> buffer;
  const std::uint64_t words = stage.geometry().words();
  for (std::uint64_t word = 0; word < words; word += kChunkWords) {
    use(host_words(*stage.store, word, std::min(kChunkWords, words - word), buffer));
  }
}

/// The header of a stage, checksums included where the payload is plain. Cost: one pass over the
/// counters.
Header header_of(const Stage& stage, const Epoch& epoch, const SaveOptions& options,
                 const std::string& metadata) {
  Header header = header_fields(stage, metadata);
  header.epoch = epoch;
  header.payload = options.compress ? Payload::packed : Payload::plain;
  const auto refuse = [](const char* what, std::uint64_t byte) {
    throw CorruptFile(
        fmt::format("the filter is damaged, as a mapped file may be: {}, at byte {}", what, byte));
  };
  file_format::WordsChecker checker(stage.geometry());
  std::uint64_t word = 0;
  for_each_chunk(stage, [&](std::span<const std::uint64_t> chunk) {
    if (const auto stray = stray_padding(stage.geometry(), word, chunk)) {
      refuse("padding is not zero", stray->byte);
    }
    word += chunk.size();
    if (!header.packed()) {
      header.chunk_checksums.push_back(file_format::checksum(std::as_bytes(chunk)));
    }
    if (const auto fault = checker.add(chunk)) refuse(fault->what, fault->byte);
  });
  if (has_ranked_counts(stage.geometry())) {
    const auto fault = misfit_of_spilled(stage.geometry(), stage.store->words());
    if (fault) refuse(fault->what, fault->byte);
  }
  header.saturated = checker.saturated();
  return header;
}

void write_payload(const Stage& stage, bool packed, std::uint64_t header_checksum,
                   const ByteSink& sink) {
  if (!packed) {
    for_each_chunk(stage,
                   [&](std::span<const std::uint64_t> chunk) { sink(std::as_bytes(chunk)); });
    return;
  }
  file_format::ChunkEncoder encoder(stage.geometry().cell(), true);
  std::uint64_t number = 0;
  for_each_chunk(stage, [&](std::span<const std::uint64_t> chunk) {
    write_packed_chunk(encoder, chunk, header_checksum, number++, sink);
  });
}

}  // namespace

void write_packed_chunk(file_format::ChunkEncoder& encoder, std::span<const std::uint64_t> words,
                        std::uint64_t header_checksum, std::uint64_t number, const ByteSink& sink) {
  const auto [coding, bytes] = encoder.encode(words);
  ChunkHeader header{static_cast<std::uint32_t>(coding), static_cast<std::uint32_t>(bytes.size()),
                     0};
  header.checksum = file_format::packed_checksum(header, bytes, header_checksum, number);
  sink(file_format::encode(header));
  if (!bytes.empty()) sink(bytes);
}

Header header_fields(const Stage& stage, const std::string& metadata) {
  return {.geometry = stage.geometry(),
          .seed = stage.seed,
          .keys_inserted = stage.keys_inserted,
          .keys_removed = stage.keys_removed,
          .metadata = metadata};
}

FilterParts parts_of(const FilterState& filter) {
  FilterParts parts{filter.growth, filter.seed, filter.epoch, &filter.metadata, {}};
  parts.stages.reserve(filter.stages.size());
  for (const Stage& stage : filter.stages) parts.stages.push_back(&stage);
  return parts;
}

container_format::Header container_header(const FilterParts& filter,
                                          std::span<const Header> headers,
                                          std::span<const std::uint64_t> checksums) {
  container_format::Header container{.growth = filter.growth,
                                     .seed = filter.seed,
                                     .metadata = *filter.metadata,
                                     .version = headers[0].version(),
                                     .payload = headers[0].payload};
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const Stage& stage = *filter.stages[i];
    container.stages.push_back({0, headers[i].file_bytes(), stage.shape.full_at, stage.shape.fpr,
                                stage.index, checksums[i]});
  }
  container.lay_out();
  return container;
}

FilterWriter::FilterWriter(FilterParts parts, const SaveOptions& options)
    : parts_(std::move(parts)) {
  const bool grows = parts_.growth.policy() != Growth::Policy::one;
  for (const Stage* const stage : parts_.stages) {
    const std::string& metadata = grows ? stage->metadata : *parts_.metadata;
    headers_.push_back(header_of(*stage, parts_.epoch, options, metadata));
    checksums_.push_back(file_format::checksum_in(file_format::encode_header(headers_.back())));
  }
  if (grows) container_ = container_header(parts_, headers_, checksums_);
  checksum_ = container_ ? file_format::checksum_in(container_format::encode_header(*container_))
                         : checksums_[0];
}

void FilterWriter::write(const ByteSink& sink) const {
  std::uint64_t at = 0;
  if (container_) {
    sink(container_format::encode_header(*container_));
    at = container_->bytes();
  }
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    if (container_) {
      const Entry& entry = container_->stages[i];
      if (entry.offset > at) sink(std::vector<std::byte>(entry.offset - at));
      at = entry.offset + entry.bytes;
    }
    sink(file_format::encode_header(headers_[i]));
    write_payload(*parts_.stages[i], headers_[i].packed(), checksums_[i], sink);
  }
}

void write_filter(const FilterState& filter, const SaveOptions& options, const ByteSink& sink) {
  FilterWriter(parts_of(filter), options).write(sink);
}

}  // namespace scbf
