// SPDX-License-Identifier: Apache-2.0
#include "keys/objects.hpp"

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "keys/buffers.hpp"
#include "keys/single_key.hpp"
#include "scbf/detail/hash.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// Python objects, taken one after another: numbers as they are, text and bytes as their hashes, so
/// that no object is needed afterwards, and their memory is touched once.
class Objects final : public Column {
 public:
  /// `first`: number of the first among all keys, for messages. `kind`: of the keys before, which
  /// these must have, too.
  Objects(std::uint64_t seed, std::size_t first, KindsOfKeys kind)
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
  KindsOfKeys kind() const noexcept override { return has_bytes_ ? KindsOfKeys::bytes : kind_; }
  /// The same, for the keys that follow: text and bytes may be in one column.
  KindsOfKeys family() const noexcept { return kind_; }
  /// Call it after the last.
  void finish() {
    hashes_ = kind_ == KindsOfKeys::text;
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
    if (PyBytes_Check(item)) {
      has_bytes_ = true;
      return hash_of(item, bytes_of(item));
    }
    const nb::object kept = nb::borrow(item);  // from here on, the item's own code may drop it
    if (is_null(item)) {
      null_at_.push_back(values_.size());
      return 0;
    }
    SingleKey key;
    if (!is_single_key(item, key)) throw InvalidKey(refusal(item));
    return number(item, key.number);
  }
  std::uint64_t hash_of(PyObject* item, std::string_view bytes) {
    must_be(KindsOfKeys::text, item);
    return detail::hash_of_bytes(bytes, seed_);
  }
  std::uint64_t number(PyObject* item, std::uint64_t value) {
    must_be(KindsOfKeys::numbers, item);
    return value;
  }
  void must_be(KindsOfKeys wanted, PyObject* item) {
    if (kind_ == KindsOfKeys::none) kind_ = wanted;
    if (kind_ == wanted) return;
    throw InvalidKey(fmt::format("{} is {}, and the keys before it are {}: a column holds one kind",
                                 shown(item),
                                 wanted == KindsOfKeys::numbers ? "a number" : "text or bytes",
                                 wanted == KindsOfKeys::numbers ? "text or bytes" : "numbers"));
  }

  const std::uint64_t seed_;
  const std::size_t first_;
  KindsOfKeys kind_;
  bool hashes_ = false, has_bytes_ = false;
  std::vector<std::uint64_t> values_;
  std::vector<std::size_t> null_at_;
  std::vector<std::byte> validity_;
};

/// An object without code of its own, which might change the column while it is read.
bool is_plain(PyObject* item) noexcept {
  return PyUnicode_CheckExact(item) || PyLong_CheckExact(item) || PyBytes_CheckExact(item) ||
         PyFloat_CheckExact(item) || item == Py_None;
}

/// The objects of a NumPy array, where they lie. Null if any is not plain.
std::unique_ptr<Column> plain_objects(nb::handle array, std::uint64_t seed) {
  const Buffer buffer(array, PyBUF_FORMAT | PyBUF_STRIDES);
  if (buffer->format == nullptr || std::string_view(buffer->format) != "O") return nullptr;
  const Py_ssize_t size = buffer->shape[0], step = buffer->strides[0];
  auto column = std::make_unique<Objects>(seed, 0, KindsOfKeys::none);
  column->reserve(static_cast<std::size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = nullptr;
    std::memcpy(&item, buffer.data() + i * step, sizeof item);
    if (item == nullptr) item = Py_None;  // as NumPy reads it
    if (!is_plain(item)) return nullptr;
    column->take(item);
  }
  column->finish();
  return column;
}

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

/// The items of an iterator, a block at a time.
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
    kind_ = column->family();
    seen_ += column->size();
    return column->size() > 0 ? std::move(column) : nullptr;
  }
  bool runs_python() const noexcept override { return true; }

 private:
  nb::object iterator_;
  std::uint64_t seed_;
  std::size_t seen_ = 0;
  KindsOfKeys kind_ = KindsOfKeys::none;
};

}  // namespace

std::unique_ptr<KeySource> objects_source(nb::handle items, std::uint64_t seed) {
  auto column = std::make_unique<Objects>(seed, 0, KindsOfKeys::none);
  if (PyList_Check(items.ptr()))
    column->reserve(static_cast<std::size_t>(PyList_Size(items.ptr())));
  for_each_item(items, [&](PyObject* item) { column->take(item); });
  column->finish();
  return std::make_unique<OneColumn>(std::move(column));
}

std::unique_ptr<KeySource> object_array_source(nb::handle array, std::uint64_t seed) {
#ifndef Py_GIL_DISABLED  // without the lock, another thread could replace an object meanwhile
  if (auto column = plain_objects(array, seed)) {
    return std::make_unique<OneColumn>(std::move(column));
  }
#endif
  return objects_source(array.attr("tolist")(), seed);
}

std::unique_ptr<KeySource> iterator_source(nb::object iterator, std::uint64_t seed) {
  return std::make_unique<Iterator>(std::move(iterator), seed);
}

}  // namespace scbf::python
