// SPDX-License-Identifier: Apache-2.0
// The counters of an scbf::Filter in the memory of a device.
#pragma once

#include <cstdint>
#include <span>

#include "scbf/store.hpp"

namespace scbf::cuda {

class DeviceStore final : public CounterStore {
 public:
  /// Allocates words, all zero. Throws OutOfDeviceMemory, with needed and free bytes.
  DeviceStore(int device, std::uint64_t words);
  ~DeviceStore() override;

  void clear() override;
  void read(std::uint64_t first, std::span<std::uint64_t> out) const override;
  void write(std::uint64_t first, std::span<const std::uint64_t> in) override;
  void copy_from(const CounterStore& other) override;

 private:
  int device_;
  std::uint64_t count_;
};

}  // namespace scbf::cuda
