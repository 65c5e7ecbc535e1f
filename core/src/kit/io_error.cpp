// SPDX-License-Identifier: Apache-2.0
#include "scbf/detail/io_error.hpp"

#include <fmt/format.h>

#include <system_error>

#include "scbf/detail/in_quotes.hpp"

namespace scbf::detail {

IoError io_error(const std::filesystem::path& path, std::string_view what, int error_number) {
  return IoError(fmt::format("{}: {}: {}", in_quotes(path.string()), what,
                             std::generic_category().message(error_number)),
                 error_number, path.string());
}

IoError io_error(const std::filesystem::filesystem_error& error) {
  return IoError(error.what(), error.code().value(), error.path1().string());
}

}  // namespace scbf::detail
