// SPDX-License-Identifier: Apache-2.0
#include "filter_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <new>
#include <utility>

#include "errors.hpp"
#include "files/file_io.hpp"
#include "files/rows_format.hpp"
#include "files/save_filter.hpp"
#include "free_memory.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"

namespace scbf::cli {

namespace fs = std::filesystem;

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

}  // namespace scbf::cli
