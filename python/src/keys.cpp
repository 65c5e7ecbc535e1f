// SPDX-License-Identifier: Apache-2.0
#include "keys.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "arrow.hpp"
#include "buffers.hpp"
#include "held.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/detail/hash.hpp"
#include "scbf/filter.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// repr(object), shortened, for messages.
std::string shown(PyObject* object) {
  const nb::object text = nb::steal(PyObject_Repr(object));
  if (!text.is_valid()) {
    PyErr_Clear();
    return "?";
  }
  const nb::object encoded =
      nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!encoded.is_valid()) {
    PyErr_Clear();
    return "?";
  }
  std::string shown(nb::borrow<nb::bytes>(encoded).c_str());
  if (shown.size() > 60) {
    std::size_t end = 57;
    while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) --end;
    shown = shown.substr(0, end) + "...";
  }
  return shown;
}

std::string type_name(PyObject* object) {
  return nb::str(nb::handle(object).type().attr("__name__")).c_str();
}

std::string refusal(PyObject* object) {
  if (PyBool_Check(object)) return fmt::format("{}: true and false are no keys", shown(object));
  if (PyFloat_Check(object)) {
    return fmt::format(
        "{}: floating-point numbers cannot be keys, because numbers that print alike "
        "may differ; round them to integers (pandas with missing "
        "values: astype('Int64')), or take their bytes",
        shown(object));
  }
  return fmt::format("{} is a {}: keys are int, str or bytes, or columns of them", shown(object),
                     type_name(object));
}

/// Integers from −2^63 to 2^64 − 1, as 64 bits.
std::uint64_t number_of(PyObject* object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    if (value == -1 && PyErr_Occurred()) throw nb::python_error();
    return static_cast<std::uint64_t>(value);
  }
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(object);
    if (large != static_cast<unsigned long long>(-1) || !PyErr_Occurred()) return large;
    PyErr_Clear();
  }
  throw InvalidKey(fmt::format(
      "{}: integers as keys have 64 bits, -2**63 to 2**64 - 1; use str() of larger ones",
      shown(object)));
}

std::string_view text_of(PyObject* object) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text) return {text, static_cast<std::size_t>(size)};
  PyErr_Clear();
  throw InvalidKey(fmt::format("{} has a lone surrogate, which UTF-8 cannot hold", shown(object)));
}

std::string_view bytes_of(PyObject* object) {
  char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object, &bytes, &size) != 0) throw nb::python_error();
  return {bytes, static_cast<std::size_t>(size)};
}

/// The kind of a NumPy data type, such as 'M' for moments; 0 for other objects.
char dtype_kind(nb::handle object) {
  if (!nb::hasattr(object, "dtype")) return 0;
  const nb::object dtype = object.attr("dtype");
  if (!nb::hasattr(dtype, "kind")) return 0;
  const nb::object kind = dtype.attr("kind");
  return nb::isinstance<nb::str>(kind) ? nb::cast<nb::str>(kind).c_str()[0] : '\0';
}

/// Missing in a column of objects.
bool is_null(PyObject* object) {
  if (object == Py_None) return true;
  if (PyFloat_Check(object) || (dtype_kind(object) == 'f' && !PySequence_Check(object))) {
    return std::isnan(PyFloat_AsDouble(object));
  }
  return type_name(object) == "NAType";
}

// ---- columns of objects
// --------------------------------------------------------------------------

/// What a column of objects holds, once one has shown it.
enum class Kind { unknown, numbers, bytes };

/// Python objects, taken one after another: numbers as they are, text and bytes as their hashes, so
/// that no object is needed afterwards, and their memory is touched once.
class Objects final : public Column {
 public:
  /// `first`: number of the first among all keys, for messages. `kind`: of the keys before, which
  /// these must have, too.
  Objects(std::uint64_t seed, std::size_t first, Kind& kind)
      : seed_(seed), first_(first), kind_(kind) {}

