// SPDX-License-Identifier: Apache-2.0
// Arrays and streams of Arrow's C data interface, as pyarrow, Polars, DuckDB, pandas and nanoarrow
// offer it by capsules, and columns of keys in them
// (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html).
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string_view>

#include "keys/arrow_abi.hpp"
#include "keys/columns.hpp"

namespace scbf::python {

/// An array, or the arrays of a stream, one after another.
class ArrowBatches {
 public:
  virtual ~ArrowBatches() = default;
  virtual const ArrowSchema& schema() const noexcept = 0;
  /// The next array; a released one at the end. With Python's global lock, which it may release
  /// meanwhile.
  virtual Released<ArrowArray> next() = 0;
  /// May Python code run in next()?
  virtual bool runs_python() const noexcept { return false; }
};

/// What an object with __arrow_c_stream__ or __arrow_c_array__ has; null if it has neither, or if
/// it cannot use them, as below. `of`: what is in them, for messages.
std::unique_ptr<ArrowBatches> arrow_batches(nanobind::handle object, std::string_view of);

/// The keys of an object that has __arrow_c_stream__ or __arrow_c_array__; null if it has neither,
/// or if it cannot use them: pandas without pyarrow, or with a column that pyarrow does not take.
/// Throws InvalidKey if the type of the column cannot be keys, and whatever the object raises.
std::unique_ptr<KeySource> arrow_source(nanobind::handle object);

}  // namespace scbf::python
