// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/tuning.hpp"

namespace scbf::cuda {

/// What suits the device that is current: its shared memory and its second-level cache. Asked for
/// once per device.
Tuning tuning_of_current_device();

}  // namespace scbf::cuda
