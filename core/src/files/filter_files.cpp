// SPDX-License-Identifier: Apache-2.0
// Reads and writes filters: combines the two formats (file_format.hpp, container_format.hpp) with
// files and streams (file_io.hpp). A filter of a single stage is a filter file; a filter that grows
// is a container of filter files, one for each stage. The order of the checks matters: memory for a
// claimed length is allocated only after the claim has been bounded by what is really there.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "files/container_format.hpp"
#include "files/file_format.hpp"
#include "files/file_input.hpp"
#include "filter/state.hpp"
#include "filter/store_copies.hpp"
#include "kit/host_memory.hpp"
#include "kit/word_ops.hpp"
#include "scbf/detail/in_quotes.hpp"

namespace scbf {

namespace {

using container_format::Entry;
using file_format::kChunkBytes;
using file_format::PayloadChecker;
using ContainerHeader = container_format::Header;
using StageHeader = file_format::Header;

constexpr std::uint64_t kChunkWords = kChunkBytes / sizeof(std::uint64_t);
// Both formats begin with this many bytes of fixed meaning.
constexpr std::uint64_t kFixedBytes = file_format::kFixedBytes;
static_assert(container_format::kFixedBytes == kFixedBytes);

// ---- one stage: a filter file -------------------------------------------------------------------

std::vector<std::byte> read_fixed_bytes(Input& input) {
  std::vector<std::byte> bytes(kFixedBytes);
  bytes.resize(input.read_some(bytes));
  return bytes;
}

/// `bytes` are the first kFixedBytes of the header, or fewer if the input ended.
StageHeader read_stage_header(Input& input, std::vector<std::byte> bytes) {
  const std::uint64_t header_bytes = file_format::checked_header_bytes(bytes, input.name());
  if (input.bytes() && *input.bytes() < header_bytes) {
    file_format::throw_truncated(*input.bytes(), header_bytes, input.name());
  }
  // A stream may claim any length, so memory grows only as bytes arrive.
  while (bytes.size() < header_bytes) {
    const std::uint64_t old = bytes.size();
    bytes.resize(old + std::min(header_bytes - old, kChunkBytes));
    input.read_all(std::span(bytes).subspan(old), header_bytes);
  }
  StageHeader header = file_format::decode_header(bytes, input.name());
  if (input.bytes()) file_format::check_file_bytes(header, *input.bytes(), input.name());
  return header;
}

/// Reads and verifies the counters. `into(word, count)` returns where words are stored; `take(word,
/// chunk)` receives each chunk once it is verified.
template <class Into, class Take>
void read_payload(Input& input, const StageHeader& header, Into into, Take take) {
  PayloadChecker checker(header, input.name());
  const std::uint64_t words = header.geometry.words();
  for (std::uint64_t word = 0; word < words; word += kChunkWords) {
    const std::span<std::uint64_t> chunk = into(word, std::min(kChunkWords, words - word));
    input.read_all(std::as_writable_bytes(chunk), header.file_bytes());
    checker.check_chunk(chunk);
    take(word, chunk);
  }
  checker.finish();
}

/// The same, with one buffer for all chunks.
template <class Take>
void read_payload_chunks(Input& input, const StageHeader& header, Take take) {
  std::vector<std::uint64_t> buffer(std::min(kChunkWords, header.geometry.words()));
  read_payload(
      input, header,
      [&](std::uint64_t, std::uint64_t count) { return std::span(buffer).first(count); }, take);
}

std::unique_ptr<CounterStore> read_counters(Input& input, const StageHeader& header,
                                            const Backend& backend) {
  // On the host, pages exist only once they are written, so a false claim costs nothing. On a
  // device, a stream's claim costs its memory until the stream ends.
  std::unique_ptr<CounterStore> store = backend.allocate(header.geometry.words());
  if (store->on_host()) {
    read_payload(
        input, header,
        [&](std::uint64_t word, std::uint64_t count) {
          return std::span(store->words() + word, count);
        },
        [](std::uint64_t, std::span<const std::uint64_t>) {});
  } else {
    read_payload_chunks(input, header,
                        [&](std::uint64_t word, std::span<const std::uint64_t> chunk) {
                          store->write(word, chunk);
                        });
  }
  return store;
}

/// The bits of counters, which are verified and not kept.
std::unique_ptr<CounterStore> read_bits_of_counters(Input& input, const StageHeader& header,
                                                    const Backend& backend) {
  std::unique_ptr<CounterStore> store = backend.allocate(header.geometry.with(Cell::bit).words());
  std::vector<std::uint64_t> bits(std::min(kChunkWords, header.geometry.words()) / 4);
  read_payload_chunks(input, header, [&](std::uint64_t word, std::span<const std::uint64_t> chunk) {
    project_words(bits.data(), chunk.data(), chunk.size() / 4);
    store->write(word / 4, std::span(bits).first(chunk.size() / 4));
  });
  return store;
}

template <class Use>
void for_each_chunk(const Stage& stage, Use use) {
  std::vector<std::uint64_t> buffer;
  const std::uint64_t words = stage.geometry().words();
  for (std::uint64_t word = 0; word < words; word += kChunkWords) {
    use(host_words(*stage.store, word, std::min(kChunkWords, words - word), buffer));
  }
}

/// The header of a stage, checksums included. Cost: one pass over the counters.
StageHeader header_of(const Stage& stage, const std::string& metadata) {
  StageHeader header{.geometry = stage.geometry(),
                     .seed = stage.seed,
                     .keys_inserted = stage.keys_inserted,
                     .keys_removed = stage.keys_removed,
                     .saturated = 0,
                     .chunk_checksums = {},
                     .metadata = metadata};
  header.chunk_checksums.reserve(file_format::chunk_count(header.payload_bytes()));
  for_each_chunk(stage, [&](std::span<const std::uint64_t> chunk) {
    header.chunk_checksums.push_back(file_format::checksum(std::as_bytes(chunk)));
    header.saturated += file_format::count_saturated(stage.geometry().cell(), chunk);
  });
  return header;
}

void write_counters(const Stage& stage, const ByteSink& sink) {
  for_each_chunk(stage, [&](std::span<const std::uint64_t> chunk) { sink(std::as_bytes(chunk)); });
}

// ---- several stages: a container ----------------------------------------------------------------

std::uint64_t checksum_in(std::span<const std::byte> header) noexcept {
  std::uint64_t value;
  std::memcpy(&value, header.data() + file_format::kChecksumOffset, sizeof value);
  return value;
}

ContainerHeader read_container_header(Input& input, std::vector<std::byte> bytes,
                                      std::uint64_t& file_bytes) {
  const std::uint64_t header_bytes = container_format::checked_header_bytes(bytes, input.name());
  if (input.bytes() && *input.bytes() < header_bytes) {
    file_format::throw_truncated(*input.bytes(), header_bytes, input.name());
  }
  bytes.resize(header_bytes);
  input.read_all(std::span(bytes).subspan(kFixedBytes), header_bytes);
  ContainerHeader header = container_format::decode_header(bytes, input.name(), file_bytes);
  if (input.bytes() && *input.bytes() < file_bytes) {
    file_format::throw_truncated(*input.bytes(), file_bytes, input.name());
  }
  return header;
}

/// Reads up to byte `to` and checks that all bytes are zero.
void read_padding(Input& input, std::uint64_t to, std::uint64_t file_bytes) {
  std::vector<std::byte> bytes(to - input.position());
  input.read_all(bytes, file_bytes);
  const auto stray = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{0}; });
  if (stray != bytes.end()) {
    throw CorruptFile(fmt::format("{}: padding between stages is not zero, at byte {}",
                                  input.name(), to - (bytes.end() - stray)));
  }
}

