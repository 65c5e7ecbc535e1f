// SPDX-License-Identifier: Apache-2.0
// Room for a piece of a batch that never fails: work that changes counters goes in smaller pieces
// where memory is short.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <span>
#include <vector>

namespace scbf {

template <class T>
class PieceRoom {
 public:
  /// Room for `wanted` elements or, if there is no memory for them, for kFew.
  explicit PieceRoom(std::size_t wanted) noexcept {
    if (wanted <= kFew) return;
    try {
      many_.resize(wanted);
    } catch (const std::bad_alloc&) {
    }
  }
  std::size_t size() const noexcept { return many_.empty() ? kFew : many_.size(); }
  T* data() noexcept { return many_.empty() ? few_.data() : many_.data(); }

 private:
  static constexpr std::size_t kFew = 1024;
  std::vector<T> many_;
  std::array<T, kFew> few_;
};

}  // namespace scbf
