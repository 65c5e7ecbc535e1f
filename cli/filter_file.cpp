// SPDX-License-Identifier: Apache-2.0
#include "filter_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "counted_keys.hpp"
#include "errors.hpp"
#include "files/file_io.hpp"
#include "files/rows_format.hpp"
#include "files/save_filter.hpp"
#include "scbf/errors.hpp"
#include "scbf/sizing.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"

namespace scbf::cli {

namespace fs = std::filesystem;

Json metadata_as_json(const std::string& metadata) {
  constexpr int kDeepest = 100;
  const Json::parser_callback_t not_deep = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) throw std::length_error("nested too deeply");
    return true;
  };
  try {
    return Json::parse(metadata, not_deep, false);
  } catch (const std::length_error&) {
    return Json(Json::value_t::discarded);
  }
}

FilterNotes read_notes(const std::string& metadata) {
  FilterNotes notes;
  const Json json = metadata_as_json(metadata);
  if (!json.is_object()) return notes;
  if (const auto it = json.find("keys"); it != json.end() && it->is_string()) {
    const auto name = it->get<std::string>();
    if (name == "lines") notes.kind = KeyKind::lines;
    if (name == "u64") notes.kind = KeyKind::u64;
  }
  if (const auto it = json.find("capacity"); it != json.end() && it->is_number_unsigned()) {
    notes.capacity = it->get<std::uint64_t>();
  }
  if (const auto it = json.find("fpr"); it != json.end() && it->is_number()) {
    notes.fpr = it->get<double>();
  }
  return notes;
}

std::string write_notes(const FilterNotes& notes) {
  Json json = Json::object();
  if (notes.kind) json["keys"] = to_string(*notes.kind);
  if (notes.capacity) json["capacity"] = *notes.capacity;
  if (notes.fpr) json["fpr"] = *notes.fpr;
  return json.dump();
}

std::string with_kind(const std::string& metadata, std::optional<KeyKind> kind) {
  Json json = metadata.empty() ? Json::object() : metadata_as_json(metadata);
  if (!json.is_object()) return metadata;
  json.erase("keys");
  if (kind) json["keys"] = to_string(*kind);
  return json_text(json);
}

void note_both_kinds(std::string_view what, std::string_view verb) {
  note(fmt::format("{} keys of both kinds: say by --keys which ones 'scbf {}' is to ask for", what,
                   verb));
}

KeyFormat agreed_format(const KeyOptions& keys, const FilterNotes& notes, const std::string& file) {
  if (keys.kind && notes.kind && *keys.kind != *notes.kind && !keys.force) {
    throw UsageError(fmt::format(
        "--keys '{}': {} was built from {} keys; leave --keys out, or add --force if you mean it",
        to_string(*keys.kind), display_name(file), to_string(*notes.kind)));
  }
  if (!keys.kind && !notes.kind) {  // a program wrote it
    note(fmt::format(
        "{} does not say which kind of keys it holds: lines are taken as text; give --keys lines, "
        "or u64 or decimal if its keys are integers",
        display_name(file)));
  }
  return keys.format_for(keys.kind ? *keys.kind : notes.kind.value_or(KeyKind::lines));
}

std::string_view kind_of(const FileInfo& info) {
  if (info.is_delta) return "delta";
  return info.cell() == Cell::bit ? "bits" : "counters";
}
std::string_view kind_of(const BankFileInfo& info) {
  return info.cell == Cell::bit ? "bits_bank" : "bank";
}

