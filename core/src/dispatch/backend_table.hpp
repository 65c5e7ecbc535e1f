// SPDX-License-Identifier: Apache-2.0
// For tests only: adds backends to the table. Not installed.
#pragma once

#include "scbf/backend.hpp"

namespace scbf {

/// Appends a backend, which must live as long as the program. Call it before other threads use the
/// table, which is not locked. Spans that backends() returned earlier stay valid and do not contain
/// the new backend. Throws InvalidArgument if its name is taken or the few entries reserved for
/// this are used up.
void add_backend(const Backend& backend);

}  // namespace scbf
