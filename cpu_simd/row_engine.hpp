// SPDX-License-Identifier: Apache-2.0
// The rows of a bank on Highway vectors of one target.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cpu_simd/kernels.hpp"
#include "cpu_simd/row_kernels.hpp"
#include "kit/row_engine.hpp"

namespace scbf {

class SimdRowEngine final : public RowEngine {
 public:
  SimdRowEngine(const Kernels& kernels, const RowKernels& row_kernels) noexcept
      : kernels_(kernels), row_kernels_(row_kernels) {}

  HashU64 hash_u64() const noexcept override { return kernels_.hash_u64; }
  void locate(const Geometry& geometry, const std::uint64_t* hashes, std::size_t n,
              std::uint64_t* rows) const noexcept override;
  void intersect(const RowsView& view, const std::uint64_t* rows, std::uint32_t k, std::size_t n,
                 const std::uint8_t* always, std::uint8_t* out) const noexcept override {
    row_kernels_.intersect(view, rows, k, n, always, out);
  }
  void gather(const std::array<const std::uint64_t*, kGatherMembers>& lines,
              std::uint64_t* bits) const noexcept override {
    row_kernels_.gather(lines, bits);
  }

 private:
  const Kernels& kernels_;
  const RowKernels& row_kernels_;
};

}  // namespace scbf