namespace {

/// Is this a file that shall be mapped, if it can be?
bool shall_map(const std::string& path, Opening opening) {
  if (opening == Opening::load || !is_regular_file(path)) return false;
  return opening == Opening::map || fs::file_size(path) > kMostLoaded;
}

/// The headers of a file that is to be mapped.
std::optional<FileInfo> info_to_map(const std::string& path, Opening opening) {
  if (!shall_map(path, opening)) return {};
  FileInfo info = read_file_info(path);
  if (info.compressed) return {};
  return info;
}

/// The bytes of a filter's counters or bits.
std::uint64_t bytes_of(const FileInfo& info) {
  std::uint64_t bytes = 0;
  for (const StageFileInfo& stage : info.stages) bytes += stage.shape.geometry.bytes();
  return bytes;
}

/// Throws IoError if these parts of a file ("its counters") do not fit in memory.
void check_memory(const std::string& file, std::string_view parts, std::uint64_t bytes) {
  const std::uint64_t most = memory_to_spare();
  if (bytes <= most) return;
  throw IoError(fmt::format("{}: {} take {}, and {} are free", display_name(file), parts,
                            human_bytes(bytes), human_bytes(most)));
}

/// Does this backend keep counters in the memory of the host?
bool is_on_host(const std::string& backend) {
  return find_backend(backend).memory() == kHostMemory;
}

/// Calls load(). Too little memory becomes an error that says for which file, and how much.
template <class Load>
auto load_from(const std::string& file, const std::string& path, Load load) {
  try {
    return load();
  } catch (const std::bad_alloc&) {
    std::string size = "the filter";
    // (Anything else cannot be read twice.)
    if (is_regular_file(path)) size = human_bytes(bytes_of(read_file_info(path)));
    throw IoError(fmt::format("{}: no memory for {}", display_name(file), size));
  }
}

}  // namespace

Filter open_counters(const std::string& file, const RunOptions& run, Opening opening) {
  const std::string path = filter_path(file);
  const FilterOptions options{.backend = run.backend};
  return as_named(file, in_quotes(path), [&] {
    if (info_to_map(path, opening)) return Filter::map(path, options);
    return load_from(file, path, [&] { return load_as<Filter>(file, options); });
  });
}

AnyFilter open_for_queries(const std::string& file, const RunOptions& run, Opening opening) {
  const std::string path = filter_path(file);
  const FilterOptions options{.backend = run.backend};
  return as_named(file, in_quotes(path), [&]() -> AnyFilter {
    const std::optional<FileInfo> info = info_to_map(path, opening);
    if (!info) {
      return load_from(file, path, [&]() -> AnyFilter {
        if (find_backend(run.backend).supports(Cell::bit)) {
          return load_as<BloomFilter>(file, options);
        }
        return load_as<Filter>(file, options);
      });
    }
    if (info->cell() == Cell::bit) return BloomFilter::map(path, options);
    return Filter::map(path, options);
  });
}

Changeable open_for_changes(const Rereadable& source, const RunOptions& run) {
  const std::string& file = source.name();
  return source.with_path([&](const std::string& path) -> Changeable {
    const FileInfo info = read_file_info(path);
    const FilterOptions options{.backend = run.backend};
    if (info.is_delta) {
      throw Incompatible(fmt::format("{}: a delta, from epoch {} to {}: 'scbf apply' applies it",
                                     display_name(file), info.since.number, info.epoch.number));
    }
    if (is_on_host(run.backend)) {
      check_memory(file, info.cell() == Cell::bit ? "its bits" : "its counters", bytes_of(info));
    }
    return load_from(file, path, [&]() -> Changeable {
      if (info.cell() == Cell::bit) return {BloomFilter::load(path, options), info.compressed};
      return {Filter::load(path, options), info.compressed};
    });
  });
}

Filter counters_of(Changeable opened, const std::string& file, const char* cannot) {
  if (Filter* const counters = std::get_if<Filter>(&opened.filter)) return std::move(*counters);
  throw Incompatible(fmt::format("{}: a filter of bits, {}", display_name(file), cannot));
}

