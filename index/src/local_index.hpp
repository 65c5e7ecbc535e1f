// SPDX-License-Identifier: Apache-2.0
// The inverted index of one region: the entries of a row, the effect of a write on postings and
// counts, and the rows that have given entries. This file does not touch the filters. A write
// reports the entries that are new to the region and those whose last row is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "list_gaps.hpp"
#include "scbf/secondary_index.hpp"
#include "store.hpp"

namespace scbf::index {

/// The entries (encoding.hpp) of a row, sorted, each once.
std::vector<std::string> entries_of(const TableSchema& schema,
                                    const std::vector<std::string>& values);
/// Whether an entry belongs to an indexed column.
bool is_indexed(const TableSchema& schema, std::string_view entry);
/// Throws InvalidArgument, naming the row and the limit, if the row does not fit the schema or
/// exceeds a limit.
void check_row(const TableSchema& schema, const Row& row);
void check_key(std::string_view key);

/// A write to one key: `row` is the new row, or null to remove the row.
struct Mutation {
  const std::string* key;
  const Row* row;
};

/// The effect of a write on one region.
struct RegionWrite {
  WriteReport report;
  std::int64_t rows = 0, values = 0;        ///< by how many they grow
  std::vector<std::string> added, removed;  ///< value_keys that got a row, that lost the last
  std::vector<std::string> postings;        ///< the first posting_key that comes to each list
  std::vector<std::string> worn;            ///< prefixes of lists that LostPostings has found
};
/// Computes the effect of mutations, which are sorted by key and applied in order, and adds it to
/// the batch: rows, postings and counts, each in order. `has_rows`: the region may have rows.
/// `lost` is told how many postings each list loses. The caller holds the region's `writers`.
RegionWrite write_rows(const Store& store, const TableSchema& schema, RegionId region,
                       bool has_rows, std::span<const Mutation> mutations, StoreBatch& batch,
                       LostPostings* lost = nullptr);

/// Erases the front of a list as one range, if it is many deleted postings, and every such gap
/// behind one of its first postings: a queue may keep a job that nobody takes. Readers step over a
/// range at once. The caller holds the region's `writers`.
void erase_worn(Store& store, const std::string& prefix, ListGaps& gaps);

/// The rows of a region that have all of the entries, with from ≤ key < to (empty `to`: no bound).
struct Search {
  std::span<const std::string> entries;
  std::string_view from, to;
  std::uint64_t limit = UINT64_MAX;  ///< of the number of rows
  bool keys_only = false;            ///< rows come without their values
};
/// Appends these rows in key order. Reads the list of the entry with the fewest rows, and of the
/// other lists only what decides. `gaps` are the region's; without a snapshot they are used only
/// in a store that is open for reading only.
void find_rows(const Store& store, const TableSchema& schema, const Store::Snapshot& at,
               RegionId region, const Search& what, std::vector<Row>& rows,
               ListGaps* gaps = nullptr);

/// Calls each(entry, number of rows) for every value of a region, in order.
void for_each_value(const Store& store, const Store::Snapshot& at, RegionId region,
                    const std::function<void(std::string_view entry, std::uint64_t rows)>& each);

}  // namespace scbf::index
