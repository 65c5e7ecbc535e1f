// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scbf/detail/language.hpp"  // first

#include <string_view>

// Of these headers.
#define SCBF_VERSION_MAJOR 0
#define SCBF_VERSION_MINOR 2
#define SCBF_VERSION_PATCH 0
#define SCBF_VERSION "0.2.0"

namespace scbf {

/// Of the library that the program is linked with, for example "0.2.0".
std::string_view version() noexcept;

}  // namespace scbf
