// SPDX-License-Identifier: Apache-2.0
// Banks in files and streams. In a bank of counters, a member is written as the filter that
// copy_member returns would be. The rows are not in the file: they follow from the counters. Banks
// of bits, whose files have rows, are in bits_bank_files.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "bank/bank_state.hpp"
#include "bank/bits_bank_files.hpp"
#include "files/file_input.hpp"
#include "files/filter_files.hpp"
#include "files/read_members.hpp"
#include "files/read_stages.hpp"
#include "files/rows_format.hpp"
#include "files/write_stages.hpp"
#include "scbf/bank.hpp"

namespace scbf {

namespace {

using file_format::Payload;

FilterParts parts_of(const BankState& bank, const BankState::Member& member) {
  FilterParts parts{bank.growth, bank.seed, {}, &member.metadata, {}};
  parts.stages.reserve(member.stages.size());
  for (const BankState::StageSlot& stage : member.stages) parts.stages.push_back(&stage.stage());
  return parts;
}

/// Reads a file of counters into a bank of counters, or of their bits only.
std::unique_ptr<BankState> read_bank_of_counters(Input& input, std::vector<std::byte> first,
                                                 const BankOptions& options, Cell cell) {
  const Backend& backend = backend_for(options);
  std::vector<std::unique_ptr<FilterState>> filters;
  std::vector<std::uint32_t> numbers, always;
  // The bank is made from verified members: a header alone makes no rows of bits.
  const UseMember keep = [&](Input& part, const bank_format::Entry& member) {
    FilterRead read = read_filter(part, backend, cell);
    if (read.stored == Cell::bit) throw Incompatible("not counters");
    MemberHead head{read.header_checksum, read.payload, read.state->growth, read.state->seed,
                    stages_of_growth(read.state->stages)};
    filters.push_back(std::move(read.state));
    numbers.push_back(member.number);
    if (member.asked_always) always.push_back(member.number);
    return head;
  };
  BankHeader header = read_members(input, std::move(first), keep);
  std::unique_ptr<BankState> bank =
      BankState::empty(header.growth, cell,
                       {.seed = header.seed,
                        .backend = options.backend,
                        .capacity = std::max(header.capacity, options.capacity)});
  std::vector<FilterState*> states;
  states.reserve(filters.size());
  for (const auto& filter : filters) states.push_back(filter.get());
  bank->add(states, numbers, {});
  for (const std::uint32_t member : always) bank->ask_always(member, true);
  bank->metadata = std::move(header.metadata);
  return bank;
}

std::unique_ptr<BankState> read_bank(Input& input, const BankOptions& options, Cell cell) {
  std::vector<std::byte> first = read_fixed_bytes(input);
  return cell == Cell::bit && rows_format::is_bank_of_bits(first)
             ? read_bank_of_bits(input, std::move(first), options)
             : read_bank_of_counters(input, std::move(first), options, cell);
}

std::unique_ptr<BankState> load_bank(const std::filesystem::path& path, const BankOptions& options,
                                     Cell cell) {
  FileInput file(path);
  std::unique_ptr<BankState> bank = read_bank(file.input, options, cell);
  check_end(file.input);
  return bank;
}

std::unique_ptr<BankState> read_bank(const ByteSource& source, const BankOptions& options,
                                     Cell cell) {
  Input input("stream", source);
  return read_bank(input, options, cell);
}

std::unique_ptr<BankState> map_bank(const std::filesystem::path& path, const BankOptions& options) {
  FileInput file(path);
  if (!file.input.bytes()) {
    throw IoError(fmt::format("{}: cannot map: not a regular file; load it", file.input.name()));
  }
  std::vector<std::byte> first = read_fixed_bytes(file.input);
  std::unique_ptr<BankState> bank =
      rows_format::is_bank_of_bits(first)
          ? map_bank_of_bits(file, std::move(first), options)
          : read_bank_of_counters(file.input, std::move(first), options, Cell::bit);
  check_end(file.input);
  return bank;
}

BankFileInfo read_bank_info(Input& input, std::vector<std::byte> first, bool verify) {
  if (rows_format::is_bank_of_bits(first)) return read_bits_info(input, std::move(first), verify);
  std::vector<MemberFileInfo> members;
  BankHeader header =
      read_members(input, std::move(first), [&](Input& part, const bank_format::Entry& member) {
        auto [info, checksum] = read_info(part, read_fixed_bytes(part), verify);
        if (info.is_delta || info.cell() == Cell::bit) throw Incompatible("not counters");
        MemberHead head{checksum, info.compressed ? Payload::packed : Payload::plain, info.growth,
                        info.seed, stages_of_growth(info.stages)};
        members.push_back({member.number, member.asked_always, member.offset, std::move(info)});
        return head;
      });
  check_end(input);
  return {.version = bank_format::kVersion,
          .growth = header.growth,
          .seed = header.seed,
          .capacity = header.capacity,
          .members = std::move(members),
          .file_bytes = input.position(),
          .metadata = std::move(header.metadata),
          .compressed = header.packed(),
          .cell = Cell::counter,
          .row_bytes = header.growth.first_geometry().padded_counters() * (header.capacity / 8)};
}

BankFileInfo read_bank_info(const std::filesystem::path& path, bool verify) {
  FileInput file(path);
  return read_bank_info(file.input, read_fixed_bytes(file.input), verify);
}

AnyFileInfo read_any_info(const std::filesystem::path& path, bool verify) {
  FileInput file(path);
  std::vector<std::byte> first = read_fixed_bytes(file.input);
  if (bank_format::is_bank(first)) return read_bank_info(file.input, std::move(first), verify);
  FileInfo info = read_info(file.input, std::move(first), verify).info;
  check_end(file.input);
  return info;
}

}  // namespace

void Bank::write(const ByteSink& sink, const SaveOptions& options) const {
  const BankState& bank = *state_;
  BankHeader header{.growth = bank.growth,
                    .seed = bank.seed,
                    .capacity = capacity(),
                    .metadata = bank.metadata,
                    .payload = options.compress ? Payload::packed : Payload::plain};
  std::vector<FilterWriter> writers;
  writers.reserve(size());
  for (std::uint32_t number = 0; number < slots(); ++number) {
    if (!bank.first.has(number)) continue;
    writers.emplace_back(parts_of(bank, bank.members[number]), options);
    header.members.push_back({.number = number,
                              .asked_always = bank.first.is_always(number),
                              .header_checksum = writers.back().header_checksum(),
                              .bytes = writers.back().bytes()});
  }
  header.lay_out();
  const std::vector<std::byte> bytes = bank_format::encode_header(header);
  sink(bytes);
  std::uint64_t at = bytes.size();
  for (std::size_t i = 0; i < writers.size(); ++i) {
    const bank_format::Entry& member = header.members[i];
    if (!header.packed() && member.offset > at) sink(std::vector<std::byte>(member.offset - at));
    writers[i].write(sink);
    at = member.offset + member.bytes;
  }
}

void Bank::save(const std::filesystem::path& path, const SaveOptions& options) const {
  write_file(path, [&](const ByteSink& sink) { write(sink, options); });
}

Bank Bank::read(const ByteSource& source, const BankOptions& options) {
  return BankAccess::make(read_bank(source, options, Cell::counter));
}
Bank Bank::load(const std::filesystem::path& path, const BankOptions& options) {
  return BankAccess::make(load_bank(path, options, Cell::counter));
}
void BloomBank::write(const ByteSink& sink, const SaveOptions& options) const {
  write_bank_of_bits(*state_, options, sink);
}
void BloomBank::save(const std::filesystem::path& path, const SaveOptions& options) const {
  write_file(path, [&](const ByteSink& sink) { write(sink, options); });
}
BloomBank BloomBank::map(const std::filesystem::path& path, const BankOptions& options) {
  return BankAccess::make_bits(map_bank(path, options));
}
BloomBank BloomBank::read(const ByteSource& source, const BankOptions& options) {
  return BankAccess::make_bits(read_bank(source, options, Cell::bit));
}
BloomBank BloomBank::load(const std::filesystem::path& path, const BankOptions& options) {
  return BankAccess::make_bits(load_bank(path, options, Cell::bit));
}

BankFileInfo read_bank_file_info(const std::filesystem::path& path) {
  return read_bank_info(path, false);
}
BankFileInfo verify_bank_file(const std::filesystem::path& path) {
  return read_bank_info(path, true);
}

AnyFileInfo read_any_file_info(const std::filesystem::path& path) {
  return read_any_info(path, false);
}
AnyFileInfo verify_any_file(const std::filesystem::path& path) { return read_any_info(path, true); }

}  // namespace scbf
