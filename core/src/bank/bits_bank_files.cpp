// SPDX-License-Identifier: Apache-2.0
#include "bank/bits_bank_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "bank/mapped_rows.hpp"
#include "files/bank_format.hpp"
#include "files/read_stages.hpp"
#include "files/rows_format.hpp"
#include "files/write_stages.hpp"

namespace scbf {

namespace {

using rows_format::RowsChecker;
using BitsHeader = rows_format::Header;

HeaderRead<BitsHeader> read_header_of_bits(Input& input, std::vector<std::byte> first) {
  const std::uint64_t bytes = rows_format::checked_header_bytes(first, input.name());
  first = read_header(input, std::move(first), bytes);
  BitsHeader header = rows_format::decode_header(first, input.name());
  if (input.bytes() && *input.bytes() < header.file_bytes()) {
    file_format::throw_truncated(*input.bytes(), header.file_bytes(), input.name());
  }
  if (header.packed()) {
    std::uint64_t chunks = 0;
    for (const rows_format::Level& level : header.levels) {
      chunks += file_format::chunk_count(level.bytes());
    }
    input.check_left(chunks * file_format::ChunkHeader::kBytes, "the headers of its chunks");
  }
  return {std::move(header), file_format::checksum_in(first)};
}

/// The levels of a bank file, whose rows follow each other. Borrows the input and the header.
class LevelsReader {
 public:
  LevelsReader(Input& input, const HeaderRead<BitsHeader>& of)
      : input_(input), header_(of.header), checksum_(of.checksum), used_(used_slots(of.header)) {}

  /// For each level, a row of 1s for the slots that have a stage.
  std::vector<std::vector<std::uint8_t>>& used() noexcept { return used_; }

  /// Reads and verifies the rows of the next level. `into(word, count)` returns where words are
  /// stored.
  template <class Into>
  void read(Into into) {
    const rows_format::Level& level = begin_level();
    const RowsChecker checker(level, used_[level_]);
    const std::uint64_t words = level.bytes() / sizeof(std::uint64_t);
    const auto check = [&](std::uint64_t word, std::span<const std::uint64_t> chunk) {
      if (const auto stray = checker.check(word, chunk)) refuse(*stray);
    };
    if (header_.packed()) {
      read_packed_words(input_, {words, checksum_, chunk_}, Cell::bit, into, check);
    } else {
      const auto verify = [&](std::uint64_t word, std::span<const std::uint64_t> chunk) {
        const std::uint64_t number = word / kChunkWords;
        const std::uint64_t said = level.chunk_checksums[number];
        const std::uint64_t computed = file_format::checksum(std::as_bytes(chunk));
        if (computed != said) {
          file_format::throw_chunk_mismatch(input_.name(), chunk_ + number, said, computed);
        }
        check(word, chunk);
      };
      read_plain_words(input_, words, header_.file_bytes(), into, verify);
    }
    end_level(level);
  }

  /// Maps the rows of the next level; of these only the padding is verified.
  HostMemory map(const InputFile& file) {
    const rows_format::Level& level = begin_level();
    HostMemory rows = file.map(level.offset, level.bytes());
    const RowsChecker checker(level, used_[level_]);
    const std::span<const std::uint64_t> words(rows.words(), level.bytes() / sizeof(std::uint64_t));
    if (const auto stray = checker.check_padding(words)) refuse(*stray);
    input_.skip(level.bytes(), "the rows");
    end_level(level);
    return rows;
  }

  /// Skips the rows of the next level, without reading them where possible.
  void skip() {
    const rows_format::Level& level = begin_level();
    if (header_.packed()) {
      skip_packed_payload(input_, {level.bytes() / sizeof(std::uint64_t), checksum_, chunk_});
    } else {
      input_.skip(level.bytes(), "the rows");
    }
    end_level(level);
  }

 private:
  const rows_format::Level& begin_level() {
    const rows_format::Level& level = header_.levels[level_];
    if (!header_.packed()) read_padding(input_, level.offset, header_.file_bytes(), "levels");
    return level;
  }
  void end_level(const rows_format::Level& level) noexcept {
    chunk_ += file_format::chunk_count(level.bytes());
    ++level_;
  }
  [[noreturn]] void refuse(const rows_format::StrayBit& stray) const {
    throw CorruptFile(fmt::format("{}: {}", input_.name(), stray_text(level_, stray)));
  }

