// SPDX-License-Identifier: Apache-2.0
// What an index can do beside reading and writing rows: statistics, checks, backups, and changes of
// its definition.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "classes/index_calls.hpp"
#include "outside.hpp"
#include "scbf/secondary_index.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

nb::dict statistics(const HeldIndex& self) {
  const Passage inside(self.gate, Passage::To::read);
  const IndexStatistics s =
      outside(self, [](const SecondaryIndex& index) { return index.statistics(); });
  nb::dict all;
  all["rows"] = s.rows;
  all["values"] = s.values;
  all["filter_bytes"] = s.filter_bytes;
  all["bit_row_bytes"] = s.bit_row_bytes;
  all["store_bytes"] = s.store_bytes;
  all["regions"] = s.regions;
  all["servers"] = s.servers;
  all["queries"] = s.queries;
  all["requests"] = s.requests;
  all["broadcast_requests"] = s.broadcast_requests;
  all["false_requests"] = s.false_requests;
  return all;
}

nb::list regions(const HeldIndex& self) {
  const Passage inside(self.gate, Passage::To::read);
  const auto found = outside(self, [](const SecondaryIndex& index) { return index.regions(); });
  nb::list all;
  for (const RegionInfo& region : found) {
    nb::dict entry;
    entry["id"] = region.id;
    entry["from"] = decoded(region.from);
    entry["to"] = decoded(region.to);
    entry["server"] = region.server;
    entry["rows"] = region.rows;
    entry["values"] = region.values;
    entry["filter_bytes"] = region.filter_bytes;
    entry["estimated_fpr"] = region.estimated_fpr;
    all.append(entry);
  }
  return all;
}

nb::list check(const HeldIndex& self, nb::object progress) {
  const Passage inside(self.gate, Passage::To::read);
  Telling telling(std::move(progress));
  const CheckReport report = outside(self, [&](const SecondaryIndex& index) {
    return index.check([&](std::uint64_t done, std::uint64_t total) { telling(done, total); });
  });
  nb::list problems;
  for (const std::string& problem : report.problems) problems.append(decoded(problem));
  if (report.problem_count > report.problems.size()) {
    problems.append(fmt::format("and {} more", report.problem_count - report.problems.size()));
  }
  return problems;
}

// ---- the definition -----------------------------------------------------------------------------

void add_columns(const std::filesystem::path& path, const nb::object& columns,
                 nb::object progress) {
  Telling telling(std::move(progress));
  const std::vector<scbf::Column> added = columns_of(columns, "columns");
  Outside others_may_run;
  SecondaryIndex::add_columns(
      path, added, [&](std::uint64_t done, std::uint64_t total) { telling(done, total); });
}

void drop_columns(const std::filesystem::path& path, const nb::object& columns) {
  std::vector<std::string> names;
  for (const scbf::Column& column : columns_of(columns, "columns")) names.push_back(column.name);
  Outside others_may_run;
  SecondaryIndex::drop_columns(path, names);
}

void replan(const std::filesystem::path& path, double fpr, RegionValues region_values) {
  Outside others_may_run;
  SecondaryIndex::replan(path, fpr, region_values);
}

nb::dict dict_of_plan(const IndexPlan& plan) {
  const std::string_view layout = to_string(plan.layout);
  nb::dict all;
  all["fpr"] = plan.fpr;
  all["region_values"] = plan.region_values;
  all["servers"] = plan.servers;
  all["layout"] = nb::str(layout.data(), layout.size());
  all["seed"] = plan.seed;
  return all;
}

nb::dict plan(const HeldIndex& self) {
  const Passage inside(self.gate, Passage::To::read);
  return dict_of_plan(self.value.plan());
}

nb::dict plan_for(const HeldIndex& self, double fpr) {
  const Passage inside(self.gate, Passage::To::read);
  return dict_of_plan(
      outside(self, [&](const SecondaryIndex& index) { return index.plan_for(fpr); }));
}

