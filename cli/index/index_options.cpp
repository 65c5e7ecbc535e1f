// SPDX-License-Identifier: Apache-2.0
#include "index_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "errors.hpp"
#include "key_reader.hpp"
#include "options.hpp"
#include "sizes.hpp"

namespace scbf::cli {

void IndexTarget::add_to(CommandLine& line, const std::string& json_help, Writes writes) {
  line.positional("DIR", "The index", folder);
  line.option("--backend", "NAME",
              "Backend of the filters: auto (default) or a name that 'scbf backends' lists",
              options.backend);
  add_threads_to(line, options.threads);
  if (writes == Writes::yes) {
    line.flag("--sync", "Wait until written rows are on disk", options.sync);
  }
  line.flag("--json", json_help, json);
}

namespace {

void report(const std::string& folder, const RecoveryReport& found, std::string_view where) {
  if (found.rebuilt == 0) return;
  note(fmt::format("{}: filters of {} of {} made anew{}: {}", in_quotes(folder), found.rebuilt,
                   counted(found.regions, "region"), where,
                   found.reasons.empty() ? "" : found.reasons.front()));
}

}  // namespace

SecondaryIndex IndexTarget::open() const {
  SecondaryIndex index = SecondaryIndex::open(folder, options);
  report(folder, index.recovery(), "");
  return index;
}

SecondaryIndex IndexTarget::open_read_only() const {
  SecondaryIndex index = SecondaryIndex::open_read_only(folder, options);
  report(folder, index.recovery(), ", in memory only");
  return index;
}

void must_be_new(const std::string& folder, bool may_be_empty) {
  namespace fs = std::filesystem;
  std::error_code failed;
  if (!fs::exists(fs::symlink_status(folder, failed))) return;
  const bool empty = fs::is_directory(folder, failed) && fs::is_empty(folder, failed) && !failed;
  if (empty && may_be_empty) return;
  throw UsageError(fmt::format(
      "{}: it exists{}", in_quotes(folder),
      may_be_empty ? " and is no empty directory; name a new one" : ": name a new directory"));
}

void add_escapes_to(CommandLine& line, Escapes& escapes) {
  line.flag("--no-escapes", "TSV: take backslashes as they are",
            [&escapes] { escapes = Escapes::no; });
}

Assignment parse_assignment(const TableSchema& schema, const std::string& text) {
  const std::string* best = nullptr;
  std::string names;
  const auto look = [&](const std::string& name) {
    names += (names.empty() ? "" : ", ") + in_quotes(name);
    const bool fits = text.starts_with(name) && text.substr(name.size()).starts_with('=');
    if (fits && (best == nullptr || name.size() > best->size())) best = &name;
  };
  look(schema.key);
  for (const Column& column : schema.columns) look(column.name);
  if (best == nullptr) {
    throw UsageError(text.find('=') == std::string::npos
                         ? fmt::format("{}: must be COLUMN=VALUE", in_quotes(text))
                         : fmt::format("{}: no such column; there are {}", in_quotes(text), names));
  }
  return {*best, text.substr(best->size() + 1)};
}

void ListFile::add_to(CommandLine& line, const std::string& option, const std::string& help) {
  name = option;
  line.option(option, "FILE", help + "; - is standard input", file);
  line.flag("--null", "In FILE: lines end in a zero byte, not in a newline",
            [this] { format.end = '\0'; });
  line.flag("--chomp-cr", "In FILE: a carriage return at the end of a line is no part of it",
            format.chomp_cr);
  line.flag("--raw", "Take FILE as it is, even if it looks compressed or like no lines",
            [this] { format.decode = format.check = false; });
}

void ListFile::check() const {
  if (file.empty() && (format.end != '\n' || format.chomp_cr || !format.decode)) {
    throw UsageError(fmt::format("--null, --chomp-cr and --raw go with {} FILE", name));
  }
}

std::vector<std::string> keys_from(std::vector<std::string> words, const ListFile& list) {
  list.check();
  if (words.empty() && list.file.empty()) {
    throw UsageError("no keys: give some, or --from-file FILE (- is standard input)");
  }
  if (list.file.empty()) return words;
  KeyReader reader({list.file}, list.format);
  KeyBlock block;
  while (reader.fill(block)) words.insert(words.end(), block.lines().begin(), block.lines().end());
  return words;
}

void refuse_list_of_columns(const TableSchema& schema, const std::string& separator,
                            const std::string& what) {
  if (separator.find(',') == std::string::npos) return;
  for (const std::string& item : split_list(separator)) {
    const std::string name = item.substr(0, item.find(':'));
    const auto is_it = [&](const Column& column) { return column.name == name; };
    if (name != schema.key && std::ranges::none_of(schema.columns, is_it)) continue;
    throw UsageError(
        fmt::format("{}: all that follows the colon would divide values; name column {} by itself",
                    what, in_quotes(name)));
  }
}

}  // namespace scbf::cli