  void reserve(std::size_t keys) { values_.reserve(keys); }
  void take(PyObject* item) {
    try {
      values_.push_back(value_of(item));
    } catch (const InvalidKey& error) {
      throw InvalidKey(fmt::format("key {}: {}", first_ + values_.size(), error.what()));
    }
    // Ctrl-C in a long list.
    if (values_.size() % 65'536 == 0 && PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  /// Call it after the last.
  void finish() {
    hashes_ = kind_ == Kind::bytes;
    if (null_at_.empty()) return;
    validity_.resize((values_.size() + 7) / 8, std::byte{0xFF});
    for (const std::size_t i : null_at_) validity_[i / 8] &= ~std::byte(1u << (i % 8));
  }

  std::size_t size() const noexcept override { return values_.size(); }
  std::size_t most_at_once() const noexcept override { return ~std::size_t{0}; }
  KeyBatch batch(std::size_t first, std::size_t count, std::uint64_t seed, Room&) const override {
    if (hashes_ && seed != seed_) throw Error("the filter's seed changed while keys were read");
    const KeyBatch numbers{std::span<const std::uint64_t>(values_)};
    const KeyBatch all = hashes_ ? KeyBatch::from_hashes(values_) : numbers;
    return (validity_.empty() ? all : all.with_validity(validity_)).slice(first, count);
  }

 private:
  std::uint64_t value_of(PyObject* item) {
    if (PyUnicode_Check(item)) return hash_of(item, text_of(item));
    if (PyLong_CheckExact(item)) return number(item, number_of(item));
    if (PyBytes_Check(item)) return hash_of(item, bytes_of(item));
    const nb::object kept = nb::borrow(item);  // code of its own, from here on, may drop it
    if (is_null(item)) {
      null_at_.push_back(values_.size());
      return 0;
    }
    SingleKey key;
    if (!is_single_key(item, key)) throw InvalidKey(refusal(item));
    return number(item, key.number);
  }
  std::uint64_t hash_of(PyObject* item, std::string_view bytes) {
    must_be(Kind::bytes, item);
    return detail::hash_of_bytes(bytes, seed_);
  }
  std::uint64_t number(PyObject* item, std::uint64_t value) {
    must_be(Kind::numbers, item);
    return value;
  }
  void must_be(Kind wanted, PyObject* item) {
    if (kind_ == Kind::unknown) kind_ = wanted;
    if (kind_ == wanted) return;
    throw InvalidKey(fmt::format("{} is {}, and the keys before it are {}: a column holds one kind",
                                 shown(item),
                                 wanted == Kind::numbers ? "a number" : "text or bytes",
                                 wanted == Kind::numbers ? "text or bytes" : "numbers"));
  }

  const std::uint64_t seed_;
  const std::size_t first_;
  Kind& kind_;
  bool hashes_ = false;
  std::vector<std::uint64_t> values_;
  std::vector<std::size_t> null_at_;
  std::vector<std::byte> validity_;
};

/// Calls each(item) for the items of a list, or of anything else that becomes a tuple. Items are
/// borrowed; where they run code, a list may become shorter meanwhile.
template <class Each>
void for_each_item(nb::handle items, Each each) {
#ifndef Py_GIL_DISABLED
  if (PyList_Check(items.ptr())) {
    for (Py_ssize_t i = 0; i < PyList_Size(items.ptr()); ++i) each(PyList_GetItem(items.ptr(), i));
    return;
  }
#endif
  const nb::object tuple = nb::steal(PySequence_Tuple(items.ptr()));
  if (!tuple.is_valid()) throw nb::python_error();
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple.ptr()); ++i) each(PyTuple_GetItem(tuple.ptr(), i));
}

std::unique_ptr<Column> objects_column(nb::handle items, std::uint64_t seed, std::size_t first,
                                       Kind& kind) {
  auto column = std::make_unique<Objects>(seed, first, kind);
  if (PyList_Check(items.ptr()))
    column->reserve(static_cast<std::size_t>(PyList_Size(items.ptr())));
  for_each_item(items, [&](PyObject* item) { column->take(item); });
  column->finish();
  return column;
}

// ---- sources ------------------------------------------------------------------------------------

class OneColumn final : public KeySource {
 public:
  explicit OneColumn(std::unique_ptr<Column> column) : column_(std::move(column)) {}
  std::unique_ptr<Column> next() override { return std::move(column_); }

 private:
  std::unique_ptr<Column> column_;
};

std::unique_ptr<KeySource> one_column(std::unique_ptr<Column> column) {
  return std::make_unique<OneColumn>(std::move(column));
}

std::unique_ptr<KeySource> objects_source(nb::handle items, std::uint64_t seed) {
  Kind kind = Kind::unknown;
  return one_column(objects_column(items, seed, 0, kind));
}

/// What an iterator yields, some keys at a time: there may be more than memory holds.
class Iterator final : public KeySource {
 public:
  Iterator(nb::object iterator, std::uint64_t seed) : iterator_(std::move(iterator)), seed_(seed) {}
  std::unique_ptr<Column> next() override {
    constexpr std::size_t kMost = 65'536;
    auto column = std::make_unique<Objects>(seed_, seen_, kind_);
    while (column->size() < kMost) {
      const nb::object item = nb::steal(PyIter_Next(iterator_.ptr()));
      if (!item.is_valid()) {
        if (PyErr_Occurred()) throw nb::python_error();
        break;
      }
      column->take(item.ptr());
    }
    column->finish();
    seen_ += column->size();
    return column->size() > 0 ? std::move(column) : nullptr;
  }
  bool runs_python() const noexcept override { return true; }

