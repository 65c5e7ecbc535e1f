// SPDX-License-Identifier: Apache-2.0
// SecondaryIndex: a table in a directory, whose rows are found by their values.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "classes/closing.hpp"
#include "classes/pickled.hpp"
#include "errors.hpp"
#include "held.hpp"
#include "keys/single_key.hpp"
#include "module.hpp"
#include "outside.hpp"
#include "scbf/secondary_index.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// An index does its own locking; only close() and refresh() need it alone.
using Self = Held<SecondaryIndex>;

// ---- rows ---------------------------------------------------------------------------------------

nb::dict dict_of(const TableSchema& schema, const Row& row) {
  nb::dict fields;
  fields[nb::str(schema.key.c_str())] = decoded(row.key);
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    fields[nb::str(schema.columns[i].name.c_str())] = decoded(row.values[i]);
  }
  return fields;
}

/// The items of a mapping. Throws InvalidArgument for anything else.
nb::object items_of(nb::handle mapping, const char* what) {
  if (!PyMapping_Check(mapping.ptr()) || !nb::hasattr(mapping, "items")) {
    throw InvalidArgument(fmt::format(
        "{}: must map columns to their fields, and is of type {}; of a data frame, take "
        "to_dict('records') (pandas) or iter_rows(named=True) (Polars)",
        what, nb::type_name(mapping.type()).c_str()));
  }
  nb::object items = nb::steal(PyMapping_Items(mapping.ptr()));
  if (!items.is_valid()) throw nb::python_error();
  return items;
}

/// The row in a mapping of column names to fields; columns that it lacks, or that are None, NaN or
/// pandas.NA, are empty.
Row row_of(const TableSchema& schema, nb::handle fields) {
  const nb::object items = items_of(fields, "a row");
  nb::object key;
  std::vector<std::string> names;
  names.reserve(nb::len(items));
  for (nb::handle item : items) {
    names.push_back(encoded(item[0], "a column's name"));
    if (names.back() == schema.key) key = item[1];
  }
  if (!key.is_valid() || is_null(key.ptr())) {
    throw InvalidArgument(fmt::format("the row has no '{}', which is the table's key", schema.key));
  }
  Row row{.key = encoded(key, schema.key)};
  row.values.resize(schema.columns.size());
  try {
    auto next = names.begin();
    for (nb::handle item : items) {
      const std::string& name = *next++;
      const nb::object value = item[1];
      if (name != schema.key && !is_null(value.ptr())) {
        row.values[schema.column(name)] = encoded(value, name);
      }
    }
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("the row of {}: {}", shown(key.ptr()), error.what()));
  }
  return row;
}

// ---- calls --------------------------------------------------------------------------------------

std::unique_ptr<Self> create(const std::filesystem::path& path, const std::string& key,
                             const std::vector<std::string>& columns, const nb::object& indexed,
                             double fpr, std::uint64_t region_values, std::uint32_t servers,
                             std::string_view layout, std::uint64_t seed, bool sync) {
  TableSchema schema{.key = key};
  for (const std::string& name : columns) schema.columns.push_back({.name = name});
  if (PyUnicode_Check(indexed.ptr())) {
    throw InvalidArgument("indexed: must be a list of columns, not one text");
  }
  const bool has_separators = nb::isinstance<nb::dict>(indexed);
  for (nb::handle item : indexed) {
    const std::string name = encoded(item, "indexed");
    Column& column = schema.columns[schema.column(name)];
    column.indexed = true;
    if (has_separators && !nb::object(indexed[item]).is_none())
      column.separator = encoded(indexed[item], "a separator");
  }
  const IndexPlan plan{.fpr = fpr,
                       .region_values = region_values,
                       .servers = servers,
                       .seed = seed,
                       .layout = layout_from_string(layout)};
  Outside others_may_run;
  return hold(SecondaryIndex::create(path, schema, plan, {.sync = sync}));
}

