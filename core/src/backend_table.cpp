// SPDX-License-Identifier: Apache-2.0
// The one place that knows which backends there are.
#include "backend_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "../../cpu_simd/simd_backend.hpp"
#include "scalar_backend.hpp"
#include "scbf/errors.hpp"
#if SCBF_WITH_CUDA
#include "../../cuda/src/cuda_backend.hpp"
#else
#include "unavailable_backend.hpp"
#endif

namespace scbf {

namespace {

#if !SCBF_WITH_CUDA
const std::vector<const Backend*>& cuda_backends() {
  static const UnavailableBackend absent(
      "cuda", "filters in the memory of a GPU", "CUDA",
      "this library was built without CUDA (SCBF_CUDA=OFF, or no CUDA compiler)");
  static const std::vector<const Backend*> table = {&absent};
  return table;
}
#endif

// What auto takes: it is always there, and its counters are on the host. A device is only taken by
// name, since moving keys and counters there can cost more than it saves.
constexpr std::string_view kAutomatic = "simd";

constexpr std::size_t kRoomForTests = 8;

std::vector<const Backend*>& table() {
  static std::vector<const Backend*> table = [] {
    std::vector<const Backend*> all = {&scalar_backend()};
    all.insert(all.end(), simd_backends().begin(), simd_backends().end());
    all.insert(all.end(), cuda_backends().begin(), cuda_backends().end());
    all.reserve(all.size() + kRoomForTests);  // so that spans of it stay valid
    return all;
  }();
  return table;
}

}  // namespace

std::span<const Backend* const> backends() noexcept { return table(); }

void add_backend(const Backend& backend) {
  std::vector<const Backend*>& all = table();
  const bool taken = std::any_of(all.begin(), all.end(), [&](const Backend* other) {
    return other->name() == backend.name();
  });
  if (taken) throw InvalidArgument(fmt::format("backend '{}': the name is taken", backend.name()));
  if (all.size() == all.capacity()) {
    throw InvalidArgument(
        fmt::format("backend '{}': the table is full with {}", backend.name(), all.size()));
  }
  all.push_back(&backend);
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
  if (wanted == "auto") wanted = kAutomatic;
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
