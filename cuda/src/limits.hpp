// SPDX-License-Identifier: Apache-2.0
// What the current device can do, as the sizes that the engine goes by.
#pragma once

#include "engine/device_tuning.hpp"

namespace scbf::cuda {

/// The tuning for the current device, from its shared memory and second-level cache. The device is
/// queried once.
Tuning tuning_of_current_device();

}  // namespace scbf::cuda
