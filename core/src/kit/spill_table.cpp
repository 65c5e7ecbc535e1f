// SPDX-License-Identifier: Apache-2.0
#include "kit/spill_table.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

namespace scbf {

template <class Word>
Word* BasicSpillTable<Word>::add(std::uint64_t block) const noexcept {
  if constexpr (std::is_const_v<Word>) {
    return nullptr;
  } else {
    const std::uint64_t slot = slot_of(block);
    if (slot == end_of(block)) return nullptr;
    // Entries from here on move by one slot, up to an unused one or to an entry that cannot move.
    std::uint64_t end = slot;
    while (number(end) != 0 && end + 1 < end_of(number(end) - 1)) ++end;
    std::copy_backward(at(slot), at(end), at(end + 1));
    std::fill_n(at(slot), entry_, std::uint64_t{0});
    *at(slot) = (block + 1) << 32;
    return at(slot);
  }
}

template <class Word>
void BasicSpillTable<Word>::erase(const Word* entry) const noexcept {
  if constexpr (!std::is_const_v<Word>) {
    const std::uint64_t slot = static_cast<std::uint64_t>(entry - first_) / entry_;
    std::uint64_t end = slot + 1;
    while (end < slots_ && number(end) != 0 && home(number(end) - 1) < end) ++end;
    std::copy(at(slot + 1), at(end), at(slot));
    std::fill_n(at(end - 1), entry_, std::uint64_t{0});
  }
}

template class BasicSpillTable<std::uint64_t>;
template class BasicSpillTable<const std::uint64_t>;

namespace {

struct Shared {
  std::mutex lock;
  std::atomic<std::uint64_t> removals_from_stuck{0};
};

/// What filters share whose words hash alike.
Shared& shared_by(const std::uint64_t* words) noexcept {
  static std::array<Shared, 64> all;
  // Filters begin on pages or lines of their own.
  const auto at = reinterpret_cast<std::uintptr_t>(words) / 64;
  return all[(at * 0x9E37'79B9'7F4A'7C15u) >> 58];
}

}  // namespace

std::mutex& spill_lock(const std::uint64_t* words) noexcept { return shared_by(words).lock; }

std::atomic<std::uint64_t>& removals_from_stuck(const std::uint64_t* words) noexcept {
  return shared_by(words).removals_from_stuck;
}

}  // namespace scbf
