// SPDX-License-Identifier: Apache-2.0
// Deltas: made from two states of a filter, read, and applied. A delta is a filter file or
// container (docs/file_format.md) with packed payloads, whose bits say where two epochs differ.
#include "scbf/delta.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "files/filter_files.hpp"
#include "files/read_stages.hpp"
#include "files/write_stages.hpp"
#include "filter/state.hpp"
#include "filter/store_copies.hpp"
#include "kit/few_keys.hpp"
#include "kit/word_ops.hpp"

namespace scbf {

namespace {

using file_format::ChunkHeader;
using file_format::Coding;
using Bytes = std::vector<std::byte>;

// ---- making -------------------------------------------------------------------------------------

/// The bits of a stage, chunk by chunk, on the host; also of counters.
class BitsOf {
 public:
  explicit BitsOf(const Stage& stage) : stage_(stage) {}

  std::span<const std::uint64_t> chunk(std::uint64_t word, std::uint64_t count) {
    if (stage_.geometry().cell() == Cell::bit) {
      return host_words(*stage_.store, word, count, copied_);
    }
    const auto counters = host_words(*stage_.store, 4 * word, 4 * count, copied_);
    bits_.resize(count);
    project_words(bits_.data(), counters.data(), count);
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
/// of what stands before each but its checksum.
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

/// Packs the bits of `now`, or where they differ from those of `from`. Returns them and how many
/// bits are 1.
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
    ones += nonzero_in_words(Cell::bit, chunk.data(), chunk.size());
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

/// Calls use(header, bytes, number) for each chunk of a packed payload in memory, which is sound.
/// `header` points into it.
template <class Byte, class Use>
void walk_chunks(std::span<Byte> payload, std::uint64_t count, Use use) {
  for (std::uint64_t number = 0; number < count; ++number) {
    const auto at = payload.template first<ChunkHeader::kBytes>();
    const ChunkHeader header = file_format::decode_chunk_header(at);
    use(at, header, payload.subspan(ChunkHeader::kBytes, header.bytes), number);
    payload = payload.subspan(ChunkHeader::kBytes + header.bytes);
  }
}

/// Puts a message together. `now` has the shapes of all stages.
Bytes message_of(const FilterState& now, std::vector<PackedStage> stages) {
  std::vector<StageHeader> fields;
  std::vector<Bytes> headers;
  std::size_t length = 0;
  for (PackedStage& stage : stages) {
    headers.push_back(file_format::encode_header(stage.header));
    fields.push_back(std::move(stage.header));
    const std::uint64_t checksum = checksum_in(headers.back());
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
    std::vector<container_format::Entry> entries;
    message = container_header(now, fields, headers, entries);
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

/// Can the bits of `now` be told by changes of those of `from` and by new stages?
bool continues(const FilterState& from, const FilterState& now) {
  return from.epoch && from.seed == now.seed && from.growth == now.growth &&
         from.stages.size() <= now.stages.size() &&
         std::equal(from.stages.begin(), from.stages.end(), now.stages.begin(), same_shape);
}

}  // namespace

struct DeltaCoder {
  /// What leads from `from` to the bits of `now`. Changes neither.
  static Delta between(const FilterState& from, const FilterState& now) {
    std::optional<Delta> changes;
    if (continues(from, now)) {
      changes = pack_all(&from, now, {});
      // Far below the bits themselves, a whole filter would not be shorter.
      if (changes->message_.size() < now.bytes() / (now.cell == Cell::bit ? 8 : 32)) {
        return std::move(*changes);
      }
    }
    const Epoch before = from.epoch;
    Delta whole =
        pack_all(nullptr, now, changes ? std::optional(changes->epoch_) : std::nullopt, before);
    if (changes && changes->message_.size() <= whole.message_.size()) return std::move(*changes);
    return whole;
  }

  /// Throws InvalidArgument if it has been moved from.
  static void check(const Delta& delta) { delta.check_holds(); }
  static void apply(FilterState& state, const Delta& delta);
  static bool changes_in_place(const FilterState& state, const Delta& delta);

  /// Reads a message to the end of `input`, whose bytes `kept` receives as they are read.
  static Delta read(Input& input, Bytes& kept);

 private:
  static Delta pack_all(const FilterState* from, const FilterState& now,
                        const std::optional<Epoch>& leads_to, const Epoch& before = {}) {
    Delta delta;
    delta.since_ = from != nullptr ? from->epoch : Epoch{};
    History history(from != nullptr ? from->epoch.history : before.history);
    std::vector<PackedStage> stages;
    const bool one = now.growth.policy() == Growth::Policy::one;
    for (std::size_t i = 0; i < now.stages.size(); ++i) {
      const Stage& stage = now.stages[i];
      const bool old = from != nullptr && i < from->stages.size();
      std::uint64_t ones = 0;
      stages.push_back(pack(old ? &from->stages[i] : nullptr, stage,
                            one ? now.metadata : stage.metadata, history, ones));
      StageHeader& header = stages.back().header;
      if (from != nullptr) {
        header.content = Content::delta;
        header.changes = ones;
        if (old) header.since = from->epoch;
      }
      delta.changes_ += ones;
    }
    const Epoch& last = from != nullptr ? from->epoch : before;
    delta.epoch_ = leads_to.value_or(Epoch{last.number + 1, history.value()});
    for (PackedStage& stage : stages) stage.header.epoch = delta.epoch_;
    delta.message_ = message_of(now, std::move(stages));
    return delta;
  }
};

// ---- reading ------------------------------------------------------------------------------------

Delta DeltaCoder::read(Input& input, Bytes& kept) {
  Delta delta;
  std::optional<History> history;
  const FileHead head = read_stages(input, [&](Input& part, StageHead&& stage, std::size_t,
                                               std::size_t) {
    const StageHeader& header = stage.header;
    if (!header.epoch) {
      throw Incompatible(fmt::format("{}: a filter without an epoch, and no delta: {}", part.name(),
                                     header.geometry.cell() == Cell::bit
                                         ? "read it as a BloomFilter"
                                         : "read it as a Filter"));
    }
    if (!history) history.emplace(header.since.history);
    delta.changes_ += header.changes;
    if (header.content == Content::filter) {
      read_payload_chunks(part, stage, [&](std::uint64_t, std::span<const std::uint64_t> chunk) {
        delta.changes_ += nonzero_in_words(Cell::bit, chunk.data(), chunk.size());
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
  if (input.bytes()) kept.reserve(*input.bytes());
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

// ---- applying -----------------------------------------------------------------------------------

namespace {

/// A stage of a message, and its payload in it.
struct Part {
  StageHead head;
  std::span<const std::byte> payload;
};

/// A message taken apart. What it holds points into it.
struct Message {
  std::vector<Part> parts = {};
  std::optional<FileHead> head = {};

  explicit Message(std::span<const std::byte> bytes) {
    const ByteSource source = source_of(bytes);
    Input input("delta", source);
    head = read_stages(input, [&](Input& part, StageHead&& stage, std::size_t, std::size_t) {
      const std::uint64_t begin = input.position();
      skip_payload(part, stage);
      parts.push_back({std::move(stage), bytes.subspan(begin, input.position() - begin)});
    });
  }
};

/// Changes bits on the host while others look keys up: whole words are loaded and stored.
class HostBits {
 public:
  explicit HostBits(Stage& stage) noexcept : words_(stage.store->words()) {}
  void flip(std::uint64_t word, std::uint64_t bits) noexcept {
    store_word(words_ + word, load_word(words_ + word) ^ bits);
  }
  void put(std::uint64_t word, std::uint64_t bits) noexcept {
    if (load_word(words_ + word) != bits) store_word(words_ + word, bits);
  }

 private:
  std::uint64_t* words_;
};

/// Buffers for applying, taken before anything changes.
struct Workplace {
  file_format::ChunkDecoder decoder;
  std::vector<std::uint64_t> chunk = std::vector<std::uint64_t>(kChunkWords);
};

/// Applies a payload that has been verified. Throws nothing.
void apply_payload(const Part& part, Stage& stage, Workplace& workplace) noexcept {
  HostBits bits(stage);
  const StageHeader& header = part.head.header;
  const bool flips = header.content == Content::delta;
  const std::uint64_t all = header.geometry.words();
  if (!header.packed()) {
    for (std::uint64_t word = 0; word < all; ++word) {
      std::uint64_t value;
      std::memcpy(&value, part.payload.data() + word * sizeof value, sizeof value);
      bits.put(word, value);
    }
    return;
  }
  walk_chunks(
      part.payload, file_format::chunk_count(header.payload_bytes()),
      [&](auto, const ChunkHeader& chunk, std::span<const std::byte> bytes, std::uint64_t number) {
        const auto coding = static_cast<Coding>(chunk.coding);
        const std::uint64_t first = number * kChunkWords;
        const std::uint64_t count = std::min(kChunkWords, all - first);
        if (flips && coding == Coding::zeros) return;
        if (flips && (coding == Coding::gaps || coding == Coding::blocks)) {
          file_format::for_each_one(coding, bytes, count * 64, [&](std::uint64_t bit) {
            bits.flip(first + bit / 64, std::uint64_t{1} << bit % 64);
          });
          return;
        }
        const auto words = std::span(workplace.chunk).first(count);
        workplace.decoder.decode(Cell::bit, coding, bytes, words);
        for (std::uint64_t i = 0; i < count; ++i) {
          if (!flips) {
            bits.put(first + i, words[i]);
          } else if (words[i] != 0) {
            bits.flip(first + i, words[i]);
          }
        }
      });
}

void check_order(const FilterState& state, const Delta& delta) {
  const Epoch has = state.epoch, since = delta.since(), to = delta.epoch();
  const auto refuse = [&](const std::string& what) {
    throw Incompatible(fmt::format("apply: {}", what));
  };
  if (delta.whole()) {
    if (has.number < to.number) return;
    refuse(
        fmt::format("the filter has epoch {}, and the whole filter is of epoch {}: it is older, "
                    "or its writer began anew; to take it, begin with a copy of it",
                    has.number, to.number));
  }
  if (has == since) return;
  if (!has) {
    refuse(fmt::format("the filter has no epoch, the delta begins at {}: begin with a whole filter",
                       since.number));
  }
  if (has.number != since.number) {
    refuse(
        fmt::format("the filter has epoch {}, the delta begins at {}", has.number, since.number));
  }
  refuse(
      fmt::format("the filter has epoch {}, as the delta asks, but of another history (0x{:016x} "
                  "and 0x{:016x}): begin with a whole filter",
                  has.number, has.history, since.history));
}

/// Do the first stages of the message have the shapes of the filter's stages?
bool fits(const FilterState& state, const Message& message) {
  if (state.seed != message.head->seed || !(state.growth == message.head->growth) ||
      state.stages.size() > message.parts.size()) {
    return false;
  }
  for (std::size_t i = 0; i < state.stages.size(); ++i) {
    const StageHead& head = message.parts[i].head;
    const Stage& stage = state.stages[i];
    if (stage.index != head.index || !(stage.shape == head.shape)) return false;
  }
  if (message.head->content == Content::filter) return true;
  // Stages that are new have no epoch to begin at; all others have.
  for (std::size_t i = 0; i < message.parts.size(); ++i) {
    const bool is_old = i < state.stages.size();
    if (static_cast<bool>(message.parts[i].head.header.since) != is_old) return false;
  }
  return true;
}

void take_over_books(Stage& stage, const StageHead& head) {
  stage.keys_inserted = head.header.keys_inserted;
  stage.keys_removed = head.header.keys_removed;
  stage.at_most = stage.geometry().counters();
  stage.known_nonzero.forget();
}

}  // namespace

bool DeltaCoder::changes_in_place(const FilterState& state, const Delta& delta) {
  // Of several stages, a key may leave one and enter another: for a moment it would be in none.
  if (!state.on_host() || state.read_only() || state.stages.size() != 1) return false;
  const Message message(delta.message());
  return message.parts.size() == 1 && fits(state, message);
}

void DeltaCoder::apply(FilterState& state, const Delta& delta) {
  state.check_writable();
  delta.check_holds();
  check_order(state, delta);
  Message message(delta.message());
  const bool fitting = fits(state, message);
  if (!fitting && !delta.whole()) {
    throw Incompatible(
        fmt::format("apply: the delta is of a filter with other stages: {}, and {} from epoch {} "
                    "on; the filter "
                    "has {}",
                    message.head->growth.describe(), message.parts.size(), delta.since().number,
                    state.growth.describe()));
  }
  if (!state.on_host()) {
    // A device may fail at any moment, so the host changes a copy.
    const Backend& host = find_backend("scalar");
    FilterState copy{state.growth, state.seed, &host};
    for (const Stage& stage : state.stages) copy.stages.push_back(stage.copy_on(host));
    copy.cell = state.cell;
    copy.epoch = state.epoch;
    apply(copy, delta);
    copy.move_to(*state.backend);
    state = std::move(copy);
    return;
  }
  if (!fitting) {
    const ByteSource source = source_of(delta.message());
    Input input("delta", source);
    state = std::move(*read_filter(input, *state.backend, Cell::bit));
    return;
  }
  // All memory is taken here, so that nothing can fail later.
  Workplace workplace;
  std::vector<Stage> added;
  const std::size_t old = state.stages.size();
  for (std::size_t i = old; i < message.parts.size(); ++i) {
    const StageHead& head = message.parts[i].head;
    added.push_back(Stage::empty(head.shape, head.index, state.seed, *state.backend));
  }
  state.stages.reserve(message.parts.size());
  for (std::size_t i = 0; i < message.parts.size(); ++i) {
    const Part& part = message.parts[i];
    Stage& stage = i < old ? state.stages[i] : added[i - old];
    apply_payload(part, stage, workplace);
    take_over_books(stage, part.head);
    if (state.growth.policy() != Growth::Policy::one) {
      stage.metadata = std::move(message.parts[i].head.header.metadata);
    }
  }
  std::ranges::move(added, std::back_inserter(state.stages));
  state.metadata = std::move(message.head->metadata);
  state.epoch = delta.epoch();
}

Epoch BloomFilter::epoch() const { return state_->epoch; }

void BloomFilter::apply(const Delta& delta) { DeltaCoder::apply(*state_, delta); }

Delta BloomFilter::advance(const Filter& now) {
  const FilterState& later = FilterAccess::state(now);
  state_->check_writable();
  Delta delta = DeltaCoder::between(*state_, later);
  apply(delta);
  return delta;
}

Delta BloomFilter::advance(const BloomFilter& now) {
  state_->check_writable();
  Delta delta = DeltaCoder::between(*state_, *now.state_);
  apply(delta);
  return delta;
}

// ---- replicas -----------------------------------------------------------------------------------

namespace {

BloomFilter begin_with(const Delta& whole, const FilterOptions& options) {
  DeltaCoder::check(whole);
  if (!whole.whole()) {
    throw Incompatible(
        fmt::format("a replica begins with a whole filter: this delta begins at epoch {}",
                    whole.since().number));
  }
  return BloomFilter::read(source_of(whole.message()), options);
}

}  // namespace

Replica::Replica(BloomFilter bits) : current_(std::make_shared<BloomFilter>(std::move(bits))) {
  epoch_ = current_->epoch();
}
Replica::Replica(const Delta& whole, const FilterOptions& options)
    : Replica(begin_with(whole, options)) {}

std::shared_ptr<const BloomFilter> Replica::current() const {
  const std::lock_guard lock(pointing_);
  return current_;
}

ContainsReport Replica::contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                                 const BatchOptions& options) const {
  return current()->contains(keys, out, options);
}
ContainsReport Replica::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                      const BatchOptions& options) const {
  return current()->contains_bits(keys, bits, options);
}
ContainsReport Replica::find(const KeyBatch& keys, std::span<std::uint64_t> indices,
                             const BatchOptions& options) const {
  return current()->find(keys, indices, options);
}

Epoch Replica::epoch() const {
  const std::lock_guard lock(pointing_);
  return epoch_;
}

void Replica::apply(const Delta& delta) {
  DeltaCoder::check(delta);
  const std::lock_guard lock(changing_);
  std::shared_ptr<BloomFilter> next = current_;  // only this function replaces it
  const FilterState& state = FilterAccess::state(*next);
  if (!DeltaCoder::changes_in_place(state, delta)) {
    next = std::make_shared<BloomFilter>(*next);
  }
  next->apply(delta);
  const std::lock_guard pointing(pointing_);
  current_ = std::move(next);
  epoch_ = delta.epoch();
}

BloomFilter Replica::snapshot() const {
  const std::lock_guard lock(changing_);
  return *current_;
}

}  // namespace scbf
