// SPDX-License-Identifier: Apache-2.0
#include "scbf/sizing.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <string_view>

#include "classes/pickled.hpp"
#include "classes/shape.hpp"
#include "classes/whole.hpp"
#include "module.hpp"
#include "scbf/errors.hpp"
#include "scbf/growth.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

using Groups = Whole<"groups", 1, kMaxGroups>;
using Probes = Whole<"probes", 1, kMaxProbes>;

Geometry split(Probes probes,
               Whole<"counters per slice", 1, kMaxCountersPerSlice> counters_per_slice) {
  return Geometry::split(probes, counters_per_slice);
}
Geometry split_block(Groups groups, Whole<"blocks per group", 1, kMaxBlocksPerGroup> blocks) {
  return Geometry::split_block(groups, blocks);
}
Geometry ranked(Whole<"positions", kMinRankedPositions, kMaxRankedPositions> positions,
                Whole<"blocks", 1, kMaxBlocksPerGroup> blocks,
                Whole<"spill slots", 0, kMaxSpillSlots> spill_slots) {
  return Geometry::ranked(positions, blocks, spill_slots);
}

std::optional<Layout> layout_of(std::optional<std::string_view> name) {
  return name ? std::optional(layout_from_string(*name)) : std::nullopt;
}

Plan plan_of(const nb::object& capacity, std::optional<double> fpr, const nb::object& memory_bytes,
             std::optional<std::string_view> layout, std::optional<Groups> groups,
             std::optional<Probes> probes) {
  return scbf::plan({.capacity = distinct_keys_or_none(capacity),
                     .fpr = fpr,
                     .memory_bytes = whole_number_or_none(memory_bytes, "memory_bytes"),
                     .layout = layout_of(layout),
                     .groups = number_or_none(groups),
                     .probes = number_or_none(probes)});
}

nb::tuple reduce_geometry(const Geometry& g) {
  const nb::handle type = nb::type<Geometry>();
  if (g.cell() == Cell::bit) {
    return pickled(type, "_of_bits", g.with(Cell::counter));
  }
  if (g.layout() == Layout::split)
    return pickled(type, "split", g.probes(), g.counters_per_slice());
  if (g.layout() == Layout::ranked)
    return pickled(type, "ranked", g.positions(), g.blocks_per_group(), g.spill_slots());
  return pickled(type, "split_block", g.groups(), g.blocks_per_group());
}

nb::tuple reduce_growth(const Growth& g) {
  const nb::handle type = nb::type<Growth>();
  switch (g.policy()) {
    case Growth::Policy::one:
      return pickled(type, "one", g.first_geometry());
    case Growth::Policy::fixed:
      return pickled(type, "fixed", g.first_geometry(), g.most_stages());
    default:
      return pickled(type, "tightening", g.first_capacity(), g.fpr(), to_string(g.layout()),
                     g.growth(), g.tightening());
  }
}

}  // namespace

