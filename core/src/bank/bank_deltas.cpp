// SPDX-License-Identifier: Apache-2.0
// Deltas applied to the members of a bank of bits: only the bits that changed, each in its row.
#include <array>
#include <bit>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bank/bank_state.hpp"
#include "files/delta_message.hpp"

namespace scbf {

namespace {

/// A column of the rows, whose bits are flipped some hundred at a time.
class ColumnBits {
 public:
  explicit ColumnBits(const BankState::StageSlot& at) noexcept : at_(at) {}
  ColumnBits(const ColumnBits&) = delete;
  ColumnBits& operator=(const ColumnBits&) = delete;
  ~ColumnBits() { flip_rows(); }

  void flip(std::uint64_t word, std::uint64_t bits) noexcept {
    for (; bits != 0; bits &= bits - 1) {
      if (count_ == rows_.size()) flip_rows();
      rows_[count_++] = 64 * word + static_cast<unsigned>(std::countr_zero(bits));
    }
  }

 private:
  void flip_rows() noexcept {
    at_.level->rows.flip(at_.slot, std::span(rows_).first(count_));
    count_ = 0;
  }

  BankState::StageSlot at_;
  std::array<std::uint64_t, MemberRows::kMarksAhead> rows_;
  std::size_t count_ = 0;
};

}  // namespace

void BankState::apply(std::uint32_t member, const Delta& delta, const BatchOptions& options) {
  at(member);
  check_writable();
  Member& changed = members[member];
  const std::size_t old = changed.stages.size();
  // The member as a filter; its words are not needed.
  const auto filter = room_for(old);
  filter->epoch = changed.epoch;
  for (const StageSlot& stage : changed.stages) {
    const Stage& of = stage.stage();
    filter->stages.emplace_back(of.shape, of.index, of.seed, *of.backend, nullptr);
  }
  DeltaMessage message(*filter, delta);

  if (delta.whole()) {
    BloomFilter whole = BloomFilter::read(source_of(delta.message()), {.backend = backend->name()});
    const bool asked = asked_always(member);
    replace(member, FilterAccess::state(whole), options);
    ask_always(member, asked);
    return;
  }

  // Everything that can fail comes first.
  std::vector<StageOfGrowth> stages;
  for (const DeltaMessage::Part& part : message.parts) {
    stages.push_back({part.head.index, part.head.shape});
  }
  if (const auto misfit = fit.misfit(growth, seed, stages)) throw Incompatible(*misfit);
  DeltaBuffers buffers;
  for (DeltaMessage::Part& part : std::span(message.parts).subspan(old)) {
    Stage stage = Stage::empty(part.head.shape, part.head.index, seed, *backend);
    for_each_change(part, buffers,
                    [bits = HostBits(stage)](std::uint64_t word, std::uint64_t flipped) mutable {
                      bits.flip(word, flipped);
                    });
    take_records_of(stage, part.head);
    stage.metadata = std::move(part.head.header.metadata);
    filter->stages.push_back(std::move(stage));
  }
  changed.stages.reserve(message.parts.size());
  std::vector<Stage*> more;
  for (Stage& stage : std::span(filter->stages).subspan(old)) more.push_back(&stage);
  LaterStages added(*this, std::move(more), options);

  // Nothing fails from here on.
  added.come_in(options);
  for (std::size_t i = 0; i < old; ++i) {
    const StageSlot& at = changed.stages[i];
    DeltaMessage::Part& part = message.parts[i];
    ColumnBits bits(at);
    for_each_change(part, buffers,
                    [&](std::uint64_t word, std::uint64_t flipped) { bits.flip(word, flipped); });
    take_records_of(at.stage(), part.head);
    if (growth.policy() != Growth::Policy::one) {
      at.stage().metadata = std::move(part.head.header.metadata);
    }
  }
  for (const StageSlot& stage : added.slots()) {
    stage.level->own(stage.slot, member);
    changed.stages.push_back(stage);
  }
  changed.metadata = std::move(message.head->metadata);
  changed.epoch = delta.epoch();
}

}  // namespace scbf
