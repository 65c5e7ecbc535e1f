// SPDX-License-Identifier: Apache-2.0
#include "device_store.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "allocation.hpp"
#include "check.hpp"
#include "devices.hpp"

namespace scbf::cuda {

DeviceStore::DeviceStore(int device, std::uint64_t words)
    : CounterStore({.on_host = false}), device_(device), count_(words) {
  const OnDevice on(device);
  memory_.words = allocate_words(words, fmt::format("a filter of {} bytes", words * 8));
  try {
    clear();
  } catch (...) {
    ignore(cudaFree(this->words()));
    throw;
  }
}

DeviceStore::~DeviceStore() { ignore(cudaFree(words())); }

void DeviceStore::clear() {
  const OnDevice on(device_);
  check(cudaMemset(words(), 0, count_ * sizeof(std::uint64_t)), "clearing counters");
  check(cudaStreamSynchronize(nullptr), "clearing counters");
}

void DeviceStore::read(std::uint64_t first, std::span<std::uint64_t> out) const {
  const OnDevice on(device_);
  check(cudaMemcpy(out.data(), words() + first, out.size_bytes(), cudaMemcpyDeviceToHost),
        "copying counters from the device");
}

void DeviceStore::write(std::uint64_t first, std::span<const std::uint64_t> in) {
  const OnDevice on(device_);
  check(cudaMemcpy(words() + first, in.data(), in.size_bytes(), cudaMemcpyHostToDevice),
        "copying counters to the device");
  // A copy from memory that is not pinned returns when the memory has been read, before the data
  // has arrived. Work on other streams must not overtake it.
  check(cudaStreamSynchronize(nullptr), "copying counters to the device");
}

void DeviceStore::copy_from(const CounterStore& other) {
  const OnDevice on(device_);
  check(
      cudaMemcpy(words(), other.words(), count_ * sizeof(std::uint64_t), cudaMemcpyDeviceToDevice),
      "copying counters on the device");
  check(cudaStreamSynchronize(nullptr), "copying counters on the device");
}

}  // namespace scbf::cuda
