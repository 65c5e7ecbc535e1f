// SPDX-License-Identifier: Apache-2.0
// The answer of a query of an index, as Python has it.
#pragma once

#include <nanobind/nanobind.h>

#include "scbf/secondary_index.hpp"

namespace scbf::python {

struct Answer {
  nanobind::list rows;  ///< dicts, or keys
  RoutingReport routing;
};

/// Adds the classes of answers and reports.
void add_index_reports(nanobind::module_& module);

}  // namespace scbf::python
