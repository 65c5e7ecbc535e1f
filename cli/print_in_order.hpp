// SPDX-License-Identifier: Apache-2.0
// Text that several threads make, printed in order.
#pragma once

#include <cstddef>
#include <functional>

#include "output.hpp"

namespace scbf::cli {

/// Calls make(to, first, last) for pieces of 0 … count − 1, at most a few thousand numbers each, on
/// so many threads, and writes to `out` what each has written to `to`, in order. Throws what they
/// throw; `out` has all that comes before.
void print_in_order(
    Output& out, unsigned threads, std::size_t count,
    const std::function<void(Output& to, std::size_t first, std::size_t last)>& make);

}  // namespace scbf::cli
