// SPDX-License-Identifier: Apache-2.0
// The table of backends. Only this file knows which backends there are.
#include "dispatch/backend_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "kit/known_backends.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/errors.hpp"
#if !SCBF_WITH_CUDA
#include "kit/unavailable_backend.hpp"
#endif

namespace scbf {

#if !SCBF_WITH_CUDA
const std::vector<const Backend*>& cuda_backends() {
  static const UnavailableBackend absent(
      "cuda", "filters in the memory of a GPU", "CUDA",
      "this library was built without CUDA (SCBF_CUDA=OFF, or no CUDA compiler)");
  static const std::vector<const Backend*> table = {&absent};
  return table;
}
#endif

namespace {

constexpr std::size_t kRoomForTests = 8;

/// The backends that run on the host. They are kept apart because listing the others starts the
/// drivers of devices, which takes long; programs that use no device do not pay for it.
const std::vector<const Backend*>& host_backends() {
  static const std::vector<const Backend*> table = [] {
    std::vector<const Backend*> all = {&scalar_backend()};
    all.insert(all.end(), simd_backends().begin(), simd_backends().end());
    return all;
  }();
  return table;
}

std::vector<const Backend*>& all_backends() {
  static std::vector<const Backend*> table = [] {
    std::vector<const Backend*> all = host_backends();
    all.insert(all.end(), cuda_backends().begin(), cuda_backends().end());
    all.reserve(all.size() + kRoomForTests);  // so that spans of it stay valid
    return all;
  }();
  return table;
}

const Backend* by_name(std::span<const Backend* const> table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Backend* b) { return b->name() == name; });
  return found == table.end() ? nullptr : *found;
}

}  // namespace

std::span<const Backend* const> backends() noexcept { return all_backends(); }

void add_backend(const Backend& backend) {
  std::vector<const Backend*>& all = all_backends();
  if (by_name(all, backend.name()) != nullptr) {
    throw InvalidArgument(
        fmt::format("backend {}: the name is taken", detail::in_quotes(backend.name())));
  }
  if (all.size() == all.capacity()) {
    throw InvalidArgument(fmt::format("backend {}: the table is full with {}",
                                      detail::in_quotes(backend.name()), all.size()));
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
  const Backend* found = by_name(host_backends(), wanted);
  if (found == nullptr) found = by_name(backends(), wanted);
  if (found == nullptr) {
    // If "cuda:1" is unknown because there is no device at all, report the reason that "cuda"
    // gives.
    found = by_name(backends(), wanted.substr(0, wanted.find(':')));
    if (found != nullptr && found->unavailable_reason().empty()) found = nullptr;
  }
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const Backend* backend : backends()) names.push_back(detail::in_quotes(backend->name()));
    throw BackendUnavailable(fmt::format("backend {}{}: unknown; there are {}",
                                         detail::in_quotes(wanted), origin,
                                         fmt::join(names, ", ")));
  }
  const std::string reason = found->unavailable_reason();
  if (reason.empty()) return *found;
  throw BackendUnavailable(
      fmt::format("backend {}{}: {}", detail::in_quotes(wanted), origin, reason));
}

}  // namespace scbf