void check_stage_header(const StageHeader& header, const std::string& name,
                        const ContainerHeader& container, const Entry& entry) {
  const auto refuse = [&](const std::string& what) {
    throw CorruptFile(fmt::format("{}: {}", name, what));
  };
  if (checksum_in(file_format::encode_header(header)) != entry.header_checksum) {
    refuse("its header is not the one that the container knows");
  }
  if (header.seed != container.seed) {
    refuse(fmt::format("seed {}: the container has {}", header.seed, container.seed));
  }
  if (entry.full_at < 1 || entry.full_at > header.geometry.counters()) {
    refuse(fmt::format("full at {} counters: must be 1 to {}", entry.full_at,
                       header.geometry.counters()));
  }
  if (header.file_bytes() != entry.bytes) {
    refuse(fmt::format("{} bytes: the container says {}", header.file_bytes(), entry.bytes));
  }
}

bool close(double a, double b) { return std::abs(a - b) <= container_format::kClose * b; }

/// The shape that the file gives; or the one that the growth computes here, if they differ only in
/// the last digits, because another C library computed the logarithms.
StageShape shape_of(const StageHeader& header, const Entry& entry, const Growth& growth) {
  const StageShape said = {header.geometry, entry.fpr, entry.full_at};
  if (entry.index == kForeignStage) return said;
  if (growth.policy() == Growth::Policy::tightening) {
    // Computing the stage takes a search, so do it only if the rate differs slightly: then another
    // library wrote the file.
    const double fpr = tightened_fpr(growth.fpr(), growth.tightening(), entry.index);
    if (said.fpr == fpr || !close(said.fpr, fpr)) return said;
  }
  try {
    StageShape here = growth.stage(entry.index);
    here.geometry = here.geometry.with(said.geometry.cell());
    const auto [less, more] = std::minmax(here.full_at, said.full_at);
    if (here.geometry == said.geometry && close(said.fpr, here.fpr) && more - less <= 1) {
      return here;
    }
  } catch (const InvalidArgument&) {  // the growth has no such stage
  }
  return said;
}

