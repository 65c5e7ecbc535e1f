// SPDX-License-Identifier: Apache-2.0
// Options that several verbs share. Each group adds itself to a verb's command line and must
// outlive the parsing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "key_reader.hpp"
#include "progress.hpp"
#include "scbf/backend.hpp"
#include "scbf/sizing.hpp"

namespace scbf::cli {

/// The default false-positive rate of filters.
inline constexpr double kDefaultFpr = 0.01;

/// Parses --threads; 0 = all available processors.
void add_threads_to(CommandLine& line, unsigned& threads);
/// Splits "a,b" at commas into a and b. Items may be empty.
std::vector<std::string> split_list(const std::string& text);

/// The inputs with the keys, and how the keys are written there.
struct KeyOptions {
  std::optional<KeyKind> kind;  ///< --keys, where it is given
  KeyFormat format;             ///< its kind is not set
  bool force = false;
  std::vector<std::string> inputs;

  /// All of them, the inputs last.
  void add_to(CommandLine& line, bool filter_has_kind);
  /// Those that say how keys are written, and --force with this help.
  void add_format_to(CommandLine& line, bool filter_has_kind, const std::string& force_help);
  /// How keys of this kind are written. Throws UsageError if options contradict each other.
  KeyFormat format_for(KeyKind kind) const;
  /// The inputs, or standard input if none is given.
  std::vector<std::string> sources() const;
};

/// Backend, threads, progress and JSON.
struct RunOptions {
  std::string backend = "auto";
  std::optional<unsigned> device;  ///< number of the device for the backend "cuda"
  unsigned threads = 0;            ///< 0 = all
  std::uint64_t scratch_bytes = 0;
  ProgressMode progress = ProgressMode::automatic;
  bool json = false;

  /// --backend, --device, --threads.
  void add_backend_to(CommandLine& line);
  /// `usual` is how much the verb takes by default.
  void add_scratch_to(CommandLine& line, const std::string& usual);
  void add_progress_to(CommandLine& line);
  void add_json_to(CommandLine& line, const std::string& help);

  /// `threads`, or if that is 0, the number of processors that this process may use.
  unsigned resolved_threads() const;
  BatchOptions batch() const;
  /// The same beside a window of keys, which takes half of --scratch.
  BatchOptions batch_beside_keys() const;
  /// Calls use(block) for all keys, then finish(), and shows progress, labelled `what`. If
  /// `threads` allows it, others read ahead.
  void go_through(
      KeyReader& reader, const char* what, const std::function<void(const KeyBlock&)>& use,
      const std::function<void()>& finish = [] {}) const;

 private:
  /// Sets `backend` to the one for `device`. The two options may come in any order.
  void settle_device();
};

/// The options that determine the geometry of a new filter.
struct ShapeOptions {
  PlanRequest request;

  void add_to(CommandLine& line);
};

}  // namespace scbf::cli
