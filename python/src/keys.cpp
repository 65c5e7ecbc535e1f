// SPDX-License-Identifier: Apache-2.0
#include "keys.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "arrow.hpp"
#include "buffers.hpp"

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
  std::string shown(nb::str(text).c_str());
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
    return fmt::format("{}: floating-point numbers cannot be keys, because numbers that print alike "
                       "may differ; round them to integers, or take their bytes",
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
  throw InvalidKey(fmt::format("{}: integers as keys have 64 bits, -2**63 to 2**64 - 1; use str() of larger ones",
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

/// Missing in a column of objects.
bool is_null(PyObject* object) {
  if (object == Py_None) return true;
  if (PyFloat_Check(object)) return std::isnan(PyFloat_AsDouble(object));
  return type_name(object) == "NAType";
}

// ---- columns of objects --------------------------------------------------------------------------

/// What a column of objects holds, once one has shown it.
enum class Kind { unknown, numbers, bytes };

/// Python objects as keys. Their bytes stay where they are, so the objects are kept.
class Objects {
 public:
  /// `items`: a tuple. `first`: number of the first among all keys, for messages. `kind`: of the keys
  /// before, which these must have, too.
  Objects(nb::object items, std::size_t first, Kind& kind) : items_(std::move(items)) {
    const Py_ssize_t size = PyTuple_Size(items_.ptr());
    for (Py_ssize_t i = 0; i < size; ++i) {
      try {
        take(PyTuple_GetItem(items_.ptr(), i), kind, static_cast<std::size_t>(i));
      } catch (const InvalidKey& error) {
        throw InvalidKey(fmt::format("key {}: {}", first + static_cast<std::size_t>(i), error.what()));
      }
    }
    if (has_nulls_) nulls_.resize((static_cast<std::size_t>(size) + 7) / 8, std::byte{0xFF});
    for (const std::size_t i : null_at_) nulls_[i / 8] &= ~std::byte(1u << (i % 8));
  }
  Objects(Objects&&) = default;

  KeyBatch keys() const {
    const KeyBatch all = views_.empty() ? KeyBatch(std::span<const std::uint64_t>(numbers_))
                                        : KeyBatch(std::span<const std::string_view>(views_));
    return has_nulls_ ? all.with_validity(nulls_) : all;
  }

 private:
  void take(PyObject* item, Kind& kind, std::size_t i) {
    const bool text = PyUnicode_Check(item) != 0, bytes = !text && PyBytes_Check(item) != 0;
    if (text || bytes) {
      must_be(Kind::bytes, kind, item);
      views_.resize(i);  // nulls before it
      views_.push_back(text ? text_of(item) : bytes_of(item));
    } else if (PyLong_Check(item) && !PyBool_Check(item)) {
      must_be(Kind::numbers, kind, item);
      numbers_.resize(i);
      numbers_.push_back(number_of(item));
    } else if (is_null(item)) {
      has_nulls_ = true;
      null_at_.push_back(i);
      (kind == Kind::bytes ? views_.resize(i + 1) : numbers_.resize(i + 1));
    } else if (SingleKey key; is_single_key(item, key)) {  // such as numpy.int64
      must_be(Kind::numbers, kind, item);
      numbers_.resize(i);
      numbers_.push_back(key.number);
    } else {
      throw InvalidKey(refusal(item));
    }
  }
  static void must_be(Kind wanted, Kind& kind, PyObject* item) {
    if (kind == Kind::unknown) kind = wanted;
    if (kind == wanted) return;
    throw InvalidKey(fmt::format("{} is {}, and the keys before it are {}: a column holds one kind",
                                 shown(item), wanted == Kind::numbers ? "a number" : "text or bytes",
                                 wanted == Kind::numbers ? "text or bytes" : "numbers"));
  }

  nb::object items_;
  std::vector<std::uint64_t> numbers_;
  std::vector<std::string_view> views_;
  bool has_nulls_ = false;
  std::vector<std::size_t> null_at_;
  std::vector<std::byte> nulls_;
};

std::unique_ptr<Column> objects_column(nb::object tuple, std::size_t first, Kind& kind) {
  auto objects = std::make_shared<Objects>(std::move(tuple), first, kind);
  const KeyBatch keys = objects->keys();
  return plain_column(keys, std::move(objects));
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

std::unique_ptr<KeySource> objects_source(nb::handle items) {
  nb::object tuple = nb::steal(PySequence_Tuple(items.ptr()));
  if (!tuple.is_valid()) throw nb::python_error();
  Kind kind = Kind::unknown;
  return one_column(objects_column(std::move(tuple), 0, kind));
}

/// What an iterator yields, some keys at a time: there may be more than memory holds.
class Iterator final : public KeySource {
 public:
  explicit Iterator(nb::object iterator) : iterator_(std::move(iterator)) {}
  std::unique_ptr<Column> next() override {
    constexpr std::size_t kMost = 65'536;
    nb::list items;
    while (items.size() < kMost) {
      const nb::object item = nb::steal(PyIter_Next(iterator_.ptr()));
      if (!item.is_valid()) {
        if (PyErr_Occurred()) throw nb::python_error();
        break;
      }
      items.append(item);
    }
    const std::size_t size = items.size();
    if (size == 0) return nullptr;
    auto column = objects_column(nb::steal(PySequence_Tuple(items.ptr())), seen_, kind_);
    seen_ += size;
    return column;
  }
  bool runs_python() const noexcept override { return true; }

 private:
  nb::object iterator_;
  std::size_t seen_ = 0;
  Kind kind_ = Kind::unknown;
};

/// The kind of a NumPy data type, such as 'M' for moments; 0 for other objects.
char dtype_kind(nb::handle object) {
  if (!nb::hasattr(object, "dtype")) return 0;
  const nb::object dtype = object.attr("dtype");
  if (!nb::hasattr(dtype, "kind")) return 0;
  const nb::object kind = dtype.attr("kind");
  return nb::isinstance<nb::str>(kind) ? nb::cast<nb::str>(kind).c_str()[0] : '\0';
}

/// Of a NumPy array, or of anything else with a buffer.
std::unique_ptr<KeySource> buffer_source(nb::handle object) {
  if (const char kind = dtype_kind(object); kind == 'M' || kind == 'm') {
    throw InvalidKey(fmt::format("an array of {} cannot be keys: take its integers by view('int64'), in one unit "
                                 "for all data of a filter",
                                 nb::str(object.attr("dtype")).c_str()));
  } else if (kind == 'T' || kind == 'O') {  // no buffer, or one of pointers
    return objects_source(object.attr("tolist")());
  }
  auto column = buffer_column(std::make_unique<Buffer>(object, PyBUF_FORMAT | PyBUF_STRIDES));
  return column ? one_column(std::move(column)) : objects_source(object);
}

}  // namespace

bool is_single_key(PyObject* object, SingleKey& key) {
  if (PyLong_CheckExact(object)) {
    key = {true, number_of(object), {}};
  } else if (PyUnicode_Check(object)) {
    key = {false, 0, text_of(object)};
  } else if (PyBytes_Check(object)) {
    key = {false, 0, bytes_of(object)};
  } else if (PyBool_Check(object) || PyFloat_Check(object)) {
    throw InvalidKey(refusal(object));
  } else if (PyIndex_Check(object) && !PySequence_Check(object)) {
    const nb::object number = nb::steal(PyNumber_Index(object));
    if (!number.is_valid()) throw nb::python_error();
    key = {true, number_of(number.ptr()), {}};
  } else {
    return false;
  }
  return true;
}

std::unique_ptr<KeySource> keys_of(nb::handle object) {
  if (auto source = arrow_source(object)) return source;
  if (nb::hasattr(object, "__cuda_array_interface__")) {
    throw BackendUnavailable("the keys are in the memory of a device, and this package reads keys of the "
                             "host: copy them there, for example by get() or numpy.asarray");
  }
  PyObject* const raw = object.ptr();
  if (PyByteArray_Check(raw)) {
    throw InvalidKey("bytearray: use bytes() for one key, or memoryview for a column of small integers");
  }
  if (PyObject_CheckBuffer(raw)) return buffer_source(object);
  if (nb::hasattr(object, "__array__")) {  // pandas, and arrays of other libraries
    return buffer_source(nb::module_::import_("numpy").attr("asarray")(object));
  }
  if (PyList_Check(raw) || PyTuple_Check(raw) || PyDict_Check(raw) || PyAnySet_Check(raw)) {
    return objects_source(object);
  }
  nb::object iterator = nb::steal(PyObject_GetIter(raw));
  if (!iterator.is_valid()) {
    PyErr_Clear();
    throw InvalidKey(refusal(raw));
  }
  return std::make_unique<Iterator>(std::move(iterator));
}

}  // namespace scbf::python
