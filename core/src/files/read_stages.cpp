// SPDX-License-Identifier: Apache-2.0
#include "files/read_stages.hpp"

#include <array>

#include "files/bank_format.hpp"
#include "files/parts_header.hpp"
#include "files/rows_format.hpp"
#include "filter/last_digits.hpp"

namespace scbf {

using file_format::kChunkBytes;

// All formats begin with this many bytes of fixed meaning.
constexpr std::uint64_t kFixedBytes = file_format::kFixedBytes;
static_assert(parts_header::kFixedBytes == kFixedBytes);

std::vector<std::byte> read_fixed_bytes(Input& input) {
  std::vector<std::byte> bytes(kFixedBytes);
  bytes.resize(input.read_some(bytes));
  return bytes;
}

std::vector<std::byte> read_header(Input& input, std::vector<std::byte> bytes,
                                   std::uint64_t header_bytes) {
  if (input.bytes() && *input.bytes() < header_bytes) {
    file_format::throw_truncated(*input.bytes(), header_bytes, input.name());
  }
  // A stream may claim any length, so memory grows only as bytes arrive.
  while (bytes.size() < header_bytes) {
    const std::uint64_t old = bytes.size();
    bytes.resize(old + std::min(header_bytes - old, kChunkBytes));
    input.read_all(std::span(bytes).subspan(old), header_bytes);
  }
  return bytes;
}

void read_padding(Input& input, std::uint64_t to, std::uint64_t whole, const char* between) {
  std::vector<std::byte> bytes(to - input.position());
  input.read_all(bytes, whole);
  const auto stray = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{0}; });
  if (stray != bytes.end()) {
    throw CorruptFile(fmt::format("{}: padding between {} is not zero, at byte {}", input.name(),
                                  between, to - (bytes.end() - stray)));
  }
}

namespace {

using container_format::Entry;
using file_format::ChunkHeader;

// ---- one stage: a filter file -------------------------------------------------------------------

/// `bytes` are the first kFixedBytes of the header, or fewer if the input ended.
HeaderRead<StageHeader> read_stage_header(Input& input, std::vector<std::byte> bytes) {
  const std::uint64_t header_bytes = file_format::checked_header_bytes(bytes, input.name());
  bytes = read_header(input, std::move(bytes), header_bytes);
  StageHeader header = file_format::decode_header(bytes, input.name());
  if (input.bytes() && !header.packed()) {
    file_format::check_file_bytes(header, *input.bytes(), input.name());
  }
  if (header.packed()) {
    const std::uint64_t least =
        file_format::chunk_count(header.payload_bytes()) * ChunkHeader::kBytes;
    input.check_left(least, "the headers of its chunks");
  }
  return {std::move(header), file_format::checksum_in(bytes)};
}

// ---- several stages: a container ----------------------------------------------------------------

HeaderRead<ContainerHeader> read_container_header(Input& input, std::vector<std::byte> bytes) {
  const std::uint64_t header_bytes = container_format::checked_header_bytes(bytes, input.name());
  bytes = read_header(input, std::move(bytes), header_bytes);
  ContainerHeader header = container_format::decode_header(bytes, input.name());
  if (input.bytes() && *input.bytes() < header.file_bytes()) {
    file_format::throw_truncated(*input.bytes(), header.file_bytes(), input.name());
  }
  return {std::move(header), file_format::checksum_in(bytes)};
}

void check_stage_header(const StageHeader& header, std::uint64_t checksum, const std::string& name,
                        const ContainerHeader& container, const Entry& entry) {
  const auto refuse = [&](const std::string& what) {
    throw CorruptFile(fmt::format("{}: {}", name, what));
  };
  if (checksum != entry.header_checksum) {
    refuse("its header is not the one that the container knows");
  }
  if (header.seed != container.seed) {
    refuse(fmt::format("seed {}: the container has {}", header.seed, container.seed));
  }
  if (entry.full_at < 1 || entry.full_at > header.geometry.counters()) {
    refuse(fmt::format("full at {} counters: must be 1 to {}", entry.full_at,
                       header.geometry.counters()));
  }
  if (header.version() != container.version) {
    refuse(fmt::format("version {}: the container has {}", header.version(), container.version));
  }
  if (header.packed() != container.packed()) {
    refuse(fmt::format("its payload is {}: the container says {}",
                       header.packed() ? "packed" : "not packed",
                       container.packed() ? "packed" : "not packed"));
  }
  if (!header.packed() && header.file_bytes() != entry.bytes) {
    refuse(fmt::format("{} bytes: the container says {}", header.file_bytes(), entry.bytes));
  }
}

/// The shape that the file gives; or the one that the growth computes here, if they differ only in
/// the last digits, because another C library computed the logarithms.
StageShape shape_of(const StageHeader& header, const Entry& entry, const Growth& growth) {
  const StageShape said = {header.geometry, entry.fpr, entry.full_at};
  if (entry.index == kForeignStage) return said;
  if (growth.policy() == Growth::Policy::tightening) {
    // Computing the stage takes a search, so do it only if the rate differs slightly: then another
    // library wrote the file.
    const double fpr = tightened_fpr(growth.fpr(), growth.tightening(), entry.index);
    if (said.fpr == fpr || !is_close(said.fpr, fpr)) return said;
  }
  try {
    const StageShape here = growth.stage(entry.index).with(said.geometry.cell());
    if (is_close(said, here)) return here;
  } catch (const InvalidArgument&) {  // the growth has no such stage
  }
  return said;
}

/// Throws CorruptFile if a delta begins nowhere.
void check_first(const StageHeader& header, const std::string& name) {
  if (header.content == Content::delta && !header.since) {
    throw CorruptFile(fmt::format("{}: a delta since epoch 0: must be at least 1", name));
  }
}

/// What all stages of a file have in common with the first one.
void check_like_first(const StageHeader& header, const StageHeader& first,
                      const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw CorruptFile(fmt::format("{}: {} the first stage", name, what));
  };
  if (header.geometry.cell() != first.geometry.cell()) {
    throw CorruptFile(fmt::format("{}: it has {}s: the stages before it have {}s", name,
                                  to_string(header.geometry.cell()),
                                  to_string(first.geometry.cell())));
  }
  if (header.content != first.content) refuse("it is a delta, or not, unlike");
  if (header.epoch != first.epoch) {
    refuse(fmt::format("epoch {}: not that of", header.epoch.number));
  }
  // A stage that is new since then begins with bits that are all 0.
  if (header.since && header.since != first.since) {
    refuse(fmt::format("delta since epoch {}: not as", header.since.number));
  }
}

