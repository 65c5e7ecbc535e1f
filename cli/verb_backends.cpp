// SPDX-License-Identifier: Apache-2.0
// scbf backends: the table of backends, with the reason for each that cannot run.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "errors.hpp"
#include "output.hpp"
#include "scbf/backend.hpp"
#include "scbf/errors.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

int list(bool json) {
  // SCBF_BACKEND may name a backend that cannot run. The list must be printed even then.
  std::string chosen, problem;
  try {
    chosen = find_backend("auto").name();
  } catch (const BackendUnavailable& error) {
    problem = error.what();
  }
  if (json) {
    Json all = Json::array();
    for (const Backend* backend : backends()) {
      const std::string reason = backend->unavailable_reason();
      Json one;
      one["name"] = backend->name();
      one["target"] = backend->target();
      one["available"] = reason.empty();
      one["reason"] = reason.empty() ? Json() : Json(reason);
      one["auto"] = backend->name() == chosen;
      one["description"] = backend->description();
      all.push_back(std::move(one));
    }
    print_json(all);
  } else {
    std::string text;
    std::size_t width = 0;
    for (const Backend* backend : backends()) width = std::max(width, backend->name().size());
    for (const Backend* backend : backends()) {
      const std::string reason = backend->unavailable_reason();
      text += fmt::format(
          "{} {:<{}}  {}\n", backend->name() == chosen ? '*' : ' ', backend->name(), width,
          reason.empty() ? std::string(backend->description()) : "not available: " + reason);
    }
    print_text(text + "* is what --backend auto takes (SCBF_BACKEND changes it)\n");
  }
  if (!problem.empty()) note(problem);
  return kOk;
}

}  // namespace

Run set_up_backends(CommandLine& line) {
  auto json = std::make_shared<bool>(false);
  line.flag("--json", "Print JSON", *json);
  line.footer("Examples:\n  scbf backends\n  SCBF_BACKEND=scalar scbf backends --json");
  return [json] { return list(*json); };
}

}  // namespace scbf::cli
