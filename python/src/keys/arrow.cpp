// SPDX-License-Identifier: Apache-2.0
#include "keys/arrow.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <string_view>

#include "errors.hpp"
#include "keys/arrow_columns.hpp"
#include "keys/single_key.hpp"
#include "outside.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

template <class Struct>
Struct* in_capsule(const nb::object& capsule, const char* name) {
  void* found = PyCapsule_GetPointer(capsule.ptr(), name);
  if (!found) throw nb::python_error();
  return static_cast<Struct*>(found);
}

class OneArray final : public ArrowBatches {
 public:
  OneArray(Released<ArrowSchema> schema, Released<ArrowArray> array)
      : schema_(std::move(schema)), array_(std::move(array)) {
    if (array_.released()) broken("it is released: was its capsule read before?");
  }
  const ArrowSchema& schema() const noexcept override { return *schema_; }
  Released<ArrowArray> next() override { return std::move(array_); }

 private:
  Released<ArrowSchema> schema_;
  Released<ArrowArray> array_;
};

/// If Ctrl-C interrupts Python code that a stream of pyarrow runs, all that is left of it is the
/// traceback in pyarrow's message, whose last line names the exception.
bool tells_of_interrupt(std::string_view message) {
  if (message.find("Detail: Python exception: Traceback") == message.npos) return false;
  while (message.ends_with('\n')) message.remove_suffix(1);
  message.remove_prefix(message.rfind('\n') + 1);
  return message == "KeyboardInterrupt" || message.starts_with("KeyboardInterrupt: ");
}

class ArrayStream final : public ArrowBatches {
 public:
  /// `in_memory`: is it the stream of a table or chunked array, and not of a reader?
  ArrayStream(Released<ArrowArrayStream> stream, bool in_memory, std::string_view of)
      : stream_(std::move(stream)), in_memory_(in_memory), of_(of) {
    if (stream_.released()) broken("the stream is released: was its capsule read before?");
    if (!stream_->get_schema || !stream_->get_next) broken("the stream has no functions");
    check(stream_->get_schema(stream_.get(), schema_.get()));
  }
  const ArrowSchema& schema() const noexcept override { return *schema_; }
  Released<ArrowArray> next() override {
    Released<ArrowArray> array;
    int code = 0;
    {
      Outside others_may_run;
      code = stream_->get_next(stream_.get(), array.get());
    }
    check(code);
    return array;
  }
  bool runs_python() const noexcept override { return !in_memory_; }

 private:
  void check(int code) {
    if (code == 0) return;
    const char* message =
        stream_->get_last_error ? stream_->get_last_error(stream_.get()) : nullptr;
    if (message && tells_of_interrupt(message)) {
      PyErr_SetNone(PyExc_KeyboardInterrupt);
      throw nb::python_error();
    }
    throw IoError(fmt::format("the Arrow stream of the {} failed: {}", of_,
                              printable(message ? message : std::strerror(code))));
  }

  Released<ArrowArrayStream> stream_;
  Released<ArrowSchema> schema_;
  const bool in_memory_;
  const std::string of_;
};

class ArrowKeys final : public KeySource {
 public:
  explicit ArrowKeys(std::unique_ptr<ArrowBatches> batches) : batches_(std::move(batches)) {
    check_schema(batches_->schema());
  }
  std::unique_ptr<Column> next() override {
    Released<ArrowArray> array = batches_->next();
    return array.released() ? nullptr : column_of(batches_->schema(), std::move(array));
  }
  bool runs_python() const noexcept override { return batches_->runs_python(); }

 private:
  std::unique_ptr<ArrowBatches> batches_;
};

/// pandas has the methods even without PyArrow, which does the work.
bool lacks_pyarrow(const nb::python_error& error) {
  if (!error.matches(PyExc_ImportError)) return false;
  const nb::object text = nb::str(error.value());
  return std::string_view(nb::str(text).c_str()).find("pyarrow") != std::string_view::npos;
}

/// pandas has columns that PyArrow refuses, such as sparse ones and those of the other byte order.
/// MemoryError and Ctrl-C are no refusals.
bool is_refusal_of_pandas(const nb::python_error& error, nb::handle object) {
  return is_of_package(object, "pandas") && error.matches(PyExc_Exception) &&
         !error.matches(PyExc_MemoryError);
}

}  // namespace

std::unique_ptr<ArrowBatches> arrow_batches(nb::handle object, std::string_view of) {
  try {
    if (nb::hasattr(object, "__arrow_c_array__")) {
      const nb::object pair = object.attr("__arrow_c_array__")();
      const nb::object schema = pair[0], array = pair[1];
      return std::make_unique<OneArray>(Released(in_capsule<ArrowSchema>(schema, "arrow_schema")),
                                        Released(in_capsule<ArrowArray>(array, "arrow_array")));
    }
    if (nb::hasattr(object, "__arrow_c_stream__")) {
      const nb::object stream = object.attr("__arrow_c_stream__")();
      return std::make_unique<ArrayStream>(
          Released(in_capsule<ArrowArrayStream>(stream, "arrow_array_stream")),
          // A query of DuckDB has a length, too, and runs while it is read.
          nb::hasattr(object, "__len__") && !nb::hasattr(object, "execute"), of);
    }
  } catch (nb::python_error& error) {
    if (!lacks_pyarrow(error) && !is_refusal_of_pandas(error, object)) throw;
  }
  return nullptr;
}

std::unique_ptr<KeySource> arrow_source(nb::handle object) {
  auto batches = arrow_batches(object, "keys");
  return batches ? std::make_unique<ArrowKeys>(std::move(batches)) : nullptr;
}

}  // namespace scbf::python
