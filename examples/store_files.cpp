// SPDX-License-Identifier: Apache-2.0
// Which store files must a get read? HBase keeps one filter per store file, either of rows (ROW) or
// of rows with column qualifiers (ROWCOL). This program runs the two examples of its documentation,
// then a region of 200 files.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scbf/bank.hpp"
#include "scbf/sizing.hpp"

namespace {

struct Cell {
  std::string row, qualifier;
};
using StoreFile = std::vector<Cell>;
using Files = std::vector<std::uint32_t>;

enum class Kind { row, row_col };

/// The row's length, the row and the qualifier. The length makes ("r1", "1q") and ("r11", "q")
/// differ.
std::string key_of(Kind kind, std::string_view row, std::string_view qualifier) {
  if (kind == Kind::row) return std::string(row);
  return std::to_string(row.size()) + ':' + std::string(row) + std::string(qualifier);
}

scbf::Bank bank_of(Kind kind, const std::vector<StoreFile>& files, double fpr) {
  std::uint64_t most = 1;
  for (const StoreFile& file : files) most = std::max<std::uint64_t>(most, file.size());
  scbf::Bank bank(scbf::Growth::one(scbf::geometry_for(scbf::Layout::split_block, most, fpr)),
                  {.capacity = static_cast<std::uint32_t>(files.size())});
  std::vector<std::vector<std::string>> columns;
  std::vector<scbf::MemberKeys> batches;
  for (const StoreFile& file : files) {
    auto& keys = columns.emplace_back();
    for (const Cell& cell : file) keys.push_back(key_of(kind, cell.row, cell.qualifier));
  }
  for (const auto& keys : columns) batches.push_back({bank.add_member(), keys});
  bank.insert(batches);
  return bank;
}

int failures = 0;
void expect(bool holds, const char* what) {
  std::printf("%s  %s\n", holds ? "yes" : "NO ", what);
  failures += !holds;
}

/// The documentation's examples: sf1 is file 0, sf2 is file 1.
void two_examples() {
  // Few keys at a low rate, so that no false positive spoils an example.
  constexpr double kNever = 1e-9;
  const std::vector<StoreFile> first{{{"r1", "q1"}, {"r2", "q1"}}, {{"r3", "q1"}, {"r4", "q1"}}};
  const auto row = bank_of(Kind::row, first, kNever);
  expect(row.find("r1") == Files{0}, "example 1, ROW: get(r1) skips sf2");

  const std::vector<StoreFile> second{{{"r1", "q1"}, {"r2", "q1"}}, {{"r1", "q2"}, {"r2", "q2"}}};
  const auto rows = bank_of(Kind::row, second, kNever);
  // ROW filters ignore the qualifier, so both gets read both files.
  expect(rows.find(key_of(Kind::row, "r1", "q1")) == Files{0, 1},
         "example 2, ROW: get(r1, q1) reads sf1 and sf2");
  expect(rows.find(key_of(Kind::row, "r1", "q2")) == Files{0, 1},
         "example 2, ROW: get(r1, q2) reads sf1 and sf2");
  const auto cells = bank_of(Kind::row_col, second, kNever);
  expect(cells.find(key_of(Kind::row_col, "r1", "q1")) == Files{0},
         "example 2, ROWCOL: get(r1, q1) skips sf2");
  expect(cells.find(key_of(Kind::row_col, "r1", "q2")) == Files{1},
         "example 2, ROWCOL: get(r1, q2) skips sf1");
}

/// 200 files of 2,000 cells: file f updates one of four qualifiers of rows drawn from 100,000.
void two_hundred_files() {
  constexpr std::uint32_t kFiles = 200, kCells = 2000, kRows = 100'000, kGets = 20'000;
  constexpr double kRate = 0.01;
  std::uint64_t state = 1;
  const auto draw = [&](std::uint64_t below) {
    state = state * 6'364'136'223'846'793'005u + 1'442'695'040'888'963'407u;
    return (state >> 33) % below;
  };
  std::vector<StoreFile> files(kFiles);
  for (std::uint32_t f = 0; f < kFiles; ++f) {
    for (std::uint32_t c = 0; c < kCells; ++c) {
      files[f].push_back({"row" + std::to_string(draw(kRows)), "q" + std::to_string(f % 4)});
    }
  }
  for (const Kind kind : {Kind::row, Kind::row_col}) {
    auto bank = bank_of(kind, files, kRate);
    std::vector<std::string> gets;
    for (std::uint32_t g = 0; g < kGets; ++g) {
      gets.push_back(
          key_of(kind, "row" + std::to_string(draw(kRows)), "q" + std::to_string(draw(4))));
    }
    scbf::MemberLists reads;
    bank.find(gets, reads);
    // The true answer, from the cells themselves.
    std::vector<std::vector<bool>> holds(kGets, std::vector<bool>(kFiles));
    {
      std::vector<std::pair<std::string_view, std::uint32_t>> index;
      for (std::uint32_t g = 0; g < kGets; ++g) index.emplace_back(gets[g], g);
      std::sort(index.begin(), index.end());
      for (std::uint32_t f = 0; f < kFiles; ++f) {
        for (const Cell& cell : files[f]) {
          const std::string key = key_of(kind, cell.row, cell.qualifier);
          const std::pair<std::string_view, std::uint32_t> from{key, 0};
          for (auto at = std::lower_bound(index.begin(), index.end(), from);
               at != index.end() && at->first == key; ++at) {
            holds[at->second][f] = true;
          }
        }
      }
    }
    std::uint64_t held = 0, read = reads.members.size(), missed = 0;
    for (std::uint32_t g = 0; g < kGets; ++g) {
      std::vector<bool> found(kFiles);
      for (const std::uint32_t f : reads.of(g)) found[f] = true;
      for (std::uint32_t f = 0; f < kFiles; ++f) {
        held += holds[g][f];
        missed += holds[g][f] && !found[f];
      }
    }
    const double per_get = static_cast<double>(read) / kGets;
    const double needed = static_cast<double>(held) / kGets;
    std::printf("%s: %.2f of %u files read per get, %.2f hold the key; expected %.2f\n",
                kind == Kind::row ? "ROW   " : "ROWCOL", per_get, kFiles, needed,
                needed + (kFiles - needed) * kRate);
    expect(missed == 0, "no file that holds the key is skipped");
    expect(per_get <= needed + (kFiles - needed) * kRate * 1.1, "at most the expected reads");

    // A compaction: files 0 to 9 become one file, which replaces file 0. No cell is lost.
    const auto before = bank.find(key_of(kind, files[7][0].row, files[7][0].qualifier));
    for (std::uint32_t f = 1; f < 10; ++f) bank.merge(0, bank.remove_member(f));
    const auto after = bank.find(key_of(kind, files[7][0].row, files[7][0].qualifier));
    expect(!before.empty() && !after.empty() && after.front() == 0 && bank.size() == kFiles - 9,
           "after a compaction the merged file is read instead");
  }
}

}  // namespace

int main() {
  two_examples();
  two_hundred_files();
  return failures == 0 ? 0 : 1;
}
