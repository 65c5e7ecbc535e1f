// SPDX-License-Identifier: Apache-2.0
// scbf index load: writes the rows of files. Files are read twice. The first pass finds errors
// before anything is written, and chooses where the regions of a new index begin.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "errors.hpp"
#include "index_options.hpp"
#include "index_verbs.hpp"
#include "key_reader.hpp"
#include "key_stream.hpp"
#include "options.hpp"
#include "reports.hpp"
#include "scbf/bank.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "table_reader.hpp"

namespace scbf::cli {

namespace {

struct LoadOptions {
  IndexTarget target;
  std::vector<std::string> files;
  std::optional<TableFormat> format;
  Escapes escapes = Escapes::yes;
  std::uint32_t regions = 0;
  RunOptions run;
};

/// A uniform sample of the offered keys (algorithm R). The same keys give the same sample in every
/// run.
class KeySample {
 public:
  explicit KeySample(std::size_t most) : most_(most) {}

  void offer(const std::string& key) {
    ++offered_;
    if (keys_.size() < most_) return keys_.push_back(key);
    const std::uint64_t slot = mix(offered_ * 0x9E37'79B9'7F4A'7C15u) % offered_;
    if (slot < most_) keys_[slot] = key;
  }

  /// The first keys of all regions but the first, for `regions` regions of about equally many rows.
  /// Fewer if there are not enough keys.
  std::vector<std::string> points(std::uint32_t regions) && {
    std::sort(keys_.begin(), keys_.end());
    keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
    std::vector<std::string> points;
    for (std::uint64_t i = 1; i < regions; ++i) {
      const std::size_t at = static_cast<std::size_t>(i * keys_.size() / regions);
      if (at == 0 || at >= keys_.size()) continue;
      if (points.empty() || points.back() < keys_[at]) points.push_back(keys_[at]);
    }
    return points;
  }

 private:
  std::size_t most_;
  std::uint64_t offered_ = 0;
  std::vector<std::string> keys_;
};
/// With this many samples, the numbers of rows per region vary by about a sixteenth.
constexpr std::size_t kSamplesPerRegion = 256;
constexpr std::size_t kLeastSamples = 16'384;

/// The rows of all files, one after another.
class Rows {
 public:
  Rows(const LoadOptions& options, const TableSchema& schema)
      : options_(options), schema_(schema) {}

  bool next(Row& row) {
    while (true) {
      if (!reader_) {
        if (file_ == options_.files.size()) return false;
        const std::string& file = options_.files[file_];
        reader_.emplace(file, format_of(file, options_.format), options_.escapes, schema_);
      }
      if (reader_->next(row)) {
        ++rows_;
        return true;
      }
      bytes_before_ += reader_->bytes_read();
      reader_.reset();
      ++file_;
    }
  }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t bytes() const { return bytes_before_ + (reader_ ? reader_->bytes_read() : 0); }