void add_sizing(nb::module_& module) {
  nb::class_<Geometry>(module, "Geometry",
                       R"(The shape of a filter: how many counters, and how they are laid out.

Two filters can be combined only if their geometries and seeds are equal.

>>> import scbf
>>> scbf.Geometry.split_block(groups=1, blocks_per_group=1000)
<scbf.Geometry: split_block, 1 group of 1000 blocks>)")
      .def_static("split", &split, nb::arg("probes"), nb::arg("counters_per_slice"),
                  "``probes`` contiguous slices of ``counters_per_slice`` counters each: the "
                  "fewest counters for a rate, and a cache line for each probe of a key.")
      .def_static("split_block", &split_block, nb::arg("groups"), nb::arg("blocks_per_group"),
                  "``groups`` arrays of ``blocks_per_group`` blocks of 64 bytes: a key has eight "
                  "probes, and one cache line, in each group.")
      .def_static(
          "ranked", &ranked, nb::arg("positions"), nb::arg("blocks"), nb::arg("spill_slots"),
          "Blocks of 64 bytes that hold exact counts in unary, for sets of distinct keys, in "
          "less than half the memory: four slices of ``positions`` positions (65 to 112), "
          "and room for the counts of ``spill_slots`` blocks with more than 128 - "
          "``positions`` keys.")
      .def_static("_of_bits", [](const Geometry& g) { return g.with(Cell::bit); })
      .def_prop_ro(
          "layout", [](const Geometry& g) { return to_string(g.layout()); },
          nb::for_getter(nb::sig("def layout(self, /) -> Layout")),
          "``'split'``, ``'split_block'`` or ``'ranked'``")
      .def_prop_ro(
          "cell", [](const Geometry& g) { return to_string(g.cell()); },
          "``'counter'``, or ``'bit'`` in a filter for readers")
      .def_prop_ro(
          "of_bits", [](const Geometry& g) { return g.with(Cell::bit); },
          "The same positions with bits: the geometry of a BloomFilter.")
      .def_prop_ro(
          "of_counters", [](const Geometry& g) { return g.with(Cell::counter); },
          "The same positions with counters: the geometry of a Filter.")
      .def_prop_ro("probes", &Geometry::probes, "k: counters that a key touches")
      .def_prop_ro("groups", &Geometry::groups,
                   "of ``split_block``; 1 for ``ranked``, 0 for ``split``")
      .def_prop_ro("blocks_per_group", &Geometry::blocks_per_group,
                   "of ``split_block`` and ``ranked``; 0 for ``split``")
      .def_prop_ro("positions", &Geometry::positions,
                   "counters of a slice in a block; 0 for ``split``")
      .def_prop_ro("spill_slots", &Geometry::spill_slots, "of ``ranked``; else 0")
      .def_prop_ro("counters_per_slice", &Geometry::counters_per_slice, "m")
      .def_prop_ro("counters", &Geometry::counters, "k · m")
      .def_prop_ro("nbytes", &Geometry::bytes, "bytes of all counters")
      .def_prop_ro("cache_lines_per_key", &Geometry::cache_lines_per_key,
                   "cache lines that a key touches")
      .def(
          "predicted_fpr", [](const Geometry& g, double n) { return predicted_fpr(g, n); },
          nb::arg("keys"),
          "The false-positive rate of a filter of this geometry with so many distinct keys.")
      .def(
          "lost_per_false_removal",
          [](const Geometry& g, double n) { return lost_per_false_removal(g, n); }, nb::arg("keys"),
          "How many of a filter's keys become absent, on average, when a key is removed that was "
          "never inserted but looks present.")
      .def(
          "capacity_for", [](const Geometry& g, double fpr) { return capacity_for(g, fpr); },
          nb::arg("fpr"), "The most distinct keys with a false-positive rate of at most ``fpr``.")
      .def(
          "__eq__",
          [](const Geometry& a, nb::handle b) {
            return nb::isinstance<Geometry>(b) && a == nb::cast<const Geometry&>(b);
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Geometry& g) { return nb::hash(nb::str(g.describe().c_str())); })
      .def("__reduce__", &reduce_geometry)
      .def("__repr__", [](const Geometry& g) { return "<scbf.Geometry: " + g.describe() + ">"; });

  nb::class_<Growth>(module, "Growth",
                     R"(How a filter grows: a single stage, or stages that are added as it fills.

>>> import scbf
>>> grows = scbf.Filter(growth=scbf.Growth.tightening(first_capacity=1000, fpr=0.01))
>>> _ = grows.insert(range(5000))
>>> grows.stages, grows.fpr_bound <= 0.01
(3, True))")
      .def_static("one", &Growth::one, nb::arg("geometry"), "A single stage, which is never full.")
      .def_static(
          "fixed",
          [](const Geometry& stage, Whole<"stages", 1, kMaxStages> most_stages) {
            return Growth::fixed(stage, most_stages);
          },
          nb::arg("geometry"), nb::arg("most_stages"),
          "Identical stages, each up to half fill, at most ``most_stages`` of them (the "
          "paper's filter). When all are full, FilterFull is raised.")
      .def_static(
          "tightening",
          [](const nb::object& first_capacity, double fpr, std::string_view layout, double growth,
             double tightening) {
            return Growth::tightening(whole_number(first_capacity, "first_capacity", 1), fpr,
                                      layout_from_string(layout), growth, tightening);
          },
          nb::arg("first_capacity"), nb::arg("fpr"), nb::arg("layout") = "split_block",
          nb::arg("growth") = kDefaultGrowth, nb::arg("tightening") = kDefaultTightening,
          nb::sig("def tightening(first_capacity: int | float, fpr: float, layout: Layout = "
                  "'split_block', "
                  "growth: float = 2.0, tightening: float = 0.8) -> Growth"),
          "Stages without end: stage i holds ``first_capacity · growth**i`` keys, at rates that "
          "add up to at most ``fpr``.")
      .def_prop_ro(
          "policy", [](const Growth& g) { return to_string(g.policy()); },
          "``'one'``, ``'fixed'`` or ``'tightening'``")
      .def_prop_ro("fpr", &Growth::fpr, "bound on the rate of all stages together; 1 for ``one``")
      .def_prop_ro("most_stages", &Growth::most_stages, "the largest number of stages")
      .def_prop_ro(
          "first_geometry", [](const Growth& g) { return g.first_geometry(); },
          "geometry of the first stage")
      .def(
          "__eq__",
          [](const Growth& a, nb::handle b) {
            return nb::isinstance<Growth>(b) && a == nb::cast<const Growth&>(b);
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Growth& g) { return nb::hash(nb::str(g.describe().c_str())); })
      .def("__reduce__", &reduce_growth)
      .def("__repr__", [](const Growth& g) { return "<scbf.Growth: " + g.describe() + ">"; });

  nb::class_<Plan>(module, "Plan", "What plan() chose, and why.")
      .def_ro("geometry", &Plan::geometry)
      .def_ro("capacity", &Plan::capacity, "distinct keys")
      .def_ro("fpr", &Plan::fpr, "the rate asked for, or the one that memory and capacity allow")
      .def_ro("predicted_fpr", &Plan::predicted_fpr, "with ``capacity`` keys in it")
      .def_ro("bits_per_key", &Plan::bits_per_key,
              "of counters; ``geometry.of_bits`` is what a filter for readers takes")
      .def_ro("reason", &Plan::reason, "in a few sentences")
      .def_static("_made",
                  [](const Geometry& geometry, std::uint64_t capacity, double fpr, double predicted,
                     double bits_per_key, std::string reason) {
                    return Plan{geometry,  capacity,     fpr,
                                predicted, bits_per_key, std::move(reason)};
                  })
      .def("__reduce__",
           [](const Plan& p) {
             return pickled(nb::type<Plan>(), "_made", p.geometry, p.capacity, p.fpr,
                            p.predicted_fpr, p.bits_per_key, p.reason);
           })
      .def_prop_ro(
          "nbytes", [](const Plan& p) { return p.geometry.bytes(); }, "bytes of all counters")
      .def("__repr__", [](const Plan& p) {
        return fmt::format("<scbf.Plan: {} at fpr {:.3g}, {:.3g} bits per key, {}>",
                           counted(p.capacity, "key"), p.fpr, p.bits_per_key,
                           p.geometry.describe());
      });

  module.def(
      "plan", plan_of, nb::arg("capacity") = nb::none(), nb::arg("fpr") = nb::none(), nb::kw_only(),
      nb::arg("memory_bytes") = nb::none(), nb::arg("layout") = nb::none(),
      nb::arg("groups") = nb::none(), nb::arg("probes") = nb::none(),
      nb::sig("def plan(capacity: int | float | None = None, fpr: float | None = None, *, "
              "memory_bytes: int | float | None = None, layout: Layout | None = None, groups: int "
              "| None = None, "
              "probes: int | None = None) -> Plan"),
      R"(Chooses a geometry from two of ``capacity``, ``fpr`` and ``memory_bytes``, or from all three.

Args:
    capacity: distinct keys, 1 or more.
    fpr: false-positive rate, between 0 and 1.
    memory_bytes: bytes for the counters, at most.
    layout: ``'split_block'`` (the default), ``'split'`` or ``'ranked'``.
    groups, probes: fix these, too, for ``split_block`` and ``split`` respectively.
Raises:
    InvalidArgument: if fewer than two are given, one is out of range, or they cannot be met.

>>> import scbf
>>> plan = scbf.plan(capacity=1_000_000, fpr=0.01)
>>> plan.nbytes, round(plan.predicted_fpr, 4)
(5715136, 0.01))");
}

}  // namespace scbf::python
