// SPDX-License-Identifier: Apache-2.0
// Plain allocation of device memory, for counters and staging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace scbf::cuda {

/// Allocates words in the memory of the current device, not initialised. Throws OutOfDeviceMemory,
/// saying how many bytes `what` needs and how many are free; BackendUnavailable where there is no
/// device, or no driver for it.
std::uint64_t* allocate_words(std::size_t words, const std::string& what);

}  // namespace scbf::cuda
