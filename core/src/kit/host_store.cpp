// SPDX-License-Identifier: Apache-2.0
#include "kit/host_store.hpp"

#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "scbf/backend.hpp"

namespace scbf {

void HostStore::clear() { std::memset(words(), 0, memory_.bytes()); }

void HostStore::read(std::uint64_t first, std::span<std::uint64_t> out) const {
  std::memcpy(out.data(), words() + first, out.size_bytes());
}

void HostStore::write(std::uint64_t first, std::span<const std::uint64_t> in) {
  std::memcpy(words() + first, in.data(), in.size_bytes());
}

void HostStore::copy_from(const CounterStore& other) {
  std::memcpy(words(), other.words(), memory_.bytes());
}

std::unique_ptr<CounterStore> Backend::allocate(std::uint64_t words) const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / sizeof(std::uint64_t);
  if (words > kMost) throw std::bad_alloc();
  return std::make_unique<HostStore>(CounterMemory::allocate(words * sizeof(std::uint64_t)));
}

std::uint64_t Backend::count_nonzero(ConstCounterView view, const BatchOptions& options) const {
  std::uint64_t zero = 0;
  for (const Histogram& slice : histograms(view, options)) zero += slice[0];
  return view.geometry.counters() - zero;
}

}  // namespace scbf
