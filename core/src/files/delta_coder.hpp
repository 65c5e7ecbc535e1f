// SPDX-License-Identifier: Apache-2.0
// How deltas are made, read and applied. A delta is a filter file or container
// (docs/file_format.md) with packed payloads, whose bits say where two epochs differ. delta.cpp
// makes and reads messages, delta_apply.cpp applies them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "files/file_format.hpp"
#include "files/file_input.hpp"
#include "filter/state.hpp"
#include "scbf/delta.hpp"

namespace scbf {

struct DeltaCoder {
  /// The delta that leads from `from` to the bits of `now`. Changes neither.
  static Delta between(const FilterState& from, const FilterState& now);
  /// Reads a message to the end of `input`; `kept` receives its bytes as they are read.
  static Delta read(Input& input, std::vector<std::byte>& kept);

  /// Throws InvalidArgument if it has been moved from.
  static void check(const Delta& delta) { delta.check_holds(); }
  /// As BloomFilter::apply.
  static void apply(FilterState& state, const Delta& delta);
  /// Can the delta be applied while others look keys up?
  static bool changes_in_place(const FilterState& state, const Delta& delta);

 private:
  /// A message that leads from `from` to the bits of `now`: all of these, or those that changed.
  /// `leads_to` is the epoch after it; by default it follows from the message. `few` becomes false
  /// if a stage has more changed bits than bits set.
  static Delta pack_all(const FilterState& from, const FilterState& now,
                        file_format::Content content, const std::optional<Epoch>& leads_to = {},
                        bool* few = nullptr);
};

/// Calls use(at, header, bytes, number) for each chunk of a packed payload in memory, which is
/// sound. `at`, the bytes of the header, lies in it.
template <class Byte, class Use>
void walk_chunks(std::span<Byte> payload, std::uint64_t count, Use use) {
  for (std::uint64_t number = 0; number < count; ++number) {
    const auto at = payload.template first<file_format::ChunkHeader::kBytes>();
    const file_format::ChunkHeader header = file_format::decode_chunk_header(at);
    use(at, header, payload.subspan(file_format::ChunkHeader::kBytes, header.bytes), number);
    payload = payload.subspan(file_format::ChunkHeader::kBytes + header.bytes);
  }
}

}  // namespace scbf
