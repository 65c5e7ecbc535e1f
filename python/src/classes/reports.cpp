// SPDX-License-Identifier: Apache-2.0
// What batches, removals and statistics return.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "classes/pickled.hpp"
#include "module.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/filter.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {

void add_reports(nb::module_& module) {
  nb::enum_<Removal>(module, "Removal", nb::is_arithmetic(),
                     "What became of a key that was to be removed.")
      .value("absent", Removal::absent, "no stage claimed it: nothing was changed")
      .value("removed", Removal::removed, "it was removed")
      .value("ambiguous", Removal::ambiguous,
             "several stages claimed it: nothing was changed, and it is still there")
      .value("kept", Removal::kept,
             "it is in a block of layout ranked whose counts are lost, as too many keys were "
             "inserted: nothing was changed, and it is still there");

  nb::class_<InsertReport> insert_report(module, "InsertReport", "What an insertion did.");
  insert_report.def_ro("inserted", &InsertReport::inserted, "keys inserted, repetitions counted")
      .def_ro("nulls", &InsertReport::nulls, "keys that were null, and were skipped")
      .def("__repr__", [](const InsertReport& r) {
        return fmt::format("<scbf.InsertReport: {} inserted, {}>", r.inserted,
                           counted(r.nulls, "null"));
      });
  add_pickling<&InsertReport::inserted, &InsertReport::nulls>(insert_report);

  nb::class_<RemoveReport> remove_report(module, "RemoveReport", "What a removal did.");
  remove_report.def_ro("removed", &RemoveReport::removed, "keys removed")
      .def_ro("absent", &RemoveReport::absent,
              "keys that were not there; nothing was changed for them")
      .def_ro("ambiguous", &RemoveReport::ambiguous,
              "keys that several stages claimed, which are still there; 0 with one stage")
      .def_ro("nulls", &RemoveReport::nulls, "keys that were null, and were skipped")
      .def_ro("kept", &RemoveReport::kept,
              "keys in blocks of layout ranked whose counts are lost, which are still there")
      .def("__repr__", [](const RemoveReport& r) {
        return fmt::format("<scbf.RemoveReport: {} removed, {} absent, {} ambiguous, {}{}>",
                           r.removed, r.absent, r.ambiguous, counted(r.nulls, "null"),
                           r.kept > 0 ? fmt::format(", {} kept", r.kept) : "");
      });
  add_pickling<&RemoveReport::removed, &RemoveReport::absent, &RemoveReport::ambiguous,
               &RemoveReport::nulls, &RemoveReport::kept>(remove_report);

  nb::class_<StageStatistics>(module, "StageStatistics", "The figures of one stage.")
      .def_prop_ro("geometry", [](const StageStatistics& s) { return s.shape.geometry; })
      .def_ro("slice_fill", &StageStatistics::slice_fill, "share of non-zero counters, per slice")
      .def_ro("fill", &StageStatistics::fill, "share of non-zero counters")
      .def_ro("nonzero", &StageStatistics::nonzero, "counters that are not 0")
      .def_ro(
          "saturated", &StageStatistics::saturated,
          "counters that no removal lowers: at 15; in layout ranked at 255, and those of blocks "
          "whose counts are lost")
      .def_ro("keys_inserted", &StageStatistics::keys_inserted, "as recorded, repetitions counted")
      .def_ro("keys_removed", &StageStatistics::keys_removed, "as recorded")
      .def_ro("estimated_keys", &StageStatistics::estimated_keys,
              "distinct keys that would give this fill")
      .def_ro("estimated_fpr", &StageStatistics::estimated_fpr,
              "false-positive rate, from the fill")
      .def_ro("histogram", &StageStatistics::histogram, "counters by value, 0 to 15")
      .def_static(
          "_made",
          [](const Geometry& geometry, double fpr, std::uint64_t full_at,
             std::vector<double> slice_fill, double fill, std::uint64_t nonzero,
             std::uint64_t saturated, std::uint64_t keys_inserted, std::uint64_t keys_removed,
             double estimated_keys, double estimated_fpr, const Histogram& histogram) {
            return StageStatistics{{geometry, fpr, full_at},
                                   std::move(slice_fill),
                                   fill,
                                   nonzero,
                                   saturated,
                                   keys_inserted,
                                   keys_removed,
                                   estimated_keys,
                                   estimated_fpr,
                                   histogram};
          })
      .def("__reduce__",
           [](const StageStatistics& s) {
             return pickled(nb::type<StageStatistics>(), "_made", s.shape.geometry, s.shape.fpr,
                            s.shape.full_at, s.slice_fill, s.fill, s.nonzero, s.saturated,
                            s.keys_inserted, s.keys_removed, s.estimated_keys, s.estimated_fpr,
                            s.histogram);
           })
      .def("__repr__", [](const StageStatistics& s) {
        return fmt::format("<scbf.StageStatistics: {}, fill {:.3f}>", s.shape.geometry.describe(),
                           s.fill);
      });

  nb::class_<Statistics> statistics(module, "Statistics",
                                    "The figures of a filter, all stages together.");
  statistics.def_ro("stages", &Statistics::stages, "oldest first")
      .def_ro("nbytes", &Statistics::bytes, "bytes of counters, or of bits")
      .def_ro("counters", &Statistics::counters)
      .def_ro("nonzero", &Statistics::nonzero, "counters that are not 0")
      .def_ro("saturated", &Statistics::saturated,
              "counters that no removal lowers, as in StageStatistics")
      .def_ro("fill", &Statistics::fill, "share of non-zero counters")
      .def_ro("keys_inserted", &Statistics::keys_inserted, "as recorded, repetitions counted")
      .def_ro("keys_removed", &Statistics::keys_removed, "as recorded")
      .def_ro("estimated_keys", &Statistics::estimated_keys, "distinct keys, from the fill")
      .def_ro("estimated_fpr", &Statistics::estimated_fpr, "false-positive rate, from the fill")
      .def_ro("fpr_bound", &Statistics::fpr_bound, "see Filter.fpr_bound")
      .def_ro("ambiguous_share", &Statistics::ambiguous_share,
              "expected share of keys whose removal would be ambiguous")
      .def("__repr__", [](const Statistics& s) {
        return fmt::format(
            "<scbf.Statistics: {}, fill {:.3f}, about {:.0f} keys, false-positive rate "
            "{:.3g}>",
            counted(s.stages.size(), "stage"), s.fill, s.estimated_keys, s.estimated_fpr);
      });
  add_pickling<&Statistics::stages, &Statistics::bytes, &Statistics::counters, &Statistics::nonzero,
               &Statistics::saturated, &Statistics::fill, &Statistics::keys_inserted,
               &Statistics::keys_removed, &Statistics::estimated_keys, &Statistics::estimated_fpr,
               &Statistics::fpr_bound, &Statistics::ambiguous_share>(statistics);

  nb::class_<KeyEstimate> estimate(module, "KeyEstimate",
                                   "An estimate of a number of distinct keys.");
  estimate.def_ro("keys", &KeyEstimate::keys, "infinity if every bit is 1")
      .def_ro("standard_error", &KeyEstimate::standard_error, "in keys")
      .def("__float__", [](const KeyEstimate& e) { return e.keys; })
      .def("__repr__", [](const KeyEstimate& e) {
        return fmt::format("<scbf.KeyEstimate: {:.1f} ± {:.1f}>", e.keys, e.standard_error);
      });
  add_pickling<&KeyEstimate::keys, &KeyEstimate::standard_error>(estimate);
}

}  // namespace scbf::python
