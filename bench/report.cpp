// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "machine.hpp"

namespace scbf::bench {

namespace {

std::string shown(const Report::Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const double value = std::get<double>(cell);
  return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

}  // namespace

void Report::table(const std::string& name, std::vector<std::string> columns) {
  fmt::print("\n");
  for (const std::string& column : columns) fmt::print("| {} ", column);
  fmt::print("|\n");
  for (std::size_t i = 0; i < columns.size(); ++i) fmt::print("{}", i == 0 ? "|---" : "|--:");
  fmt::print("|\n");
  tables_.push_back({name, std::move(columns), {}});
}

void Report::row(std::vector<Cell> cells) {
  Table& table = tables_.at(tables_.size() - 1);
  if (cells.size() != table.columns.size()) {
    throw std::runtime_error(fmt::format("table {}: {} cells, {} columns", table.name, cells.size(),
                                         table.columns.size()));
  }
  for (const Cell& cell : cells) fmt::print("| {} ", shown(cell));
  fmt::print("|\n");
  std::fflush(stdout);
  table.rows.push_back(std::move(cells));
}

void Report::note(const std::string& text) {
  fmt::print("{}\n", text);
  notes_.push_back(text);
}

void Report::write(const std::filesystem::path& path) const {
  if (path.empty()) return;
  nlohmann::ordered_json json;
  for (const auto& [name, value] : context()) json["context"][name] = value;
  for (const Table& table : tables_) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const auto& cells : table.rows) {
      nlohmann::ordered_json row = nlohmann::ordered_json::array();
      for (const Cell& cell : cells) {
        std::visit([&](const auto& value) { row.push_back(value); }, cell);
      }
      rows.push_back(std::move(row));
    }
    json["tables"][table.name] = {{"columns", table.columns}, {"rows", std::move(rows)}};
  }
  json["notes"] = notes_;
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  file.close();
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be written", path.string()));
}

std::filesystem::path take_output(int& argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--out") != 0) continue;
    std::filesystem::path path = argv[i + 1];
    std::rotate(argv + i, argv + i + 2, argv + argc);
    argc -= 2;
    return path;
  }
  return {};
}

void wrong(const std::string& what) {
  fmt::print(stderr, "wrong: {}\n", what);
  std::exit(1);
}

double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace scbf::bench