// ---- both formats, read -------------------------------------------------------------------------

/// The part of a file before its stages.
struct FileHead {
  std::uint32_t version;
  Growth growth;
  std::uint64_t seed;
  std::uint64_t file_bytes;
  std::string metadata;
};

/// The header of a stage, and where it is.
struct StageHead {
  StageHeader header;
  StageShape shape;
  std::uint32_t index;
  std::uint64_t offset;  ///< of the stage's header in the file
};

/// Calls use(part, stage) for each stage of a container, after its header has been read and
/// checked. `use` must read the counters from `part` or skip them in `input`.
template <class Use>
FileHead read_container(Input& input, std::vector<std::byte> fixed_bytes, Use use) {
  std::uint64_t file_bytes = 0;
  ContainerHeader container = read_container_header(input, std::move(fixed_bytes), file_bytes);
  std::optional<Cell> first_cell;
  for (std::size_t i = 0; i < container.stages.size(); ++i) {
    const Entry& entry = container.stages[i];
    read_padding(input, entry.offset, file_bytes);
    std::uint64_t left = entry.bytes;
    const ByteSource source = [&](std::span<std::byte> out) {
      const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left));
      const std::size_t got = input.read_some(out.first(most));
      left -= got;
      return got;
    };
    // If the length of the input is known, so are those of its stages; in a stream they are only
    // claims.
    Input part(fmt::format("{}: stage {}", input.name(), i), source,
               input.bytes() ? std::optional(entry.bytes) : std::nullopt);
    StageHeader header = read_stage_header(part, read_fixed_bytes(part));
    check_stage_header(header, part.name(), container, entry);
    if (header.geometry.cell() != first_cell.value_or(header.geometry.cell())) {
      throw CorruptFile(fmt::format("{}: it has {}s: the stages before it have {}s", part.name(),
                                    to_string(header.geometry.cell()), to_string(*first_cell)));
    }
    first_cell = header.geometry.cell();
    const StageShape shape = shape_of(header, entry, container.growth);
    use(part, StageHead{std::move(header), shape, entry.index, entry.offset});
  }
  return {container_format::kVersion, container.growth, container.seed, file_bytes,
          std::move(container.metadata)};
}

