// SPDX-License-Identifier: Apache-2.0
// The verbs of the command. A new verb needs a file with its set_up function, a declaration here, a
// line in the table of main.cpp and one in CMakeLists.txt.
#pragma once

#include "command_line.hpp"

namespace scbf::cli {

Run set_up_plan(CommandLine& line);
Run set_up_build(CommandLine& line);
Run set_up_query(CommandLine& line);
Run set_up_insert(CommandLine& line);
Run set_up_remove(CommandLine& line);
Run set_up_count(CommandLine& line);
Run set_up_merge(CommandLine& line);
Run set_up_subtract(CommandLine& line);
Run set_up_project(CommandLine& line);
Run set_up_delta(CommandLine& line);
Run set_up_apply(CommandLine& line);
Run set_up_info(CommandLine& line);
Run set_up_verify(CommandLine& line);
Run set_up_bank(CommandLine& line);
Run set_up_find(CommandLine& line);
Run set_up_backends(CommandLine& line);
Run set_up_paper(CommandLine& line);
Run set_up_gen(CommandLine& line);
Run set_up_bench(CommandLine& line);
Run set_up_completion(CommandLine& line);

/// `scbf index` has verbs of its own: index_verbs.hpp. Without the secondary index in the build it
/// only reports that.
Run set_up_index(CommandLine& line);

}  // namespace scbf::cli
