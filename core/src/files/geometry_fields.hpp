// SPDX-License-Identifier: Apache-2.0
// The fields that describe a geometry in the headers of all formats.
#pragma once

#include <cstdint>

#include "scbf/geometry.hpp"

namespace scbf::file_format {

struct GeometryFields {
  std::uint32_t layout, probes;
  std::uint32_t groups;  ///< of ranked, the positions of a slice in a block
  std::uint64_t extent;  ///< of ranked, the blocks, and in the upper half the spill slots

  friend bool operator==(const GeometryFields&, const GeometryFields&) = default;
};

GeometryFields fields_of(const Geometry& geometry) noexcept;
/// The inverse, with counters. Throws InvalidArgument unless every field is right.
Geometry geometry_of(const GeometryFields& fields);
/// Throws InvalidArgument unless there is a layout of this number.
Layout layout_of(std::uint32_t number);

}  // namespace scbf::file_format
