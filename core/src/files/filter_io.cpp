// SPDX-License-Identifier: Apache-2.0
// Filters to and from bytes: what the format demands (file_format.hpp) joined with where the
// bytes are (file_io.hpp). The order of the checks matters: nothing is allocated for a claim
// before that claim has been bounded by what is really there.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "files/file_format.hpp"
#include "files/file_input.hpp"
#include "files/filter_files.hpp"
#include "filter/filter_state.hpp"
#include "filter/store_copies.hpp"
#include "kit/host_store.hpp"

namespace scbf {

namespace {

using file_format::Header;
using file_format::kChunkBytes;
using file_format::kFixedBytes;
using file_format::PayloadChecker;

constexpr std::uint64_t kChunkWords = kChunkBytes / sizeof(std::uint64_t);

Header read_header(Input& input) {
  std::vector<std::byte> bytes(kFixedBytes);
  bytes.resize(input.read_some(bytes));
  const std::uint64_t header_bytes = file_format::checked_header_bytes(bytes, input.name());
  if (input.bytes() && *input.bytes() < header_bytes) {
    file_format::throw_truncated(*input.bytes(), header_bytes, input.name());
  }
  // A stream's claim is believed only as far as bytes arrive.
  while (bytes.size() < header_bytes) {
    const std::uint64_t old = bytes.size();
    bytes.resize(old + std::min(header_bytes - old, kChunkBytes));
    input.read_all(std::span(bytes).subspan(old), header_bytes);
  }
  Header header = file_format::decode_header(bytes, input.name());
  if (input.bytes()) file_format::check_file_bytes(header, *input.bytes(), input.name());
  return header;
}

/// Reads and verifies the payload; `place(word, count)` says where words go, and `take(word,
/// chunk)` gets each chunk once it is verified.
template <class Place, class Take>
void read_payload(Input& input, const Header& header, Place place, Take take) {
  PayloadChecker checker(header, input.name());
  const std::uint64_t words = header.geometry.words();
  for (std::uint64_t word = 0; word < words; word += kChunkWords) {
    const std::span<std::uint64_t> chunk = place(word, std::min(kChunkWords, words - word));
    input.read_all(std::as_writable_bytes(chunk), header.file_bytes());
    checker.check_chunk(chunk);
    take(word, chunk);
  }
  checker.finish();
}

void take_nothing(std::uint64_t, std::span<const std::uint64_t>) {}

std::unique_ptr<CounterStore> read_counters(Input& input, const Header& header,
                                            const Backend& backend) {
  // Pages of the host's memory exist only once they are written to, so an empty claim costs
  // nothing; on a device a stream's claim costs its memory until the stream ends.
  std::unique_ptr<CounterStore> store = backend.allocate(header.geometry.words());
  if (store->on_host()) {
    const auto in_place = [&](std::uint64_t word, std::uint64_t count) {
      return std::span(store->words() + word, count);
    };
    read_payload(input, header, in_place, take_nothing);
  } else {
    std::vector<std::uint64_t> buffer(std::min(kChunkWords, header.geometry.words()));
    read_payload(
        input, header,
        [&](std::uint64_t, std::uint64_t count) { return std::span(buffer).first(count); },
        [&](std::uint64_t word, std::span<const std::uint64_t> chunk) {
          store->write(word, chunk);
        });
  }
  return store;
}

FileInfo to_info(Header&& header) {
  const std::uint64_t offset = header.payload_offset();
  return {.version = file_format::kVersion,
          .hash = "XXH3-64",
          .hash_version = file_format::kHashVersion,
          .counter_bits = kCounterBits,
          .geometry = header.geometry,
          .seed = header.seed,
          .keys_inserted = header.keys_inserted,
          .keys_removed = header.keys_removed,
          .saturated = header.saturated,
          .file_bytes = offset + header.payload_bytes(),
          .payload_offset = offset,
          .payload_bytes = header.payload_bytes(),
          .chunk_bytes = kChunkBytes,
          .chunks = header.chunk_checksums.size(),
          .metadata = std::move(header.metadata)};
}

template <class State>
std::unique_ptr<State> make_state(Header&& header, std::unique_ptr<CounterStore> store,
                                  const Backend& backend) {
  return std::make_unique<State>(State{.geometry = header.geometry,
                                       .seed = header.seed,
                                       .backend = &backend,
                                       .store = std::move(store),
                                       .keys_inserted = header.keys_inserted,
                                       .keys_removed = header.keys_removed,
                                       .metadata = std::move(header.metadata)});
}

}  // namespace

namespace {

template <class Use>
void for_each_chunk(const CounterStore& store, std::uint64_t words, Use use) {
  std::vector<std::uint64_t> buffer;
  for (std::uint64_t word = 0; word < words; word += kChunkWords) {
    use(host_words(store, word, std::min(kChunkWords, words - word), buffer));
  }
}

}  // namespace

Header FilterFiles::header_of(const Filter& filter) {
  Header header{.geometry = filter.geometry(),
                .seed = filter.seed(),
                .keys_inserted = filter.keys_inserted(),
                .keys_removed = filter.keys_removed(),
                .saturated = 0,
                .chunk_checksums = {},
                .metadata = filter.metadata()};
  header.chunk_checksums.reserve(file_format::chunk_count(header.payload_bytes()));
  for_each_chunk(*filter.state_->store, header.geometry.words(),
                 [&](std::span<const std::uint64_t> chunk) {
                   header.chunk_checksums.push_back(file_format::checksum(std::as_bytes(chunk)));
                   header.saturated += file_format::count_saturated(chunk);
                 });
  return header;
}

void FilterFiles::write_payload(const Filter& filter, const ByteSink& sink) {
  for_each_chunk(*filter.state_->store, filter.geometry().words(),
                 [&](std::span<const std::uint64_t> chunk) { sink(std::as_bytes(chunk)); });
}

Header FilterFiles::read_header(Input& input) { return scbf::read_header(input); }

Filter FilterFiles::read_counters(Input& input, Header&& header, const Backend& backend) {
  std::unique_ptr<CounterStore> store = scbf::read_counters(input, header, backend);
  return Filter(make_state<Filter::State>(std::move(header), std::move(store), backend));
}

void FilterFiles::verify_counters(Input& input, const Header& header) {
  std::vector<std::uint64_t> buffer(std::min(kChunkWords, header.geometry.words()));
  read_payload(
      input, header,
      [&](std::uint64_t, std::uint64_t count) { return std::span(buffer).first(count); },
      take_nothing);
}

Filter FilterFiles::map_counters(const std::filesystem::path& path, std::uint64_t offset,
                                 Header&& header, const Backend& backend) {
  auto store = std::make_unique<HostStore>(
      CounterMemory::map_file(path, offset + header.payload_offset(), header.payload_bytes()));
  return Filter(make_state<Filter::State>(std::move(header), std::move(store), backend));
}

FileInfo FilterFiles::info_of(Header&& header) { return to_info(std::move(header)); }

void Filter::write(const ByteSink& sink) const {
  sink(file_format::encode_header(FilterFiles::header_of(*this)));
  FilterFiles::write_payload(*this, sink);
}

void Filter::save(const std::filesystem::path& path) const {
  write_file(path, [this](const ByteSink& sink) { write(sink); });
}

Filter Filter::read(const ByteSource& source, const FilterOptions& options) {
  const Backend& backend = find_backend(options.backend);
  Input input("stream", source);
  return FilterFiles::read_counters(input, read_header(input), backend);
}

Filter Filter::load(const std::filesystem::path& path, const FilterOptions& options) {
  const Backend& backend = find_backend(options.backend);
  FileInput file(path);
  Filter filter = FilterFiles::read_counters(file.input, read_header(file.input), backend);
  check_end(file.input);
  return filter;
}

Filter Filter::map(const std::filesystem::path& path, const FilterOptions& options) {
  const Backend& backend = find_backend(options.backend);
  if (backend.memory() != kHostMemory) return load(path, options);
  // Another process may save between our two looks at the name; then the mapped payload would
  // belong to another header. Once both looks met the same file, it is ours.
  constexpr int kTries = 100;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    FileInput file(path);
    if (!file.input.bytes()) {
      throw IoError(fmt::format("{}: cannot map: not a regular file; load it", path.string()));
    }
    Header header = read_header(file.input);
    Filter filter = FilterFiles::map_counters(path, 0, std::move(header), backend);
    if (file.file.still_named()) return filter;
  }
  throw IoError(fmt::format("{}: cannot map: replaced {} times meanwhile", path.string(), kTries));
}

FileInfo read_file_info(const std::filesystem::path& path) {
  FileInput file(path);
  return to_info(read_header(file.input));
}

FileInfo verify_file(const std::filesystem::path& path) {
  FileInput file(path);
  Header header = read_header(file.input);
  FilterFiles::verify_counters(file.input, header);
  check_end(file.input);
  return to_info(std::move(header));
}

}  // namespace scbf