/// The same for the single stage of a filter file.
template <class Use>
FileHead read_single(Input& input, std::vector<std::byte> fixed_bytes, Use use) {
  StageHeader header = read_stage_header(input, std::move(fixed_bytes));
  const Growth growth = Growth::one(header.geometry);
  FileHead head{file_format::kVersion, growth, header.seed, header.file_bytes(), header.metadata};
  StageShape shape = growth.stage(0);
  shape.geometry = header.geometry;
  use(input, StageHead{std::move(header), shape, 0, 0});
  return head;
}

template <class Use>
FileHead read_file(Input& input, Use use) {
  std::vector<std::byte> bytes = read_fixed_bytes(input);
  return container_format::is_container(bytes) ? read_container(input, std::move(bytes), use)
                                               : read_single(input, std::move(bytes), use);
}

Stage make_stage(const StageHead& head, std::unique_ptr<CounterStore> store,
                 const Backend& backend) {
  Stage stage(head.shape, head.index, head.header.seed, backend, std::move(store));
  stage.keys_inserted = head.header.keys_inserted;
  stage.keys_removed = head.header.keys_removed;
  return stage;
}

/// Makes a filter of these cells; get(part, stage) returns the cells of each stage. A file of
/// counters also gives a filter of bits, and not the other way round: then it throws Incompatible.
template <class Get>
std::unique_ptr<FilterState> read_filter(Input& input, const Backend& backend, Cell cell, Get get) {
  std::vector<Stage> stages;
  FileHead head = read_file(input, [&](Input& part, StageHead&& stage) {
    if (cell == Cell::counter && stage.header.geometry.cell() == Cell::bit) {
      throw Incompatible(fmt::format(
          "{}: a filter of bits: there are no counters to load; as a BloomFilter it can be asked",
          part.name()));
    }
    std::unique_ptr<CounterStore> store = get(part, stage);
    stage.shape.geometry = stage.shape.geometry.with(cell);
    stages.push_back(make_stage(stage, std::move(store), backend));
    stages.back().metadata = std::move(stage.header.metadata);
  });
  // In a filter file the metadata belongs to the filter, not to its stage.
  if (head.growth.policy() == Growth::Policy::one) stages[0].metadata.clear();
  return std::make_unique<FilterState>(FilterState{
      head.growth, head.seed, &backend, std::move(stages), std::move(head.metadata), cell});
}

std::unique_ptr<FilterState> read_filter(Input& input, const Backend& backend, Cell cell) {
  return read_filter(input, backend, cell, [&](Input& part, const StageHead& stage) {
    return stage.header.geometry.cell() == cell
               ? read_counters(part, stage.header, backend)
               : read_bits_of_counters(part, stage.header, backend);
  });
}

std::unique_ptr<FilterState> read_filter(const ByteSource& source, const FilterOptions& options,
                                         Cell cell) {
  const Backend& backend = find_backend(options.backend);
  check_supports(backend, cell);
  Input input("stream", source);
  return read_filter(input, backend, cell);
}

std::unique_ptr<FilterState> load_filter(const std::filesystem::path& path,
                                         const FilterOptions& options, Cell cell) {
  const Backend& backend = find_backend(options.backend);
  check_supports(backend, cell);
  FileInput file(path);
  std::unique_ptr<FilterState> filter = read_filter(file.input, backend, cell);
  check_end(file.input);
  return filter;
}

std::unique_ptr<FilterState> map_filter(const std::filesystem::path& path,
                                        const FilterOptions& options, Cell cell) {
  const Backend& backend = find_backend(options.backend);
  check_supports(backend, cell);
  if (backend.memory() != kHostMemory) return load_filter(path, options, cell);
  // Another process may replace the file while we open it by name several times; the mapped
  // counters would then belong to another header. So try again until the name refers to the same
  // file throughout.
  constexpr int kTries = 100;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    FileInput file(path);
    if (!file.input.bytes()) {
      throw IoError(fmt::format("{}: cannot map: not a regular file; load it",
                                detail::in_quotes(path.string())));
    }
    std::unique_ptr<FilterState> filter =
        read_filter(file.input, backend, cell,
                    [&](Input& part, const StageHead& stage) -> std::unique_ptr<CounterStore> {
                      const StageHeader& header = stage.header;
                      if (header.geometry.cell() != cell)
                        return read_bits_of_counters(part, header, backend);
                      auto store = std::make_unique<HostMemory>(
                          path, stage.offset + header.payload_offset(), header.payload_bytes());
                      file_format::check_padding(
                          header, 0, {store->words(), header.geometry.words()}, part.name());
                      file.input.skip(header.payload_bytes(), header.file_bytes());
                      return store;
                    });
    check_end(file.input);
    if (file.file.still_named()) return filter;
  }
  throw IoError(fmt::format("{}: cannot map: replaced {} times meanwhile",
                            detail::in_quotes(path.string()), kTries));
}

