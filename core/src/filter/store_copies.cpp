// SPDX-License-Identifier: Apache-2.0
#include "filter/store_copies.hpp"

#include <algorithm>
#include <cstring>

namespace scbf {

std::span<const std::uint64_t> host_words(const CounterStore& store, std::uint64_t first,
                                          std::size_t count, std::vector<std::uint64_t>& buffer) {
  if (store.on_host()) return {store.words() + first, count};
  buffer.resize(count);
  store.read(first, buffer);
  return buffer;
}

std::unique_ptr<CounterStore> copied(const CounterStore& store, std::uint64_t words,
                                     const Backend& from, const Backend& to) {
  std::unique_ptr<CounterStore> copy = to.allocate(words);
  if (from.memory() == to.memory()) {
    copy->copy_from(store);
  } else if (store.on_host()) {
    // In one piece, so that a device can overlap the steps of the copy.
    copy->write(0, {store.words(), words});
  } else if (copy->on_host()) {
    store.read(0, {copy->words(), words});
  } else {
    std::vector<std::uint64_t> buffer;
    for (std::uint64_t first = 0; first < words; first += kCopyWords) {
      copy->write(first, host_words(store, first, std::min(kCopyWords, words - first), buffer));
    }
  }
  return copy;
}

bool equal_words(const CounterStore& a, const CounterStore& b, std::uint64_t words) {
  std::vector<std::uint64_t> a_buffer, b_buffer;
  for (std::uint64_t first = 0; first < words; first += kCopyWords) {
    const std::uint64_t count = std::min(kCopyWords, words - first);
    const auto in_a = host_words(a, first, count, a_buffer);
    const auto in_b = host_words(b, first, count, b_buffer);
    if (std::memcmp(in_a.data(), in_b.data(), in_a.size_bytes()) != 0) return false;
  }
  return true;
}

}  // namespace scbf
