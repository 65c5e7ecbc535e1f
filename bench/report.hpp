// SPDX-License-Identifier: Apache-2.0
// Tables of a benchmark that is a program of its own: printed row by row as Markdown, and kept as
// JSON beside machine and commit, from which bench/plot.py makes the tables of the documentation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace scbf::bench {

class Report {
 public:
  using Cell = std::variant<std::string, double>;

  /// Begins a table and prints its head. Names are what the documentation's markers say.
  void table(const std::string& name, std::vector<std::string> columns);
  /// A row of the table begun last: as many cells as it has columns.
  void row(std::vector<Cell> cells);
  /// A line of text under the tables.
  void note(const std::string& text);
  /// Writes all of it as JSON; nothing for an empty path. Throws std::runtime_error.
  void write(const std::filesystem::path& path) const;

 private:
  struct Table {
    std::string name;
    std::vector<std::string> columns;
    std::vector<std::vector<Cell>> rows;
  };
  std::vector<Table> tables_;
  std::vector<std::string> notes_;
};

/// Takes `--out FILE` out of the arguments and returns FILE; empty if it is not there.
std::filesystem::path take_output(int& argc, char** argv);

/// Says what is wrong, and ends the program with 1.
[[noreturn]] void wrong(const std::string& what);

/// Of at least one time.
double median(std::vector<double> times);

}  // namespace scbf::bench
