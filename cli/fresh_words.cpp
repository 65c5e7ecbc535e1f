// SPDX-License-Identifier: Apache-2.0
#include "fresh_words.hpp"

#include <sys/mman.h>

#include <new>

namespace scbf::cli {

namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t alignment(std::size_t count) noexcept {
  return count * kWordBytes >= kHugePage ? kHugePage : kWordBytes;
}

}  // namespace

std::size_t rounded_words(std::size_t count) noexcept {
  const std::size_t step = alignment(count) / kWordBytes;
  return (count + step - 1) / step * step;
}

FreshWords fresh_words(std::size_t count) {
  const std::size_t bytes = rounded_words(count) * kWordBytes, page = alignment(count);
  FreshWords words(static_cast<std::uint64_t*>(std::aligned_alloc(page, bytes)));
  if (words == nullptr) throw std::bad_alloc();
  if (page == kHugePage) ::madvise(words.get(), bytes, MADV_HUGEPAGE);
  return words;
}

}  // namespace scbf::cli
