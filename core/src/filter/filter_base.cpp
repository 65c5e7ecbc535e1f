// SPDX-License-Identifier: Apache-2.0
// FilterBase: checks arguments; the rest is in state.cpp, files are in files/filter_files.cpp.
#include "scbf/filter_base.hpp"

#include <utility>

#include "filter/state.hpp"
#include "kit/answer_forms.hpp"

namespace scbf {

FilterBase::FilterBase(std::unique_ptr<FilterState> state) noexcept : state_(std::move(state)) {}
FilterBase::FilterBase(const FilterBase& other)
    : state_(std::make_unique<FilterState>(*other.state_)) {}
FilterBase& FilterBase::operator=(const FilterBase& other) {
  if (this != &other) state_ = std::make_unique<FilterState>(*other.state_);
  return *this;
}
FilterBase::FilterBase(FilterBase&&) noexcept = default;
FilterBase& FilterBase::operator=(FilterBase&&) noexcept = default;
FilterBase::~FilterBase() = default;

// ---- batches ------------------------------------------------------------------------------------

InsertReport FilterBase::insert(const KeyBatch& keys, const BatchOptions& options) {
  return state_->insert(keys, options);
}

InsertNewReport FilterBase::insert_new(const KeyBatch& keys, std::span<std::uint8_t> out,
                                       const BatchOptions& options) {
  return state_->insert_new(keys, out, options);
}

BulkInserter FilterBase::bulk(const BatchOptions& options) { return BulkInserter(*this, options); }

ContainsReport FilterBase::contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                                    const BatchOptions& options) const {
  check_answers(keys.size(), out.size(), "out");
  return {state_->contains(keys, out.data(), options), keys.nulls()};
}
ContainsReport FilterBase::contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                                         const BatchOptions& options) const {
  return contains_as_bits(*this, keys, bits, options);
}
ContainsReport FilterBase::find(const KeyBatch& keys, std::span<std::uint64_t> indices,
                                const BatchOptions& options) const {
  return contains_as_indices(*this, keys, indices, options);
}
ContainsReport FilterBase::count_present(const KeyBatch& keys, const BatchOptions& options) const {
  return {state_->count_present(keys, options), keys.nulls()};
}

// ---- one key ------------------------------------------------------------------------------------

void FilterBase::insert(std::uint64_t key) { state_->insert_key(key); }
void FilterBase::insert(std::string_view key) { state_->insert_key(key); }
bool FilterBase::insert_new(std::uint64_t key) { return state_->insert_new_key(key); }
bool FilterBase::insert_new(std::string_view key) { return state_->insert_new_key(key); }
bool FilterBase::contains(std::uint64_t key) const { return state_->contains_key(key); }
bool FilterBase::contains(std::string_view key) const { return state_->contains_key(key); }

// ---- the whole ----------------------------------------------------------------------------------

const Growth& FilterBase::growth() const { return state_->growth; }
std::uint64_t FilterBase::seed() const { return state_->seed; }
const Backend& FilterBase::backend() const { return *state_->backend; }
bool FilterBase::read_only() const { return state_->read_only(); }
std::size_t FilterBase::stages() const { return state_->stages.size(); }
StageView FilterBase::stage(std::size_t i) const { return state_->stage(i); }
const Geometry& FilterBase::geometry() const { return state_->stages.front().geometry(); }
std::uint64_t FilterBase::bytes() const { return state_->bytes(); }
std::uint64_t FilterBase::keys_inserted() const { return state_->keys_inserted(); }
std::uint64_t FilterBase::keys_removed() const { return state_->keys_removed(); }
double FilterBase::fpr_bound() const { return state_->fpr_bound(); }
void FilterBase::clear() { state_->clear(); }
std::uint64_t FilterBase::nonzero(const BatchOptions& options) const {
  return state_->nonzero(options);
}
double FilterBase::fill(const BatchOptions& options) const { return state_->fill(options); }
Statistics FilterBase::statistics(const BatchOptions& options) const {
  return state_->statistics(options);
}
std::span<const std::uint64_t> FilterBase::words() const { return state_->stages.front().words(); }
void FilterBase::read_words(std::uint64_t first, std::span<std::uint64_t> out) const {
  state_->stages.front().read_words(first, out);
}
const std::string& FilterBase::metadata() const { return state_->metadata; }
void FilterBase::set_metadata(std::string metadata) { state_->set_metadata(std::move(metadata)); }

}  // namespace scbf
