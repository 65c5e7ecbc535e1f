// SPDX-License-Identifier: Apache-2.0
// A filter file in its two parts, header and counters: what a container of stages needs of one.
#pragma once

#include <cstdint>
#include <filesystem>

#include "files/file_format.hpp"
#include "files/file_input.hpp"
#include "scbf/backend.hpp"
#include "scbf/filter.hpp"

namespace scbf {

struct FilterFiles {
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
