// SPDX-License-Identifier: Apache-2.0
// scbf index export: all rows as a table that scbf index load reads back.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "errors.hpp"
#include "index_options.hpp"
#include "index_verbs.hpp"
#include "options.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "table_writer.hpp"

namespace scbf::cli {

namespace {

struct ExportOptions {
  IndexTarget target;
  std::string to = "-";
  std::optional<TableFormat> format;
  bool force = false;
  RunOptions run;
};

/// TSV has no way to write a byte that is 0. Throws IoError.
void must_be_text(const Row& row) {
  const auto check = [&](const std::string& field) {
    if (field.find('\0') == std::string::npos) return;
    throw IoError(fmt::format("row {}: a byte that is 0 cannot be in TSV; export it as CSV",
                              json_text(Json(row.key))));
  };
  check(row.key);
  for (const std::string& value : row.values) check(value);
}

int export_rows(const ExportOptions& options) {
  const Destination to("-o " + in_quotes(options.to), options.to,
                       {.replace = Destination::Rules::Replace::nothing,
                        .force = options.force,
                        .binary = false,
                        .json = options.target.json});
  IndexTarget target = options.target;
  target.options.rebuild = false;  // no filter is asked
  const SecondaryIndex index = target.open_read_only();
  const Stopwatch watch;
  Progress progress(options.run.progress, "exporting", index.statistics().rows, "row");
  std::uint64_t rows = 0;
  to.write([&](Output& out) {
    const TableFormat format = format_of(options.to, options.format);
    TableWriter table(out, format);
    table.header(index.schema());
    index.scan({}, {}, [&](const Row& row) {
      if (format.is_tsv()) must_be_text(row);
      table.row(row);
      ++rows;
      progress.update(rows, rows);
      return true;
    });
  });
  progress.finish(rows, rows);
  const double seconds = watch.seconds();
  if (target.json) {
    Json json;
    json["index"] = target.folder;
    json["file"] = to.path();
    json["rows"] = rows;
    json["seconds"] = seconds;
    print_json(json);
  } else {
    to.report(fmt::format("{}: {} of {} in {:.2f} s: {} rows/s\n", to.path(), counted(rows, "row"),
                          target.folder, seconds, human_rate(per_second(rows, seconds))));
  }
  return kOk;
}

}  // namespace

Run set_up_index_export(CommandLine& line) {
  auto options = std::make_shared<ExportOptions>();
  ExportOptions& o = *options;
  o.target.add_to(line, "Print a report as JSON; needs -o FILE");
  line.option("-o,--output", "FILE", "Where to write; default: standard output", o.to);
  line.option("--separator", "SEP",
              "Between fields: tab or a character; default: tab for .tsv and .tab, else ,",
              [&o](const std::string& text) { o.format = table_format_from_string(text); });
  line.flag("--force", "Replace FILE if it exists", o.force);
  o.run.add_progress_to(line);
  line.footer(
      R"(Writes a header and all rows in key order, as they were at one moment, in the form that 'index load' reads
back unchanged: CSV with quotes where they are needed, or TSV with \t, \n, \r and \\ within fields. A
process may write the index meanwhile. A file appears whole or not at all.

Examples:
  scbf index export packages.index -o exported.tsv
  scbf index export packages.index | zstd > packages.csv.zst)");
  return [options] { return export_rows(*options); };
}

}  // namespace scbf::cli
