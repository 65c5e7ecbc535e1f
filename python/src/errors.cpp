// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include <nanobind/nanobind.h>

#include <new>
#include <string_view>

#include "scbf/bank.hpp"
#include "scbf/cuda/errors.hpp"
#include "scbf/filter.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// Messages may quote bytes that are not UTF-8, such as those of a path; these are escaped.
nb::object message_of(const std::exception& error) {
  const std::string_view text = error.what();
  PyObject* message =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (!message) throw nb::python_error();
  return nb::steal(message);
}

/// An exception of the class scbf.errors.<name>, not raised yet.
nb::object made(const char* name, const std::exception& error) {
  return nb::module_::import_("scbf.errors").attr(name)(message_of(error));
}

void raise(const nb::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(exception.type().ptr()), exception.ptr());
}

void raise(const char* name, const std::exception& error) { raise(made(name, error)); }

void describe(const nb::object& exception, const FilterFull& error) {
  exception.attr("processed") = error.processed();
  exception.attr("inserted") = error.done().inserted;
  exception.attr("nulls") = error.done().nulls;
}

void describe(const nb::object& exception, const RemoveReport& report) {
  exception.attr("removed") = report.removed;
  exception.attr("absent") = report.absent;
  exception.attr("ambiguous") = report.ambiguous;
  exception.attr("nulls") = report.nulls;
  exception.attr("kept") = report.kept;
}

/// Derived classes are caught before their bases.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const KeysLeft& error) {
    const nb::object exception = made("MembersFull", error);
    describe(exception, error);
    exception.attr("batch") = error.batch();
    exception.attr("left") = error.left();
    raise(exception);
  } catch (const MembersFull& error) {
    const nb::object exception = made("MembersFull", error);
    describe(exception, error);
    exception.attr("batch") = error.batch();
    raise(exception);
  } catch (const FilterFull& error) {
    const nb::object exception = made("FilterFull", error);
    describe(exception, error);
    raise(exception);
  } catch (const RemovalStopped& error) {
    const nb::object exception = made("RemovalStopped", error);
    exception.attr("processed") = error.processed();
    describe(exception, error.done());
    raise(exception);
  } catch (const KeysAbsent& error) {
    const nb::object exception = made("KeysAbsent", error);
    describe(exception, error.report());
    raise(exception);
  } catch (const InvalidKey& error) {
    raise("InvalidKey", error);
  } catch (const InvalidArgument& error) {
    raise("InvalidArgument", error);
  } catch (const Incompatible& error) {
    raise("Incompatible", error);
  } catch (const CorruptFile& error) {
    raise("CorruptFile", error);
  } catch (const IoError& error) {
    raise(nb::module_::import_("scbf.errors")
              .attr("_io_error")(message_of(error), error.error_number(), decoded(error.path())));
  } catch (const cuda::OutOfDeviceMemory& error) {
    raise("OutOfDeviceMemory", error);
  } catch (const cuda::DeviceLost& error) {
    raise("DeviceLost", error);
  } catch (const cuda::CudaError& error) {
    raise("DeviceError", error);
  } catch (const BackendUnavailable& error) {
    raise("BackendUnavailable", error);
  } catch (const NotOnHost& error) {
    raise("NotOnHost", error);
  } catch (const ReadOnly& error) {
    raise("ReadOnly", error);
  } catch (const Error& error) {
    raise("Error", error);
  }
}

}  // namespace

std::optional<std::string> shortage_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return "memory is short";
  } catch (const cuda::OutOfDeviceMemory& error) {
    return error.what();
  } catch (...) {
    return std::nullopt;
  }
}

void register_errors() { nb::register_exception_translator(translate); }

void set_python_error() noexcept {
  try {
    try {
      translate(std::current_exception(), nullptr);
    } catch (nb::python_error& error) {
      error.restore();
    } catch (const nb::builtin_exception& error) {
      PyErr_SetString(
          error.type() == nb::exception_type::type_error ? PyExc_TypeError : PyExc_RuntimeError,
          error.what());
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
  } catch (...) {  // while the exception was being made
    PyErr_SetString(PyExc_RuntimeError, "unknown error");
  }
}

}  // namespace scbf::python
