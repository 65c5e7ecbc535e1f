// SPDX-License-Identifier: Apache-2.0
// For tests only: backends of their own in the table. Not installed.
#pragma once

#include "scbf/backend.hpp"

namespace scbf {

/// Appends a backend, which must live as long as the program. To be called before other threads
/// look at the table: it is not locked. Spans that backends() gave before stay valid and do not
/// show it. Throws InvalidArgument when its name is taken or the few places kept for this are used
/// up.
void add_backend(const Backend& backend);

}  // namespace scbf
