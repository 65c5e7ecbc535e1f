// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scbf/backend.hpp"

namespace scbf {

/// The model that every other backend is compared with, byte for byte: one key, one counter at a
/// time, in batch order, on the calling thread.
const Backend& scalar_backend() noexcept;

}  // namespace scbf
