// SPDX-License-Identifier: Apache-2.0
// What filters in stages, and files, need of a Filter beyond its public face.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "file_format.hpp"
#include "file_input.hpp"
#include "filter_state.hpp"
#include "scbf/backend.hpp"
#include "scbf/filter.hpp"

namespace scbf {

struct FilterAccess {
  /// The counters as its backend takes them; valid until the filter changes its memory.
  static ConstCounterView view(const Filter& filter) noexcept {
    return filter.state_->const_view();
  }
  /// A copy that lives on, and can be changed by, another backend. Throws what it throws when
  /// memory is short.
  static Filter copy_on(const Filter& filter, const Backend& backend);
  /// Throws InvalidArgument when it is longer than metadata may be.
  static void check_metadata(const std::string& metadata);

  // A filter file in its two parts.

  /// Checksums included: one pass over the counters.
  static file_format::Header header_of(const Filter& filter);
  static void write_payload(const Filter& filter, const ByteSink& sink);
  static file_format::Header read_header(Input& input);
  static Filter read_counters(Input& input, file_format::Header&& header, const Backend& backend);
  static void verify_counters(Input& input, const file_format::Header& header);
  /// Of the filter that begins at byte `offset` of the file.
  static Filter map_counters(const std::filesystem::path& path, std::uint64_t offset,
                             file_format::Header&& header, const Backend& backend);
  static FileInfo info_of(file_format::Header&& header);
};

}  // namespace scbf
