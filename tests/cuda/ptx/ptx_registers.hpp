// SPDX-License-Identifier: Apache-2.0
// Between reading PTX and executing it: places for registers.
#pragma once

#include "ptx_program.hpp"

namespace ptx {

/// Renumbers a kernel's registers, so that there are few.
void share_registers(Kernel& kernel);

}  // namespace ptx