namespace {

/// Calls load(), which loads the bank that in messages is `file`, and besides its rows so many
/// bytes of counters. Its headers, if they have been read, say how large the rows are.
template <class Load>
auto load_bank(const std::string& file, const std::optional<BankFileInfo>& info,
               std::uint64_t counters, Load load) {
  const std::uint64_t rows = info ? info->row_bytes : 0;
  check_memory(file, counters > 0 ? "its counters and rows of bits" : "its rows of bits",
               rows + counters);
  try {
    return load();
  } catch (const std::bad_alloc&) {
    throw IoError(fmt::format("{}: no memory for the bank, whose rows of bits take {}",
                              display_name(file), rows > 0 ? human_bytes(rows) : "too much"));
  }
}

/// The headers of a bank. Says what takes a filter, if it is one.
BankFileInfo info_of_bank(const std::string& file, const std::string& path) {
  const AnyFileInfo info = read_any_file_info(path);
  if (const auto* const bank = std::get_if<BankFileInfo>(&info)) return *bank;
  throw Incompatible(
      fmt::format("{}: a {}", display_name(file),
                  std::get<FileInfo>(info).is_delta
                      ? "delta, and no bank: 'scbf apply' applies it"
                      : "filter, and no bank: 'scbf query' asks it, 'scbf insert' changes it"));
}

}  // namespace

BloomBank open_bank_for_queries(const std::string& file, const RunOptions& run, Opening opening) {
  const std::string path = filter_path(file);
  const BankOptions options{.backend = run.backend};
  return as_named(file, in_quotes(path), [&] {
    std::optional<BankFileInfo> info;
    if (is_regular_file(path)) {  // anything else cannot be read twice
      std::array<std::byte, file_format::kFixedBytes> first{};
      const std::size_t got = InputFile(path).read(first);
      if (shall_map(path, opening) && rows_format::has_plain_rows(std::span(first).first(got))) {
        return BloomBank::map(path, options);
      }
      info = info_of_bank(file, path);
    }
    return load_bank(file, info, 0, [&] { return load_as<BloomBank>(file, options); });
  });
}

OpenedBank open_bank_for_changes(const Rereadable& source, const RunOptions& run) {
  const std::string& file = source.name();
  return source.with_path([&](const std::string& path) {
    const BankFileInfo info = info_of_bank(file, path);
    const BankOptions options{.backend = run.backend};
    std::uint64_t counters = 0;
    if (info.cell == Cell::counter && is_on_host(run.backend)) {
      for (const MemberFileInfo& member : info.members) counters += bytes_of(member.filter);
    }
    return load_bank(file, info, counters, [&]() -> OpenedBank {
      if (info.cell == Cell::bit) return {BloomBank::load(path, options), info.compressed};
      return {Bank::load(path, options), info.compressed};
    });
  });
}

void check_kinds(const FilterNotes& notes, const std::string& file, const FilterNotes& others,
                 const std::string& other, bool force) {
  if (force || !notes.kind || !others.kind || *notes.kind == *others.kind) return;
  throw Incompatible(fmt::format("{} holds {} keys, {} holds {} keys; --force combines them",
                                 display_name(file), to_string(*notes.kind), display_name(other),
                                 to_string(*others.kind)));
}

std::size_t bulk_block(const Backend& backend) {
  return backend.memory() == kHostMemory ? kSmallBlock : 64 * kSmallBlock;
}

namespace {

constexpr std::size_t kIntegerBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kLineBytes = 64;

}  // namespace

std::size_t window_keys(const FilterBase& filter, double keys_per_line, const RunOptions& run) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  const std::uint64_t room =
      std::min(run.scratch_bytes > 0 ? run.scratch_bytes / 2 : kMost, memory_to_spare() / 8);
  const double wanted = keys_per_line * static_cast<double>(filter.bytes() / kLineBytes);
  const auto bytes = kIntegerBytes * static_cast<std::uint64_t>(wanted);
  return std::max<std::uint64_t>(std::min(bytes, room), kSmallBlock) / kIntegerBytes;
}

std::size_t printed_block(const FilterBase& filter, KeyKind kind, double keys_per_line,
                          const RunOptions& run) {
  if (kind == KeyKind::u64) return window_keys(filter, keys_per_line, run) * kIntegerBytes;
  return std::clamp<std::size_t>(filter.bytes() / kLineBytes * 5 / 4 * kIntegerBytes, kSmallBlock,
                                 256 * kSmallBlock);
}

