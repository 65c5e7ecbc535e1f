// SPDX-License-Identifier: Apache-2.0
// scbf index: the table of its verbs.
#include "index_verbs.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

constexpr Verb kVerbs[] = {
    {"create", "Make an index for a table", set_up_index_create},
    {"load", "Load the rows of CSV or TSV files", set_up_index_load},
    {"put", "Write one row", set_up_index_put},
    {"delete", "Delete rows", set_up_index_delete},
    {"get", "Print rows by their keys", set_up_index_get},
    {"query", "Print the rows that have a value", set_up_index_query},
    {"stats", "Show what an index holds", set_up_index_stats},
    {"regions", "List the regions", set_up_index_regions},
    {"split", "Split a region", set_up_index_split},
    {"merge", "Merge two adjacent regions", set_up_index_merge},
    {"move", "Move a region to another server", set_up_index_move},
    {"replan", "Resize the filters to what the index holds", set_up_index_replan},
    {"add-column", "Index further columns of the table", set_up_index_add_column},
    {"drop-column", "End the indexing of columns", set_up_index_drop_column},
    {"checkpoint", "Save the filters, so that the next start is fast", set_up_index_checkpoint},
    {"check", "Compare rows, local indexes and filters", set_up_index_check},
    {"backup", "Copy an index, also while it is written", set_up_index_backup},
    {"export", "Write all rows as CSV or TSV", set_up_index_export},
};

}  // namespace

Run set_up_index(CommandLine& line) {
  line.footer(
      R"(Rows are in regions by their keys, regions on servers. Each region has a filter of the values in
it; a query asks only the servers whose filters say that they may have the value.

One process at a time can change an index. get, query, stats, regions, check, backup and export need no
permission to write and work beside it; they show what was written before they began.

Examples:
  scbf index create packages.index --header packages.tsv --key package \
    --index maintainer,section,depends:,
  scbf index load packages.index packages.tsv --regions 64
  scbf index query packages.index section=shells
'scbf index VERB --help' tells more about each.)");
  return line.verbs(kVerbs);
}

}  // namespace scbf::cli
