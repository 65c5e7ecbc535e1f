// SPDX-License-Identifier: Apache-2.0
#include "scbf/cuda/device_filter.hpp"

#include <cuda_runtime_api.h>

#include <utility>

#include "check.hpp"
#include "kernels.hpp"

namespace scbf::cuda {

namespace {

std::uint64_t* allocate(const Geometry& geometry) {
  void* words = nullptr;
  const cudaError_t result = cudaMalloc(&words, geometry.bytes());
  if (result == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // the error is told here: later calls are not to meet it
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for the free memory of the device");
    throw OutOfDeviceMemory(fmt::format("{} needs {} bytes of device memory: {} of {} are free",
                                        geometry.describe(), geometry.bytes(), free, total));
  }
  check(result, "allocating device memory");
  return static_cast<std::uint64_t*>(words);
}

}  // namespace

DeviceFilter::DeviceFilter(const Geometry& geometry, std::uint64_t seed, cudaStream_t stream)
    : geometry_(geometry), seed_(seed), words_(allocate(geometry)) {
  try {
    clear_async(stream);
  } catch (...) {
    release();
    throw;
  }
}

DeviceFilter::DeviceFilter(const Filter& filter, cudaStream_t stream)
    : geometry_(filter.geometry()), seed_(filter.seed()), words_(allocate(filter.geometry())) {
  try {
    check(cudaMemcpyAsync(words_, filter.words().data(), geometry_.bytes(), cudaMemcpyHostToDevice,
                          stream),
          "copying counters to the device");
    synchronize(stream);
  } catch (...) {
    release();
    throw;
  }
}

DeviceFilter::DeviceFilter(DeviceFilter&& other) noexcept
    : geometry_(other.geometry_),
      seed_(other.seed_),
      words_(std::exchange(other.words_, nullptr)) {}

DeviceFilter& DeviceFilter::operator=(DeviceFilter&& other) noexcept {
  if (this != &other) {
    release();
    geometry_ = other.geometry_;
    seed_ = other.seed_;
    words_ = std::exchange(other.words_, nullptr);
  }
  return *this;
}

DeviceFilter::~DeviceFilter() { release(); }

void DeviceFilter::release() noexcept {
  if (words_ != nullptr) (void)cudaFree(words_);  // waits for what still uses it; nobody to tell
  words_ = nullptr;
}

void DeviceFilter::insert_async(const std::uint64_t* keys, std::size_t n, cudaStream_t stream) {
  if (n == 0) return;
  check(launch_insert(ref(), keys, n, stream), "insert");
}

void DeviceFilter::contains_async(const std::uint64_t* keys, std::size_t n, std::uint8_t* out,
                                  cudaStream_t stream) const {
  if (n == 0) return;
  check(launch_contains(ref(), keys, n, out, stream), "contains");
}

void DeviceFilter::count_async(const std::uint64_t* keys, std::size_t n, std::uint8_t* out,
                               cudaStream_t stream) const {
  if (n == 0) return;
  check(launch_count(ref(), keys, n, out, stream), "count");
}

void DeviceFilter::clear_async(cudaStream_t stream) {
  check(cudaMemsetAsync(words_, 0, geometry_.bytes(), stream), "clearing counters");
}

void DeviceFilter::download(std::span<std::uint64_t> words, cudaStream_t stream) const {
  if (words.size() != geometry_.words()) {
    throw InvalidArgument(
        fmt::format("words has room for {}: must be {}", words.size(), geometry_.words()));
  }
  check(cudaMemcpyAsync(words.data(), words_, geometry_.bytes(), cudaMemcpyDeviceToHost, stream),
        "copying counters from the device");
  synchronize(stream);
}

void DeviceFilter::synchronize(cudaStream_t stream) {
  check(cudaStreamSynchronize(stream), "waiting for the device");
}

}  // namespace scbf::cuda
