// SPDX-License-Identifier: Apache-2.0
// For tests of the secondary index: a plain table to compare with, and a script of operations that
// is the same in every process.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "scbf/secondary_index.hpp"
#include "support/temporary_folder.hpp"

namespace scbf::test {

using Directory = scbf_test::TemporaryFolder;

inline TableSchema people() {
  return {.key = "id",
          .columns = {{.name = "city", .indexed = true},
                      {.name = "note"},
                      {.name = "tags", .indexed = true, .separator = ","}}};
}

/// The expected answers of the index, computed by looking at every row.
class PlainTable {
 public:
  explicit PlainTable(TableSchema schema) : schema_(std::move(schema)) {}

  void put(const Row& row) {
    rows_[row.key] = row.values;
    std::vector<std::set<std::string>>& values = values_[row.key];
    values.clear();
    for (std::size_t column = 0; column < schema_.columns.size(); ++column) {
      values.push_back(split(row.values[column], schema_.columns[column].separator));
    }
  }
  bool remove(const std::string& key) {
    values_.erase(key);
    return rows_.erase(key) > 0;
  }
  const std::map<std::string, std::vector<std::string>>& rows() const { return rows_; }

  const std::set<std::string>& values(const std::string& key, std::size_t column) const {
    return values_.at(key)[column];
  }

  std::vector<Row> query(const Query& query) const {
    std::vector<std::pair<std::size_t, const std::string*>> wanted;  // column, value
    for (const Condition& condition : query.all_of) {
      wanted.emplace_back(schema_.column(condition.column), &condition.value);
    }
    std::vector<Row> found;
    for (const auto& [key, values] : values_) {
      if (key < query.from || (!query.to.empty() && key >= query.to)) continue;
      const bool all = std::ranges::all_of(wanted, [&values = values](const auto& condition) {
        return values[condition.first].contains(*condition.second);
      });
      if (all && found.size() < query.limit) {
        found.push_back({key, query.keys_only ? std::vector<std::string>() : rows_.at(key)});
      }
    }
    return found;
  }

 private:
  static std::set<std::string> split(const std::string& field, const std::string& separator) {
    std::set<std::string> values;
    if (separator.empty()) {
      if (!field.empty()) values.insert(field);
      return values;
    }
    for (std::size_t begin = 0; begin <= field.size();) {
      const std::size_t end = std::min(field.find(separator, begin), field.size());
      std::string part = field.substr(begin, end - begin);
      while (!part.empty() && part.back() == ' ') part.pop_back();
      while (!part.empty() && part.front() == ' ') part.erase(0, 1);
      if (!part.empty()) values.insert(part);
      begin = end + separator.size();
    }
    return values;
  }

  TableSchema schema_;
  std::map<std::string, std::vector<std::string>> rows_;
  std::map<std::string, std::vector<std::set<std::string>>> values_;  // of the same rows
};

inline std::vector<Row> all_rows(const SecondaryIndex& index) {
  std::vector<Row> rows;
  index.scan({}, {}, [&](const Row& row) {
    rows.push_back(row);
    return true;
  });
  return rows;
}

/// Copies the files of an index, replacing `to`, as a crash of the process would leave them now.
/// The store may add and remove files meanwhile; then the copy might lack some, and is made again.
inline void copy_open_index(const std::filesystem::path& of, const std::filesystem::path& to) {
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(of)) {
      found.insert(entry.path().string());
    }
    return found;
  };
  for (;;) {
    try {
      const auto before = names();
      std::filesystem::remove_all(to);
      std::filesystem::copy(of, to, std::filesystem::copy_options::recursive);
      if (names() == before) return;
    } catch (const std::filesystem::filesystem_error&) {  // a file was removed
    }
  }
}

// ---- a script -----------------------------------------------------------------------------------

