// SPDX-License-Identifier: Apache-2.0
// close(), and `with`: for objects that hold memory, files or mappings.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "held.hpp"
#include "outside.hpp"

namespace scbf::python {

namespace nb = nanobind;

template <class Value>
void add_closing(nb::class_<Held<Value>>& cls, const char* doc) {
  cls.def(
         "close",
         [](Held<Value>& self) {
           if (self.gate.closed) return;
           const Passage inside(self.gate, Passage::To::change, nullptr, Passage::Closed::let_in);
           if (self.gate.closed) return;  // by another thread, while this one waited
           self.check_no_exports();
           Outside others_may_run;
           [[maybe_unused]] const Value gone(std::move(self.value));
           self.gate.closed = true;
         },
         doc)
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Self"))
      .def(
          "__exit__", [](nb::handle self, nb::args) { self.attr("close")(); },
          nb::sig("def __exit__(self, *args: object) -> None"));
}

}  // namespace scbf::python
