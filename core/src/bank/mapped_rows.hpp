// SPDX-License-Identifier: Apache-2.0
// The rows of a bank of bits as its file has them; and whether mapped rows still are those of the
// file that was saved, since a file may be changed or damaged while it is mapped.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bank/bank_state.hpp"
#include "files/file_format.hpp"
#include "files/rows_format.hpp"

namespace scbf {

/// All levels, the first one first.
std::vector<const Level*> levels_of(const BankState& bank);
/// What a file says of a level, but for where its rows lie, and their checksums.
rows_format::Level level_in_file(const Level& level);
/// "rows of level 0: … is not zero, at byte 7 of the rows"
std::string stray_text(std::size_t level, const rows_format::StrayBit& stray);

/// Calls use(word, chunk) for each chunk of rows; `word` is the number of its first word.
template <class Use>
void for_each_chunk_of_rows(const MemberRows& rows, Use use) {
  const std::span<const std::uint64_t> words = rows.words();
  constexpr std::uint64_t kWords = file_format::kChunkWords;
  for (std::uint64_t word = 0; word < words.size(); word += kWords) {
    use(word, words.subspan(word, std::min<std::uint64_t>(kWords, words.size() - word)));
  }
}

/// Throws CorruptFile if the bank is mapped and its rows are not those of the file that was saved.
void check_mapped_rows(const BankState& bank);

}  // namespace scbf