  Input& input_;
  const BitsHeader& header_;
  std::uint64_t checksum_;
  std::vector<std::vector<std::uint8_t>> used_;
  std::size_t level_ = 0;    // the next one
  std::uint64_t chunk_ = 0;  // number of its first
};

/// Makes a bank from a header and the rows of its levels.
std::unique_ptr<BankState> make_bank_of_bits(BitsHeader&& header, const Backend& backend,
                                             std::vector<MemberRows> rows) {
  const auto level_of = [&](std::size_t i) {
    const rows_format::Level& from = header.levels[i];
    Level level(from.index, from.shape, header.seed, backend, std::move(rows[i]), Cell::bit);
    level.stages.reserve(from.slots);
    return level;
  };
  auto bank = std::unique_ptr<BankState>(
      new BankState{header.growth, header.seed, &backend, Cell::bit, level_of(0)});
  for (std::size_t i = 1; i < header.levels.size(); ++i) {
    bank->later.push_back(std::make_unique<Level>(level_of(i)));
  }
  if (!header.members.empty()) bank->members.resize(header.members.back().number + std::size_t{1});
  for (rows_format::Member& member : header.members) {
    BankState::Member& made = bank->members[member.number];
    for (rows_format::Stage& stage : member.stages) {
      Level& level = bank->level(stage.level);
      Stage bits(level.shape.with(Cell::bit), level.index, header.seed, backend, nullptr);
      bits.keys_inserted = stage.keys_inserted;
      bits.keys_removed = stage.keys_removed;
      bits.metadata = std::move(stage.metadata);
      level.adopt(stage.slot, std::move(bits));
      if (stage.level != 0) level.own(stage.slot, member.number);
      made.stages.push_back({&level, stage.slot});
    }
    made.metadata = std::move(member.metadata);
    made.epoch = member.epoch;
    bank->first.set_always(member.number, member.asked_always);
  }
  bank->metadata = std::move(header.metadata);
  return bank;
}

FileInfo info_of_member(const BitsHeader& header, const rows_format::Member& member) {
  FileInfo info{.version = bank_format::kBitsVersion,
                .growth = header.growth,
                .seed = header.seed,
                .stages = {},
                .file_bytes = 0,
                .metadata = member.metadata,
                .is_delta = false,
                .compressed = header.packed(),
                .epoch = member.epoch,
                .since = {}};
  for (const rows_format::Stage& stage : member.stages) {
    const rows_format::Level& level = header.levels[stage.level];
    const StageShape shape = level.shape.with(Cell::bit);
    info.stages.push_back({.shape = shape,
                           .index = level.index,
                           .version = bank_format::kBitsVersion,
                           .hash_version = file_format::kHashVersion,
                           .counter_bits = 1,
                           .keys_inserted = stage.keys_inserted,
                           .keys_removed = stage.keys_removed,
                           .payload_bytes = shape.geometry.bytes()});
  }
  return info;
}

/// The header of a bank, with checksums where rows are plain.
BitsHeader header_of_bits(const BankState& bank, std::span<const Level* const> levels,
                          const SaveOptions& options) {
  BitsHeader header{.growth = bank.growth,
                    .seed = bank.seed,
                    .metadata = bank.metadata,
                    .payload = options.compress ? Payload::packed : Payload::plain};
  for (const Level* const level : levels) {
    header.levels.push_back(level_in_file(*level));
    if (header.packed()) continue;
    std::vector<std::uint64_t>& checksums = header.levels.back().chunk_checksums;
    if (bank.read_only()) {  // check_mapped_rows compares them
      checksums = level->chunk_checksums;
      continue;
    }
    for_each_chunk_of_rows(level->rows, [&](std::uint64_t, std::span<const std::uint64_t> chunk) {
      checksums.push_back(file_format::checksum(std::as_bytes(chunk)));
    });
  }
  for (std::uint32_t number = 0; number < bank.first.slots(); ++number) {
    if (!bank.first.has(number)) continue;
    const BankState::Member& member = bank.members[number];
    header.members.push_back(
        {number, bank.first.is_always(number), {}, member.metadata, member.epoch});
    for (const BankState::StageSlot& at : member.stages) {
      const Stage& stage = at.stage();
      const auto level = std::ranges::find(levels, at.level) - levels.begin();
      header.members.back().stages.push_back({static_cast<std::uint32_t>(level), at.slot,
                                              stage.keys_inserted, stage.keys_removed,
                                              stage.metadata});
    }
  }
  header.lay_out();
  return header;
}

}  // namespace

std::unique_ptr<BankState> read_bank_of_bits(Input& input, std::vector<std::byte> first,
                                             const BankOptions& options) {
  const Backend& backend = backend_for(options);
  auto file = read_header_of_bits(input, std::move(first));
  check_supports(backend, file.header.growth.layout(), Cell::bit);
  LevelsReader reader(input, file);
  std::vector<MemberRows> rows;
  for (const rows_format::Level& level : file.header.levels) {
    // Pages exist only once they are written, so a false claim costs no more than what is there.
    rows.emplace_back(level.shape.geometry, level.slots);
    reader.read([&](std::uint64_t word, std::uint64_t count) {
      return rows.back().words().subspan(word, count);
    });
  }
  std::unique_ptr<BankState> bank =
      make_bank_of_bits(std::move(file.header), backend, std::move(rows));
  bank->reserve(options.capacity, {});
  return bank;
}

std::unique_ptr<BankState> map_bank_of_bits(FileInput& file, std::vector<std::byte> first,
                                            const BankOptions& options) {
  const Backend& backend = backend_for(options);
  auto read = read_header_of_bits(file.input, std::move(first));
  check_supports(backend, read.header.growth.layout(), Cell::bit);
  if (read.header.packed()) {
    throw IoError(
        fmt::format("{}: cannot map: the rows are compressed; load it", file.input.name()));
  }
  LevelsReader reader(file.input, read);
  std::vector<MemberRows> rows;
  for (const rows_format::Level& level : read.header.levels) {
    rows.emplace_back(level.shape.geometry, level.slots, reader.map(file.file));
  }
  std::vector<std::vector<std::uint64_t>> checksums;
  for (rows_format::Level& level : read.header.levels) {
    checksums.push_back(std::move(level.chunk_checksums));
  }
  std::unique_ptr<BankState> bank =
      make_bank_of_bits(std::move(read.header), backend, std::move(rows));
  for (std::size_t i = 0; i < checksums.size(); ++i) {
    Level& level = bank->level(i);
    level.present = std::move(reader.used()[i]);
    level.chunk_checksums = std::move(checksums[i]);
  }
  return bank;
}

BankFileInfo read_bits_info(Input& input, std::vector<std::byte> first, bool verify) {
  const auto file = read_header_of_bits(input, std::move(first));
  const BitsHeader& header = file.header;
  LevelsReader reader(input, file);
  std::vector<std::uint64_t> buffer(verify ? kChunkWords : 0);
  std::uint64_t row_bytes = 0;
  for (const rows_format::Level& level : header.levels) {
    row_bytes += level.bytes() + level.slots * sizeof(std::optional<Stage>);
    if (verify) {
      reader.read(
          [&](std::uint64_t, std::uint64_t count) { return std::span(buffer).first(count); });
    } else {
      reader.skip();
    }
  }
  check_end(input);
  std::vector<MemberFileInfo> members;
  members.reserve(header.members.size());
  for (const rows_format::Member& member : header.members) {
    members.push_back({member.number, member.asked_always, 0, info_of_member(header, member)});
  }
  return {.version = bank_format::kBitsVersion,
          .growth = header.growth,
          .seed = header.seed,
          .capacity = header.levels.front().slots,
          .members = std::move(members),
          .file_bytes = input.position(),
          .metadata = header.metadata,
          .compressed = header.packed(),
          .cell = Cell::bit,
          .row_bytes = row_bytes};
}

void write_bank_of_bits(const BankState& bank, const SaveOptions& options, const ByteSink& sink) {
  const std::vector<const Level*> levels = levels_of(bank);
  const BitsHeader header = header_of_bits(bank, levels, options);
  check_mapped_rows(bank);
  const std::vector<std::byte> bytes = rows_format::encode_header(header);
  const std::uint64_t checksum = file_format::checksum_in(bytes);
  sink(bytes);
  std::uint64_t at = bytes.size(), number = 0;
  file_format::ChunkEncoder encoder(Cell::bit, header.packed());
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const rows_format::Level& level = header.levels[i];
    if (!header.packed() && level.offset > at) sink(std::vector<std::byte>(level.offset - at));
    for_each_chunk_of_rows(levels[i]->rows,
                           [&](std::uint64_t, std::span<const std::uint64_t> chunk) {
                             if (header.packed()) {
                               write_packed_chunk(encoder, chunk, checksum, number++, sink);
                             } else {
                               sink(std::as_bytes(chunk));
                             }
                           });
    at = level.offset + level.bytes();
  }
}

}  // namespace scbf
