// SPDX-License-Identifier: Apache-2.0
#include "classes/bulk.hpp"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "module.hpp"
#include "text.hpp"

namespace scbf::python {

void add_bulk(nb::module_& module) {
  nb::class_<Bulk>(module, "BulkInserter", nb::sig("@final\nclass BulkInserter()"), nb::is_final(),
                   R"(One insertion of many batches into a filter. Made by its bulk().

Keys of small batches, such as record batches of Arrow, are partitioned as they come, so that a filter that outgrows
the cache takes them as fast as one large column. Counters and answers are those of insert().

>>> import numpy as np, scbf
>>> seen = scbf.Filter(capacity=1_000_000, fpr=0.01)
>>> with seen.bulk() as bulk:
...     for first in range(0, 1_000_000, 1000):
...         _ = bulk.insert(np.arange(first, first + 1000))
>>> bulk.so_far
<scbf.InsertReport: 1000000 inserted, 0 nulls>

The filter can be used at any time, by any thread. Whatever is done with it then adds the accepted keys first, so it
sees all of them; but each such use costs a pass over the filter. So do not ask it after each batch. (An array or
memoryview of the counters that was made earlier may lack the waiting keys until finish().)

No accepted key is lost: not after an exception in the block or in insert(), and not if finish() is never called. Until
the insertion is finished, it holds temporary memory: half as much as the filter, but at least 1 MiB and at most 1 GiB.)")
      .def(
          "insert",
          [](Bulk& self, nb::object keys, nb::object progress) {
            check_progress(progress);
            return self.insert(keys, std::move(progress));
          },
          nb::arg("keys").none(), nb::kw_only(), nb::arg("progress") = nb::none(),
          nb::sig("def insert(self, keys: KeyColumn, *, progress: Progress = None) -> "
                  "InsertReport"),
          R"(Inserts a column of keys; they may be added to the filter later.

Args:
    keys: a column; see the package's documentation. Put a single key into a list.
    progress: as in Filter.insert().
Returns:
    an InsertReport of this column.
Raises:
    as Filter.insert(). FilterFull says how many keys of this column were accepted. One may go on afterwards.)")
      .def(
          "finish", &Bulk::finish,
          "Adds what has not been added yet. More may be inserted afterwards. ``with`` calls it at "
          "the end of its block. Returns so_far. May warn with OverfullWarning.")
      .def_prop_ro("so_far", &Bulk::so_far, "an InsertReport of all columns together")
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Self"))
      .def(
          "__exit__",
          [](Bulk& self, nb::handle type, nb::handle, nb::handle) { self.exit(!type.is_none()); },
          nb::arg().none(), nb::arg().none(), nb::arg().none(),
          nb::sig("def __exit__(self, *args: object) -> None"))
      .def("__repr__", [](Bulk& self) {
        const InsertReport report = self.so_far();
        return fmt::format("<scbf.BulkInserter: {} inserted, {}>", report.inserted,
                           counted(report.nulls, "null"));
      });
}

}  // namespace scbf::python
