// SPDX-License-Identifier: Apache-2.0
// The message of a delta, taken apart to be applied: to a filter of bits (delta_apply.cpp), or to a
// member of a bank (bank/bank_deltas.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "files/chunk_coding.hpp"
#include "files/delta_coder.hpp"
#include "files/read_stages.hpp"
#include "filter/state.hpp"
#include "kit/few_keys.hpp"

namespace scbf {

/// Points into the delta.
struct DeltaMessage {
  /// A stage of the message, and its payload in it.
  struct Part {
    StageHead head;
    std::span<const std::byte> payload;
  };

  /// Takes a delta apart that is to be applied to `state`, of whose stages only the shapes matter.
  /// Throws InvalidArgument if the delta has been moved from, and Incompatible, naming both epochs,
  /// unless it begins at the epoch of the state, or is whole and of a later one.
  DeltaMessage(const FilterState& state, const Delta& delta);

  std::vector<Part> parts = {};  ///< oldest stage first
  std::optional<FileHead> head = {};
  /// Do the first parts have the shapes of the state's stages? Otherwise the message is whole, and
  /// takes the place of the filter.
  bool fits = false;
};

/// Memory for applying, taken before anything changes.
struct DeltaBuffers {
  file_format::ChunkDecoder decoder;
  std::vector<std::uint64_t> chunk = std::vector<std::uint64_t>(kChunkWords);
};

/// Calls flip(word, bits) for all bits that a part of a delta changes. Words ascend; one may come
/// several times.
template <class Flip>
void for_each_change(const DeltaMessage::Part& part, DeltaBuffers& buffers, Flip flip) noexcept {
  const StageHeader& header = part.head.header;
  const std::uint64_t all = header.geometry.words();
  walk_chunks(part.payload, file_format::chunk_count(header.payload_bytes()),
              [&](auto, const file_format::ChunkHeader& chunk, std::span<const std::byte> bytes,
                  std::uint64_t number) {
                using enum file_format::Coding;
                const auto coding = static_cast<file_format::Coding>(chunk.coding);
                const std::uint64_t first = number * kChunkWords;
                const std::uint64_t count = std::min(kChunkWords, all - first);
                if (coding == zeros) return;
                if (coding == gaps || coding == blocks) {
                  file_format::for_each_one(coding, bytes, count * 64, [&](std::uint64_t bit) {
                    flip(first + bit / 64, std::uint64_t{1} << bit % 64);
                  });
                  return;
                }
                const auto words = std::span(buffers.chunk).first(count);
                buffers.decoder.decode(Cell::bit, coding, bytes, words);
                for (std::uint64_t i = 0; i < count; ++i) {
                  if (words[i] != 0) flip(first + i, words[i]);
                }
              });
}

/// The bits of a stage on the host, changed while others look keys up: whole words are loaded and
/// stored.
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

/// Records what the header of a stage says of its bits, now that it has them.
void take_records_of(Stage& stage, const StageHead& head);

}  // namespace scbf
