// SPDX-License-Identifier: Apache-2.0
// The definition of an index, that is its schema and its plan, in the store. It changes only while
// the index is not open (definition.cpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "encoding.hpp"
#include "scbf/growth.hpp"
#include "scbf/secondary_index.hpp"
#include "store.hpp"

namespace scbf::index {

inline constexpr const char *kDefinition = "definition", *kIdentity = "identity", *kStore = "store";

/// How the filter of a region grows. Throws InvalidArgument.
Growth growth_of(const IndexPlan& plan);
/// Throws InvalidArgument.
void check_plan(const IndexPlan& plan);

/// The store of an index, with its definition.
struct Existing {
  TableSchema schema;
  IndexPlan plan;
  std::unique_ptr<Store> store;
};
/// Opens the store of an index. Unless it is for reading only, first erases what an interrupted
/// change of columns has left. Throws IoError, CorruptFile.
Existing open_store(const std::filesystem::path& path, std::uint64_t cache_bytes,
                    Store::Open how = Store::Open::existing);

/// A region as the store has it.
struct StoredRegion {
  RegionRecord record;
  RegionId id = 0;
  RegionState state;
};
/// All regions, in key order. Throws CorruptFile.
std::vector<StoredRegion> read_regions(const Store& store);

}  // namespace scbf::index
