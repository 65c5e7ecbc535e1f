// SPDX-License-Identifier: Apache-2.0
// How objects are pickled: as a call of a static method of their class.
#pragma once

#include <nanobind/nanobind.h>

#include <type_traits>
#include <utility>

namespace scbf::python {

/// What __reduce__ returns for the object that `type`.`method`(arguments…) makes.
template <class... Arguments>
nanobind::tuple pickled(nanobind::handle type, const char* method, Arguments&&... arguments) {
  return nanobind::make_tuple(
      nanobind::module_::import_("scbf._pickled").attr("made"),
      nanobind::make_tuple(type, method, std::forward<Arguments>(arguments)...));
}

/// Adds pickling to the class of a struct without constructors: by its members, all in their order.
template <auto... members, class Struct>
void add_pickling(nanobind::class_<Struct>& cls) {
  cls.def_static("_made",
                 [](std::remove_cvref_t<decltype(std::declval<Struct&>().*members)>... values) {
                   return Struct{std::move(values)...};
                 })
      .def("__reduce__", [](const Struct& value) {
        return pickled(nanobind::type<Struct>(), "_made", value.*members...);
      });
}

}  // namespace scbf::python
