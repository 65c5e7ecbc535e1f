// SPDX-License-Identifier: Apache-2.0
// Counters in host memory: allocated by backends without memory of their own, or mapped from files.
#pragma once

#include <utility>

#include "kit/counter_memory.hpp"
#include "scbf/store.hpp"

namespace scbf {

class HostStore final : public CounterStore {
 public:
  explicit HostStore(CounterMemory memory) noexcept : memory_(std::move(memory)) {}

  std::uint64_t* words() const noexcept override { return memory_.words(); }
  bool on_host() const noexcept override { return true; }
  bool writable() const noexcept override { return memory_.writable(); }
  void clear() override;
  void read(std::uint64_t first, std::span<std::uint64_t> out) const override;
  void write(std::uint64_t first, std::span<const std::uint64_t> in) override;
  void copy_from(const CounterStore& other) override;

 private:
  CounterMemory memory_;
};

}  // namespace scbf