Destination changed_filter(const std::string& file, const std::string& out,
                           Destination::Rules rules) {
  if (out.empty() && is_standard_input(file)) {
    throw UsageError(
        "standard input cannot be replaced: name the file, or write the result elsewhere by -o OUT "
        "or -o -");
  }
  struct stat status = status_of(file);
  if (out.empty() && !S_ISREG(status.st_mode)) {
    throw UsageError(
        fmt::format("{}: a pipe cannot be replaced: write the result elsewhere by -o OUT or -o -",
                    display_name(file)));
  }
  if (out.empty()) {  // opening it says whether it is a filter
    rules.replace = Destination::Rules::Replace::anything;
  } else {
    rules.way_out.clear();
  }
  Destination to = out.empty() ? Destination(in_quotes(file), file, rules)
                               : Destination("-o " + in_quotes(out), out, rules);
  struct stat replaced {};
  // (Standard input is open already: what another command writes now is not seen there.)
  if (!is_standard_input(file) && ::stat(to.path().c_str(), &replaced) == 0 &&
      same_file(replaced, status)) {
    to.lock();
  }
  return to;
}

void add_compress_to(CommandLine& line, bool& compress) {
  line.flag(
      "--compress",
      "Compress the file: a filter with few keys becomes much smaller, a full one does not; it "
      "is then loaded, not mapped",
      compress);
}

Saved save_filter(const FilterBase& filter, const Destination& to, const RunOptions& run,
                  SaveOptions how) {
  how.threads = run.resolved_threads();
  const Stopwatch watch;
  Statistics statistics;
  to.write_parts(
      [&](const OutputFile& file) { statistics = write_and_summarise(filter, how, file); });
  return {std::move(statistics), watch.seconds()};
}

void describe_work(Json& json, const KeyTotals& read, const Backend& backend, const RunOptions& run,
                   double seconds) {
  json["keys"] = read.keys;
  json["empty_lines"] = read.empty_lines;
  json["key_kind"] = to_string(read.kind);
  json["seconds"] = seconds;
  json["keys_per_second"] = per_second(read.keys, seconds);
  json["backend"] = backend.name();
  json["target"] = backend.target();
  json["threads"] = run.resolved_threads();
}

void describe_geometry(Json& json, const Geometry& geometry) {
  json["layout"] = to_string(geometry.layout());
  json["groups"] = geometry.groups();
  json["blocks_per_group"] = geometry.blocks_per_group();
  json["probes"] = geometry.probes();
  json["counters_per_slice"] = geometry.counters_per_slice();
  json["counters"] = geometry.counters();
  if (geometry.layout() == Layout::ranked) {
    json["positions"] = geometry.positions();
    json["spill_slots"] = geometry.spill_slots();
  }
  json["bytes"] = geometry.bytes();
  json["cache_lines_per_key"] = geometry.cache_lines_per_key();
}

void describe_growth(Json& json, const Growth& growth) {
  json["policy"] = to_string(growth.policy());
  json["fpr_target"] = growth.fpr();
  json["most_stages"] = growth.most_stages();
  json["first_capacity"] = growth.first_capacity();
  json["growth"] = growth.growth();
  json["tightening"] = growth.tightening();
}

void describe_growth_of_bank(Json& json, const Growth& growth) {
  if (growth.policy() == Growth::Policy::one) {
    json["policy"] = to_string(growth.policy());
  } else {
    describe_growth(json, growth);
  }
  describe_geometry(json, growth.first_geometry());
}

void describe_size(Json& json, const FilterBase& filter) {
  json["bytes"] = filter.bytes();
  if (filter.growth().policy() != Growth::Policy::one) json["stages"] = filter.stages();
}

void describe_epoch(Json& json, const Epoch& epoch) {
  if (!epoch) return;
  json["epoch"] = epoch.number;
  json["history"] = fmt::format("0x{:016x}", epoch.history);
}

namespace {

template <class Counted>
void describe_counted(Json& json, const Counted& statistics) {
  json["fill"] = statistics.fill;
  json["saturated"] = statistics.saturated;
  json["estimated_keys"] = statistics.estimated_keys;
  json["estimated_fpr"] = statistics.estimated_fpr;
}

}  // namespace