 private:
  const LoadOptions& options_;
  const TableSchema& schema_;
  std::size_t file_ = 0;
  std::optional<TableReader> reader_;
  std::uint64_t rows_ = 0, bytes_before_ = 0;
};

struct Loaded {
  std::uint64_t rows = 0, bytes = 0;
  double check_seconds = 0, seconds = 0;
  WriteReport written;
};

/// The first pass over the files.
void look(const LoadOptions& options, SecondaryIndex& index, std::optional<std::uint64_t> total,
          Loaded& loaded) {
  const Stopwatch watch;
  KeySample sample(std::max(kLeastSamples, kSamplesPerRegion * options.regions));
  Rows rows(options, index.schema());
  Progress progress(options.run.progress, "checking", total, "row");
  for (Row row; rows.next(row);) {
    if (options.regions > 1) sample.offer(row.key);
    progress.update(rows.rows(), rows.bytes());
  }
  progress.finish(rows.rows(), rows.bytes());
  loaded.check_seconds = watch.seconds();
  if (options.regions <= 1) return;
  const std::vector<std::string> points = std::move(sample).points(options.regions);
  if (points.size() + 1 < options.regions) {
    note(fmt::format("--regions {}: the rows have keys for {} only", options.regions,
                     points.size() + 1));
  }
  index.presplit(points);
}

Loaded load_into(const LoadOptions& options, SecondaryIndex& index) {
  const std::optional<std::uint64_t> total = total_bytes(options.files);
  const std::uint64_t rows_before = index.statistics().rows;
  if (options.regions > 0 && rows_before > 0) {
    throw UsageError(
        fmt::format("--regions {}: the index has {} already; 'scbf index split' "
                    "divides regions with rows",
                    options.regions, counted(rows_before, "row")));
  }
  const bool twice = all_regular(options.files);  // standard input goes on where it was left
  if (options.regions > 1 && !twice) {
    throw UsageError(
        fmt::format("--regions {}: the rows are read twice for that, which takes regular files",
                    options.regions));
  }
  Loaded loaded;
  if (twice) look(options, index, total, loaded);

  const Stopwatch watch;
  Rows rows(options, index.schema());
  try {
    Progress progress(options.run.progress, "loading", total, "row");
    // Rows are read in large batches, so the progress line counts rows written, not rows read.
    std::uint64_t written = 0;
    const auto update = [&] {
      const double share =
          rows.rows() == 0 ? 0 : static_cast<double>(written) / static_cast<double>(rows.rows());
      progress.update(written,
                      static_cast<std::uint64_t>(static_cast<double>(rows.bytes()) * share));
    };
    loaded.written = index.bulk_load(
        [&](Row& row) {
          update();
          return rows.next(row);
        },
        [&](std::uint64_t done, std::uint64_t) {
          written = done;
          update();
        });
    progress.finish(rows.rows(), rows.bytes());
  } catch (const std::exception&) {
    note(fmt::format("{}: had {} before, and has {} now; what was loaded stays",
                     in_quotes(options.target.folder), counted(rows_before, "row"),
                     grouped(index.statistics().rows)));
    throw;
  }
  loaded.seconds = watch.seconds();
  loaded.rows = rows.rows();
  loaded.bytes = rows.bytes();
  return loaded;
}

int load(const LoadOptions& options) {
  check_inputs(options.files);
  SecondaryIndex index = options.target.open();
  const Loaded loaded = load_into(options, index);
  work_is_done(options.target.folder);
  const IndexStatistics now = index.statistics();
  const double rate = per_second(loaded.rows, loaded.seconds);
  if (options.target.json) {
    Json json;
    json["index"] = options.target.folder;
    json["rows"] = loaded.rows;
    json["bytes"] = loaded.bytes;
    json["put"] = loaded.written.put;
    json["replaced"] = loaded.written.replaced;
    json["seconds"] = loaded.seconds;
    json["check_seconds"] = loaded.check_seconds;
    json["rows_per_second"] = rate;
    json["rows_in_index"] = now.rows;
    json["servers"] = now.servers;
    add_sizes(json, now);
    print_json(json);
    return kOk;
  }
  const std::string replaced =
      loaded.written.replaced > 0
          ? fmt::format(" ({} in place of others)", grouped(loaded.written.replaced))
          : "";
  print_text(fmt::format(
      "{}: loaded {}{}, {}, in {:.2f} s: {} rows/s\n"
      "  {} and {} in {} on {}; filters {} "
      "and {} of rows of bits; store about {}\n",
      options.target.folder, counted(loaded.rows, "row"), replaced, human_bytes(loaded.bytes),
      loaded.seconds, human_rate(rate), counted(now.rows, "row"), counted(now.values, "value"),
      counted(now.regions, "region"), counted(now.servers, "server"), human_bytes(now.filter_bytes),
      human_bytes(now.bit_row_bytes), human_bytes(now.store_bytes)));
  return kOk;
}

}  // namespace

Run set_up_index_load(CommandLine& line) {
  auto options = std::make_shared<LoadOptions>();
  LoadOptions& o = *options;
  o.target.add_to(line, "Print a report as JSON", IndexTarget::Writes::yes);
  line.positionals("FILE", "CSV or TSV files with a header; - is standard input", o.files,
                   CommandLine::Need::required);
  line.option("--separator", "SEP",
              "Between fields: tab or a character; default: tab for .tsv and .tab, else ,",
              [&o](const std::string& text) { o.format = table_format_from_string(text); });
  add_escapes_to(line, o.escapes);
  line.option("--regions", "N", "First divide the index into N regions; it must have no rows",
              [&o](const std::string& text) {
                o.regions =
                    static_cast<std::uint32_t>(parse_count("--regions", text, 1, kMaxBankMembers));
              });
  o.run.add_progress_to(line);
  line.footer(
      R"(The header must name all columns of the index, in any order, and no others. A row replaces the row
with the same key. CSV is RFC 4180; TSV has no quotes, and \t, \n, \r and \\ within a field are a tab, a
line feed, a carriage return and a backslash, as 'index query' prints them. Compressed files (gzip, zstd)
are read as they are. Files are read twice, and nothing is written if there is an error in any of them.
Standard input is read once: rows before an error may stay.

Examples:
  scbf index load packages.index packages.tsv --regions 64
  zcat more_people.tsv.gz | scbf index load people.index - --separator tab)");
  return [options] { return load(*options); };
}

}  // namespace scbf::cli
