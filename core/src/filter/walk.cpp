// SPDX-License-Identifier: Apache-2.0
#include "filter/walk.hpp"

#include <numeric>

#include "kit/few_keys.hpp"
#include "scbf/backend.hpp"

namespace scbf {

namespace {

/// For few_keys.hpp.
struct Views {
  const std::vector<const Stage*>& stages;

  std::size_t size() const noexcept { return stages.size(); }
  ConstCounterView operator[](std::size_t i) const noexcept { return stages[i]->view(); }
};

}  // namespace

void throw_full(const std::string& reason, std::uint64_t processed, const InsertReport& done) {
  throw FilterFull(fmt::format("{}; of the batch {} keys are in, the next is number {}", reason,
                               done.inserted, processed),
                   processed, done);
}

RemovalWindow::RemovalWindow(std::size_t keys)
    : hashes_(keys),
      claimers_(keys),
      verdicts_(keys),
      run_hashes_(keys),
      run_keys_(keys),
      answers_(keys) {}

void RemovalWindow::begin(std::span<const Stage* const> stages) {
  stages_.assign(stages.begin(), stages.end());
  starts_.assign(stages.size() + 1, 0);
  keys_ = run_end_ = 0;
  ambiguous_ = 0;
}

void RemovalWindow::append(const Backend& backend, std::uint64_t seed, const KeyBatch& keys,
                           std::size_t first, std::size_t count) {
  keys_ += backend.hash(keys, first, count, seed, hashes_.data() + keys_);
}

void RemovalWindow::ask() {
  if (keys_ <= kFewKeys && stages_[0]->backend->memory() == kHostMemory) {
    fetch_keys(Views{stages_}, std::span(hashes_).first(keys_));
  }
  const KeyBatch all = KeyBatch::from_hashes(std::span(hashes_).first(keys_));
  std::fill_n(claimers_.begin(), keys_, kNone);
  std::fill_n(verdicts_.begin(), keys_, static_cast<std::uint8_t>(Removal::absent));
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    stages_[s]->backend->contains(stages_[s]->view(), all, answers_.data(), kOneKey);
    for (std::size_t i = 0; i < keys_; ++i) {
      if (answers_[i] != 0) {
        claimers_[i] = claimers_[i] == kNone ? static_cast<std::uint32_t>(s) : kSeveral;
      }
    }
  }
}

std::uint32_t RemovalWindow::claimer_now(std::size_t key) const {
  const KeyBatch one = KeyBatch::from_hashes(std::span(hashes_).subspan(key, 1));
  std::uint32_t claimer = kNone;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    std::uint8_t answer = 0;
    stages_[s]->backend->contains(stages_[s]->view(), one, &answer, kOneKey);
    if (answer == 0) continue;
    if (claimer != kNone) return kSeveral;
    claimer = static_cast<std::uint32_t>(s);
  }
  return claimer;
}

bool RemovalWindow::next_run() {
  const std::size_t begin = run_end_;
  if (begin == keys_) return false;
  std::ranges::fill(starts_, std::size_t{0});
  // Until something is removed, counters are what they are at each key's turn.
  bool changes = false;
  for (; run_end_ < keys_; ++run_end_) {
    std::uint32_t& claimer = claimers_[run_end_];
    if (claimer == kSeveral) {
      if (changes) break;
      claimer = claimer_now(run_end_);
      if (claimer == kSeveral) {
        verdicts_[run_end_] = static_cast<std::uint8_t>(Removal::ambiguous);
        ++ambiguous_;
      }
    }
    if (claimer >= kSeveral) continue;
    changes = true;
    ++starts_[claimer + 1];
  }
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  for (std::size_t i = begin; i < run_end_; ++i) {
    if (claimers_[i] >= kSeveral) continue;
    std::size_t& at = starts_[claimers_[i]];
    run_hashes_[at] = hashes_[i];
    run_keys_[at] = static_cast<std::uint32_t>(i);
    ++at;
  }
  // Each start is now the next one's.
  std::rotate(starts_.begin(), starts_.end() - 1, starts_.end());
  starts_.front() = 0;
  return true;
}

void RemovalWindow::take_answers(std::size_t stage) noexcept {
  for (std::size_t i = starts_[stage]; i < starts_[stage + 1]; ++i) {
    verdicts_[run_keys_[i]] = answers_[i];
  }
}

}  // namespace scbf
