// SPDX-License-Identifier: Apache-2.0
// Replicas: a filter of bits that many threads ask while one applies deltas.
#include <fmt/format.h>

#include <utility>

#include "files/delta_coder.hpp"

namespace scbf {

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
ContainsReport Replica::count_present(const KeyBatch& keys, const BatchOptions& options) const {
  return current()->count_present(keys, options);
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
