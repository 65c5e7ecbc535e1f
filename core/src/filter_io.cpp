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

#include "file_format.hpp"
#include "file_io.hpp"
#include "filter_state.hpp"
#include "host_store.hpp"
#include "store_copies.hpp"

namespace scbf {

namespace {

using file_format::Header;
using file_format::kChunkBytes;
using file_format::kFixedBytes;
using file_format::PayloadChecker;

constexpr std::uint64_t kChunkWords = kChunkBytes / sizeof(std::uint64_t);

/// Bytes in order, with a name for messages and, where it is known, a length.
class Input {
 public:
  Input(std::string name, const ByteSource& source, std::optional<std::uint64_t> bytes = {})
      : name_(std::move(name)), source_(source), bytes_(bytes) {}

  const std::string& name() const noexcept { return name_; }
  std::optional<std::uint64_t> bytes() const noexcept { return bytes_; }
  std::uint64_t position() const noexcept { return position_; }

  /// Fills `out` as far as there is something.
  std::size_t read_some(std::span<std::byte> out) {
    std::size_t got = 0;
    while (got < out.size()) {
      const std::size_t n = source_(out.subspan(got));
      if (n > out.size() - got) {
        throw InvalidArgument(
            fmt::format("byte source: gave {} bytes where {} were asked for", n, out.size() - got));
      }
      if (n == 0) break;
      got += n;
    }
    position_ += got;
    return got;
  }
  /// Fills `out`, or throws CorruptFile saying that `whole` bytes should have been there.
  void read_all(std::span<std::byte> out, std::uint64_t whole) {
    if (read_some(out) < out.size()) file_format::throw_truncated(position_, whole, name_);
  }

 private:
  std::string name_;
  const ByteSource& source_;
  std::optional<std::uint64_t> bytes_;
  std::uint64_t position_ = 0;
};

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

void check_end(Input& input) {
  std::byte more;
  const std::uint64_t end = input.position();
  if (input.read_some({&more, 1}) != 0) {
    throw CorruptFile(
        fmt::format("{}: bytes follow the filter: must be {} bytes", input.name(), end));
  }
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

/// An open file as an Input; both live here together because the input borrows the source.
struct FileInput {
  explicit FileInput(const std::filesystem::path& path)
      : file(path),
        source([this](std::span<std::byte> out) { return file.read(out); }),
        input(path.string(), source, file.bytes()) {}
  FileInput(const FileInput&) = delete;
  FileInput& operator=(const FileInput&) = delete;

  InputFile file;
  ByteSource source;
  Input input;
};

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

void Filter::write(const ByteSink& sink) const {
  const CounterStore& store = *state_->store;
  const std::uint64_t words = geometry().words();
  std::vector<std::uint64_t> buffer;
  Header header{.geometry = geometry(),
                .seed = seed(),
                .keys_inserted = keys_inserted(),
                .keys_removed = keys_removed(),
                .saturated = 0,
                .chunk_checksums = {},
                .metadata = metadata()};
  const auto for_each_chunk = [&](auto use) {
    for (std::uint64_t word = 0; word < words; word += kChunkWords) {
      use(host_words(store, word, std::min(kChunkWords, words - word), buffer));
    }
  };
  header.chunk_checksums.reserve(file_format::chunk_count(header.payload_bytes()));
  for_each_chunk([&](std::span<const std::uint64_t> chunk) {
    header.chunk_checksums.push_back(file_format::checksum(std::as_bytes(chunk)));
    header.saturated += file_format::count_saturated(chunk);
  });
  sink(file_format::encode_header(header));
  for_each_chunk([&](std::span<const std::uint64_t> chunk) { sink(std::as_bytes(chunk)); });
}

void Filter::save(const std::filesystem::path& path) const {
  write_file(path, [this](const ByteSink& sink) { write(sink); });
}

Filter Filter::read(const ByteSource& source, const FilterOptions& options) {
  const Backend& backend = find_backend(options.backend);
  Input input("stream", source);
  Header header = read_header(input);
  std::unique_ptr<CounterStore> store = read_counters(input, header, backend);
  return Filter(make_state<State>(std::move(header), std::move(store), backend));
}

Filter Filter::load(const std::filesystem::path& path, const FilterOptions& options) {
  const Backend& backend = find_backend(options.backend);
  FileInput file(path);
  Header header = read_header(file.input);
  std::unique_ptr<CounterStore> store = read_counters(file.input, header, backend);
  check_end(file.input);
  return Filter(make_state<State>(std::move(header), std::move(store), backend));
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
    auto store = std::make_unique<HostStore>(
        CounterMemory::map_file(path, header.payload_offset(), header.payload_bytes()));
    if (!file.file.still_named()) continue;
    return Filter(make_state<State>(std::move(header), std::move(store), backend));
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
  std::vector<std::uint64_t> buffer(std::min(kChunkWords, header.geometry.words()));
  read_payload(
      file.input, header,
      [&](std::uint64_t, std::uint64_t count) { return std::span(buffer).first(count); },
      take_nothing);
  check_end(file.input);
  return to_info(std::move(header));
}

}  // namespace scbf
