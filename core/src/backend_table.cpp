// SPDX-License-Identifier: Apache-2.0
// The one place that knows which backends there are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "../../cpu_simd/simd_backend.hpp"
#include "scalar_backend.hpp"
#include "scbf/backend.hpp"
#include "scbf/errors.hpp"

namespace scbf {

std::span<const Backend* const> backends() noexcept {
  static const std::vector<const Backend*> table = [] {
    std::vector<const Backend*> all = {&scalar_backend()};
    for (const Backend* backend : simd_backends()) all.push_back(backend);
    return all;
  }();
  return table;
}

const Backend& find_backend(std::string_view name) {
  std::string wanted(name);
  std::string origin;
  if (wanted == "auto") {
    const char* variable = std::getenv("SCBF_BACKEND");
    if (variable != nullptr && *variable != '\0') {
      wanted = variable;
      origin = " (from SCBF_BACKEND)";
    }
  }
  if (wanted == "auto") wanted = "simd";
  std::vector<std::string_view> names;
  for (const Backend* backend : backends()) {
    if (backend->name() != wanted) {
      names.push_back(backend->name());
      continue;
    }
    const std::string reason = backend->unavailable_reason();
    if (reason.empty()) return *backend;
    throw BackendUnavailable(fmt::format("{} backend{}: {}", wanted, origin, reason));
  }
  throw BackendUnavailable(
      fmt::format("backend '{}'{}: unknown; there are {}", wanted, origin, fmt::join(names, ", ")));
}

}  // namespace scbf
