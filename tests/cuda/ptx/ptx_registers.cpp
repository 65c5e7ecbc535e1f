// SPDX-License-Identifier: Apache-2.0
// Fewer registers: PTX has one for every value, thousands in unrolled loops, and a warp's would not
// fit into a cache. A register that lives within one run of instructions without branches shares
// its place with others there.
#include "ptx_registers.hpp"

#include <algorithm>
#include <vector>

namespace ptx {

namespace {

/// Calls use(row, is_written) for each register of an instruction, those it reads first.
template <class Use>
void for_each_register(Instruction& i, Use use) {
  const auto visit = [&](RowNumber& row, bool is_written) {
    if (row >= 0) use(row, is_written);
  };
  visit(i.guard, false);
  for (RowNumber& row : i.from_rows) visit(row, false);
  for (RowNumber& row : i.to) visit(row, true);
}

constexpr std::uint32_t kNowhere = UINT32_MAX, kManyRuns = UINT32_MAX - 1;

struct Life {
  std::uint32_t run = kNowhere;  ///< the run of instructions that it lives in
  std::size_t last = 0;          ///< the last instruction that names it
};

std::vector<Life> lives_in(Kernel& kernel) {
  std::vector<Life> lives(kernel.registers);
  std::uint32_t run = 0;
  for (std::size_t at = 0; at < kernel.code.size(); ++at) {
    Instruction& i = kernel.code[at];
    if (i.labelled) ++run;
    for_each_register(i, [&](RowNumber row, bool is_written) {
      Life& life = lives[static_cast<std::size_t>(row)];
      // What is read before it is written, or written by some lanes only, comes from elsewhere.
      const bool begins = life.run == kNowhere && is_written && i.guard == kNoRow;
      if (begins) life.run = run;
      if (life.run != run) life.run = kManyRuns;
      life.last = at;
    });
    if (i.op == Op::branch || i.op == Op::finish) ++run;
  }
  for (const auto& [special, row] : kernel.specials) {
    lives[static_cast<std::size_t>(row)].run = kManyRuns;
  }
  return lives;
}

}  // namespace

void share_registers(Kernel& kernel) {
  const std::vector<Life> lives = lives_in(kernel);
  std::vector<RowNumber> places(kernel.registers, kNoRow);
  RowNumber end = 0;
  for (std::size_t row = 0; row < lives.size(); ++row) {
    if (lives[row].run == kManyRuns) places[row] = end++;
  }
  std::vector<RowNumber> free;
  for (std::size_t at = 0; at < kernel.code.size(); ++at) {
    std::vector<RowNumber> ending;
    for_each_register(kernel.code[at], [&](RowNumber& row, bool) {
      const auto number = static_cast<std::size_t>(row);
      RowNumber& place = places[number];
      if (place == kNoRow) {
        if (free.empty()) free.push_back(end++);
        place = free.back();
        free.pop_back();
      }
      if (lives[number].run != kManyRuns && lives[number].last == at) ending.push_back(place);
      row = place;
    });
    // Only now, because an instruction may write one result before it has read all its operands.
    // Names that stand twice in it end once.
    for (const RowNumber place : ending) {
      if (std::find(free.begin(), free.end(), place) == free.end()) free.push_back(place);
    }
  }
  for (auto& [special, row] : kernel.specials) row = places[static_cast<std::size_t>(row)];
  kernel.registers = static_cast<unsigned>(end);
}

}  // namespace ptx
