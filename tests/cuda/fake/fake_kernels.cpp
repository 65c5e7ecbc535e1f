// SPDX-License-Identifier: Apache-2.0
// cuda/src/runs.hpp for the fake runtime: does on the host what kernels.cu does on a GPU, in the
// order of the streams.
#include "runs.hpp"

#include <cstring>
#include <type_traits>

#include "check.hpp"
#include "fake_runtime.hpp"
#include "stream.hpp"
#include "support/host_device.hpp"

namespace scbf::cuda {

namespace {

using scbf_test::HostDevice;

/// Gpu of gpu.cuh, with a HostDevice for kernels and algorithms.
class FakeGpu : public StreamMemory {
 public:
  using StreamMemory::StreamMemory;

  template <class Work>
  void for_each(std::size_t n, Work work) {
    if (n > 0) launch([=] { HostDevice().for_each(n, work); });
  }
  template <class Work>
  void for_warps(std::size_t n, Work work) {
    if (n > 0) launch([=] { HostDevice().for_warps(n, work); });
  }
  template <class Work>
  void for_thread_blocks(std::size_t n, std::size_t bytes, Work work) {
    if (n > 0) launch([=] { HostDevice().for_thread_blocks(n, bytes, work); });
  }
  std::size_t thread_blocks_at_once(std::size_t) { return 3; }
  template <class Work>
  void for_grid(Work work) {
    launch([=] { HostDevice().for_grid(work); });
  }

  std::size_t sum_bytes(std::size_t n) { return 1 + n / 16; }
  void exclusive_sum(const std::uint64_t* in, std::uint64_t* out, std::size_t n) {
    run(sum_bytes(n), [=] { HostDevice().exclusive_sum(in, out, n); });
  }
  template <class Index, class Wanted>
  std::size_t select_bytes(Index n, Wanted) {
    return 1 + n / 32;
  }
  template <class Index, class Wanted>
  void select(Index n, Wanted wanted, Index* out, std::uint64_t* count) {
    run(select_bytes(n, wanted), [=] { HostDevice().select(n, wanted, out, count); });
  }
  template <class Value>
  auto reduce(std::size_t n, Value value) {
    using Sum = std::invoke_result_t<Value, std::size_t>;
    const auto on_device = temporary<Sum>(1);
    run(1, [=, out = on_device.get()] { *out = HostDevice().reduce(n, value); });
    return fetched(on_device.get(), stream(), "a sum");
  }

 private:
  template <class Work>
  void launch(Work work) {
    check(fake_cuda::launch(stream(), work), "launching a kernel");
  }
  /// As CUB's do, algorithms overwrite their temporary memory and report earlier errors.
  template <class Work>
  void run(std::size_t bytes, Work work) {
    in_temporary(bytes, [&](std::byte* memory) {
      check(fake_cuda::launch(stream(),
                              [=] {
                                std::memset(memory, 0xAB, bytes);
                                work();
                              }),
            "running an algorithm");
    });
    check(cudaPeekAtLastError(), "running an algorithm");
  }
};

using Device = FakeGpu;

}  // namespace

void check_kernels() { check(fake_cuda::look_for_kernels(), "looking for its kernels"); }

}  // namespace scbf::cuda

#include "runs-inl.hpp"