/// One operation. `region` is taken modulo the number of regions.
struct Step {
  enum class What : std::uint8_t { put, remove, split, merge, move, checkpoint } what;
  std::vector<Row> rows;
  std::vector<std::string> keys;
  std::uint32_t region = 0, server = 0;
};

inline constexpr std::uint32_t kScriptServers = 4;

inline std::string script_city(std::mt19937_64& random) {
  // A few frequent values, many rare ones, and some with awkward bytes.
  switch (random() % 4) {
    case 0:
      return fmt::format("city {}", random() % 3);
    case 1:
      return std::string("zero\0byte", 9) + std::string(random() % 3, '\0');
    case 2:
      return "";
    default:
      return fmt::format("village {}", random() % 400);
  }
}

/// Scripts with even seeds have few rows with one value each, so their regions see far more changes
/// than they have values.
inline bool is_narrow(std::uint64_t seed) { return seed % 2 == 0; }

inline Row script_row(std::uint64_t seed, std::mt19937_64& random) {
  if (is_narrow(seed)) {
    return {fmt::format("row {:02}", random() % 60),
            {fmt::format("city {}", random() % 40), "", ""}};
  }
  std::string tags;
  for (std::uint64_t i = random() % 4; i > 0; --i) {
    tags += fmt::format("tag {}, ", random() % 30);
  }
  return {fmt::format("row {:03}", random() % 300),
          {script_city(random), std::string(random() % 20, 'n'), tags}};
}

/// Step `i` of a script. It depends only on the script and on i.
inline Step script_step(std::uint64_t seed, std::uint64_t i) {
  std::mt19937_64 random(seed * 0x9E37'79B9'7F4A'7C15u + i);
  random.discard(3);
  Step step{};
  const auto dice = random() % 100;
  if (dice < 60) {
    step.what = Step::What::put;
    for (std::uint64_t n = dice < 45 ? 1 : random() % 20; n > 0; --n) {
      step.rows.push_back(script_row(seed, random));
    }
  } else if (dice < 85) {
    step.what = Step::What::remove;
    for (std::uint64_t n = dice < 75 ? 1 : random() % 20; n > 0; --n) {
      step.keys.push_back(script_row(seed, random).key);
    }
  } else {
    step.what = dice < 90   ? Step::What::split
                : dice < 94 ? Step::What::merge
                : dice < 96 ? Step::What::move
                            : Step::What::checkpoint;
    step.region = static_cast<std::uint32_t>(random());
    step.server = static_cast<std::uint32_t>(random() % kScriptServers);
  }
  return step;
}

/// Rows of a load, with values of its own; so many that bulk_load makes tables for each of a few
/// regions.
constexpr std::uint64_t kLoadRows = 6000;
inline Row load_row(std::uint64_t i, std::uint64_t load) {
  return {fmt::format("{:04}", i),
          {fmt::format("city {}", (i + load) % 300), fmt::format("load {:0300}", load),
           fmt::format("tag {} tag {}", i % 50, load)}};
}

/// A step that cannot be done (region too small, no neighbour) has no effect.
inline void take(SecondaryIndex& index, const Step& step) {
  const std::vector<RegionInfo> regions = index.regions();
  const std::size_t place = step.region % regions.size();
  switch (step.what) {
    case Step::What::put:
      index.put(step.rows);
      break;
    case Step::What::remove:
      index.remove(step.keys);
      break;
    case Step::What::split:
      if (regions[place].rows >= 2 && regions.size() < 12) index.split(regions[place].id);
      break;
    case Step::What::merge:
      if (place + 1 < regions.size()) index.merge(regions[place].id, regions[place + 1].id);
      break;
    case Step::What::move:
      index.move(regions[place].id, step.server);
      break;
    case Step::What::checkpoint:
      index.checkpoint();
      break;
  }
}

inline void take(PlainTable& table, const Step& step) {
  for (const Row& row : step.rows) table.put(row);
  for (const std::string& key : step.keys) table.remove(key);
}

}  // namespace scbf::test
