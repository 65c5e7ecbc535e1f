// SPDX-License-Identifier: Apache-2.0
// Copies and comparisons of counters in different memories.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "scbf/backend.hpp"
#include "scbf/store.hpp"

namespace scbf {

/// Words copied at once where there is a choice: 1 MiB, enough to amortise the start of a copy.
inline constexpr std::uint64_t kCopyWords = 128 * 1024;

/// `count` words of a store that the host can read: in place if possible, otherwise copied to
/// `buffer`.
std::span<const std::uint64_t> host_words(const CounterStore& store, std::uint64_t first,
                                          std::size_t count, std::vector<std::uint64_t>& buffer);

/// A writable copy, in the memory of `to`, of `words` words in the memory of `from`. Throws what
/// `to` throws when it allocates.
std::unique_ptr<CounterStore> copied(const CounterStore& store, std::uint64_t words,
                                     const Backend& from, const Backend& to);

/// Compares word for word.
bool equal_words(const CounterStore& a, const CounterStore& b, std::uint64_t words);

}  // namespace scbf
