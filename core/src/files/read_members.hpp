// SPDX-License-Identifier: Apache-2.0
// Reads the structure of bank files (bank_format.hpp): checks the header, and passes each member, a
// filter file or container that is still to be read, to a callback.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "files/bank_format.hpp"
#include "files/file_input.hpp"
#include "filter/member_fit.hpp"

namespace scbf {

using BankHeader = bank_format::Header;

/// What the headers of a member's file say.
struct MemberHead {
  std::uint64_t checksum;  ///< of the first header
  file_format::Payload payload;
  Growth growth;
  std::uint64_t seed;
  std::vector<StageOfGrowth> stages;
};

/// Calls use(part, member) for each member, ascending by number. `use` must read or skip all of the
/// member's file from `part`, whose position is then its length; only filters of counters fit.
/// Returns the header, with the offset and length of each member, also where payloads are packed.
/// `first` is what read_fixed_bytes has returned. Throws CorruptFile, or Incompatible if the input
/// holds a filter, or a bank of bits.
using UseMember = std::function<MemberHead(Input& part, const bank_format::Entry& member)>;
BankHeader read_members(Input& input, std::vector<std::byte> first, const UseMember& use);

}  // namespace scbf
