// SPDX-License-Identifier: Apache-2.0
// The rooms of the extension module: each function adds its classes and functions.
#pragma once

#include <nanobind/nanobind.h>

namespace scbf::python {

void add_hashes(nanobind::module_& module);   // Hashes
void add_sizing(nanobind::module_& module);   // Geometry, Growth, plan
void add_reports(nanobind::module_& module);  // what batches and statistics return
void add_bulk(nanobind::module_& module);     // BulkInserter
void add_filters(nanobind::module_& module);  // Filter
void add_readers(nanobind::module_& module);  // BloomFilter, Delta, Replica
void add_banks(nanobind::module_& module);    // Bank, BloomBank
void add_files(nanobind::module_& module);    // what a file holds
#ifdef SCBF_PYTHON_INDEX
void add_index(nanobind::module_& module);  // SecondaryIndex
#endif
#ifdef SCBF_PYTHON_CUDA
void add_device(nanobind::module_& module);  // DeviceFilter, DeviceArray
#endif

}  // namespace scbf::python
