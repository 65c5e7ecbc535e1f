// SPDX-License-Identifier: Apache-2.0
#include "files/read_members.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "files/container_format.hpp"
#include "files/read_stages.hpp"
#include "files/rows_format.hpp"

namespace scbf {

namespace {

BankHeader read_bank_header(Input& input, std::vector<std::byte> bytes) {
  if (!bank_format::is_bank(bytes)) {
    // Throws unless it begins as a filter does.
    if (!container_format::is_container(bytes)) {
      file_format::checked_header_bytes(bytes, input.name());
    }
    throw WrongKind(FileKind::filter, fmt::format("{}: a filter, and no bank", input.name()),
                    "load it as a Filter, or as a BloomFilter");
  }
  if (rows_format::is_bank_of_bits(bytes)) {
    throw WrongKind(FileKind::bank_of_bits,
                    fmt::format("{}: a bank of bits, without counters", input.name()),
                    "load it as a BloomBank");
  }
  const std::uint64_t header_bytes = bank_format::checked_header_bytes(bytes, input.name());
  return bank_format::decode_header(read_header(input, std::move(bytes), header_bytes),
                                    input.name());
}

}  // namespace

BankHeader read_members(Input& input, std::vector<std::byte> first, const UseMember& use) {
  BankHeader bank = read_bank_header(input, std::move(first));
  const std::uint64_t whole = bank.file_bytes();
  if (input.bytes() && *input.bytes() < whole) {
    file_format::throw_truncated(*input.bytes(), whole, input.name());
  }
  MemberFit fit(bank.growth, bank.seed);
  for (bank_format::Entry& member : bank.members) {
    if (bank.packed()) {
      member.offset = input.position();
    } else {
      read_padding(input, member.offset, whole, "members");
    }
    // In a stream, lengths are only claims.
    Input part(fmt::format("{}: member {}", input.name(), member.number), input,
               bank.packed() ? Input::kNoLimit : member.bytes);
    const MemberHead head = [&] {
      try {
        return use(part, member);
      } catch (const Incompatible&) {  // bits, a delta, another bank
        throw CorruptFile(fmt::format("{}: not a filter of counters", part.name()));
      }
    }();
    const auto refuse = [&](const std::string& what) {
      throw CorruptFile(fmt::format("{}: {}", part.name(), what));
    };
    if (head.checksum != member.header_checksum) {
      refuse("the checksum of its header differs from the one that the bank has");
    }
    if (head.payload != bank.payload) {
      refuse(fmt::format("its payload is {}: the bank says {}",
                         bank.packed() ? "not packed" : "packed",
                         bank.packed() ? "packed" : "not packed"));
    }
    if (const auto misfit = fit.misfit(head.growth, head.seed, head.stages)) refuse(*misfit);
    if (bank.packed()) member.bytes = part.position();
    if (part.position() != member.bytes) {
      refuse(fmt::format("{} bytes: the bank says {}", part.position(), member.bytes));
    }
  }
  return bank;
}

}  // namespace scbf