FileHead read_container(Input& input, std::vector<std::byte> fixed_bytes, const UseStage& use) {
  auto [container, head_checksum] = read_container_header(input, std::move(fixed_bytes));
  const std::uint64_t file_bytes = container.file_bytes();
  std::optional<StageHeader> first;
  for (std::size_t i = 0; i < container.stages.size(); ++i) {
    const Entry& entry = container.stages[i];
    const std::uint64_t offset = container.packed() ? input.position() : entry.offset;
    read_padding(input, offset, file_bytes, "stages");
    // In a stream, lengths are only claims.
    Input part(fmt::format("{}: stage {}", input.name(), i), input,
               container.packed() ? Input::kNoLimit : entry.bytes);
    auto [header, checksum] = read_stage_header(part, read_fixed_bytes(part));
    check_stage_header(header, checksum, part.name(), container, entry);
    if (first) check_like_first(header, *first, part.name());
    if ((header.geometry.layout() == Layout::ranked) !=
        (container.growth.layout() == Layout::ranked)) {
      throw CorruptFile(fmt::format("{}: layout {}, in a growth of {}", part.name(),
                                    to_string(header.geometry.layout()),
                                    to_string(container.growth.layout())));
    }
    if (!first) {
      check_first(header, part.name());
      first = header;
      first->chunk_checksums = {};  // may be many
    }
    const StageShape shape = shape_of(header, entry, container.growth);
    use(part, StageHead{std::move(header), checksum, shape, entry.index, offset});
  }
  return {.version = container.version,
          .growth = container.growth,
          .seed = container.seed,
          .file_bytes = container.packed() ? input.position() : file_bytes,
          .metadata = std::move(container.metadata),
          .content = first->content,
          .payload = first->payload,
          .epoch = first->epoch,
          .since = first->since,
          .checksum = head_checksum};
}

