// SPDX-License-Identifier: Apache-2.0
// Columns of keys from Arrow's C data interface, as pyarrow, Polars, DuckDB, pandas and nanoarrow
// offer it by capsules
// (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html).
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "keys/columns.hpp"

namespace scbf::python {

/// The keys of an object that has __arrow_c_stream__ or __arrow_c_array__; null if it has neither,
/// or if it cannot use them: pandas without pyarrow, or with a column that pyarrow does not take.
/// Throws InvalidKey if the type of the column cannot be keys, and whatever the object raises.
std::unique_ptr<KeySource> arrow_source(nanobind::handle object);

}  // namespace scbf::python