void describe_fill(Json& json, const Statistics& statistics) { describe_counted(json, statistics); }
void describe_fill(Json& json, const StageStatistics& statistics) {
  describe_counted(json, statistics);
}

namespace {

/// A rate this many times the one that was planned is clearly above it. (What the fill says is an
/// estimate.)
constexpr double kClearly = 1.25;

}  // namespace

void warn_if_too_full(std::uint64_t keys, const FilterNotes& notes, const Statistics& statistics,
                      const char* way_out) {
  std::uint64_t stuck = 0;
  for (const StageStatistics& stage : statistics.stages) {
    if (stage.shape.geometry.layout() == Layout::ranked) stuck += stage.saturated;
  }
  if (stuck > 0) {
    note(fmt::format(
        "{} can no longer be lowered, so that keys there stay when they are removed: there are "
        "more "
        "keys than planned, or many copies of some; build a larger filter, or one with --layout "
        "split_block",
        counted(stuck, "counter")));
  }
  if (!notes.capacity || keys <= *notes.capacity) return;
  // (Repeated keys take no room.)
  const double estimated_fpr = statistics.estimated_fpr;
  if (notes.fpr && estimated_fpr <= kClearly * *notes.fpr) return;
  const std::string rate =
      notes.fpr ? fmt::format(" (planned: {})", percent(*notes.fpr)) : std::string();
  // A nearly full filter cannot tell how many keys made it so: no more than there were.
  constexpr double kNearlyFull = 0.9;
  const double estimated = std::min(statistics.estimated_keys, static_cast<double>(keys));
  const auto distinct = static_cast<std::uint64_t>(std::ceil(estimated));
  note(
      fmt::format("about {} distinct keys in a filter for {}: false-positive rate now about {}{}; "
                  "{} with --capacity {}",
                  grouped(distinct), grouped(*notes.capacity), percent(estimated_fpr), rate,
                  way_out, statistics.fill > kNearlyFull ? keys : distinct));
}

void add_max_fpr_to(CommandLine& line, double& most) {
  line.option("--max-fpr", "P",
              "Write nothing if the filter's false-positive rate ends above this; default " +
                  percent(kMostFpr),
              [&most](const std::string& text) {
                const bool any = text == "1" || text == "1.0" || text == "100%";
                most = any ? 1 : parse_rate("--max-fpr", text);
              });
}

void check_rate(const FilterBase& filter, double most, const Refusal& refusal) {
  if (most >= 1) return;
  double rate = filter.fpr_bound();
  if (filter.stages() == 1) {
    const Geometry geometry = filter.geometry();
    rate = predicted_fpr(
        geometry, keys_for_fill(filter.fill(), static_cast<double>(geometry.counters_per_slice())));
  }
  if (rate <= most) return;
  std::string way_out = refusal.way_out;
  // No filter for such a rate is below the limit. (A low limit is meant as it is.)
  if (refusal.planned && *refusal.planned > most && most >= kMostFpr) {
    const auto in_percent = [](double p) { return fmt::format("{:.0f}%", std::ceil(100 * p)); };
    way_out = rate <= kClearly * *refusal.planned
                  ? fmt::format("{} was planned; --max-fpr {} accepts the filter",
                                percent(*refusal.planned), in_percent(rate))
                  : fmt::format("{}, with --max-fpr {}", way_out, in_percent(*refusal.planned));
  }
  throw Incompatible(fmt::format(
      "{}: with {}, its false-positive rate would be {} {}, and --max-fpr allows {}: {}; {}",
      refusal.name, counted(keys_left(filter.keys_inserted(), filter.keys_removed()), "key"),
      filter.stages() == 1 ? "about" : "up to", percent(rate), percent(most), refusal.outcome,
      way_out));
}

std::string full_text(const Refusal& refusal, std::string_view reason, std::uint64_t fitted) {
  return fmt::format("{}: {}; {} of the input fitted, and {}", refusal.name, reason,
                     counted(fitted, "key"), refusal.outcome);
}

}  // namespace scbf::cli
