// SPDX-License-Identifier: Apache-2.0
// What the installed tree has of the command: completion for shells, and the manual page. Both are
// made from the command line itself, so they know every verb and option.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace scbf::cli {

/// `what` is bash, zsh, fish or man. Throws UsageError for anything else.
std::string completion(const CLI::App& app, std::string_view what);

}  // namespace scbf::cli
