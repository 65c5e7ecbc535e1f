// SPDX-License-Identifier: Apache-2.0
// Filters in files and streams: makes filters of what read_stages.hpp finds, and writes filters. A
// filter of a single stage is a filter file; a filter that grows is a container of filter files,
// one for each stage.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "files/filter_files.hpp"
#include "files/read_stages.hpp"
#include "files/write_stages.hpp"
#include "filter/state.hpp"
#include "filter/store_copies.hpp"
#include "kit/host_memory.hpp"
#include "kit/word_ops.hpp"

namespace scbf {

namespace {

// ---- read ---------------------------------------------------------------------------------------

std::unique_ptr<CounterStore> read_counters(Input& input, const StageHead& stage,
                                            const Backend& backend) {
  check_supports(backend, stage.header.geometry.layout(), Cell::counter);
  // On the host, pages exist only once they are written, so a false claim costs nothing. On a
  // device, a stream's claim costs its memory until the stream ends.
  std::unique_ptr<CounterStore> store = backend.allocate(stage.header.geometry.words());
  if (store->on_host()) {
    read_payload(
        input, stage,
        [&](std::uint64_t word, std::uint64_t count) {
          return std::span(store->words() + word, count);
        },
        [](std::uint64_t, std::span<const std::uint64_t>) {});
    if (has_ranked_counts(stage.header.geometry)) {
      if (const auto fault = misfit_of_spilled(stage.header.geometry, store->words())) {
        throw CorruptFile(fmt::format("{}: {}, at byte {} of the payload", input.name(),
                                      fault->what, fault->byte));
      }
    }
  } else {
    read_payload_chunks(input, stage,
                        [&](std::uint64_t word, std::span<const std::uint64_t> chunk) {
                          store->write(word, chunk);
                        });
  }
  return store;
}

/// The bits of counters; the counters are verified but not kept.
std::unique_ptr<CounterStore> read_bits_of_counters(Input& input, const StageHead& stage,
                                                    const Backend& backend) {
  const Geometry& geometry = stage.header.geometry;
  check_supports(backend, geometry.layout(), Cell::bit);
  std::unique_ptr<CounterStore> store = backend.allocate(geometry.with(Cell::bit).words());
  std::vector<std::uint64_t> bits;
  read_payload_chunks(input, stage, [&](std::uint64_t word, std::span<const std::uint64_t> chunk) {
    const WordRange part = bit_words_of(geometry, {word, chunk.size()});
    bits.resize(part.count);
    project_words(geometry, chunk.data(), part, bits.data());
    store->write(part.first, bits);
  });
  return store;
}

Stage make_stage(const StageHead& head, std::unique_ptr<CounterStore> store,
                 const Backend& backend) {
  Stage stage(head.shape, head.index, head.header.seed, backend, std::move(store));
  stage.keys_inserted = head.header.keys_inserted;
  stage.keys_removed = head.header.keys_removed;
  return stage;
}

/// Makes a filter of these cells; get(part, stage) returns the cells of each stage. A file of
/// counters also gives a filter of bits, but not the other way round: that throws WrongKind.
template <class Get>
FilterRead read_filter(Input& input, const Backend& backend, Cell cell, Get get) {
  std::vector<Stage> stages;
  Cell stored = cell;
  FileHead head = read_stages(input, [&](Input& part, StageHead&& stage) {
    if (stage.header.content == Content::delta) {
      throw WrongKind(FileKind::delta,
                      fmt::format("{}: a delta, from epoch {} to {}, and no filter", part.name(),
                                  stage.header.since.number, stage.header.epoch.number),
                      "apply it to a filter of bits");
    }
    if (cell == Cell::counter && stage.header.geometry.cell() == Cell::bit) {
      throw WrongKind(FileKind::filter_of_bits,
                      fmt::format("{}: a filter of bits, without counters", part.name()),
                      "load it as a BloomFilter");
    }
    stored = stage.header.geometry.cell();
    std::unique_ptr<CounterStore> store = get(part, stage);
    stage.shape = stage.shape.with(cell);
    stages.push_back(make_stage(stage, std::move(store), backend));
    stages.back().metadata = std::move(stage.header.metadata);
  });
  // In a filter file the metadata belongs to the filter, not to its stage.
  if (head.growth.policy() == Growth::Policy::one) stages[0].metadata.clear();
  auto state = std::make_unique<FilterState>(FilterState{.growth = head.growth,
                                                         .seed = head.seed,
                                                         .backend = &backend,
                                                         .stages = std::move(stages),
                                                         .metadata = std::move(head.metadata),
                                                         .cell = cell,
                                                         .epoch = head.epoch});
  return {std::move(state), head.checksum, head.payload, stored};
}

}  // namespace

FilterRead read_filter(Input& input, const Backend& backend, Cell cell) {
  return read_filter(input, backend, cell, [&](Input& part, const StageHead& stage) {
    return stage.header.geometry.cell() == cell ? read_counters(part, stage, backend)
                                                : read_bits_of_counters(part, stage, backend);
  });
}

namespace {

std::unique_ptr<FilterState> read_filter(const ByteSource& source, const FilterOptions& options,
                                         Cell cell) {
  const Backend& backend = find_backend(options.backend);
  check_supports(backend, cell);
  Input input("stream", source);
  return read_filter(input, backend, cell).state;
}

std::unique_ptr<FilterState> load_filter(const std::filesystem::path& path,
                                         const FilterOptions& options, Cell cell) {
  const Backend& backend = find_backend(options.backend);
  check_supports(backend, cell);
  FileInput file(path);
  std::unique_ptr<FilterState> filter = read_filter(file.input, backend, cell).state;
  check_end(file.input);
  return filter;
}

/// Makes a filter of cells where they lie; map(offset, bytes) returns these bytes of the input.
/// `instead`: what can be done with a filter that cannot be mapped.
template <class Map>
std::unique_ptr<FilterState> map_filter(Input& input, const Backend& backend, Cell cell,
                                        const char* instead, Map map) {
  FilterRead read =
      read_filter(input, backend, cell,
                  [&](Input& part, const StageHead& stage) -> std::unique_ptr<CounterStore> {
                    const StageHeader& header = stage.header;
                    if (header.geometry.cell() != cell)
                      return read_bits_of_counters(part, stage, backend);
                    check_supports(backend, header.geometry.layout(), cell);
                    if (header.packed()) {
                      throw IoError(fmt::format("{}: cannot map: the payload is compressed; {} it",
                                                part.name(), instead));
                    }
                    part.check_left(header.payload_bytes(), "the payload");
                    auto store = std::make_unique<HostMemory>(
                        map(stage.offset + header.payload_offset(), header.payload_bytes()));
                    file_format::check_padding(header, 0, {store->words(), header.geometry.words()},
                                               part.name());
                    skip_payload(part, stage);
                    return store;
                  });
  check_end(input);
  return std::move(read.state);
}

std::unique_ptr<FilterState> map_filter(const std::filesystem::path& path,
                                        const FilterOptions& options, Cell cell) {
  const Backend& backend = find_backend(options.backend);
  check_supports(backend, cell);
  if (backend.memory() != kHostMemory) return load_filter(path, options, cell);
  FileInput file(path);
  if (!file.input.bytes()) {
    throw IoError(fmt::format("{}: cannot map: not a regular file; load it", file.input.name()));
  }
  return map_filter(
      file.input, backend, cell, "load",
      [&](std::uint64_t offset, std::uint64_t bytes) { return file.file.map(offset, bytes); });
}

std::unique_ptr<FilterState> map_filter(std::span<const std::byte> bytes,
                                        const FilterOptions& options, Cell cell) {
  const Backend& backend = find_backend(options.backend);
  check_supports(backend, cell);
  Input input("memory", bytes);
  if (backend.memory() != kHostMemory) {
    std::unique_ptr<FilterState> filter = read_filter(input, backend, cell).state;
    check_end(input);
    return filter;
  }
  if (const auto beyond = reinterpret_cast<std::uintptr_t>(bytes.data()) % 64) {
    throw InvalidArgument(fmt::format(
        "map: the memory begins {} bytes after a multiple of 64: align it, or read it", beyond));
  }
  return map_filter(input, backend, cell, "read", [&](std::uint64_t offset, std::uint64_t count) {
    return HostMemory::borrow(bytes.subspan(offset, count));
  });
}

StageFileInfo info_of(const StageHead& stage, std::uint64_t stored_bytes) {
  const StageHeader& header = stage.header;
  return {.shape = stage.shape,
          .index = stage.index,
          .offset = stage.offset,
          .version = header.version(),
          .hash_version = file_format::kHashVersion,
          .counter_bits = header.geometry.cell_bits(),
          .keys_inserted = header.keys_inserted,
          .keys_removed = header.keys_removed,
          .saturated = header.saturated,
          .payload_offset = header.payload_offset(),
          .payload_bytes = header.payload_bytes(),
          .chunk_bytes = file_format::kChunkBytes,
          .chunks = file_format::chunk_count(header.payload_bytes()),
          .stored_bytes = stored_bytes,
          .changes = header.changes};
}

FileInfo read_info(const std::filesystem::path& path, bool verify) {
  FileInput file(path);
  FileInfo info = read_info(file.input, read_fixed_bytes(file.input), verify).info;
  check_end(file.input);
  return info;
}

}  // namespace

InfoRead read_info(Input& input, std::vector<std::byte> first, bool verify) {
  std::vector<StageFileInfo> stages;
  FileHead head = read_stages(input, std::move(first), [&](Input& part, StageHead&& stage) {
    const std::uint64_t begin = part.position();
    if (verify) {
      read_payload_chunks(part, stage, [](std::uint64_t, std::span<const std::uint64_t>) {});
    } else {
      skip_payload(part, stage);
    }
    stages.push_back(info_of(stage, part.position() - begin));
  });
  FileInfo info{.version = head.version,
                .growth = head.growth,
                .seed = head.seed,
                .stages = std::move(stages),
                .file_bytes = head.file_bytes,
                .metadata = std::move(head.metadata),
                .is_delta = head.content == Content::delta,
                .compressed = head.payload == Payload::packed,
                .epoch = head.epoch,
                .since = head.since};
  return {std::move(info), head.checksum};
}

void FilterBase::write(const ByteSink& sink, const SaveOptions& options) const {
  write_filter(*state_, options, sink);
}
void FilterBase::save(const std::filesystem::path& path, const SaveOptions& options) const {
  write_file(path, [&](const OutputFile& file) { write_filter(*state_, options, file); });
}
Filter Filter::read(const ByteSource& source, const FilterOptions& options) {
  return FilterAccess::make(read_filter(source, options, Cell::counter));
}
Filter Filter::load(const std::filesystem::path& path, const FilterOptions& options) {
  return FilterAccess::make(load_filter(path, options, Cell::counter));
}
Filter Filter::map(const std::filesystem::path& path, const FilterOptions& options) {
  return FilterAccess::make(map_filter(path, options, Cell::counter));
}
Filter Filter::map(std::span<const std::byte> bytes, const FilterOptions& options) {
  return FilterAccess::make(map_filter(bytes, options, Cell::counter));
}

BloomFilter BloomFilter::read(const ByteSource& source, const FilterOptions& options) {
  return BloomFilter(read_filter(source, options, Cell::bit));
}
BloomFilter BloomFilter::load(const std::filesystem::path& path, const FilterOptions& options) {
  return BloomFilter(load_filter(path, options, Cell::bit));
}
BloomFilter BloomFilter::map(const std::filesystem::path& path, const FilterOptions& options) {
  return BloomFilter(map_filter(path, options, Cell::bit));
}
BloomFilter BloomFilter::map(std::span<const std::byte> bytes, const FilterOptions& options) {
  return BloomFilter(map_filter(bytes, options, Cell::bit));
}

FileInfo read_file_info(const std::filesystem::path& path) { return read_info(path, false); }
FileInfo verify_file(const std::filesystem::path& path) { return read_info(path, true); }

}  // namespace scbf