StageFileInfo info_of(const StageHead& stage) {
  const StageHeader& header = stage.header;
  return {.shape = stage.shape,
          .offset = stage.offset,
          .version = file_format::kVersion,
          .hash = "XXH3-64",
          .hash_version = file_format::kHashVersion,
          .counter_bits = header.geometry.cell_bits(),
          .keys_inserted = header.keys_inserted,
          .keys_removed = header.keys_removed,
          .saturated = header.saturated,
          .payload_offset = header.payload_offset(),
          .payload_bytes = header.payload_bytes(),
          .chunk_bytes = kChunkBytes,
          .chunks = header.chunk_checksums.size()};
}

FileInfo read_info(const std::filesystem::path& path, bool verify) {
  FileInput file(path);
  std::vector<StageFileInfo> stages;
  FileHead head = read_file(file.input, [&](Input& part, StageHead&& stage) {
    if (verify) {
      read_payload_chunks(part, stage.header, [](std::uint64_t, std::span<const std::uint64_t>) {});
    } else {
      file.input.skip(stage.header.payload_bytes(), stage.header.file_bytes());
    }
    stages.push_back(info_of(stage));
  });
  check_end(file.input);
  return {head.version,      head.growth,     head.seed,
          std::move(stages), head.file_bytes, std::move(head.metadata)};
}

// ---- both formats, written ----------------------------------------------------------------------

void write_container(const FilterState& filter, const ByteSink& sink) {
  ContainerHeader container{
      .growth = filter.growth, .seed = filter.seed, .metadata = filter.metadata};
  std::vector<std::vector<std::byte>> headers;
  for (const Stage& stage : filter.stages) {
    const StageHeader header = header_of(stage, stage.metadata);
    headers.push_back(file_format::encode_header(header));
    container.stages.push_back({0, header.file_bytes(), stage.shape.full_at, stage.shape.fpr,
                                stage.index, checksum_in(headers.back())});
  }
  const std::uint64_t file_bytes = container.lay_out();
  sink(container_format::encode_header(container, file_bytes));
  std::uint64_t at = container.bytes();
  for (std::size_t i = 0; i < filter.stages.size(); ++i) {
    const Entry& entry = container.stages[i];
    if (entry.offset > at) sink(std::vector<std::byte>(entry.offset - at));
    sink(headers[i]);
    write_counters(filter.stages[i], sink);
    at = entry.offset + entry.bytes;
  }
}

void write_filter(const FilterState& filter, const ByteSink& sink) {
  if (filter.growth.policy() != Growth::Policy::one) return write_container(filter, sink);
  const Stage& stage = filter.stages[0];
  sink(file_format::encode_header(header_of(stage, filter.metadata)));
  write_counters(stage, sink);
}

}  // namespace

void Filter::write(const ByteSink& sink) const { write_filter(*state_, sink); }
void Filter::save(const std::filesystem::path& path) const {
  write_file(path, [this](const ByteSink& sink) { write(sink); });
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

void BloomFilter::write(const ByteSink& sink) const { write_filter(*state_, sink); }
void BloomFilter::save(const std::filesystem::path& path) const {
  write_file(path, [this](const ByteSink& sink) { write(sink); });
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

FileInfo read_file_info(const std::filesystem::path& path) { return read_info(path, false); }
FileInfo verify_file(const std::filesystem::path& path) { return read_info(path, true); }

}  // namespace scbf
