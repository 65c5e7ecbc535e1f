// SPDX-License-Identifier: Apache-2.0
// scbf index backup: copies an index, also beside a process that writes it.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "errors.hpp"
#include "index_options.hpp"
#include "index_verbs.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"

namespace scbf::cli {

namespace {

struct BackupOptions {
  IndexTarget target;
  std::string to;
};

/// The bytes of all files in a folder, whether shared by links or not.
std::uint64_t bytes_of(const std::string& folder) {
  std::uint64_t sum = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (file.is_regular_file(ignored)) sum += file.file_size(ignored);
  }
  return sum;
}

int backup(const BackupOptions& options) {
  IndexTarget target = options.target;
  target.options.rebuild = false;  // no filter is asked
  must_be_new(options.to, false);
  const Stopwatch watch;
  const SecondaryIndex index = target.open_read_only();
  const auto as_of = index.backup(options.to);
  work_is_done(options.to);
  const double seconds = watch.seconds();
  const std::uint64_t rows = index.statistics().rows, bytes = bytes_of(options.to);
  if (target.json) {
    Json json;
    json["index"] = target.folder;
    json["backup"] = options.to;
    json["rows"] = rows;
    json["bytes"] = bytes;
    json["as_of"] = std::chrono::duration<double>(as_of.time_since_epoch()).count();  // Unix time
    json["seconds"] = seconds;
    print_json(json);
  } else {
    print_text(fmt::format("{}: backup of {}: {}, {}, in {:.2f} s\n", options.to, target.folder,
                           counted(rows, "row"), human_bytes(bytes), seconds));
  }
  return kOk;
}

}  // namespace

Run set_up_index_backup(CommandLine& line) {
  auto options = std::make_shared<BackupOptions>();
  options->target.add_to(line, "Print a report as JSON");
  line.positional("DEST", "The directory to make; it must not exist", options->to);
  line.footer(
      R"(A backup is an index like any other: to restore it, open it, or copy it to where the index was. It is
made without stopping a process that writes the index, and has every write that was acknowledged before
the command began. On the file system of the index it takes hardly any space at first, because files that
never change are shared by hard links; to be safe from a failing disk, choose a DEST on another one. If it
fails, nothing is left behind; if it is interrupted, DEST does not open as an index and can be removed.

Examples:
  scbf index backup packages.index packages.backup && scbf index check packages.backup)");
  return [options] { return backup(*options); };
}

}  // namespace scbf::cli
