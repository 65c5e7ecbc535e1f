// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "errors.hpp"
#include "read_ahead.hpp"
#include "sizes.hpp"

#if defined(__linux__)
#include <sched.h>
#else
#include <thread>
#endif

namespace scbf::cli {

void add_threads_to(CommandLine& line, unsigned& threads) {
  line.option("--threads", "T", "Threads to use; 0 (default): all there are",
              [&threads](const std::string& text) {
                threads = static_cast<unsigned>(parse_count("--threads", text, 0, 4096));
              });
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items;
  for (std::size_t from = 0;;) {
    const std::size_t comma = text.find(',', from);
    items.push_back(text.substr(from, comma - from));
    if (comma == std::string::npos) return items;
    from = comma + 1;
  }
}

void KeyOptions::add_to(CommandLine& line, bool filter_has_kind) {
  add_format_to(line, filter_has_kind,
                filter_has_kind ? "Take --keys even if the filter was built from the other kind; "
                                  "replace OUT even if it is no filter, and LIST if it exists"
                                : "Replace FILE even if it is no filter");
  line.positionals("INPUT", "Files of keys; - or none: standard input", inputs);
}

void KeyOptions::add_format_to(CommandLine& line, bool filter_has_kind,
                               const std::string& force_help) {
  line.option(
      "--keys", "KIND",
      filter_has_kind
          ? "What the input holds: lines, u64 or decimal; default: as the filter was built"
          : "What the input holds: lines (default; each without its newline, empty ones skipped), "
            "u64 (8 bytes each, little-endian) or decimal (u64 keys as text, one a line)",
      [this](const std::string& text) {
        using Written = std::pair<KeyKind, bool>;
        std::tie(kind, format.decimal) = parse_word<Written>("--keys", text,
                                                             {{"lines", {KeyKind::lines, false}},
                                                              {"u64", {KeyKind::u64, false}},
                                                              {"decimal", {KeyKind::u64, true}}});
        format.bytes_given = kind == KeyKind::u64 && !format.decimal;
      });
  line.option("--column", "COL",
              "Keys are a column of CSV or TSV tables: its name in the first line, or its number, "
              "from 1 on, in tables without names",
              [this](const std::string& text) {
                if (text.empty()) {
                  throw UsageError("--column '': must be the name or the number of a column");
                }
                if (!format.column) format.column.emplace();
                format.column->name = text;
              });
  line.option("--separator", "SEP",
              "With --column: tab or a character; default: tab for .tsv and .tab, else ,",
              [this](const std::string& text) {
                if (!format.column) format.column.emplace();
                format.column->format = table_format_from_string(text);
              });
  line.flag("--no-escapes", "With --column, TSV: take backslashes as they are", [this] {
    if (!format.column) format.column.emplace();
    format.column->escapes = Escapes::no;
  });
  line.flag("-0,--null", "Keys end in a zero byte, not in a newline; printed keys, too",
            [this] { format.end = '\0'; });
  line.flag("--chomp-cr", "A carriage return at the end of a line is no part of the key",
            format.chomp_cr);
  line.flag("--raw", "Take inputs as they are, even if they look compressed or like no keys",
            [this] { format.decode = format.check = false; });
  line.flag("--force", force_help, force);
}

KeyFormat KeyOptions::format_for(KeyKind of) const {
  if (format.column && format.column->name.empty()) {
    throw UsageError("--separator and --no-escapes go with --column");
  }
  KeyFormat result = format;
  result.kind = of;
  return result;
}

std::vector<std::string> KeyOptions::sources() const {
  return inputs.empty() ? std::vector<std::string>{"-"} : inputs;
}

void RunOptions::add_backend_to(CommandLine& line) {
  line.option("--backend", "NAME", "Backend: auto (default) or a name that 'scbf backends' lists",
              [this](const std::string& text) {
                backend = text;
                settle_device();
              });
  line.option("--device", "N", "GPU that computes, from 0 on: --backend cuda on that device",
              [this](const std::string& text) {
                device = static_cast<unsigned>(parse_count("--device", text, 0, 1023));
                settle_device();
              });
  add_threads_to(line, threads);
}

void RunOptions::settle_device() {
  if (!device) return;
  const std::string named = *device == 0 ? "cuda" : fmt::format("cuda:{}", *device);
  if (backend != "auto" && backend != "cuda" && backend != named) {
    throw UsageError(fmt::format("--device {} goes with --backend cuda, not with {}", *device,
                                 in_quotes(backend)));
  }
  backend = named;
}

void RunOptions::add_scratch_to(CommandLine& line, const std::string& usual) {
  line.option(
      "--scratch", "BYTES",
      fmt::format("Most temporary memory of large batches; default: {}, at most 1GiB", usual),
      [this](const std::string& text) { scratch_bytes = parse_bytes("--scratch", text); });
}

void RunOptions::add_progress_to(CommandLine& line) {
  line.option("--progress", "WHEN",
              "Progress on standard error: auto (default; only on a terminal), always or never",
              [this](const std::string& text) {
                progress = parse_word<ProgressMode>("--progress", text,
                                                    {{"auto", ProgressMode::automatic},
                                                     {"always", ProgressMode::always},
                                                     {"never", ProgressMode::never}});
              });
}

void RunOptions::add_json_to(CommandLine& line, const std::string& help) {
  line.flag("--json", help, json);
}

unsigned RunOptions::resolved_threads() const {
#if defined(__linux__)
  // Not hardware_concurrency, which also counts processors that this process must not use.
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const unsigned there = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
                             ? static_cast<unsigned>(std::max(1, CPU_COUNT(&allowed)))
                             : 1;
#else
  const unsigned there = std::max(1u, std::thread::hardware_concurrency());
#endif
  return threads == 0 ? there : std::min(threads, there);
}

BatchOptions RunOptions::batch() const {
  return {.threads = resolved_threads(), .scratch_bytes = scratch_bytes};
}

BatchOptions RunOptions::batch_beside_keys() const {
  BatchOptions options = batch();
  options.scratch_bytes /= 2;
  return options;
}

void RunOptions::go_through(KeyReader& reader, const char* what,
                            const std::function<void(const KeyBlock&)>& use,
                            const std::function<void()>& finish) const {
  Progress progress_line(progress, what, reader.total_bytes());
  for_each_block(reader, resolved_threads() > 1, [&](const KeyBlock& block) {
    use(block);
    progress_line.update(block.keys_so_far(), block.bytes_so_far());
  });
  finish();
  progress_line.finish(reader.keys(), reader.bytes_read());
}

void ShapeOptions::add_to(CommandLine& line) {
  line.option(
      "--capacity", "N", "Distinct keys to hold: 5000, 1e8, 100M",
      [this](const std::string& text) { request.capacity = parse_count("--capacity", text); });
  line.option("--fpr", "P", "False-positive rate at that many keys: 0.01 or 1%",
              [this](const std::string& text) { request.fpr = parse_rate("--fpr", text); });
  line.option(
      "--memory", "BYTES", "Most memory for the counters: 500MB, 2GiB",
      [this](const std::string& text) { request.memory_bytes = parse_bytes("--memory", text); });
  line.option("--layout", "LAYOUT", "split_block (default), split, or ranked",
              [this](const std::string& text) { request.layout = layout_from_string(text); });
  line.option(
      "--groups", "G", "split_block: blocks that a key touches, 8 probes in each; default: chosen",
      [this](const std::string& text) {
        request.groups = static_cast<std::uint32_t>(parse_count("--groups", text, 1, kMaxGroups));
      });
  line.option("--probes", "K", "split: counters that a key touches; default: chosen",
              [this](const std::string& text) {
                request.probes =
                    static_cast<std::uint32_t>(parse_count("--probes", text, 1, kMaxProbes));
              });
}

}  // namespace scbf::cli
