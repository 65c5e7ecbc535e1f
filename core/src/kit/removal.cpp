// SPDX-License-Identifier: Apache-2.0
#include "kit/removal.hpp"

#include <numeric>

#include "kit/few_keys.hpp"
#include "kit/row_kernels.hpp"

namespace scbf {

RemovalWindow::RemovalWindow(const Backend& backend, std::size_t filters, std::size_t keys,
                             std::nullptr_t)
    : backend_(&backend),
      hashes_(keys),
      claimers_(keys),
      verdicts_(keys),
      starts_(filters + 1),
      run_hashes_(keys),
      run_keys_(keys),
      answers_(keys) {
  filters_.reserve(filters);
}

void RemovalWindow::begin() noexcept {
  keys_ = run_end_ = 0;
  ambiguous_ = 0;
}

void RemovalWindow::append(const KeyBatch& keys, std::size_t first, std::size_t count) {
  keys_ += hash_keys(keys, first, count, filters_[0].seed, backend_->rows().hashes,
                     hashes_.data() + keys_);
}

void RemovalWindow::ask() {
  if (keys_ <= kFewKeys && backend_->memory() == kHostMemory) {
    fetch_keys(filters_, std::span(hashes_).first(keys_));
  }
  const KeyBatch all = KeyBatch::from_hashes(std::span(hashes_).first(keys_));
  std::fill_n(claimers_.begin(), keys_, kNoClaimer);
  std::fill_n(verdicts_.begin(), keys_, static_cast<std::uint8_t>(Removal::absent));
  for (std::size_t s = 0; s < filters_.size(); ++s) {
    backend_->contains(std::span(&filters_[s], 1), all, answers_.data(), kOnThisThread);
    for (std::size_t i = 0; i < keys_; ++i) {
      if (answers_[i] != 0) {
        claimers_[i] = claimers_[i] == kNoClaimer ? static_cast<std::uint32_t>(s) : kSeveralClaim;
      }
    }
  }
}

bool RemovalWindow::next_run() {
  const std::size_t begin = run_end_;
  if (begin == keys_) return false;
  std::ranges::fill(starts_, std::size_t{0});
  // Until the run removes something, the current counters are those at the key's turn.
  bool changes = false;
  for (; run_end_ < keys_; ++run_end_) {
    std::uint32_t& claimer = claimers_[run_end_];
    if (claimer == kSeveralClaim) {
      if (changes) break;
      claimer = claimer_of(*backend_, filters_, hashes_[run_end_]);
      if (claimer == kSeveralClaim) {
        verdicts_[run_end_] = static_cast<std::uint8_t>(Removal::ambiguous);
        ++ambiguous_;
      }
    }
    if (claimer >= kSeveralClaim) continue;
    changes = true;
    ++starts_[claimer + 1];
  }
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  for (std::size_t i = begin; i < run_end_; ++i) {
    if (claimers_[i] >= kSeveralClaim) continue;
    std::size_t& at = starts_[claimers_[i]];
    run_hashes_[at] = hashes_[i];
    run_keys_[at] = static_cast<std::uint32_t>(i);
    ++at;
  }
  // Each start has advanced to where the next filter's keys begin.
  std::rotate(starts_.begin(), starts_.end() - 1, starts_.end());
  starts_.front() = 0;
  return true;
}

void RemovalWindow::take_answers(std::size_t filter) noexcept {
  for (std::size_t i = starts_[filter]; i < starts_[filter + 1]; ++i) {
    verdicts_[run_keys_[i]] = answers_[i];
  }
}

RemoveCounts remove_from_several(const Backend& backend, std::span<const CounterView> filters,
                                 const KeyBatch& keys, std::uint8_t* verdicts,
                                 std::span<RemovalChange> changes) {
  std::ranges::fill(changes, RemovalChange{});
  return remove_claimed(
      backend, filters, keys, verdicts,
      [&](std::size_t f, const KeyBatch& run, std::span<std::uint8_t> answers) {
        RemovalChange change;
        backend.remove(filters.subspan(f, 1), run, answers.data(), {&change, 1}, kOnThisThread);
        changes[f].keys += change.keys;
        changes[f].emptied = changes[f].emptied && change.emptied
                                 ? NonzeroChange(*changes[f].emptied + *change.emptied)
                                 : std::nullopt;
        return change.keys;
      });
}

}  // namespace scbf
