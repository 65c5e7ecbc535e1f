// SPDX-License-Identifier: Apache-2.0
// Copies, and ==: for objects that behave like other values of Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/unique_ptr.h>

#include "held.hpp"
#include "outside.hpp"

namespace scbf::python {

namespace nb = nanobind;

/// Adds copy(), what the module copy calls, and ==, of which `compares` says what it looks at. The
/// class has no hash, because its objects change.
template <class T>
void add_copying(nb::class_<Held<T>>& cls, const char* compares) {
  using Self = Held<T>;
  cls.attr("__hash__") = nb::none();
  cls.def(
         "copy",
         [](const Self& self) {
           const Passage inside(self.gate, Passage::To::read);
           Outside others_may_run;
           auto copy = hold(T(self.value));
           copy->take_notes_of(self);
           return copy;
         },
         "An independent copy, in the memory of the same backend. The copy of a mapped object can "
         "be changed. (Of a mapped BloomBank: raises CorruptFile if its rows are damaged.)")
      .def(
          "__eq__",
          [](const Self& self, nb::handle other) -> nb::object {
            if (!nb::isinstance<Self>(other)) return nb::borrow(Py_NotImplemented);
            const Self& that = nb::cast<const Self&>(other);
            const PassageToBoth inside(self.gate, Passage::To::read, that.gate);
            const auto equal = [&] {
              Outside others_may_run;
              return self.value == that.value;
            };
            return nb::bool_(equal());
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"), compares)
      .def(
          "__deepcopy__", [](nb::handle self, nb::handle) { return self.attr("copy")(); },
          nb::arg("memo"), nb::sig("def __deepcopy__(self, memo: object, /) -> Self"));
  cls.attr("__copy__") = cls.attr("copy");
}

}  // namespace scbf::python
