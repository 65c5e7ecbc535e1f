// SPDX-License-Identifier: Apache-2.0
#include "files/write_stages.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "files/save_filter.hpp"
#include "filter/store_copies.hpp"
#include "kit/executor.hpp"
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

BatchOptions batch_of(const SaveOptions& options) {
  return {.threads = options.threads, .executor = options.executor};
}

/// How many threads look at a stage: not more than have something to do.
unsigned threads_for(const Stage& stage, std::uint64_t chunks, const SaveOptions& options) {
  constexpr std::uint64_t kChunksPerThread = 8;  // some 1 ms
  if (!stage.store->on_host() || chunks < 2 * kChunksPerThread) return 1;
  const unsigned there = thread_count(batch_of(options));
  return static_cast<unsigned>(std::min<std::uint64_t>(there, chunks / kChunksPerThread));
}

/// The first fault of a filter, of those that threads find.
class FirstFault {
 public:
  void note(const char* what, std::uint64_t byte) {
    const std::scoped_lock lock(mutex_);
    if (!first_ || byte < first_->byte) first_ = {what, byte};
  }
  void note(const std::optional<RankedFault>& fault) {
    if (fault) note(fault->what, fault->byte);
  }
  void refuse() {
    const std::scoped_lock lock(mutex_);
    if (!first_) return;
    throw CorruptFile(fmt::format("the filter is damaged, as a mapped file may be: {}, at byte {}",
                                  first_->what, first_->byte));
  }

 private:
  std::mutex mutex_;
  std::optional<RankedFault> first_;
};

using UseChunk = std::function<void(std::uint64_t, std::span<const std::uint64_t>)>;

/// Checks the words of a stage and completes its header: saturated counters, and checksums where
/// the payload is plain. Calls use(number, chunk), if there is any, for each chunk, from several
/// threads. Cost: one pass over the counters; with several threads a second one over those of
/// `ranked`, by one thread.
void check_payload(const Stage& stage, const SaveOptions& options, Header& header,
                   const UseChunk& use) {
  const Geometry& geometry = stage.geometry();
  const std::uint64_t words = geometry.words();
  const std::uint64_t chunks = file_format::chunk_count(geometry.bytes());
  if (!header.packed()) header.chunk_checksums.resize(chunks);
  FirstFault fault;
  std::atomic<std::uint64_t> saturated{0};
  const auto look_at = [&](std::uint64_t number, std::span<const std::uint64_t> chunk) {
    if (const auto stray = stray_padding(geometry, number * kChunkWords, chunk)) {
      fault.note("padding is not zero", stray->byte);
    }
    if (!header.packed()) {
      header.chunk_checksums[number] = file_format::checksum(std::as_bytes(chunk));
    }
    if (!has_ranked_counts(geometry)) {
      file_format::WordsChecker checker(geometry);
      checker.add(chunk);
      saturated += checker.saturated();
    }
    if (use) use(number, chunk);
  };
  // The counts of a ranked filter are checked in order: where there are threads, by one of them.
  file_format::WordsChecker counts(geometry);
  const std::size_t in_order = has_ranked_counts(geometry) ? 1 : 0;
  const unsigned threads = threads_for(stage, chunks, options);
  if (threads == 1) {
    std::uint64_t number = 0;
    for_each_chunk(stage, [&](std::span<const std::uint64_t> chunk) {
      look_at(number++, chunk);
      if (in_order > 0) fault.note(counts.add(chunk));
      fault.refuse();
    });
  } else {
    const std::span all(std::as_const(*stage.store).words(), words);
    run_tasks(batch_of(options), threads, in_order + chunks, [&](std::size_t task) {
      if (task < in_order) return fault.note(counts.add(all));
      const std::uint64_t number = task - in_order, first = number * kChunkWords;
      look_at(number, all.subspan(first, std::min(kChunkWords, words - first)));
    });
    fault.refuse();
  }
  if (in_order > 0) {
    fault.note(misfit_of_spilled(geometry, stage.store->words()));
    fault.refuse();
  }
  header.saturated = in_order > 0 ? counts.saturated() : saturated.load();
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

FilterWriter::FilterWriter(FilterParts parts, const SaveOptions& options, const OutputFile* file)
    : parts_(std::move(parts)), checksums_(parts_.stages.size()) {
  const bool grows = parts_.growth.policy() != Growth::Policy::one;
  for (const Stage* const stage : parts_.stages) {
    Header header = header_fields(*stage, grows ? stage->metadata : *parts_.metadata);
    header.epoch = parts_.epoch;
    header.payload = options.compress ? Payload::packed : Payload::plain;
    headers_.push_back(std::move(header));
  }
  if (grows) container_ = container_header(parts_, headers_, checksums_);  // where stages lie
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    Header& header = headers_[i];
    UseChunk write_chunk;
    if (file != nullptr) {
      write_chunk = [file, payload = offset_of(i) + header.payload_offset()](
                        std::uint64_t number, std::span<const std::uint64_t> chunk) {
        file->write_at(payload + number * file_format::kChunkBytes, std::as_bytes(chunk));
      };
    }
    check_payload(*parts_.stages[i], options, header, write_chunk);
    const std::vector<std::byte> bytes = file_format::encode_header(header);
    checksums_[i] = file_format::checksum_in(bytes);
    if (file != nullptr) file->write_at(offset_of(i), bytes);
  }
  checksum_ = checksums_[0];
  if (!grows) return;
  container_ = container_header(parts_, headers_, checksums_);
  const std::vector<std::byte> bytes = container_format::encode_header(*container_);
  checksum_ = file_format::checksum_in(bytes);
  if (file != nullptr) file->write_at(0, bytes);
}

std::vector<std::uint64_t> FilterWriter::saturated() const {
  std::vector<std::uint64_t> result;
  for (const Header& header : headers_) result.push_back(header.saturated);
  return result;
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

std::vector<std::uint64_t> write_filter(const FilterState& filter, const SaveOptions& options,
                                        const OutputFile& file) {
  if (file.write_at && !options.compress) {
    return FilterWriter::write_in_one_pass(parts_of(filter), options, file).saturated();
  }
  const FilterWriter writer(parts_of(filter), options);
  writer.write(file.append);
  return writer.saturated();
}

Statistics write_and_summarise(const FilterBase& filter, const SaveOptions& options,
                               const OutputFile& file) {
  const FilterState& state = FilterAccess::state(filter);
  return state.summary(write_filter(state, options, file), batch_of(options));
}

}  // namespace scbf