 private:
  nb::object iterator_;
  std::uint64_t seed_;
  std::size_t seen_ = 0;
  Kind kind_ = Kind::unknown;
};

nb::object as_array(nb::handle object) {
  return nb::module_::import_("numpy").attr("asarray")(object);
}

/// A column of Python objects, as of pandas, which Arrow would have of one type.
bool is_of_objects(nb::handle object) {
  if (dtype_kind(object) != 'O' || !nb::hasattr(object, "__array__")) return false;
  const nb::object dtype = object.attr("dtype");
  return nb::hasattr(dtype, "name") && nb::isinstance<nb::str>(nb::object(dtype.attr("name"))) &&
         std::string_view(nb::str(nb::object(dtype.attr("name"))).c_str()) == "object";
}

/// As Arrow, Polars offers the addresses of such objects, as bytes of one width.
bool is_of_polars_objects(nb::handle object) {
  if (!nb::hasattr(object, "dtype")) return false;
  const nb::object module = object.type().attr("__module__");
  if (!nb::isinstance<nb::str>(module) ||
      !std::string_view(nb::str(module).c_str()).starts_with("polars")) {
    return false;
  }
  return std::string_view(nb::str(nb::object(object.attr("dtype"))).c_str()) == "Object";
}

/// Of a NumPy array, or of anything else with a buffer.
std::unique_ptr<KeySource> buffer_source(nb::handle object, std::uint64_t seed) {
  if (nb::hasattr(object, "mask")) {
    throw InvalidKey("a masked array: take its compressed(), or give an Arrow column with nulls");
  }
  if (const char kind = dtype_kind(object); kind == 'M' || kind == 'm') {
    throw InvalidKey(fmt::format(
        "an array of {} cannot be keys: take its integers by view('int64'), in one unit "
        "for all data of a filter",
        nb::str(nb::object(object.attr("dtype"))).c_str()));
  } else if (kind == 'T' || kind == 'O') {  // no buffer, or one of pointers
    if (nb::cast<int>(nb::object(object.attr("ndim"))) != 1) {
      throw InvalidKey(fmt::format("keys are a column, and this array has {} dimensions",
                                   nb::cast<int>(nb::object(object.attr("ndim")))));
    }
    return objects_source(object.attr("tolist")(), seed);
  }
  auto column = buffer_column(std::make_unique<Buffer>(object, PyBUF_FORMAT | PyBUF_STRIDES));
  return column ? one_column(std::move(column)) : objects_source(object, seed);
}

}  // namespace

bool is_single_key(PyObject* object, SingleKey& key) {
  if (PyLong_CheckExact(object)) {
    key = {true, number_of(object), {}};
  } else if (PyUnicode_Check(object)) {
    key = {false, 0, text_of(object)};
  } else if (PyBytes_Check(object)) {
    key = {false, 0, bytes_of(object)};
  } else if (PyBool_Check(object) || PyFloat_Check(object) || object == Py_None) {
    throw InvalidKey(refusal(object));
  } else if (PyIndex_Check(object) && !PySequence_Check(object)) {
    const nb::object number = nb::steal(PyNumber_Index(object));
    if (!number.is_valid()) throw nb::python_error();
    key = {true, number_of(number.ptr()), {}};
  } else if (!PySequence_Check(object) && dtype_kind(object) != 0 &&
             !nb::hasattr(object, "__len__")) {
    throw InvalidKey(refusal(object));  // numpy.float32, numpy.datetime64 …
  } else {
    return false;
  }
  return true;
}

std::unique_ptr<KeySource> keys_of(nb::handle object, std::uint64_t seed) {
  if (nb::isinstance<Held<Filter>>(object) || nb::isinstance<Held<BloomFilter>>(object)) {
    throw InvalidKey("a filter has no keys to read: add filters by merge(), or |=");
  }
  if (is_of_polars_objects(object)) {
    throw InvalidKey(
        "a column of Python objects in Polars: cast it to String or Int64, or give its to_list()");
  }
  if (is_of_objects(object)) return buffer_source(as_array(object), seed);
  if (auto source = arrow_source(object)) return source;
  if (nb::hasattr(object, "__cuda_array_interface__")) {
    throw BackendUnavailable(
        "the keys are in the memory of a device, and this package reads keys of the "
        "host: copy them there, for example by get() or numpy.asarray");
  }
  PyObject* const raw = object.ptr();
  if (PyUnicode_Check(raw) || PyBytes_Check(raw)) {
    throw InvalidKey(
        fmt::format("{} is one key, and this call takes columns: put it into a list", shown(raw)));
  }
  if (PyByteArray_Check(raw)) {
    throw InvalidKey(
        "bytearray: use bytes() for one key, or memoryview for a column of small integers");
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
  return std::make_unique<Iterator>(std::move(iterator), seed);
}

}  // namespace scbf::python
