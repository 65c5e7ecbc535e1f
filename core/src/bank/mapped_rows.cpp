// SPDX-License-Identifier: Apache-2.0
#include "bank/mapped_rows.hpp"

#include <fmt/format.h>

#include "scbf/errors.hpp"

namespace scbf {

std::vector<const Level*> levels_of(const BankState& bank) {
  std::vector<const Level*> levels = {&bank.first};
  for (const auto& level : bank.later) levels.push_back(level.get());
  return levels;
}

rows_format::Level level_in_file(const Level& level) {
  return {level.index, level.rows.capacity(), level.shape};
}

void check_mapped_rows(const BankState& bank) {
  if (!bank.read_only()) return;
  const auto refuse = [](const std::string& what) {
    throw CorruptFile(fmt::format("the bank is damaged, as a mapped file may be: {}", what));
  };
  const std::vector<const Level*> levels = levels_of(bank);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const rows_format::Level in_file = level_in_file(*levels[i]);
    const rows_format::RowsChecker checker(in_file, levels[i]->present);
    for_each_chunk_of_rows(
        levels[i]->rows, [&](std::uint64_t word, std::span<const std::uint64_t> chunk) {
          const std::uint64_t number = word / file_format::kChunkWords;
          if (const auto stray = checker.check(word, chunk)) {
            refuse(stray_text(i, *stray));
          }
          if (file_format::checksum(std::as_bytes(chunk)) != levels[i]->chunk_checksums[number]) {
            refuse(fmt::format("rows of level {}: chunk {}: checksum mismatch", i, number));
          }
        });
  }
}

std::string stray_text(std::size_t level, const rows_format::StrayBit& stray) {
  return fmt::format("rows of level {}: {} is not zero, at byte {} of the rows", level, stray.where,
                     stray.byte);
}

}  // namespace scbf
