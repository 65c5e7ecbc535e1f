// SPDX-License-Identifier: Apache-2.0
// What calls of an index return: WriteReport, RoutingReport, QueryAnswer.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <utility>

#include "classes/index_answer.hpp"
#include "classes/pickled.hpp"
#include "scbf/secondary_index.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {

void add_index_reports(nb::module_& module) {
  nb::class_<WriteReport>(module, "WriteReport", "What a write to an index did, in rows.")
      .def_ro("put", &WriteReport::put, "written under a new key")
      .def_ro("replaced", &WriteReport::replaced, "written over a row with the same key")
      .def_ro("removed", &WriteReport::removed)
      .def_ro("absent", &WriteReport::absent, "keys to remove that had no row")
      .def_static("_made",
                  [](std::uint64_t put, std::uint64_t replaced, std::uint64_t removed,
                     std::uint64_t absent) {
                    return WriteReport{put, replaced, removed, absent};
                  })
      .def("__reduce__",
           [](const WriteReport& r) {
             return pickled(nb::type<WriteReport>(), "_made", r.put, r.replaced, r.removed,
                            r.absent);
           })
      .def("__repr__", [](const WriteReport& r) {
        return fmt::format("<scbf.WriteReport: {} put, {} replaced, {} removed, {} absent>", r.put,
                           r.replaced, r.removed, r.absent);
      });

  nb::class_<RoutingReport>(module, "RoutingReport", "What a query of an index cost.")
      .def_ro("regions", &RoutingReport::regions, "regions that overlap the query's range of keys")
      .def_ro("servers", &RoutingReport::servers,
              "servers of these regions: the requests of a broadcast")
      .def_ro("requests", &RoutingReport::requests, "servers that were asked")
      .def_ro("servers_holding", &RoutingReport::servers_holding,
              "servers that held a matching row")
      .def_prop_ro("false_requests", &RoutingReport::false_requests, "requests in vain")
      .def_ro("expected_requests", &RoutingReport::expected_requests)
      .def_static("_made",
                  [](std::uint32_t regions, std::uint32_t regions_asked,
                     std::uint32_t regions_holding, std::uint32_t servers, std::uint32_t requests,
                     std::uint32_t servers_holding, double expected_requests) {
                    return RoutingReport{regions,  regions_asked,   regions_holding,  servers,
                                         requests, servers_holding, expected_requests};
                  })
      .def("__reduce__",
           [](const RoutingReport& r) {
             return pickled(nb::type<RoutingReport>(), "_made", r.regions, r.regions_asked,
                            r.regions_holding, r.servers, r.requests, r.servers_holding,
                            r.expected_requests);
           })
      .def("__repr__", [](const RoutingReport& r) {
        return fmt::format("<scbf.RoutingReport: asked {} of {}, {} held a row>", r.requests,
                           counted(r.servers, "server"), r.servers_holding);
      });

  nb::class_<Answer>(module, "QueryAnswer", "The rows that a query found, and what it cost.")
      .def_prop_ro(
          "rows", [](const Answer& a) { return a.rows; },
          nb::for_getter(nb::sig("def rows(self, /) -> list[Any]")),
          "sorted by key: dicts, or keys with keys_only")
      .def_ro("routing", &Answer::routing)
      .def_static("_made",
                  [](nb::list rows, const RoutingReport& routing) {
                    return Answer{std::move(rows), routing};
                  })
      .def("__reduce__",
           [](const Answer& a) { return pickled(nb::type<Answer>(), "_made", a.rows, a.routing); })
      .def("__len__", [](const Answer& a) { return a.rows.size(); })
      .def("__iter__", [](const Answer& a) { return nb::iter(a.rows); })
      .def("__repr__", [](const Answer& a) {
        return fmt::format("<scbf.QueryAnswer: {}, asked {} of {}>", counted(a.rows.size(), "row"),
                           a.routing.requests, counted(a.routing.servers, "server"));
      });
}

}  // namespace scbf::python
