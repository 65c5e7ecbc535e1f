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

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "classes/closing.hpp"
#include "classes/index_answer.hpp"
#include "classes/index_calls.hpp"
#include "classes/index_rows.hpp"
#include "errors.hpp"
#include "held.hpp"
#include "module.hpp"
#include "outside.hpp"
#include "scbf/secondary_index.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

std::unique_ptr<HeldIndex> create(const std::filesystem::path& path, const std::string& key,
                                  const std::vector<std::string>& columns,
                                  const nb::object& indexed, double fpr, RegionValues region_values,
                                  Whole<"servers", 1, kMaxServers> servers, std::string_view layout,
                                  Whole<"seed"> seed, bool sync) {
  TableSchema schema{.key = key};
  for (const std::string& name : columns) schema.columns.push_back({.name = name});
  for (scbf::Column& column : columns_of(indexed, "indexed")) {
    schema.columns[schema.column(column.name)] = column;
  }
  const IndexPlan plan{.fpr = fpr,
                       .region_values = region_values,
                       .servers = servers,
                       .seed = seed,
                       .layout = layout_from_string(layout)};
  Outside others_may_run;
  return hold(SecondaryIndex::create(path, schema, plan, {.sync = sync}));
}

std::unique_ptr<HeldIndex> open(const std::filesystem::path& path, bool read_only, bool sync) {
  Outside others_may_run;
  const IndexOptions options{.sync = sync};
  return hold(read_only ? SecondaryIndex::open_read_only(path, options)
                        : SecondaryIndex::open(path, options));
}

WriteReport load(HeldIndex& self, nb::handle rows, nb::object progress) {
  const Passage inside(self.gate, Passage::To::read);
  Telling telling(std::move(progress));
  const auto source = rows_of(self.value.schema(), rows);
  Outside others_may_run;
  return self.value.bulk_load(
      [&](Row& row) { return source->next(row); },
      [&](std::uint64_t done, std::uint64_t total) { telling(done, total); });
}

/// Rows of an answer, at most.
using Limit = Whole<"limit">;

Query query_of(nb::handle values, const nb::object& from, const nb::object& to,
               const nb::object& after, std::optional<Limit> limit, bool keys_only,
               bool broadcast) {
  Query query;
  for (nb::handle item : items_of(values, "values")) {
    const nb::object column = item[0], value = item[1];
    const auto add = [&](nb::handle one) {
      query.all_of.push_back({encoded(column, "a column's name"), encoded(one, "a value")});
    };
    const bool is_text = PyUnicode_Check(value.ptr()) || PyObject_CheckBuffer(value.ptr());
    if (PySequence_Check(value.ptr()) && !is_text) {
      if (nb::len(value) == 0) {
        throw InvalidArgument(
            fmt::format("column {}: an empty list of values", shown(column.ptr())));
      }
      for (const nb::handle one : value) add(one);
    } else {
      add(value);
    }
  }
  const auto given = [](const nb::object& key) {
    return key.is_none() ? std::string() : encoded(key, "a key");
  };
  query.from = given(from);
  query.to = given(to);
  query.after = given(after);
  query.limit = number_or_none(limit).value_or(UINT64_MAX);
  query.keys_only = keys_only;
  query.broadcast = broadcast;
  return query;
}

Answer answer_of(const TableSchema& schema, const QueryAnswer& found, bool keys_only) {
  Answer answer{nb::list(), found.routing};
  for (const Row& row : found.rows) {
    if (keys_only) {
      answer.rows.append(decoded(row.key));
    } else {
      answer.rows.append(dict_of(schema, row));
    }
  }
  return answer;
}

