// SPDX-License-Identifier: Apache-2.0
// Options that several verbs share. Each group adds itself to a verb's command line and must
// outlive the parsing of it.
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

/// Rate of filters where nothing else is said.
inline constexpr double kDefaultFpr = 0.01;

/// --threads; 0 = all there are.
void add_threads_to(CommandLine& line, unsigned& threads);
/// "a,b" → a, b: what is between commas, empty or not.
std::vector<std::string> split_list(const std::string& text);

/// Where keys come from and what they are.
struct KeyOptions {
  std::optional<KeyKind> kind;
  bool force = false;
  std::vector<std::string> inputs;

  void add_to(CommandLine& line, bool filter_has_kind);
  /// inputs, or standard input when there are none.
  std::vector<std::string> sources() const;
};

/// How work is done and shown.
struct RunOptions {
  std::string backend = "auto";
  std::optional<unsigned> device;  ///< of the backend "cuda"
  unsigned threads = 0;            ///< 0 = all
  std::uint64_t scratch_bytes = 0;
  ProgressMode progress = ProgressMode::automatic;
  bool json = false;

  /// --backend, --device, --threads.
  void add_backend_to(CommandLine& line);
  void add_scratch_to(CommandLine& line);
  void add_progress_to(CommandLine& line);
  void add_json_to(CommandLine& line, const std::string& help);

  /// The number behind 0: what this process may run on.
  unsigned resolved_threads() const;
  BatchOptions batch() const;
  /// Calls use(block) for all keys and shows how far it is; `what` is being done. A second thread
  /// reads ahead where it may.
  void go_through(KeyReader& reader, const char* what,
                  const std::function<void(const KeyBlock&)>& use) const;

 private:
  /// Makes `backend` that of `device`. The two options come in any order.
  void settle_device();
};

/// The shape of a new filter.
struct ShapeOptions {
  PlanRequest request;

  void add_to(CommandLine& line);
};

}  // namespace scbf::cli