std::unique_ptr<Self> open(const std::filesystem::path& path, bool read_only, bool sync) {
  Outside others_may_run;
  const IndexOptions options{.sync = sync};
  return hold(read_only ? SecondaryIndex::open_read_only(path, options)
                        : SecondaryIndex::open(path, options));
}

/// Runs a call of the index without Python's lock.
template <class Call>
auto outside(const Self& self, Call call) {
  Outside others_may_run;
  return call(self.value);
}

/// Rows of an iterator, some at a time under Python's lock.
class Rows {
 public:
  Rows(const TableSchema& schema, nb::handle rows) : schema_(schema), iterator_(nb::iter(rows)) {}

  /// Called without the lock.
  bool next(Row& row) {
    if (taken_ == block_.size() && !refill()) return false;
    row = std::move(block_[taken_++]);
    return true;
  }

 private:
  bool refill() {
    constexpr std::size_t kRows = 256;
    const Inside python;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    block_.clear();
    taken_ = 0;
    while (block_.size() < kRows) {
      const nb::object fields = nb::steal(PyIter_Next(iterator_.ptr()));
      if (!fields.is_valid()) {
        if (PyErr_Occurred()) throw nb::python_error();
        break;
      }
      block_.push_back(row_of(schema_, fields));
    }
    return !block_.empty();
  }

  const TableSchema& schema_;
  nb::iterator iterator_;
  std::vector<Row> block_;
  std::size_t taken_ = 0;
};

WriteReport load(Self& self, nb::handle rows) {
  const Passage inside(self.gate, Passage::To::read);
  Rows source(self.value.schema(), rows);
  Outside others_may_run;
  return self.value.bulk_load([&](Row& row) { return source.next(row); });
}

struct Answer {
  nb::list rows;
  RoutingReport routing;
};

Query query_of(nb::handle values, const nb::object& from, const nb::object& to,
               const nb::object& after, std::optional<std::uint64_t> limit, bool keys_only,
               bool broadcast) {
  Query query;
  for (nb::handle item : items_of(values, "values")) {
    query.all_of.push_back({encoded(item[0], "a column's name"), encoded(item[1], "a value")});
  }
  const auto given = [](const nb::object& key) {
    return key.is_none() ? std::string() : encoded(key, "a key");
  };
  query.from = given(from);
  query.to = given(to);
  query.after = given(after);
  query.limit = limit.value_or(UINT64_MAX);
  query.keys_only = keys_only;
  query.broadcast = broadcast;
  return query;
}

Answer query(const Self& self, nb::handle values, const nb::object& from, const nb::object& to,
             const nb::object& after, std::optional<std::uint64_t> limit, bool keys_only,
             bool broadcast) {
  const Passage inside(self.gate, Passage::To::read);
  const Query asked = query_of(values, from, to, after, limit, keys_only, broadcast);
  const QueryAnswer found =
      outside(self, [&](const SecondaryIndex& index) { return index.query(asked); });
  Answer answer{nb::list(), found.routing};
  for (const Row& row : found.rows) {
    if (keys_only) {
      answer.rows.append(decoded(row.key));
    } else {
      answer.rows.append(dict_of(self.value.schema(), row));
    }
  }
  return answer;
}

nb::object get(const Self& self, nb::handle key) {
  const Passage inside(self.gate, Passage::To::read);
  const std::string bytes = encoded(key, "a key");
  const std::optional<Row> row =
      outside(self, [&](const SecondaryIndex& index) { return index.get(bytes); });
  return row ? nb::object(dict_of(self.value.schema(), *row)) : nb::none();
}

WriteReport remove(Self& self, nb::object keys) {
  std::vector<std::string> removed;
  if (nb::isinstance<nb::str>(keys) || nb::isinstance<nb::bytes>(keys)) keys = nb::make_tuple(keys);
  for (nb::handle key : keys) removed.push_back(encoded(key, "a key"));
  const Passage inside(self.gate, Passage::To::read);
  Outside others_may_run;
  return self.value.remove(removed);
}

