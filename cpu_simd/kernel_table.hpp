// SPDX-License-Identifier: Apache-2.0
// The tables of kernels, one for each Highway target that was compiled.
#pragma once

#include <string_view>
#include <vector>

#include "cpu_simd/kernels.hpp"

namespace scbf {

/// The kernels of every target that was compiled and that this machine runs, best first. Without
/// `with_deposit`, those for AVX2 do without `pdep`. (Machines with AVX-512 have a fast one.)
std::vector<const Kernels*> kernel_tables(bool with_deposit);
/// Names of the targets that were compiled but that this machine does not run.
std::vector<std::string_view> unsupported_targets();

}  // namespace scbf
