// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace scbf::cuda {

/// Words in the memory of the current device, not initialised. Throws OutOfDeviceMemory: `what`
/// needs so many bytes, and so many are free.
std::uint64_t* allocate_words(std::size_t words, const std::string& what);

}  // namespace scbf::cuda
