// SPDX-License-Identifier: Apache-2.0
#include "key_window.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace scbf::cli {

KeyWindow::KeyWindow(std::size_t keys, std::uint64_t seed, Use use)
    : capacity_(keys), seed_(seed), use_(std::move(use)), words_(fresh_words(keys)) {}

void KeyWindow::add(const KeyBlock& block) {
  kind_ = block.kind();
  const KeyBatch keys = block.batch();
  for (std::size_t first = 0; first < keys.size();) {
    const std::size_t taken = std::min(keys.size() - first, capacity_ - size_);
    const std::span<std::uint64_t> into(words_.get() + size_, taken);
    if (kind_ == KeyKind::u64) {
      std::ranges::copy(block.numbers().subspan(first, taken), into.begin());
    } else {
      keys.slice(first, taken).hashes(seed_, into);
    }
    first += taken;
    size_ += taken;
    if (size_ == capacity_) finish();
  }
}

void KeyWindow::finish() {
  const std::span<const std::uint64_t> keys(words_.get(), std::exchange(size_, 0));
  if (keys.empty()) return;
  use_(kind_ == KeyKind::u64 ? KeyBatch(keys) : KeyBatch::from_hashes(keys));
}

}  // namespace scbf::cli
