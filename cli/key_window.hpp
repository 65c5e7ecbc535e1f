// SPDX-License-Identifier: Apache-2.0
// Keys of many small blocks, gathered for one large batch, where their text is not needed any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "fresh_words.hpp"
#include "key_reader.hpp"
#include "scbf/key_batch.hpp"

namespace scbf::cli {

/// Gathers keys while they are in cache: integers as they are, lines as their hashes, so that each
/// takes 8 bytes. What cannot be hashed or used is an error of the call that does it.
class KeyWindow {
 public:
  using Use = std::function<void(const KeyBatch&)>;

  /// Calls use(batch) for every `keys` keys, and in finish() for the rest. The seed is that of the
  /// filters to use.
  KeyWindow(std::size_t keys, std::uint64_t seed, Use use);

  void add(const KeyBlock& block);
  void finish();

 private:
  std::size_t capacity_, size_ = 0;
  std::uint64_t seed_;
  Use use_;
  KeyKind kind_ = KeyKind::lines;
  FreshWords words_;
};

}  // namespace scbf::cli
