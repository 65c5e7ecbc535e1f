// SPDX-License-Identifier: Apache-2.0
#include "table_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kMostNamed = 5;

// Every byte of a row may be a quote, which is doubled. The rest is for the key, the separators and
// the quotes around fields.
static_assert(kMaxRecordBytes >= 2 * kMaxRowBytes + (1 << 20));

/// "'a', 'b', 'c', 'd', 'e' and 7 more".
std::string some_of(const std::vector<std::string>& names) {
  const std::size_t n = std::min(names.size(), kMostNamed);
  std::string text = list_in_quotes(std::span(names).first(n));
  if (names.size() > n) text += fmt::format(" and {} more", names.size() - n);
  return text;
}

std::vector<std::string> header_of(RecordReader& records) {
  const Record* const record = records.next();
  if (!record) {
    throw IoError(fmt::format("{}: empty: the first line must name the columns", records.name()));
  }
  std::vector<std::string> names(record->fields.begin(), record->fields.end()), sorted = names;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front().empty()) records.fail(record->line, "a column without a name");
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    records.fail(record->line, fmt::format("column {} is there twice", in_quotes(*twice)));
  }
  return names;
}

}  // namespace

std::vector<std::string> read_header(const std::string& file, TableFormat format, Escapes escapes) {
  RecordReader records(file, format, escapes);
  return header_of(records);
}

TableReader::TableReader(const std::string& file, TableFormat format, Escapes escapes,
                         const TableSchema& schema)
    : records_(file, format, escapes), schema_(schema) {
  const std::size_t columns = schema.columns.size();
  std::vector<std::string> unknown, missing;
  std::vector<bool> seen(columns + 1);
  for (std::string& name : header_of(records_)) {
    const auto is_it = [&](const Column& column) { return column.name == name; };
    const auto found = std::find_if(schema.columns.begin(), schema.columns.end(), is_it);
    const std::size_t column = static_cast<std::size_t>(found - schema.columns.begin());
    if (found == schema.columns.end() && name != schema.key) {
      unknown.push_back(std::move(name));
      continue;
    }
    seen[column] = true;
    columns_.push_back(column);
  }
  for (std::size_t i = 0; i <= columns; ++i) {
    if (!seen[i]) missing.push_back(i == columns ? schema.key : schema.columns[i].name);
  }
  if (unknown.empty() && missing.empty()) return;
  std::string what;
  if (!missing.empty()) {
    what += missing.size() == 1 ? fmt::format("column {} is missing", some_of(missing))
                                : fmt::format("columns {} are missing", some_of(missing));
  }
  if (!unknown.empty()) {
    what += fmt::format("{}the index has no column {}", what.empty() ? "" : "; ", some_of(unknown));
  }
  if (!missing.empty() && columns_.empty() && unknown.size() == 1) {
    what += format.is_tsv() ? "; for fields divided by commas: --separator ,"
                            : "; for fields divided by tabs: --separator tab";
  }
  records_.fail(1, what);
}

bool TableReader::next(Row& row) {
  const Record* const record = records_.next();
  if (!record) return false;
  if (record->fields.size() != columns_.size()) {
    records_.fail(record->line,
                  fmt::format("{}, but the header has {}", counted(record->fields.size(), "field"),
                              columns_.size()));
  }
  row.values.resize(schema_.columns.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::string& to = columns_[i] == schema_.columns.size() ? row.key : row.values[columns_[i]];
    to = record->fields[i];
  }
  check_limits(row, record->line);
  ++rows_;
  return true;
}

void TableReader::check_limits(const Row& row, std::uint64_t line) const {
  using Part = RowExcess::Part;
  const std::optional<RowExcess> excess = excess_of(schema_, row);
  if (!excess) return;
  if (excess->bytes == 0) records_.fail(line, fmt::format("no {}", in_quotes(schema_.key)));
  const std::string what =
      excess->part == Part::key ? "a key"
      : excess->part == Part::row
          ? "a row"
          : fmt::format("a value for the index, in {},", schema_.columns[excess->column].name);
  records_.fail(line, fmt::format("{} of {}: must be at most {} bytes", what,
                                  human_bytes(excess->bytes), grouped(excess->limit)));
}

}  // namespace scbf::cli
