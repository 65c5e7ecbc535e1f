// SPDX-License-Identifier: Apache-2.0
#include "scbf/version.hpp"

namespace scbf {

std::string_view version() noexcept { return SCBF_VERSION; }

}  // namespace scbf
