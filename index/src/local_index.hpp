// SPDX-License-Identifier: Apache-2.0
// The inverted index of one region: which entries a row has, what a write does to postings and
// counts, and which rows have given entries. Filters are not touched here: what they need to know
// comes out as entries that the first row brought, or the last one took.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/secondary_index.hpp"
#include "store.hpp"

namespace scbf::index {

/// The entries (encoding.hpp) of a row, sorted, each once.
std::vector<std::string> entries_of(const TableSchema& schema,
                                    const std::vector<std::string>& values);
/// Throws InvalidArgument, naming the row and the limit, unless it fits the schema and the limits.
void check_row(const TableSchema& schema, const Row& row);
void check_key(std::string_view key);

/// A key and what becomes of its row: null means that it is removed.
struct Mutation {
  const std::string* key;
  const Row* row;
};

/// What a write does to one region.
struct RegionWrite {
  WriteReport report;
  std::int64_t rows = 0, values = 0;        ///< more or fewer
  std::vector<std::string> added, removed;  ///< value_keys whose first row came, whose last went
};
/// Works out mutations, made one after another, and adds them to the batch: rows, postings and
/// counts. The region's writers are held.
RegionWrite write_rows(const Store& store, const TableSchema& schema, RegionId region,
                       std::span<const Mutation> mutations, StoreBatch& batch);

/// Calls found(key) for every row of a region that has all of the entries, by key, from ≤ key < to
/// (empty: no bound), as long as it returns true.
void find_rows(const Store& store, const Store::Snapshot& at, RegionId region,
               std::span<const std::string> entries, std::string_view from, std::string_view to,
               const std::function<bool(std::string_view key)>& found);

/// Calls each(entry, rows) for every value of a region, in order.
void for_each_value(const Store& store, const Store::Snapshot& at, RegionId region,
                    const std::function<void(std::string_view entry, std::uint64_t rows)>& each);

}  // namespace scbf::index