/// Calls each(first, count) for stretches of n items; between them Ctrl-C is noticed.
template <class Each>
void by_stretches(std::size_t n, std::size_t most, Each each) {
  for (std::size_t first = 0; first < n; first += most) {
    each(first, std::min(most, n - first));
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

nb::object query(const HeldIndex& self, nb::handle values, const nb::object& from,
                 const nb::object& to, const nb::object& after, std::optional<Limit> limit,
                 bool keys_only, bool broadcast) {
  const Passage inside(self.gate, Passage::To::read);
  const TableSchema& schema = self.value.schema();
  const auto one = [&](nb::handle mapping) {
    return query_of(mapping, from, to, after, limit, keys_only, broadcast);
  };
  const bool many = !nb::hasattr(values, "items") && nb::hasattr(values, "__iter__");
  if (!many) {
    const Query asked = one(values);
    const QueryAnswer found =
        outside(self, [&](const SecondaryIndex& index) { return index.query(asked); });
    return nb::cast(answer_of(schema, found, keys_only));
  }
  std::vector<Query> asked;
  for (nb::handle mapping : nb::borrow(values)) asked.push_back(one(mapping));
  nb::list answers;
  constexpr std::size_t kTogether = 1024;  // as the index routes them
  by_stretches(asked.size(), kTogether, [&](std::size_t first, std::size_t count) {
    const auto found = outside(self, [&](const SecondaryIndex& index) {
      return index.query(std::span(asked).subspan(first, count));
    });
    for (const QueryAnswer& each : found) {
      answers.append(nb::cast(answer_of(schema, each, keys_only)));
    }
  });
  return answers;
}

/// An iterator, which asks for some rows at a time.
nb::object query_rows(nb::handle self, nb::handle values, const nb::object& from,
                      const nb::object& to, const nb::object& after, bool keys_only,
                      bool broadcast) {
  items_of(values, "values");
  return nb::module_::import_("scbf._rows")
      .attr("matching")(self, values, from, to, after, keys_only, broadcast);
}

/// Some rows with from <= key < to, and key > after if that is given; none at the end.
nb::list page(const HeldIndex& self, const nb::object& from, const nb::object& to,
              const nb::object& after) {
  constexpr std::size_t kRows = 1024, kBytes = 4u << 20;
  const Passage inside(self.gate, Passage::To::read);
  std::string first = from.is_none() ? std::string() : encoded(from, "a key");
  const std::string end = to.is_none() ? std::string() : encoded(to, "a key");
  if (!after.is_none()) first = encoded(after, "a key") + '\0';  // the key that comes next
  std::vector<Row> rows;
  std::size_t bytes = 0;
  outside(self, [&](const SecondaryIndex& index) {
    index.scan(first, end, [&](const Row& row) {
      bytes += row.key.size();
      for (const std::string& value : row.values) bytes += value.size();
      rows.push_back(row);
      return rows.size() < kRows && bytes < kBytes;
    });
  });
  nb::list found;
  for (const Row& row : rows) found.append(dict_of(self.value.schema(), row));
  return found;
}

nb::object scan(nb::handle self, const nb::object& from, const nb::object& to) {
  return nb::module_::import_("scbf._rows").attr("all_of")(self, from, to);
}

nb::object get(const HeldIndex& self, nb::handle keys) {
  const Passage inside(self.gate, Passage::To::read);
  const auto dict_or_none = [&](const std::optional<Row>& row) {
    return row ? nb::object(dict_of(self.value.schema(), *row)) : nb::none();
  };
  if (nb::isinstance<nb::str>(keys) || nb::isinstance<nb::bytes>(keys)) {
    const std::string key = encoded(keys, "a key");
    return dict_or_none(outside(self, [&](const SecondaryIndex& index) { return index.get(key); }));
  }
  const bool is_column = nb::hasattr(keys, "__iter__") || nb::hasattr(keys, "__arrow_c_array__") ||
                         nb::hasattr(keys, "__arrow_c_stream__");
  if (!is_column) encoded(keys, "a key");  // says what it must be
  const std::vector<std::string> asked = texts_of(keys, "a key");
  nb::list rows;
  constexpr std::size_t kTogether = 4096;
  by_stretches(asked.size(), kTogether, [&](std::size_t first, std::size_t count) {
    const auto found = outside(self, [&](const SecondaryIndex& index) {
      return index.get(std::span(asked).subspan(first, count));
    });
    for (const std::optional<Row>& row : found) rows.append(dict_or_none(row));
  });
  return rows;
}

WriteReport remove_rows(HeldIndex& self, nb::handle keys) {
  const std::vector<std::string> removed = texts_of(keys, "a key");
  const Passage inside(self.gate, Passage::To::read);
  Outside others_may_run;
  return self.value.remove(removed);
}

}  // namespace

void add_index(nb::module_& module) {
  add_index_reports(module);
  nb::class_<HeldIndex> cls(module, "SecondaryIndex",
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
          [](HeldIndex& self, nb::handle row) {
            const Passage inside(self.gate, Passage::To::read);
            const Row fields = row_of(self.value.schema(), row);
            Outside others_may_run;
            self.value.put(fields);
          },
          nb::arg("row"), nb::sig("def put(self, row: Mapping[str, str | bytes | None]) -> None"),
          "Inserts a row, a mapping of column names to fields, or replaces the row with its key. "
          "Fields that are None, NaN or pandas.NA are empty, as are those of columns that the row "
          "lacks.")
      .def("load", &load, nb::arg("rows"), nb::kw_only(), nb::arg("progress") = nb::none(),
           nb::sig("def load(self, rows: Iterable[Mapping[str, str | bytes | None]] | Any, *, "
                   "progress: Progress = None) -> WriteReport"),
           R"(Puts many rows, in sorted batches of some 128 MiB of fields.

Args:
    rows: an iterable of mappings, as put() takes them; a data frame of pandas or Polars; or anything with
        ``__arrow_c_stream__`` or ``__arrow_c_array__`` (tables, record batches and readers of pyarrow, results of
        DuckDB). Columns are text, bytes or dictionaries of these, and nulls are empty fields. Cast other types to
        strings. The index of a frame of pandas is left out: take ``reset_index()`` if it has the keys.
    progress: called from time to time with the number of rows that are written, and None.
Raises:
    InvalidArgument: if a row is refused. The batches before it stay, as they do if the iterable raises.

>>> import scbf, tempfile, pyarrow as pa
>>> with scbf.SecondaryIndex.create(tempfile.mkdtemp(), key="id", columns=["city"], indexed=["city"]) as index:
...     index.load(pa.table({"id": ["1", "2"], "city": ["Oslo", None]}))
...     index.get("2")
<scbf.WriteReport: 2 put, 0 replaced, 0 removed, 0 absent>
{'id': '2', 'city': ''})")
      .def("remove", &remove_rows, nb::arg("keys"),
           nb::sig("def remove(self, keys: str | bytes | Iterable[str | bytes] | ArrowArray | "
                   "ArrowStream) -> WriteReport"),
           "Removes the row with this key, or those with these keys; a column of Arrow is one of "
           "them.")
      .def("get", &get, nb::arg("key"),
           nb::sig("def get(self, key: str | bytes | Iterable[str | bytes] | ArrowArray | "
                   "ArrowStream) -> Any"),
           "The row with this key, as a dict; None if there is none. Bytes that are not UTF-8 are "
           "surrogate escapes. For an iterable or Arrow column of keys, a list of these, in the "
           "order of the keys. The filters are not asked.")
      .def("scan", &scan, nb::kw_only(), nb::arg("from_key") = nb::none(),
           nb::arg("to_key") = nb::none(),
           nb::sig("def scan(self, *, from_key: str | bytes | None = None, to_key: str | bytes | "
                   "None = None) -> Iterator[dict[str, str]]"),
           R"(Iterates over all rows with from_key <= key < to_key, in the order of their keys.

Rows are read up to 1,024 at a time. What is written meanwhile may be seen or not; no row comes twice, and none
that is there throughout is missed.

>>> import scbf, tempfile
>>> with scbf.SecondaryIndex.create(tempfile.mkdtemp(), key="id", columns=["city"], indexed=["city"]) as index:
...     _ = index.load({"id": f"{i:04}", "city": "Oslo"} for i in range(5000))
...     sum(1 for row in index.scan(from_key="1000"))
4000)")
      .def("_page", &page, nb::arg("from_key").none(), nb::arg("to_key").none(),
           nb::arg("after").none(),
           nb::sig("def _page(self, from_key: str | bytes | None, to_key: str | bytes | None, "
                   "after: str | bytes | None) -> list[dict[str, str]]"))
      .def(
          "query", &query, nb::arg("values"), nb::kw_only(), nb::arg("from_key") = nb::none(),
          nb::arg("to_key") = nb::none(), nb::arg("after") = nb::none(),
          nb::arg("limit") = nb::none(), nb::arg("keys_only") = false, nb::arg("broadcast") = false,
          nb::sig("def query(self, values: Mapping[str, str | bytes | Sequence[str | bytes]] | "
                  "Iterable[Mapping[str, str | bytes | Sequence[str | bytes]]], *, from_key: str | "
                  "bytes | None = None, to_key: str | bytes | None = None, after: str | bytes | "
                  "None = None, limit: int | None = None, keys_only: bool = False, broadcast: "
                  "bool = False) -> Any"),
          R"(The rows that have all these values in these columns.

Args:
    values: indexed columns, and the value that a row must have in each; a list of values, if it must have all of
        them, which a row can where its column has a separator. An iterable of such mappings asks many questions,
        of which 1,024 at a time are routed together; the answers are a list of QueryAnswers.
    from_key, to_key: only rows with from_key <= key < to_key.
    after: only rows with a greater key; for answers in pages of ``limit`` rows.
    limit: the most rows of one answer.
    keys_only: return the rows' keys.
    broadcast: ask every region, as if there were no filters.
Raises:
    InvalidArgument: if a column is not indexed.

>>> import scbf, tempfile
>>> with scbf.SecondaryIndex.create(tempfile.mkdtemp(), key="id", columns=["city"], indexed=["city"]) as index:
...     _ = index.load([{"id": "1", "city": "Oslo"}, {"id": "2", "city": "Rome"}, {"id": "3", "city": "Oslo"}])
...     [answer.rows for answer in index.query([{"city": "Oslo"}, {"city": "Bonn"}], keys_only=True)]
[['1', '3'], []])")
      .def(
          "query_rows", &query_rows, nb::arg("values"), nb::kw_only(),
          nb::arg("from_key") = nb::none(), nb::arg("to_key") = nb::none(),
          nb::arg("after") = nb::none(), nb::arg("keys_only") = false, nb::arg("broadcast") = false,
          nb::sig("def query_rows(self, values: Mapping[str, str | bytes | Sequence[str | bytes]], "
                  "*, from_key: str | bytes | None = None, to_key: str | bytes | None = None, "
                  "after: str | bytes | None = None, keys_only: bool = False, broadcast: bool = "
                  "False) -> Iterator[Any]"),
          R"(Iterates over the rows that query() would return, in the order of their keys.

They are asked for 16 at first, and then up to 1,024 at a time, so an answer of any size takes little memory, and the
first rows come at once. Rows written meanwhile may be seen or not, as with scan().

>>> import itertools, scbf, tempfile
>>> with scbf.SecondaryIndex.create(tempfile.mkdtemp(), key="id", columns=["city"], indexed=["city"]) as index:
...     _ = index.load({"id": f"{i:04}", "city": "Oslo"} for i in range(5000))
...     list(itertools.islice(index.query_rows({"city": "Oslo"}, after="0099", keys_only=True), 2))
['0100', '0101'])")
      .def_prop_ro(
          "columns",
          [](const HeldIndex& self) {
            const Passage inside(self.gate, Passage::To::read);
            nb::dict all;
            for (const scbf::Column& column : self.value.schema().columns)
              all[nb::str(column.name.c_str())] = column.indexed;
            return all;
          },
          nb::for_getter(nb::sig("def columns(self, /) -> dict[str, bool]")),
          "a dict from each column's name to whether it is indexed")
      .def_prop_ro(
          "key",
          [](const HeldIndex& self) {
            const Passage inside(self.gate, Passage::To::read);
            return self.value.schema().key;
          },
          "name of the key column")
      .def_prop_ro("read_only",
                   [](const HeldIndex& self) {
                     const Passage inside(self.gate, Passage::To::read);
                     return self.value.read_only();
                   })
      .def("__repr__", [](const HeldIndex& self) {
        if (self.gate.closed) return std::string("<scbf.SecondaryIndex: closed>");
        const Passage inside(self.gate, Passage::To::read);
        const TableSchema& schema = self.value.schema();
        return fmt::format("<scbf.SecondaryIndex: key '{}', {}{}>", schema.key,
                           counted(schema.columns.size(), "column"),
                           self.value.read_only() ? ", read-only" : "");
      });
  add_upkeep(cls);
  add_closing(cls, "Saves what must be saved. The index cannot be used afterwards.");
}

}  // namespace scbf::python
