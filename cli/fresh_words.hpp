// SPDX-License-Identifier: Apache-2.0
// Large buffers that are written before they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace scbf::cli {

struct FreeWords {
  void operator()(std::uint64_t* words) const noexcept { std::free(words); }
};
using FreshWords = std::unique_ptr<std::uint64_t[], FreeWords>;

/// At least so many words, not cleared: the system maps pages only as they are written, so that
/// what is not used takes no memory. Large buffers take huge pages, which are mapped several times
/// faster. Throws std::bad_alloc.
FreshWords fresh_words(std::size_t count);
/// How many words fresh_words(count) has room for.
std::size_t rounded_words(std::size_t count) noexcept;

}  // namespace scbf::cli
