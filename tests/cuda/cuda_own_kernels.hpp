// SPDX-License-Identifier: Apache-2.0
// Kernels around the view of a filter, as a program that uses scbf would write them. Each function
// waits for its kernel. Pointers are to device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scbf/cuda/filter_ref.hpp"

namespace scbf_test {

void insert_by_threads(scbf::cuda::FilterRef filter, const std::uint64_t* keys, std::size_t n);
void insert_by_groups(scbf::cuda::FilterRef filter, const std::uint64_t* keys, std::size_t n);
void contains_by_threads(scbf::cuda::FilterRef filter, const std::uint64_t* keys, std::size_t n,
                         std::uint8_t* out);
void contains_by_groups(scbf::cuda::FilterRef filter, const std::uint64_t* keys, std::size_t n,
                        std::uint8_t* out);
/// Copies the keys that may be present, in order, by cub::DeviceSelect with the view as predicate.
void select_by_cub(scbf::cuda::FilterRef filter, const std::uint64_t* keys, std::size_t n,
                   std::uint64_t* selected, std::uint64_t* how_many);

}  // namespace scbf_test
