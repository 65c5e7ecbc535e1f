// SPDX-License-Identifier: Apache-2.0
// Names of paths.
#include <fmt/format.h>

#include "scbf/backend.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/errors.hpp"

namespace scbf {

std::string_view to_string(Path path) noexcept {
  switch (path) {
    case Path::direct:
      return "direct";
    case Path::partitioned:
      return "partitioned";
    default:
      return "automatic";
  }
}

Path path_from_string(std::string_view name) {
  for (const Path path : {Path::automatic, Path::direct, Path::partitioned}) {
    if (to_string(path) == name) return path;
  }
  throw InvalidArgument(fmt::format("path {}: must be 'automatic', 'direct' or 'partitioned'",
                                    detail::in_quotes(name)));
}

}  // namespace scbf
