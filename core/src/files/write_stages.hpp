// SPDX-License-Identifier: Apache-2.0
// Writes filters in both formats, plain or packed, to any sink. The counterpart of read_stages.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/chunk_coding.hpp"
#include "files/container_format.hpp"
#include "files/file_format.hpp"
#include "filter/state.hpp"

namespace scbf {

/// The header of a stage of a filter, without checksums of its payload.
file_format::Header header_fields(const Stage& stage, const std::string& metadata);

/// The header of a container of stages with these headers, in their order. `headers` have been
/// encoded, and give the entries their checksums and lengths.
std::vector<std::byte> container_header(const FilterState& filter,
                                        std::span<const file_format::Header> fields,
                                        std::span<const std::vector<std::byte>> headers,
                                        std::vector<container_format::Entry>& entries);

void write_filter(const FilterState& filter, const SaveOptions& options, const ByteSink& sink);

}  // namespace scbf
