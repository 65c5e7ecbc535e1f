// SPDX-License-Identifier: Apache-2.0
// What the verbs that look up keys have in common: a filter or a bank, the keys, and answers that
// are printed in input order.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "block_sizes.hpp"
#include "describe.hpp"
#include "filter_file.hpp"
#include "filter_notes.hpp"
#include "key_window.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/errors.hpp"

namespace scbf::cli {

struct QueryOptions {
  std::string file;
  KeyOptions keys;
  RunOptions run;
  Opening opening = Opening::by_size;
  bool invert = false;
  bool only_count = false;

  /// The options of verbs that ask filters.
  void add_to(CommandLine& line) {
    line.positional("FILE", "The filter; - is standard input", file);
    keys.add_format_to(line, true, "Take --keys even if the filter was built from the other kind");
    line.positionals("INPUT", "Files of keys; - or none: standard input", keys.inputs);
    add_opening_to(line);
    run.add_backend_to(line);
    run.add_progress_to(line);
  }
  void add_opening_to(CommandLine& line) {
    line.flag("--load", "Load and verify FILE whatever its size: better for many keys",
              [this] { set_opening(Opening::load); });
    line.flag("--map", "Map FILE, if it can be, whatever its size: only its header is verified",
              [this] { set_opening(Opening::map); });
  }
  /// Which keys are printed.
  void add_choice_to(CommandLine& line) {
    line.flag("--invert", "Print the keys that are surely absent", invert);
    line.flag("--count", "Print only how many such keys there are", only_count);
  }
  void set_opening(Opening wanted) {
    if (opening != Opening::by_size && opening != wanted) {
      throw UsageError("--load, --map: only one of them");
    }
    opening = wanted;
  }
  /// To be called before the file is opened. Throws as cli::check_inputs.
  void check_inputs() const {
    std::vector<std::string> inputs = keys.sources();
    inputs.insert(inputs.begin(), file);
    cli::check_inputs(inputs);
  }
};

/// A filter or a bank, and the keys to look up.
template <class Asked>
struct QuerySession {
  /// Many keys are asked together by large blocks, or gathered from small ones.
  enum class Blocks : bool { small, large };

  QuerySession(const QueryOptions& o, Asked opened, Blocks blocks)
      : options(o),
        asked(std::move(opened)),
        format(agreed_format(o.keys, read_notes(asked.metadata()), o.file)),
        reader(o.keys.sources(), format,
               {.threads = o.run.resolved_threads(),
                .seed = asked.seed(),
                .pace = Pace::prompt,
                .block_bytes = block_bytes(blocks)}) {}

  /// Calls ask(batch) and then print(block) for all keys. What was printed is written even if an
  /// error follows.
  template <class Ask, class Print>
  void go_through(const Ask& ask, const Print& print) {
    const auto use = [&](const KeyBlock& block) {
      ask(block.batch());
      print(block);
      // If the input is a pipe, answers are written as soon as they are known.
      if (!reader.total_bytes()) out.flush();
    };
    try {
      options.run.go_through(reader, "asking", use);
    } catch (const IoError&) {
      out.flush();
      throw;
    }
  }

  /// Calls ask(batch) for all keys, where none is printed.
  void go_through_unprinted(const std::function<void(const KeyBatch&)>& ask) {
    KeyWindow window(window_keys(asked, kAskedPerLine, options.run), asked.seed(), ask);
    options.run.go_through(
        reader, "asking", [&](const KeyBlock& block) { window.add(block); },
        [&] { window.finish(); });
  }

  void print_line(const KeyBlock& block, std::size_t i) {
    write_key(out, block, i, format);
    out.write(format.end);
  }

  Json report(double seconds) const {
    Json json;
    json["file"] = options.file;
    describe_work(json, reader.totals(), asked.backend(), options.run, seconds);
    return json;
  }

  const QueryOptions& options;
  Asked asked;
  KeyFormat format;
  KeyReader reader;
  Output out;

 private:
  std::size_t block_bytes(Blocks blocks) const {
    if constexpr (std::is_base_of_v<FilterBase, Asked>) {
      if (blocks == Blocks::large)
        return printed_block(asked, format.kind, kAskedPerLine, options.run);
    }
    return kSmallBlock;
  }
};

}  // namespace scbf::cli
