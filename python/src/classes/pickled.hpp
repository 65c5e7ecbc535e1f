// SPDX-License-Identifier: Apache-2.0
// How objects are pickled: as a call of a static method of their class.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

namespace scbf::python {

/// What __reduce__ returns for the object that `type`.`method`(arguments…) makes.
template <class... Arguments>
nanobind::tuple pickled(nanobind::handle type, const char* method, Arguments&&... arguments) {
  return nanobind::make_tuple(
      nanobind::module_::import_("scbf._pickled").attr("made"),
      nanobind::make_tuple(type, method, std::forward<Arguments>(arguments)...));
}

}  // namespace scbf::python