nb::dict forecast(const HeldIndex& self, std::optional<double> fpr,
                  std::optional<RegionValues> region_values,
                  std::optional<std::string_view> layout) {
  const Passage inside(self.gate, Passage::To::read);
  IndexPlan plan = self.value.plan();
  if (fpr) plan.fpr = *fpr;
  if (region_values) plan.region_values = *region_values;
  if (layout) plan.layout = layout_from_string(*layout);
  const FilterForecast found =
      outside(self, [&](const SecondaryIndex& index) { return index.forecast(plan); });
  nb::dict all;
  all["filter_bytes"] = found.filter_bytes;
  all["mean_fpr"] = found.mean_fpr;
  all["highest_fpr"] = found.highest_fpr;
  return all;
}

// ---- the whole index ----------------------------------------------------------------------------

/// A datetime with the zone UTC, never later than the moment.
nb::object datetime_of(std::chrono::system_clock::time_point moment) {
  const auto microseconds =
      std::chrono::floor<std::chrono::microseconds>(moment.time_since_epoch()).count();
  const nb::module_ datetime = nb::module_::import_("datetime");
  const nb::object utc = datetime.attr("timezone").attr("utc");
  const nb::object epoch = datetime.attr("datetime")(1970, 1, 1, nb::arg("tzinfo") = utc);
  return epoch + datetime.attr("timedelta")(nb::arg("microseconds") = microseconds);
}

nb::object backup(const HeldIndex& self, const std::filesystem::path& to) {
  const Passage inside(self.gate, Passage::To::read);
  return datetime_of(outside(self, [&](const SecondaryIndex& index) { return index.backup(to); }));
}

nb::object metrics(const HeldIndex& self, bool each_region) {
  const Passage inside(self.gate, Passage::To::read);
  const MetricsDetail detail = each_region ? MetricsDetail::each_region : MetricsDetail::totals;
  return decoded(outside(self, [&](const SecondaryIndex& index) { return index.metrics(detail); }));
}

}  // namespace

