// SPDX-License-Identifier: Apache-2.0
// The history of a region: a digest of all changes to its filter, one after another. Two filters
// with the same history contain the same hashes. The region's state and the metadata of its filter
// file hold it, so a file is only taken with the changes that lead from its history to the state's.
// Numbers of changes alone agree too easily: in a copy of the index that went on separately, or in
// a filter saved before a power failure took the end of the store's log.
#pragma once

#include <cstdint>
#include <string_view>

namespace scbf::index {

/// The history of a region without changes. A state with changes has it only if version 0.1, which
/// kept no history, wrote the state.
inline constexpr std::uint64_t kNoHistory = 0;

/// For the history of a region that begins with values, or whose earlier history is not known, and
/// for the number of an index. Never kNoHistory. Throws IoError.
std::uint64_t random_number();
/// The history after a further change (encode_change); never kNoHistory. Cost: one hash of it.
std::uint64_t history_after(std::uint64_t history, std::string_view change);

}  // namespace scbf::index
