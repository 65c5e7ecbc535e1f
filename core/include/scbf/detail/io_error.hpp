// SPDX-License-Identifier: Apache-2.0
// What the system refused to do with a file, as an exception.
#pragma once

#include <filesystem>
#include <string_view>

#include "scbf/errors.hpp"

namespace scbf::detail {

/// "'path': what: the text of error_number", with the number and the path. Example: io_error(path,
/// "cannot open", errno).
IoError io_error(const std::filesystem::path& path, std::string_view what, int error_number);

/// The same for what std::filesystem threw.
IoError io_error(const std::filesystem::filesystem_error& error);

}  // namespace scbf::detail