void add_upkeep(nb::class_<HeldIndex>& cls) {
  cls.def(
         "checkpoint",
         [](HeldIndex& self) {
           const Passage inside(self.gate, Passage::To::read);
           Outside others_may_run;
           self.value.checkpoint();
         },
         "Saves the filters that changed, so that the next open is quick.")
      .def("check", &check, nb::kw_only(), nb::arg("progress") = nb::none(),
           nb::sig("def check(self, *, progress: Progress = None) -> list[str]"),
           "Compares rows, entries and filters. Returns the problems, a sentence each: [] if all "
           "is well. ``progress`` is called between regions, with the rows checked and the rows in "
           "the index.")
      .def(
          "backup", &backup, nb::arg("to"),
          nb::sig("def backup(self, to: str | os.PathLike[str]) -> datetime.datetime"),
          R"(Makes a backup in a new directory, whose parent must exist, while others read and write.

The backup is an index like any other: opening it restores it. It has every write that was acknowledged before the
moment that is returned (a datetime in UTC). On the same file system, tables and filters are hard links; to be safe
from a failing disk, back up to another one.

Raises:
    IoError: also if ``to`` exists; InvalidArgument if it lies in the index. Nothing is left behind.

>>> import scbf, tempfile
>>> folder = tempfile.mkdtemp()
>>> with scbf.SecondaryIndex.create(folder + "/index", key="id", columns=[], indexed=[]) as index:
...     index.put({"id": "1"})
...     moment = index.backup(folder + "/backup")
>>> with scbf.SecondaryIndex.open(folder + "/backup", read_only=True) as restored:
...     restored.get("1"), moment.tzname()
({'id': '1'}, 'UTC'))")
      .def("metrics", &metrics, nb::kw_only(), nb::arg("each_region") = false,
           nb::sig("def metrics(self, *, each_region: bool = False) -> str"),
           "Metrics now, and counters since the index was opened, as text that Prometheus reads "
           "(serve it as ``text/plain; version=0.0.4``). With ``each_region``, also six for each "
           "region. docs/secondary_index.md lists them. No row is read.")
      .def("statistics", &statistics, nb::sig("def statistics(self) -> dict[str, int]"),
           "Counts of rows, values, bytes, regions; and of queries since it was opened.")
      .def("regions", &regions, nb::sig("def regions(self) -> list[dict[str, Any]]"),
           "A dict for each region, in key order.")
      .def_prop_ro("plan", &plan, nb::for_getter(nb::sig("def plan(self, /) -> dict[str, Any]")),
                   "a dict of fpr, region_values, servers, layout and seed")
      .def("plan_for", &plan_for, nb::arg("fpr"),
           nb::sig("def plan_for(self, fpr: float) -> dict[str, Any]"),
           "The plan with this rate, and with the ``region_values`` whose filters take the least "
           "memory for what the regions hold now and a quarter more. For replan(). Raises "
           "InvalidArgument.")
      .def("forecast", &forecast, nb::kw_only(), nb::arg("fpr") = nb::none(),
           nb::arg("region_values") = nb::none(), nb::arg("layout") = nb::none(),
           nb::sig("def forecast(self, *, fpr: float | None = None, region_values: int | None = "
                   "None, layout: Layout | None = None) -> dict[str, Any]"),
           R"(What the filters would be if they were built now by another plan.

Args:
    fpr, region_values, layout: of that plan; those of this index by default.
Returns:
    a dict of ``filter_bytes``, all of them, and of ``mean_fpr`` and ``highest_fpr`` over the regions.
Raises:
    InvalidArgument.)")
      .def_static(
          "replan", &replan, nb::arg("path"), nb::kw_only(), nb::arg("fpr"),
          nb::arg("region_values"),
          nb::sig("def replan(path: str | os.PathLike[str], *, fpr: float, region_values: "
                  "int) -> None"),
          R"(Changes the rate and the size of the filters of an index that no process has open for writing.

The next open rebuilds them. plan_for() finds values that fit what the index holds.

Raises:
    IoError: if there is no index, or a process has it open for writing; InvalidArgument.

>>> import scbf, tempfile
>>> folder = tempfile.mkdtemp()
>>> with scbf.SecondaryIndex.create(folder, key="id", columns=["city"], indexed=["city"]) as index:
...     _ = index.load({"id": str(i), "city": f"c{i}"} for i in range(1000))
...     plan = index.plan_for(fpr=0.001)
>>> scbf.SecondaryIndex.replan(folder, fpr=plan["fpr"], region_values=plan["region_values"])
>>> with scbf.SecondaryIndex.open(folder) as index:
...     index.plan["fpr"], index.plan == plan
(0.001, True))")
      .def_static(
          "add_columns", &add_columns, nb::arg("path"), nb::arg("columns"), nb::kw_only(),
          nb::arg("progress") = nb::none(),
          nb::sig("def add_columns(path: str | os.PathLike[str], columns: Iterable[str] | "
                  "Mapping[str, str | None], *, progress: Progress = None) -> None"),
          R"(Indexes further columns of an index that no process has open for writing; all of them or none.

The rows stay as they are; columns that are not among them cannot be added.

Args:
    columns: names of columns that are not indexed; a dict also gives the separator of each, or None.
    progress: called from time to time with the rows that are done, and the rows in the index.
Raises:
    InvalidArgument: if there is no such column, if it is indexed already, or if a value in it is too long. IoError:
        if there is no index, or a process has it open for writing. Nothing was changed.

>>> import scbf, tempfile
>>> folder = tempfile.mkdtemp()
>>> with scbf.SecondaryIndex.create(folder, key="id", columns=["tags"], indexed=[]) as index:
...     index.put({"id": "1", "tags": "old, red"})
>>> scbf.SecondaryIndex.add_columns(folder, {"tags": ","})
>>> with scbf.SecondaryIndex.open(folder) as index:
...     index.query({"tags": "red"}, keys_only=True).rows
['1'])")
      .def_static(
          "drop_columns", &drop_columns, nb::arg("path"), nb::arg("columns"),
          nb::sig("def drop_columns(path: str | os.PathLike[str], columns: Iterable[str]) "
                  "-> None"),
          "Stops indexing columns, all of them or none, of an index that no process has "
          "open for writing. Their fields stay in the rows. Raises InvalidArgument if there "
          "is no such column or if it is not indexed, and IoError.")
      .def(
          "refresh",
          [](HeldIndex& self) {
            const Passage inside(self.gate, Passage::To::change);
            Outside others_may_run;
            return self.value.refresh();
          },
          "For an index open for reading only: shows what was written meanwhile. Returns whether "
          "anything was.");
}

}  // namespace scbf::python
