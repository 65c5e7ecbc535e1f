// SPDX-License-Identifier: Apache-2.0
// Applies deltas: all checks and all memory first, then the bits, so that a delta is applied as a
// whole or not at all.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "files/delta_message.hpp"
#include "files/filter_files.hpp"
#include "filter/last_digits.hpp"
#include "kit/counted.hpp"

namespace scbf {

void take_records_of(Stage& stage, const StageHead& head) {
  stage.records() = {.keys_inserted = head.header.keys_inserted,
                     .keys_removed = head.header.keys_removed,
                     .nonzero_at_most = stage.geometry().counters()};
}

namespace {

using file_format::ChunkHeader;
using file_format::Coding;

/// Makes the bits those of a whole filter. Throws nothing.
void put_all(const DeltaMessage::Part& part, Stage& stage, DeltaBuffers& buffers) noexcept {
  HostBits bits(stage);
  const StageHeader& header = part.head.header;
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
        const std::uint64_t first = number * kChunkWords;
        const auto words = std::span(buffers.chunk).first(std::min(kChunkWords, all - first));
        buffers.decoder.decode(Cell::bit, static_cast<Coding>(chunk.coding), bytes, words);
        for (std::uint64_t i = 0; i < words.size(); ++i) bits.put(first + i, words[i]);
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

bool has_stages_of(const DeltaMessage& message, const FilterState& state) {
  if (state.seed != message.head->seed || !(state.growth == message.head->growth) ||
      state.stages.size() > message.parts.size()) {
    return false;
  }
  for (std::size_t i = 0; i < state.stages.size(); ++i) {
    const StageHead& head = message.parts[i].head;
    const Stage& stage = state.stages[i];
    if (stage.index != head.index || !is_close(stage.shape, head.shape)) return false;
  }
  if (message.head->content == Content::filter) return true;
  // Stages that are new have no epoch to begin at; all others have.
  for (std::size_t i = 0; i < message.parts.size(); ++i) {
    const bool is_old = i < state.stages.size();
    if (static_cast<bool>(message.parts[i].head.header.since) != is_old) return false;
  }
  return true;
}

}  // namespace

DeltaMessage::DeltaMessage(const FilterState& state, const Delta& delta) {
  DeltaCoder::check(delta);
  check_order(state, delta);
  const ByteSource source = source_of(delta.message());
  Input input("delta", source);
  head = read_stages(input, [&](Input& part, StageHead&& stage) {
    const std::uint64_t begin = input.position();
    skip_payload(part, stage);
    parts.push_back({std::move(stage), delta.message().subspan(begin, input.position() - begin)});
  });
  fits = has_stages_of(*this, state);
  if (!fits && !delta.whole()) {
    const auto described = [](const Growth& growth, std::uint64_t seed, std::size_t stages) {
      return fmt::format("{} with seed {} and {}", growth.describe(), seed,
                         counted(stages, "stage"));
    };
    throw Incompatible(
        fmt::format("apply: the delta is of another filter, {}: this one is {}, of epoch {}, too; "
                    "begin with a whole filter",
                    described(head->growth, head->seed, parts.size()),
                    described(state.growth, state.seed, state.stages.size()), state.epoch.number));
  }
}

bool DeltaCoder::changes_in_place(const FilterState& state, const Delta& delta) {
  // With several stages, a key may leave one and enter another: for a moment it would be in none.
  if (!state.on_host() || state.read_only() || state.stages.size() != 1) return false;
  const DeltaMessage message(state, delta);
  return message.fits && message.parts.size() == 1;
}

void DeltaCoder::apply(FilterState& state, const Delta& delta) {
  state.check_writable();
  DeltaMessage message(state, delta);
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
  if (!message.fits) {
    const ByteSource source = source_of(delta.message());
    Input input("delta", source);
    state = std::move(*read_filter(input, *state.backend, Cell::bit).state);
    return;
  }
  // All memory is taken here, so that nothing can fail later.
  DeltaBuffers buffers;
  std::vector<Stage> added;
  const std::size_t old = state.stages.size();
  for (std::size_t i = old; i < message.parts.size(); ++i) {
    const StageHead& head = message.parts[i].head;
    added.push_back(Stage::empty(head.shape, head.index, state.seed, *state.backend));
  }
  state.stages.reserve(message.parts.size());
  for (std::size_t i = 0; i < message.parts.size(); ++i) {
    const DeltaMessage::Part& part = message.parts[i];
    Stage& stage = i < old ? state.stages[i] : added[i - old];
    if (delta.whole()) {
      put_all(part, stage, buffers);
    } else {
      for_each_change(part, buffers,
                      [bits = HostBits(stage)](std::uint64_t word, std::uint64_t changed) mutable {
                        bits.flip(word, changed);
                      });
    }
    take_records_of(stage, part.head);
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

}  // namespace scbf
