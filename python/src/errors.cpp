// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include <nanobind/nanobind.h>

#include "scbf/bank.hpp"
#include "scbf/filter.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

/// An exception of the class scbf.errors.<name>, not raised yet.
nb::object made(const char* name, const std::exception& error) {
  return nb::module_::import_("scbf.errors").attr(name)(error.what());
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
}

/// The derived before their bases.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
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
    raise("IoError", error);
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

void register_errors() { nb::register_exception_translator(translate); }

void set_python_error() noexcept {
  try {
    try {
      translate(std::current_exception(), nullptr);
    } catch (nb::python_error& error) {
      error.restore();
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
