// SPDX-License-Identifier: Apache-2.0
// Reads the structure of both formats (file_format.hpp, container_format.hpp): checks headers, and
// passes each stage, with its payload still to be read, to a callback. The order of the checks
// matters: memory for a claimed length is allocated only after the claim has been bounded by what
// is really there.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "files/chunk_coding.hpp"
#include "files/container_format.hpp"
#include "files/file_format.hpp"
#include "files/file_input.hpp"
#include "filter/stage.hpp"

namespace scbf {

using ContainerHeader = container_format::Header;
using StageHeader = file_format::Header;
using file_format::Content;
using file_format::Payload;

using file_format::kChunkWords;

/// A header that was read, of whatever format.
template <class Header>
struct HeaderRead {
  Header header;
  std::uint64_t checksum;  ///< of the header
};

/// The part of a file before its stages.
struct FileHead {
  std::uint32_t version;
  Growth growth;
  std::uint64_t seed;
  std::uint64_t file_bytes;  ///< of the whole file
  std::string metadata;
  Content content;
  Payload payload;
  Epoch epoch, since;      ///< as in the headers of the stages
  std::uint64_t checksum;  ///< of the first header
};

/// The header of a stage, and where it is.
struct StageHead {
  StageHeader header;
  std::uint64_t checksum;  ///< of the header
  StageShape shape;
  std::uint32_t index;
  std::uint64_t offset;  ///< of the stage's header in the file
};

/// The first bytes of a file, as many as tell what it is, or fewer if it ends before.
std::vector<std::byte> read_fixed_bytes(Input& input);
/// The whole header, of this length, that begins with these bytes. Throws CorruptFile.
std::vector<std::byte> read_header(Input& input, std::vector<std::byte> bytes,
                                   std::uint64_t header_bytes);
/// Reads up to byte `to` and checks that all bytes are zero; `whole` bytes are expected in all, as
/// the message says if there are fewer. Throws CorruptFile.
void read_padding(Input& input, std::uint64_t to, std::uint64_t whole, const char* between);

/// Calls use(part, stage) for each stage, oldest first, after its header has been read and checked.
/// `use` must leave `part` behind the payload, for example by read_payload or skip_payload. Throws
/// CorruptFile, or Incompatible if it is no filter but a bank.
using UseStage = std::function<void(Input& part, StageHead&& stage)>;
FileHead read_stages(Input& input, const UseStage& use);
/// The same, if read_fixed_bytes has returned `first`.
FileHead read_stages(Input& input, std::vector<std::byte> first, const UseStage& use);

/// A chunk of a packed payload, its checksum verified. `bytes` is valid until the next is read.
struct PackedChunk {
  file_format::Coding coding;
  std::uint64_t number;
  std::span<const std::byte> bytes;
  std::uint64_t first_word, words;
};
/// A packed payload: so many words, in a file whose header has this checksum.
struct PackedPayload {
  std::uint64_t words;
  std::uint64_t header_checksum;
  std::uint64_t first_chunk = 0;  ///< number of the first chunk
};
/// Calls use(chunk) for each of its chunks.
void for_each_packed_chunk(Input& input, const PackedPayload& payload,
                           const std::function<void(const PackedChunk&)>& use);
/// Skips it, without reading it where possible. Checks no more than the headers of its chunks.
void skip_packed_payload(Input& input, const PackedPayload& payload);
/// Throws CorruptFile.
[[noreturn]] void throw_bad_chunk(const std::string& name, const PackedChunk& chunk,
                                  const file_format::Fault& why);

/// Reads a packed payload of these cells. `into(word, count)` returns where words are stored;
/// `take(word, chunk)` receives each chunk, its checksum verified.
template <class Into, class Take>
void read_packed_words(Input& input, const PackedPayload& payload, Cell cell, Into into,
                       Take take) {
  file_format::ChunkDecoder decoder;
  for_each_packed_chunk(input, payload, [&](const PackedChunk& packed) {
    const std::span<std::uint64_t> chunk = into(packed.first_word, packed.words);
    if (const auto why = decoder.decode(cell, packed.coding, packed.bytes, chunk)) {
      throw_bad_chunk(input.name(), packed, why);
    }
    take(packed.first_word, chunk);
  });
}

/// The same for a plain payload in a file of `file_bytes`; `take` must verify the checksums.
template <class Into, class Take>
void read_plain_words(Input& input, std::uint64_t words, std::uint64_t file_bytes, Into into,
                      Take take) {
  for (std::uint64_t word = 0; word < words; word += kChunkWords) {
    const std::span<std::uint64_t> chunk = into(word, std::min(kChunkWords, words - word));
    input.read_all(std::as_writable_bytes(chunk), file_bytes);
    take(word, chunk);
  }
}

/// Reads and verifies the payload of a stage, of either kind. `into` as above; `take(word, chunk)`
/// receives each chunk once it is verified.
template <class Into, class Take>
void read_payload(Input& input, const StageHead& stage, Into into, Take take) {
  const StageHeader& header = stage.header;
  const std::uint64_t words = header.geometry.words();
  file_format::PayloadChecker checker(header, input.name());
  const auto checked = [&](std::uint64_t word, std::span<const std::uint64_t> chunk) {
    checker.check_chunk(chunk);
    take(word, chunk);
  };
  if (header.packed()) {
    read_packed_words(input, {words, stage.checksum}, header.geometry.cell(), into, checked);
  } else {
    read_plain_words(input, words, header.file_bytes(), into, checked);
  }
  checker.finish();
}

/// The same, with one buffer for all chunks.
template <class Take>
void read_payload_chunks(Input& input, const StageHead& stage, Take take) {
  std::vector<std::uint64_t> buffer(std::min(kChunkWords, stage.header.geometry.words()));
  read_payload(
      input, stage,
      [&](std::uint64_t, std::uint64_t count) { return std::span(buffer).first(count); }, take);
}

/// Skips the payload, without reading it where possible. Checks no more than its length.
void skip_payload(Input& input, const StageHead& stage);

}  // namespace scbf
