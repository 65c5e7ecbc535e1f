// SPDX-License-Identifier: Apache-2.0
#include "keys/arrow_rows.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <utility>

#include "errors.hpp"
#include "keys/arrow_extensions.hpp"
#include "keys/arrow_types.hpp"
#include "keys/single_key.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

bool is_text(std::string_view format) {
  for (std::string_view known : {"u", "U", "vu", "z", "Z", "vz", "n"}) {
    if (format == known) return true;
  }
  return format.starts_with("w:");
}

[[noreturn]] void refuse(std::string_view column, std::string_view type) {
  throw InvalidArgument(
      fmt::format("{}: is of type {}, and fields are text or bytes: cast it to a string",
                  column.empty() ? "the Arrow array" : column, type));
}

/// Throws InvalidArgument unless the values of a column are text or bytes.
void check_text(const ArrowSchema& schema, std::string_view column) {
  for (const ArrowSchema* part : {&schema, static_cast<const ArrowSchema*>(schema.dictionary)}) {
    if (!part) continue;
    if (!part->format) broken("its schema has no format");
    const std::string_view extension = extension_name(*part);
    if (!extension.empty()) refuse(column, printable(extension.substr(0, 60)));
  }
  const ArrowSchema& values = schema.dictionary ? *schema.dictionary : schema;
  if (!is_text(values.format) || values.dictionary) refuse(column, type_name(values.format));
}

}  // namespace

/// The fields of one column. A dictionary's are indices, and the values that these number.
class TextRows::Part {
 public:
  Part(const ArrowSchema& schema, const ArrowArray& array, std::size_t first,
       std::optional<std::size_t> size, const Kept& kept)
      : schema_(schema), array_(array) {
    if (!schema.dictionary) {
      fields_ = all_of(part_of(schema, array, first, size, kept));
      return;
    }
    if (!array.dictionary) broken("the dictionary of the values is missing");
    fields_ = all_of(part_of(*schema.dictionary, *array.dictionary, 0, {}, kept));
    schema_.dictionary = nullptr;
    array_.dictionary = nullptr;
    indices_ = all_of(part_of(schema_, array_, first, size, kept));
    if (!indices_->keys.has_values()) {
      broken(fmt::format("format '{}' for the indices of a dictionary", printable(schema.format)));
    }
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  std::size_t size() const noexcept { return (indices_ ? *indices_ : *fields_).keys.size(); }
  std::optional<std::string_view> field(std::size_t row) const {
    std::size_t at = row;
    if (indices_) {
      const KeyBatch& indices = indices_->keys;
      if (!indices.valid(row)) return {};
      at = indices.value(row);
      if (at >= fields_->keys.size()) {
        broken(fmt::format("index {} is {}, and the dictionary has {} values", row,
                           static_cast<std::int64_t>(at), fields_->keys.size()));
      }
    }
    if (!fields_->keys.valid(at)) return {};
    return fields_->keys.bytes(at);
  }

 private:
  /// All values of a column, which keeps them.
  struct All {
    std::unique_ptr<Column> column;
    Room room;
    KeyBatch keys;
  };
  static std::unique_ptr<All> all_of(std::unique_ptr<Column> column) {
    auto all = std::make_unique<All>(
        All{std::move(column), {}, KeyBatch(std::span<const std::uint64_t>())});
    all->keys = all->column->batch(0, all->column->size(), 0, all->room);
    return all;
  }

  ArrowSchema schema_;  // copies, of which the dictionary is taken away; they own nothing
  ArrowArray array_;
  std::unique_ptr<All> fields_, indices_;
};

TextRows::TextRows(std::unique_ptr<ArrowBatches> batches) : batches_(std::move(batches)) {
  const ArrowSchema& schema = batches_->schema();
  if (!schema.release) broken("its schema is released");
  if (!schema.format) broken("its schema has no format");
  if (std::string_view(schema.format) != "+s") {
    check_text(schema, "");
    schemas_.push_back(&schema);
    names_.emplace_back();
    return;
  }
  if (schema.n_children > 0 && !schema.children) broken("the schemas of its columns are missing");
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    const ArrowSchema* const child = schema.children[i];
    if (!child) broken("the schema of its column is missing");
    names_.emplace_back(child->name ? child->name : "");
    check_text(*child, names_.back());
    schemas_.push_back(child);
  }
}

TextRows::~TextRows() = default;

bool TextRows::next() {
  parts_.clear();
  size_ = 0;
  Released<ArrowArray> array = batches_->next();
  if (array.released()) return false;
  const auto kept = std::make_shared<Released<ArrowArray>>(std::move(array));
  const ArrowArray& batch = **kept;
  if (std::string_view(batches_->schema().format) != "+s") {
    parts_.push_back(
        std::make_unique<Part>(*schemas_[0], batch, std::size_t{0}, std::nullopt, kept));
    size_ = parts_[0]->size();
    return true;
  }
  if (batch.length < 0 || batch.offset < 0) {
    broken(fmt::format("its length is {}, and its offset {}", batch.length, batch.offset));
  }
  size_ = static_cast<std::size_t>(batch.length);
  for (std::size_t i = 0; i < size_; ++i) {
    if (!is_valid(batch, i)) {
      throw InvalidArgument(fmt::format("row {} of the struct is null as a whole", i));
    }
  }
  if (batch.n_children != std::ssize(schemas_) || (batch.n_children > 0 && !batch.children)) {
    broken("it has other columns than its schema");
  }
  for (std::size_t i = 0; i < schemas_.size(); ++i) {
    if (!batch.children[i]) broken("one of its columns is missing");
    parts_.push_back(std::make_unique<Part>(*schemas_[i], *batch.children[i],
                                            static_cast<std::size_t>(batch.offset), size_, kept));
  }
  return true;
}

std::optional<std::string_view> TextRows::field(std::size_t column, std::size_t row) const {
  return parts_[column]->field(row);
}

std::unique_ptr<TextRows> text_rows(nb::handle object, std::string_view of) {
  if (is_of_package(object, "pandas")) return nullptr;
  auto batches = arrow_batches(object, of);
  return batches ? std::make_unique<TextRows>(std::move(batches)) : nullptr;
}

}  // namespace scbf::python
