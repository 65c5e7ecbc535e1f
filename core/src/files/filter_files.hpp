// SPDX-License-Identifier: Apache-2.0
// What banks and deltas use of filter_files.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "files/file_input.hpp"
#include "filter/state.hpp"

namespace scbf {

/// A filter that was read, and what its first header says of the file.
struct FilterRead {
  std::unique_ptr<FilterState> state;
  std::uint64_t header_checksum;
  file_format::Payload payload;
  Cell stored;  ///< what the file has
};
/// Reads a filter of these cells from the input's position on. Throws CorruptFile or Incompatible.
FilterRead read_filter(Input& input, const Backend& backend, Cell cell);

/// What the headers of a filter say, and the checksum of the first.
struct InfoRead {
  FileInfo info;
  std::uint64_t header_checksum;
};
/// `first` is what read_fixed_bytes has returned; payloads are verified or skipped. Throws
/// CorruptFile or Incompatible.
InfoRead read_info(Input& input, std::vector<std::byte> first, bool verify);

}  // namespace scbf
