// SPDX-License-Identifier: Apache-2.0
// The verbs of scbf index. A new verb needs a set_up function, a declaration here and a line in the
// table of verb_index.cpp.
#pragma once

#include "command_line.hpp"

namespace scbf::cli {

Run set_up_index_create(CommandLine& line);
Run set_up_index_load(CommandLine& line);
Run set_up_index_put(CommandLine& line);
Run set_up_index_delete(CommandLine& line);
Run set_up_index_get(CommandLine& line);
Run set_up_index_query(CommandLine& line);
Run set_up_index_stats(CommandLine& line);
Run set_up_index_regions(CommandLine& line);
Run set_up_index_split(CommandLine& line);
Run set_up_index_merge(CommandLine& line);
Run set_up_index_move(CommandLine& line);
Run set_up_index_replan(CommandLine& line);
Run set_up_index_add_column(CommandLine& line);
Run set_up_index_drop_column(CommandLine& line);
Run set_up_index_checkpoint(CommandLine& line);
Run set_up_index_check(CommandLine& line);
Run set_up_index_backup(CommandLine& line);
Run set_up_index_export(CommandLine& line);

}  // namespace scbf::cli