/// The same for the single stage of a filter file.
FileHead read_single(Input& input, std::vector<std::byte> fixed_bytes, const UseStage& use) {
  auto [header, checksum] = read_stage_header(input, std::move(fixed_bytes));
  check_first(header, input.name());
  const Growth growth = Growth::one(header.geometry);
  FileHead head{.version = header.version(),
                .growth = growth,
                .seed = header.seed,
                .file_bytes = header.file_bytes(),
                .metadata = header.metadata,
                .content = header.content,
                .payload = header.payload,
                .epoch = header.epoch,
                .since = header.since,
                .checksum = checksum};
  const StageShape shape = growth.stage(0).with(header.geometry.cell());
  use(input, StageHead{std::move(header), checksum, shape, 0, 0});
  if (head.payload == Payload::packed) head.file_bytes = input.position();
  return head;
}

}  // namespace

FileHead read_stages(Input& input, const UseStage& use) {
  return read_stages(input, read_fixed_bytes(input), use);
}

FileHead read_stages(Input& input, std::vector<std::byte> bytes, const UseStage& use) {
  if (rows_format::is_bank_of_bits(bytes)) {
    throw WrongKind(FileKind::bank_of_bits,
                    fmt::format("{}: a bank of bits, and no filter", input.name()),
                    "load it as a BloomBank");
  }
  if (bank_format::is_bank(bytes)) {
    throw WrongKind(FileKind::bank,
                    fmt::format("{}: a bank of filters, and no filter", input.name()),
                    "load it as a Bank, or as a BloomBank");
  }
  return container_format::is_container(bytes) ? read_container(input, std::move(bytes), use)
                                               : read_single(input, std::move(bytes), use);
}

// ---- packed payloads ----------------------------------------------------------------------------

namespace {

/// Reads the header of the next chunk, of `words` words. Throws CorruptFile unless it makes sense.
ChunkHeader read_chunk_header(Input& input, std::uint64_t number, std::uint64_t words) {
  std::array<std::byte, ChunkHeader::kBytes> bytes;
  input.read_whole(bytes, "the header of a chunk");
  const ChunkHeader header = file_format::decode_chunk_header(bytes);
  if (header.coding >= file_format::kCodings) {
    throw CorruptFile(fmt::format("{}: payload chunk {}: coding {}: must be below {}", input.name(),
                                  number, header.coding, file_format::kCodings));
  }
  if (header.bytes > words * sizeof(std::uint64_t)) {
    throw CorruptFile(fmt::format("{}: payload chunk {}: {} bytes: must be at most {}",
                                  input.name(), number, header.bytes,
                                  words * sizeof(std::uint64_t)));
  }
  return header;
}

template <class Use>
void for_each_chunk_header(Input& input, const PackedPayload& payload, Use use) {
  std::uint64_t number = payload.first_chunk;
  for (std::uint64_t word = 0; word < payload.words; word += kChunkWords, ++number) {
    const std::uint64_t words = std::min(kChunkWords, payload.words - word);
    use(read_chunk_header(input, number, words), number, word, words);
  }
}

}  // namespace

void for_each_packed_chunk(Input& input, const PackedPayload& payload,
                           const std::function<void(const PackedChunk&)>& use) {
  std::vector<std::byte> buffer;
  for_each_chunk_header(
      input, payload,
      [&](const ChunkHeader& header, std::uint64_t number, std::uint64_t word,
          std::uint64_t words) {
        if (buffer.size() < header.bytes) buffer.resize(header.bytes);
        const auto bytes = std::span(buffer).first(header.bytes);
        input.read_whole(bytes, "a chunk");
        const std::uint64_t computed =
            file_format::packed_checksum(header, bytes, payload.header_checksum, number);
        if (computed != header.checksum) {
          file_format::throw_chunk_mismatch(input.name(), number, header.checksum, computed);
        }
        use({static_cast<file_format::Coding>(header.coding), number, bytes, word, words});
      });
}

void throw_bad_chunk(const std::string& name, const PackedChunk& chunk,
                     const file_format::Fault& why) {
  throw CorruptFile(fmt::format("{}: payload chunk {}: coding {}: {}", name, chunk.number,
                                static_cast<unsigned>(chunk.coding), *why));
}

void skip_payload(Input& input, const StageHead& stage) {
  if (!stage.header.packed()) {
    return input.skip(stage.header.payload_bytes(), "the payload");
  }
  skip_packed_payload(input, {stage.header.geometry.words(), stage.checksum});
}

void skip_packed_payload(Input& input, const PackedPayload& payload) {
  for_each_chunk_header(
      input, payload, [&](const ChunkHeader& header, std::uint64_t, std::uint64_t, std::uint64_t) {
        input.skip(header.bytes, "a chunk");
      });
}

}  // namespace scbf
