// SPDX-License-Identifier: Apache-2.0
// For tests that need a GPU: whether there is one, and arrays in its memory.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace scbf_test {

/// Why there is no device; empty if there is one.
inline std::string no_device() {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess) return cudaGetErrorString(result);
  return devices == 0 ? "no device" : "";
}

#define SCBF_NEEDS_DEVICE()                                                      \
  do {                                                                           \
    const std::string reason = ::scbf_test::no_device();                         \
    if (reason.empty()) break;                                                   \
    const char* required = std::getenv("SCBF_REQUIRE_BACKEND");                  \
    if (required != nullptr && std::string_view(required) == "cuda") {           \
      FAIL() << "SCBF_REQUIRE_BACKEND=cuda, but there is no device: " << reason; \
    }                                                                            \
    GTEST_SKIP() << "needs a GPU: " << reason;                                   \
  } while (false)

/// An array in device memory. Its operations run on the null stream and are waited for, because
/// non-blocking streams do not wait for the null stream.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t n) : n_(n) {
    // Whole words, because byte strings are read word by word.
    const std::size_t bytes = (n * sizeof(T) + 8) / 8 * 8;
    if (cudaMalloc(reinterpret_cast<void**>(&data_), bytes) != cudaSuccess) throw std::bad_alloc();
    // Not zeros, so that a value that a kernel fails to write is noticed.
    EXPECT_EQ(cudaMemset(data_, 0xCC, bytes), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }

  T* get() const { return data_; }
  std::vector<T> to_host() const {
    std::vector<T> values(n_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

}  // namespace scbf_test