nb::dict statistics(const Self& self) {
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

nb::list regions(const Self& self) {
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

nb::list check(const Self& self) {
  const Passage inside(self.gate, Passage::To::read);
  const CheckReport report =
      outside(self, [](const SecondaryIndex& index) { return index.check(); });
  nb::list problems;
  for (const std::string& problem : report.problems) problems.append(decoded(problem));
  if (report.problem_count > report.problems.size()) {
    problems.append(fmt::format("and {} more", report.problem_count - report.problems.size()));
  }
  return problems;
}

}  // namespace

void add_index(nb::module_& module) {
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

  nb::class_<Self> cls(module, "SecondaryIndex",
                       R"(A table in a directory, whose rows are found by their values.

The rows are divided into regions; a bank of filters says which may hold a value, and only these are asked.
Fields are text or bytes. One process at a time has an index open for writing; any number may read it.

>>> import scbf, tempfile
>>> folder = tempfile.mkdtemp()
>>> index = scbf.SecondaryIndex.create(folder + "/index", key="package", columns=["section", "depends"],
...                                    indexed={"section": None, "depends": ","})
>>> index.load([{"package": "bash", "section": "shells", "depends": "base-files, libc6"},
...             {"package": "zsh", "section": "shells", "depends": "libc6"}])
<scbf.WriteReport: 2 put, 0 replaced, 0 removed, 0 absent>
>>> [row["package"] for row in index.query({"section": "shells", "depends": "base-files"})]
['bash']
>>> index.close())");
  cls.def_static("create", &create, nb::arg("path"), nb::kw_only(), nb::arg("key"),
                 nb::arg("columns"), nb::arg("indexed"), nb::arg("fpr") = 0.01,
                 nb::arg("region_values") = IndexPlan{}.region_values, nb::arg("servers") = 1,
                 nb::arg("layout") = "split_block", nb::arg("seed") = 0, nb::arg("sync") = false,
                 nb::sig("def create(path: str | os.PathLike[str], *, key: str, columns: "
                         "Sequence[str], indexed: Iterable[str] | Mapping[str, str | None], fpr: "
                         "float = 0.01, region_values: int = 16384, servers: int = 1, layout: "
                         "Layout = 'split_block', seed: int = 0, sync: bool = False) "
                         "-> SecondaryIndex"),
                 R"(Creates an index in a directory that is empty or does not exist.

Args:
    key: name of the key column; each row has a unique key.
    columns: names of the other columns.
    indexed: those of them that are indexed; a mapping also gives the separator of fields with several values.
    fpr: bound on the false-positive rate of a region's filter.
    region_values: distinct values of a region for which its filter's first stage is made.
    servers: how many share the regions.
    layout: of the filters; 'ranked' takes half the memory, but changes cost more.
    sync: acknowledge a write once it is on disk; otherwise once the operating system has it.
Raises:
    InvalidArgument, IoError.)")
      .def_static("open", &open, nb::arg("path"), nb::kw_only(), nb::arg("read_only") = false,
                  nb::arg("sync") = false,
                  nb::sig("def open(path: str | os.PathLike[str], *, read_only: bool = False, "
                          "sync: bool = False) -> SecondaryIndex"),
                  "Opens an index. With read_only, another process may write it meanwhile; "
                  "refresh() shows what that wrote. Raises IoError.")
      .def(
          "put",
          [](Self& self, nb::handle row) {
            const Passage inside(self.gate, Passage::To::read);
            const Row fields = row_of(self.value.schema(), row);
            Outside others_may_run;
            self.value.put(fields);
          },
          nb::arg("row"), nb::sig("def put(self, row: Mapping[str, str | bytes | None]) -> None"),
          "Inserts a row, a mapping of column names to fields, or replaces the row with its key. "
          "Fields that are None, NaN or pandas.NA are empty, as are those of columns that the row "
          "lacks.")
      .def("load", &load, nb::arg("rows"),
           nb::sig(
               "def load(self, rows: Iterable[Mapping[str, str | bytes | None]]) -> WriteReport"),
           "Puts the rows of an iterable, in large sorted batches. If a row is refused, or the "
           "iterable raises, the batches before it stay.")
      .def("remove", &remove, nb::arg("keys"),
           nb::sig("def remove(self, keys: str | bytes | Iterable[str | bytes]) -> WriteReport"),
           "Removes the row with this key, or those with these keys.")
      .def("get", &get, nb::arg("key"),
           nb::sig("def get(self, key: str | bytes) -> dict[str, str] | None"),
           "The row with this key, as a dict; None if there is none. Bytes that are not UTF-8 are "
           "surrogate escapes.")
      .def("query", &query, nb::arg("values"), nb::kw_only(), nb::arg("from_key") = nb::none(),
           nb::arg("to_key") = nb::none(), nb::arg("after") = nb::none(),
           nb::arg("limit") = nb::none(), nb::arg("keys_only") = false,
           nb::arg("broadcast") = false,
           nb::sig("def query(self, values: Mapping[str, str | bytes], *, from_key: str | bytes | "
                   "None = None, to_key: str | bytes | None = None, after: str | bytes | None = "
                   "None, limit: int | None = None, keys_only: bool = False, broadcast: bool = "
                   "False) -> QueryAnswer"),
           R"(The rows that have all these values in these columns.

Args:
    values: indexed columns, and the value that a row must have in each.
    from_key, to_key: only rows with from_key <= key < to_key.
    after: only rows with a greater key; for answers in pages of ``limit`` rows.
    keys_only: return the rows' keys.
    broadcast: ask every region, as if there were no filters.
Raises:
    InvalidArgument: if a column is not indexed.)")
      .def(
          "checkpoint",
          [](Self& self) {
            const Passage inside(self.gate, Passage::To::read);
            Outside others_may_run;
            self.value.checkpoint();
          },
          "Saves the filters that changed, so that the next open is quick.")
      .def("check", &check, nb::sig("def check(self) -> list[str]"),
           "Compares rows, entries and filters. Returns the problems, a sentence each: [] if all "
           "is well.")
      .def("statistics", &statistics, nb::sig("def statistics(self) -> dict[str, int]"),
           "Counts of rows, values, bytes, regions; and of queries since it was opened.")
      .def("regions", &regions, nb::sig("def regions(self) -> list[dict[str, Any]]"),
           "A dict for each region, in key order.")
      .def(
          "refresh",
          [](Self& self) {
            const Passage inside(self.gate, Passage::To::change);
            Outside others_may_run;
            return self.value.refresh();
          },
          "For an index open for reading only: shows what was written meanwhile. Returns whether "
          "anything was.")
      .def_prop_ro(
          "columns",
          [](const Self& self) {
            const Passage inside(self.gate, Passage::To::read);
            nb::dict all;
            for (const Column& column : self.value.schema().columns)
              all[nb::str(column.name.c_str())] = column.indexed;
            return all;
          },
          nb::for_getter(nb::sig("def columns(self, /) -> dict[str, bool]")),
          "a dict from each column's name to whether it is indexed")
      .def_prop_ro(
          "key",
          [](const Self& self) {
            const Passage inside(self.gate, Passage::To::read);
            return self.value.schema().key;
          },
          "name of the key column")
      .def_prop_ro("read_only",
                   [](const Self& self) {
                     const Passage inside(self.gate, Passage::To::read);
                     return self.value.read_only();
                   })
      .def("__repr__", [](const Self& self) {
        if (self.gate.closed) return std::string("<scbf.SecondaryIndex: closed>");
        const Passage inside(self.gate, Passage::To::read);
        const TableSchema& schema = self.value.schema();
        return fmt::format("<scbf.SecondaryIndex: key '{}', {}{}>", schema.key,
                           counted(schema.columns.size(), "column"),
                           self.value.read_only() ? ", read-only" : "");
      });
  add_closing(cls, "Saves what must be saved. The index cannot be used afterwards.");
}

}  // namespace scbf::python
