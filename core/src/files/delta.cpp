// SPDX-License-Identifier: Apache-2.0
// Deltas: made from two states of a filter, read and written.
#include "scbf/delta.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "files/delta_coder.hpp"
#include "files/read_stages.hpp"
#include "files/write_stages.hpp"
#include "filter/store_copies.hpp"
#include "kit/executor.hpp"
#include "kit/word_ops.hpp"

namespace scbf {

namespace {

using file_format::ChunkHeader;
using Bytes = std::vector<std::byte>;

// ---- making -------------------------------------------------------------------------------------

/// The bits of a stage, of bits or of counters, chunk by chunk, on the host.
class BitsOf {
 public:
  explicit BitsOf(const Stage& stage) : stage_(stage) {}

  std::span<const std::uint64_t> chunk(std::uint64_t word, std::uint64_t count) {
    if (stage_.geometry().cell() == Cell::bit) {
      return host_words(*stage_.store, word, count, copied_);
    }
    const WordRange bits = {word, count}, behind = counter_words_of(stage_.geometry(), bits);
    const auto counters = host_words(*stage_.store, behind.first, behind.count, copied_);
    bits_.resize(count);
    project_words(stage_.geometry(), counters.data(), bits, bits_.data());
    return bits_;
  }

 private:
  const Stage& stage_;
  std::vector<std::uint64_t> copied_, bits_;
};

/// A stage of a message. The checksums of its chunks are missing, as they follow from the header.
struct PackedStage {
  StageHeader header;
  Bytes chunks = {};
};

/// The history that a message leads to: XXH3-64, seeded with the history before, of all chunks and
/// their headers, without the checksums.
class History {
 public:
  explicit History(std::uint64_t before) noexcept {
    XXH3_INITSTATE(&state_);  // its seed is compared before it is set
    XXH3_64bits_reset_withSeed(&state_, before);
  }
  void add(const ChunkHeader& header, std::span<const std::byte> bytes) noexcept {
    XXH3_64bits_update(&state_, file_format::encode(header).data(), 8);
    if (!bytes.empty()) XXH3_64bits_update(&state_, bytes.data(), bytes.size());
  }
  std::uint64_t value() const noexcept { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

/// Packs the bits of `now` or, if `from` is not null, where they differ from its bits. Adds to
/// `ones` how many packed bits are 1.
PackedStage pack(const Stage* from, const Stage& now, const std::string& metadata, History& history,
                 std::uint64_t& ones) {
  PackedStage packed{header_fields(now, metadata)};
  packed.header.geometry = now.geometry().with(Cell::bit);
  packed.header.payload = Payload::packed;
  file_format::ChunkEncoder encoder(Cell::bit, false);
  BitsOf later(now);
  std::optional<BitsOf> earlier;
  if (from != nullptr) earlier.emplace(*from);
  std::vector<std::uint64_t> changed;
  const std::uint64_t words = packed.header.geometry.words();
  for (std::uint64_t word = 0; word < words; word += kChunkWords) {
    const std::uint64_t count = std::min(kChunkWords, words - word);
    std::span<const std::uint64_t> chunk = later.chunk(word, count);
    if (earlier) {
      const auto before = earlier->chunk(word, count);
      changed.resize(count);
      for (std::uint64_t i = 0; i < count; ++i) changed[i] = chunk[i] ^ before[i];
      chunk = changed;
    }
    ones += ones_in(chunk.data(), chunk.size());
    const auto [coding, bytes] = encoder.encode(chunk);
    const ChunkHeader header{static_cast<std::uint32_t>(coding),
                             static_cast<std::uint32_t>(bytes.size()), 0};
    history.add(header, bytes);
    const auto encoded = file_format::encode(header);
    packed.chunks.insert(packed.chunks.end(), encoded.begin(), encoded.end());
    packed.chunks.insert(packed.chunks.end(), bytes.begin(), bytes.end());
  }
  return packed;
}

/// Puts a message together. `now` has the shapes of all stages.
Bytes message_of(const FilterState& now, std::vector<PackedStage> stages) {
  std::vector<StageHeader> fields;
  std::vector<Bytes> headers;
  std::vector<std::uint64_t> checksums;
  std::size_t length = 0;
  for (PackedStage& stage : stages) {
    headers.push_back(file_format::encode_header(stage.header));
    fields.push_back(std::move(stage.header));
    const std::uint64_t checksum = file_format::checksum_in(headers.back());
    checksums.push_back(checksum);
    walk_chunks(std::span(stage.chunks), file_format::chunk_count(fields.back().payload_bytes()),
                [&](std::span<std::byte, ChunkHeader::kBytes> at, ChunkHeader header,
                    std::span<const std::byte> bytes, std::uint64_t number) {
                  header.checksum = file_format::packed_checksum(header, bytes, checksum, number);
                  std::ranges::copy(file_format::encode(header), at.begin());
                });
    length += headers.back().size() + stage.chunks.size();
  }
  Bytes message;
  if (now.growth.policy() != Growth::Policy::one) {
    message = container_format::encode_header(container_header(parts_of(now), fields, checksums));
  }
  message.reserve(message.size() + length);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    message.insert(message.end(), headers[i].begin(), headers[i].end());
    message.insert(message.end(), stages[i].chunks.begin(), stages[i].chunks.end());
  }
  return message;
}

bool same_shape(const Stage& a, const Stage& b) {
  return a.index == b.index && a.shape.full_at == b.shape.full_at && a.shape.fpr == b.shape.fpr &&
         a.geometry().with(Cell::bit) == b.geometry().with(Cell::bit);
}

/// Whether `now` can be described by changes to the bits of `from` and new stages.
bool continues(const FilterState& from, const FilterState& now) {
  return from.epoch && from.seed == now.seed && from.growth == now.growth &&
         from.stages.size() <= now.stages.size() &&
         std::equal(from.stages.begin(), from.stages.end(), now.stages.begin(), same_shape);
}

}  // namespace

Delta DeltaCoder::between(const FilterState& from, const FilterState& now) {
  if (!continues(from, now)) return pack_all(from, now, Content::filter);
  bool few = true;
  Delta changes = pack_all(from, now, Content::delta, {}, &few);
  // Changes are coded as ones are. So if there are no more of them, a whole filter is not shorter.
  if (few) return changes;
  Delta whole = pack_all(from, now, Content::filter, changes.epoch_);
  return changes.message_.size() <= whole.message_.size() ? std::move(changes) : std::move(whole);
}

Delta DeltaCoder::pack_all(const FilterState& from, const FilterState& now, Content content,
                           const std::optional<Epoch>& leads_to, bool* few) {
  const bool is_delta = content == Content::delta;
  Delta delta;
  if (is_delta) delta.since_ = from.epoch;
  History history(from.epoch.history);
  std::vector<PackedStage> stages;
  const bool one = now.growth.policy() == Growth::Policy::one;
  for (std::size_t i = 0; i < now.stages.size(); ++i) {
    const Stage& stage = now.stages[i];
    const bool old = is_delta && i < from.stages.size();
    std::uint64_t ones = 0;
    stages.push_back(pack(old ? &from.stages[i] : nullptr, stage,
                          one ? now.metadata : stage.metadata, history, ones));
    StageHeader& header = stages.back().header;
    header.content = content;
    if (is_delta) header.changes = ones;
    if (old) header.since = from.epoch;
    delta.changes_ += ones;
    if (few != nullptr && ones > stage.nonzero(kOnThisThread)) *few = false;
  }
  delta.epoch_ = leads_to.value_or(Epoch{from.epoch.number + 1, history.value()});
  for (PackedStage& stage : stages) stage.header.epoch = delta.epoch_;
  delta.message_ = message_of(now, std::move(stages));
  return delta;
}

// ---- reading ------------------------------------------------------------------------------------

Delta DeltaCoder::read(Input& input, Bytes& kept) {
  Delta delta;
  std::optional<History> history;
  const FileHead head = read_stages(input, [&](Input& part, StageHead&& stage) {
    const StageHeader& header = stage.header;
    if (!header.epoch) {
      const bool bits = header.geometry.cell() == Cell::bit;
      throw WrongKind(bits ? FileKind::filter_of_bits : FileKind::filter,
                      fmt::format("{}: a filter of {}, and no delta", part.name(),
                                  bits ? "bits without an epoch" : "counters"),
                      bits ? "load it as a BloomFilter" : "load it as a Filter");
    }
    if (!history) history.emplace(header.since.history);
    delta.changes_ += header.changes;
    if (header.content == Content::filter) {
      read_payload_chunks(part, stage, [&](std::uint64_t, std::span<const std::uint64_t> chunk) {
        delta.changes_ += ones_in(chunk.data(), chunk.size());
      });
      return;
    }
    const std::size_t begin = kept.size();
    read_payload_chunks(part, stage, [](std::uint64_t, std::span<const std::uint64_t>) {});
    walk_chunks(std::span<const std::byte>(kept).subspan(begin),
                file_format::chunk_count(header.payload_bytes()),
                [&](auto, const ChunkHeader& chunk, std::span<const std::byte> bytes,
                    std::uint64_t) { history->add(chunk, bytes); });
  });
  if (head.content == Content::delta && head.epoch.history != history->value()) {
    throw CorruptFile(fmt::format("{}: history 0x{:016x}: its changes lead to 0x{:016x}",
                                  input.name(), head.epoch.history, history->value()));
  }
  delta.since_ = head.since;
  delta.epoch_ = head.epoch;
  delta.message_ = std::move(kept);
  return delta;
}

namespace {

Delta read_message(const std::string& name, const ByteSource& source, InputFile* file) {
  Bytes kept;
  const ByteSource keeping = [&](std::span<std::byte> out) {
    const std::size_t got = source(out);
    kept.insert(kept.end(), out.begin(),
                out.begin() + static_cast<std::ptrdiff_t>(std::min(got, out.size())));
    return got;
  };
  Input input = file != nullptr ? Input(name, keeping, *file) : Input(name, keeping);
  Delta delta = DeltaCoder::read(input, kept);
  if (file != nullptr) check_end(input);
  return delta;
}

}  // namespace

Delta Delta::read(const ByteSource& source) { return read_message("stream", source, nullptr); }
Delta Delta::load(const std::filesystem::path& path) {
  FileInput file(path);
  return read_message(file.input.name(), file.source, &file.file);
}
Delta& Delta::operator=(Delta other) noexcept {
  message_.swap(other.message_);
  since_ = other.since_;
  epoch_ = other.epoch_;
  changes_ = other.changes_;
  return *this;
}
void Delta::check_holds() const {
  if (message_.empty()) detail::throw_moved_from("Delta");
}
void Delta::write(const ByteSink& sink) const {
  check_holds();
  sink(message_);
}
void Delta::save(const std::filesystem::path& path) const {
  check_holds();
  write_file(path, [&](const ByteSink& sink) { write(sink); });
}

}  // namespace scbf
