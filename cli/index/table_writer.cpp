// SPDX-License-Identifier: Apache-2.0
#include "table_writer.hpp"

#include <nlohmann/json.hpp>

namespace scbf::cli {

void TableWriter::field(std::string_view text) {
  if (!first_) out_.write(format_.separator);
  first_ = false;
  if (format_.is_tsv()) return write_tsv_field(out_, text);
  if (text.find_first_of("\"\r\n") == std::string_view::npos &&
      text.find(format_.separator) == std::string_view::npos) {
    return out_.write(text);
  }
  out_.write('"');
  for (const char c : text) {
    if (c == '"') out_.write('"');
    out_.write(c);
  }
  out_.write('"');
}

void TableWriter::end_row() {
  out_.write('\n');
  first_ = true;
}

void TableWriter::row(const Row& row) {
  field(row.key);
  for (const std::string& value : row.values) field(value);
  end_row();
}

void TableWriter::header(const TableSchema& schema, bool keys_only) {
  field(schema.key);
  if (!keys_only) {
    for (const Column& column : schema.columns) field(column.name);
  }
  end_row();
}

Json row_json(const TableSchema& schema, const Row& row) {
  Json json = Json::object();
  json[schema.key] = row.key;
  for (std::size_t i = 0; i < row.values.size(); ++i) json[schema.columns[i].name] = row.values[i];
  return json;
}

}  // namespace scbf::cli
