// SPDX-License-Identifier: Apache-2.0
// scbf index put and delete: change single rows.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "errors.hpp"
#include "index_options.hpp"
#include "index_verbs.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

struct WriteOptions {
  IndexTarget target;
  std::vector<std::string> words;
  ListFile list;
};

Row parse_row(const TableSchema& schema, const std::vector<std::string>& words) {
  Row row;
  row.values.resize(schema.columns.size());
  std::vector<bool> seen(schema.columns.size() + 1);
  for (const std::string& word : words) {
    Assignment given = parse_assignment(schema, word);
    const bool is_key = given.column == schema.key;
    const std::size_t column = is_key ? schema.columns.size() : schema.column(given.column);
    if (seen[column])
      throw UsageError(
          fmt::format("{}: {} is given twice", in_quotes(word), in_quotes(given.column)));
    seen[column] = true;
    (is_key ? row.key : row.values[column]) = std::move(given.value);
  }
  if (!seen[schema.columns.size()]) {
    throw UsageError(fmt::format("no key: {} is missing", in_quotes(schema.key + "=VALUE")));
  }
  return row;
}

int put(const WriteOptions& options) {
  SecondaryIndex index = options.target.open();
  const Row row = parse_row(index.schema(), options.words);
  const WriteReport report = index.put(std::span(&row, 1));
  work_is_done(options.target.folder);
  if (options.target.json) {
    print_json(
        Json{{"index", options.target.folder}, {"put", report.put}, {"replaced", report.replaced}});
  } else {
    print_text(fmt::format("{}: {} {}\n", options.target.folder, printable(row.key),
                           report.replaced > 0 ? "replaced" : "put"));
  }
  return kOk;
}

int remove(const WriteOptions& options) {
  const std::vector<std::string> keys = keys_from(options.words, options.list);
  SecondaryIndex index = options.target.open();
  const WriteReport report = index.remove(keys);
  if (report.removed > 0) work_is_done(options.target.folder);
  if (options.target.json) {
    print_json(Json{
        {"index", options.target.folder}, {"removed", report.removed}, {"absent", report.absent}});
  } else {
    print_text(fmt::format("{}: removed {}, absent {}\n", options.target.folder,
                           grouped(report.removed), grouped(report.absent)));
  }
  return report.removed > 0 || keys.empty() ? kOk : kNothingFound;
}

}  // namespace

Run set_up_index_put(CommandLine& line) {
  auto options = std::make_shared<WriteOptions>();
  options->target.add_to(line, "Print a report as JSON", IndexTarget::Writes::yes);
  line.positionals("COL=VALUE", "The fields of the row, with its key; missing columns are empty",
                   options->words, CommandLine::Need::required);
  line.footer(R"(A row with the same key is replaced as a whole.

Examples:
  scbf index put people.index id=17 name='Ada Lovelace' town=London)");
  return [options] { return put(*options); };
}

Run set_up_index_delete(CommandLine& line) {
  auto options = std::make_shared<WriteOptions>();
  options->target.add_to(line, "Print a report as JSON", IndexTarget::Writes::yes);
  line.positionals("KEY", "Keys of rows", options->words);
  options->list.add_to(line, "--from-file", "Keys from a file, one a line");
  line.footer(R"(The exit code is 1 if none of the rows existed.

Examples:
  scbf index delete people.index 17 18
  scbf index delete people.index --from-file retired.txt)");
  return [options] { return remove(*options); };
}

}  // namespace scbf::cli
