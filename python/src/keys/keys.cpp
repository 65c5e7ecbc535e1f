// SPDX-License-Identifier: Apache-2.0
#include "keys/keys.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "held.hpp"
#include "keys/arrow.hpp"
#include "keys/buffers.hpp"
#include "keys/hashes.hpp"
#include "keys/objects.hpp"
#include "keys/single_key.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/filter.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// The object as a NumPy array. Where NumPy would make floating-point numbers, because integers or
/// categories of pandas have missing values, this makes objects.
nb::object as_array(nb::handle object) {
  const nb::object numpy = nb::module_::import_("numpy");
  nb::object array = numpy.attr("asarray")(object);
  if (const char kind = dtype_kind(object);
      dtype_kind(array) == 'f' && kind != 'f' && kind != '\0') {
    array = numpy.attr("asarray")(object, nb::arg("dtype") = numpy.attr("object_"));
  }
  return array;
}

/// Is it a column, such as one of pandas, that says more as a NumPy array than as an Arrow array?
/// One of Python objects, for which Arrow wants a single type; of float64, whose values show what
/// to do; or of categories, if there are none, so that their type means nothing.
bool is_better_as_array(nb::handle object) {
  const char kind = dtype_kind(object);
  if (kind != 'O' && !(kind == 'f' && is_of_package(object, "pandas"))) return false;
  if (!nb::hasattr(object, "__array__")) return false;
  const nb::object dtype = object.attr("dtype");
  if (nb::hasattr(dtype, "categories")) return nb::len(nb::object(dtype.attr("categories"))) == 0;
  if (!nb::hasattr(dtype, "name")) return false;
  const nb::object name = dtype.attr("name");
  return nb::isinstance<nb::str>(name) &&
         std::string_view(nb::cast<nb::str>(name).c_str()) == (kind == 'O' ? "object" : "float64");
}

/// Through Arrow, Polars offers the addresses of such objects, as bytes of one width.
bool is_of_polars_objects(nb::handle object) {
  if (!nb::hasattr(object, "dtype") || !is_of_package(object, "polars")) return false;
  return std::string_view(nb::str(nb::object(object.attr("dtype"))).c_str()) == "Object";
}

/// Refuses tables that are no columns, or only sometimes: to Arrow, pandas adds its index as a
/// column unless that is a range.
void refuse_frame(nb::handle object) {
  const std::string type = nb::type_name(object.type()).c_str();
  if (type.ends_with("DataFrame") && is_of_package(object, "pandas")) {
    throw InvalidKey("a data frame of pandas: choose a column, such as df['key']");
  }
  if (type.ends_with("LazyFrame") && is_of_package(object, "polars")) {
    throw InvalidKey("a lazy frame of Polars: collect() it, and choose a column");
  }
}

/// The keys of a NumPy array, or of anything else with a buffer.
std::unique_ptr<KeySource> buffer_source(nb::handle object, std::uint64_t seed) {
  if (nb::hasattr(object, "mask")) {
    throw InvalidKey("a masked array: take its compressed(), or give an Arrow column with nulls");
  }
  if (const char kind = dtype_kind(object); kind == 'M' || kind == 'm') {
    throw InvalidKey(
        fmt::format("an array of {} cannot be keys: leave NaT out first, by "
                    "keys[~numpy.isnat(keys)], as it would be a number, too; then take the "
                    "integers by view('int64'), in one unit for all data of a filter",
                    nb::str(nb::object(object.attr("dtype"))).c_str()));
  } else if (kind == 'T' || kind == 'O') {  // no buffer, or one of pointers
    if (nb::cast<int>(nb::object(object.attr("ndim"))) != 1) {
      throw InvalidKey(fmt::format("keys are a column, and this array has {} dimensions",
                                   nb::cast<int>(nb::object(object.attr("ndim")))));
    }
    return kind == 'O' ? object_array_source(object, seed)
                       : objects_source(object.attr("tolist")(), seed);
  }
  auto column = buffer_column(std::make_unique<Buffer>(object, PyBUF_FORMAT | PyBUF_STRIDES));
  return column ? std::make_unique<OneColumn>(std::move(column)) : objects_source(object, seed);
}

}  // namespace

std::unique_ptr<KeySource> keys_of(nb::handle object, std::uint64_t seed) {
  if (nb::isinstance<Held<Filter>>(object) || nb::isinstance<Held<BloomFilter>>(object)) {
    throw InvalidKey("a filter has no keys to read: add filters by merge(), or |=");
  }
  if (auto source = hashes_source(object)) return source;
  if (is_expression(object)) throw InvalidKey(refusal(object.ptr()));
  refuse_frame(object);
  if (is_of_polars_objects(object)) {
    throw InvalidKey(
        "a column of Python objects in Polars: cast it to String or Int64, or give its to_list()");
  }
  if (is_better_as_array(object)) return buffer_source(as_array(object), seed);
  if (auto source = arrow_source(object)) return source;
  if (nb::hasattr(object, "__cuda_array_interface__")) {
    throw BackendUnavailable(
        "the keys are in the memory of a device: scbf.cuda.DeviceFilter takes them there; this "
        "filter takes keys of the host, for example of their get()");
  }
  PyObject* const raw = object.ptr();
  const bool is_integer = PyIndex_Check(raw) && !PyBool_Check(raw) && !PySequence_Check(raw);
  if (is_integer || PyUnicode_Check(raw) || PyBytes_Check(raw)) {
    throw InvalidKey(
        fmt::format("{} is one key, and this call takes columns: put it into a list", shown(raw)));
  }
  if (PyByteArray_Check(raw)) {
    throw InvalidKey(
        "bytearray: use bytes() for one key, or memoryview for a column of small integers");
  }
  if (nb::hasattr(object, "as_py")) {  // those of text and bytes have buffers, too
    throw InvalidKey(fmt::format("{} is a single value of Arrow: give its as_py()", shown(raw)));
  }
  if (PyObject_CheckBuffer(raw)) return buffer_source(object, seed);
  if (nb::hasattr(object, "__array__")) {  // pandas, and arrays of other libraries
    return buffer_source(as_array(object), seed);
  }
  if (PyList_Check(raw) || PyTuple_Check(raw) || PyDict_Check(raw) || PyAnySet_Check(raw)) {
    return objects_source(object, seed);
  }
  nb::object iterator = nb::steal(PyObject_GetIter(raw));
  if (!iterator.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
    PyErr_Clear();
    throw InvalidKey(refusal(raw));
  }
  return iterator_source(std::move(iterator), seed);
}

bool looks_like_column(nb::handle object) {
  if (is_expression(object) || nb::hasattr(object, "as_py")) return false;  // a value of Arrow
  if (PyObject_CheckBuffer(object.ptr()) == 1) return true;
  for (const char* name : {"__iter__", "__next__", "__array__", "__arrow_c_array__",
                           "__arrow_c_stream__", "__cuda_array_interface__", "__dlpack__"}) {
    if (nb::hasattr(object, name)) return true;
  }
  return false;
}

}  // namespace scbf::python
