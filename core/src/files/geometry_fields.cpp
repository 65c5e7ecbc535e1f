// SPDX-License-Identifier: Apache-2.0
#include "files/geometry_fields.hpp"

#include <fmt/format.h>

#include "scbf/errors.hpp"

namespace scbf::file_format {

constexpr unsigned kSlotsShift = 32;

GeometryFields fields_of(const Geometry& g) noexcept {
  return {.layout = static_cast<std::uint32_t>(g.layout()),
          .probes = g.probes(),
          .groups = g.layout() == Layout::ranked ? g.positions() : g.groups(),
          .extent = g.in_blocks() ? g.blocks_per_group() | g.spill_slots() << kSlotsShift
                                  : g.counters_per_slice()};
}

Geometry geometry_of(const GeometryFields& f) {
  const Layout layout = layout_of(f.layout);
  const Geometry geometry = layout == Layout::split ? Geometry::split(f.probes, f.extent)
                            : layout == Layout::split_block
                                ? Geometry::split_block(f.groups, f.extent)
                                : Geometry::ranked(f.groups, static_cast<std::uint32_t>(f.extent),
                                                   f.extent >> kSlotsShift);
  const auto require_equal = [&](const char* field, std::uint32_t value, std::uint32_t expected) {
    if (value == expected) return;
    throw InvalidArgument(
        fmt::format("{} {}: must be {} in layout {}", field, value, expected, to_string(layout)));
  };
  require_equal("probes", f.probes, geometry.probes());
  require_equal("groups", f.groups, fields_of(geometry).groups);
  return geometry;
}

Layout layout_of(std::uint32_t number) {
  const auto layout = static_cast<Layout>(number);
  if (layout == Layout::split || layout == Layout::split_block || layout == Layout::ranked) {
    return layout;
  }
  throw InvalidArgument(
      fmt::format("layout {}: must be 1 (split), 2 (split_block) or 3 (ranked)", number));
}

}  // namespace scbf::file_format
