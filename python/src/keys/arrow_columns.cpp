// SPDX-License-Identifier: Apache-2.0
#include "keys/arrow_columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "errors.hpp"
#include "keys/arrow_extensions.hpp"
#include "keys/arrow_types.hpp"

namespace scbf::python {

std::string printable(std::string_view text) {
  std::string shown(text);
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
  }
  return shown;
}

[[noreturn]] void broken(std::string_view what) {
  throw InvalidArgument(
      fmt::format("the Arrow array does not follow the C data interface: {}", what));
}

namespace {

// ---- types --------------------------------------------------------------------------------------

/// How the values of an Arrow type lie in memory, as far as keys can be made of them.
enum class Values {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  wide,
  fixed,
  bytes32,
  bytes64,
  view,
  null
};

struct KeyType {
  Values values;
  std::size_t width = 0;  // fixed only
};

bool is_index(Values values) { return values <= Values::wide; }

KeyType key_type(std::string_view format) {
  if (format == "c") return {Values::int8};
  if (format == "C") return {Values::uint8};
  if (format == "s") return {Values::int16};
  if (format == "S") return {Values::uint16};
  if (format == "i") return {Values::int32};
  if (format == "I") return {Values::uint32};
  if (format == "l" || format == "L") return {Values::wide};
  if (format == "u" || format == "z") return {Values::bytes32};
  if (format == "U" || format == "Z") return {Values::bytes64};
  if (format == "vu" || format == "vz") return {Values::view};
  if (format == "n") return {Values::null};
  if (format.starts_with("w:")) {
    std::int32_t width = 0;
    const char* const end = format.data() + format.size();
    const auto [stop, error] = std::from_chars(format.data() + 2, end, width);
    if (error != std::errc() || stop != end || width < 0) {
      broken(fmt::format("format '{}', whose width is not a number from 0 to {}", printable(format),
                         std::numeric_limits<std::int32_t>::max()));
    }
    if (width > 0) return {Values::fixed, static_cast<std::size_t>(width)};
    throw InvalidKey(
        "an Arrow column of byte strings of width 0 cannot be keys: there is nothing in them");
  }
  throw InvalidKey(refusal_of_format(format));
}

// ---- columns ------------------------------------------------------------------------------------

/// The parts of an array that a column reads. A struct's column has the offset of the struct, too.
struct ArrayView {
  const ArrowArray* array;
  std::size_t first;  // of the values, in all buffers
  std::size_t size;

  template <class T>
  const T* buffer(std::int64_t i) const {
    return i < array->n_buffers ? static_cast<const T*>(array->buffers[i]) : nullptr;
  }
  /// The same, where there must be one.
  template <class T>
  const T* values(std::int64_t i) const {
    const T* found = buffer<T>(i);
    if (!found) broken(fmt::format("buffer {} of {} values is missing", i, size));
    return found + first;
  }
  /// The validity bitmap, from the buffer's beginning; null if no value is null.
  const std::byte* bitmap() const {
    return array->null_count == 0 ? nullptr : buffer<std::byte>(0);
  }
  bool valid(std::size_t i) const {
    const std::byte* bits = bitmap();
    const std::size_t bit = first + i;
    return !bits || ((static_cast<unsigned>(bits[bit / 8]) >> (bit % 8)) & 1u);
  }
  KeyBatch with_nulls(const KeyBatch& keys) const {
    const std::byte* bits = bitmap();
    return bits && size > 0 ? keys.with_validity({bits, (first + size + 7) / 8}, first) : keys;
  }
  ArrayView part(std::size_t from, std::size_t count) const { return {array, first + from, count}; }
};

template <class T>
KeyBatch numbers(const ArrayView& view) {
  return KeyBatch(std::span<const T>(view.values<T>(1), view.size));
}

template <class Offset>
KeyBatch strings(const ArrayView& view) {
  const std::span<const Offset> offsets(view.values<Offset>(1), view.size + 1);
  const auto* data = view.buffer<std::byte>(2);
  const Offset end = offsets.back();
  if (end < 0) broken(fmt::format("offset {} is {}", view.size, end));
  if (!data && end > 0) broken("the buffer of the bytes is missing");
  return KeyBatch::from_offsets({data, static_cast<std::size_t>(end)}, offsets);
}

/// Values of 8 or 16 bits, widened some at a time.
template <class T, class Wide>
class NarrowColumn final : public Column {
 public:
  NarrowColumn(const ArrayView& view, Kept kept)
      : view_(view), values_(view.values<T>(1)), kept_(std::move(kept)) {}
  std::size_t size() const noexcept override { return view_.size; }
  KindsOfKeys kind() const noexcept override { return KindsOfKeys::numbers; }
  KeyBatch batch(std::size_t first, std::size_t count, std::uint64_t, Room& room) const override {
    room.narrow.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      room.narrow[i] = static_cast<std::uint32_t>(Wide{values_[first + i]});
    }
    const KeyBatch keys(std::span(reinterpret_cast<const Wide*>(room.narrow.data()), count));
    return view_.part(first, count).with_nulls(keys);
  }

 private:
  ArrayView view_;
  const T* values_;
  Kept kept_;
};

/// string_view and binary_view: 16 bytes for each value, which hold it or say where it lies.
class ViewColumn final : public Column {
 public:
  ViewColumn(const ArrayView& view, KindsOfKeys kind, Kept kept)
      : view_(view), kind_(kind), values_(view.values<Value>(1)), kept_(std::move(kept)) {
    // Two buffers come first, the sizes of the others last.
    others_ = view.array->n_buffers - 3;
    if (others_ < 0) broken("a column of views has fewer than three buffers");
    sizes_ = view.buffer<std::int64_t>(others_ + 2);
    if (others_ > 0 && !sizes_) broken("the sizes of the buffers of a column of views are missing");
  }
  std::size_t size() const noexcept override { return view_.size; }
  KindsOfKeys kind() const noexcept override { return kind_; }
  KeyBatch batch(std::size_t first, std::size_t count, std::uint64_t, Room& room) const override {
    room.views.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      // What a null's view says may be anything.
      room.views[i] = view_.valid(first + i) ? bytes(first + i) : std::string_view();
    }
    const KeyBatch keys(std::span<const std::string_view>(room.views));
    return view_.part(first, count).with_nulls(keys);
  }
  void check(std::size_t first, std::size_t count) const override {
    for (std::size_t i = first; i < first + count; ++i) {
      if (view_.valid(i)) bytes(i);
    }
  }

 private:
  struct Value {
    std::int32_t length;
    char start[4];  // of a short value, which goes on over the next two
    std::int32_t buffer, offset;
  };
  static constexpr std::int32_t kMostInline = 12;

  std::string_view bytes(std::size_t i) const {
    const Value& value = values_[i];
    if (value.length < 0) broken(fmt::format("value {} has length {}", i, value.length));
    const auto length = static_cast<std::size_t>(value.length);
    if (value.length <= kMostInline) return {reinterpret_cast<const char*>(&value) + 4, length};
    if (value.buffer < 0 || value.buffer >= others_ || value.offset < 0 ||
        std::int64_t{value.offset} + value.length > sizes_[value.buffer]) {
      broken(fmt::format("value {} lies outside its buffer", i));
    }
    const char* const data = view_.buffer<char>(2 + value.buffer);
    if (!data) broken(fmt::format("value {} lies in a buffer that is missing", i));
    return {data + value.offset, length};
  }

  ArrayView view_;
  KindsOfKeys kind_;
  const Value* values_;
  const std::int64_t* sizes_;
  std::int64_t others_;
  Kept kept_;
};

/// Values that are all null.
class NullColumn final : public Column {
 public:
  explicit NullColumn(std::size_t size) : size_(size) {}
  std::size_t size() const noexcept override { return size_; }
  KindsOfKeys kind() const noexcept override { return KindsOfKeys::none; }
  KeyBatch batch(std::size_t, std::size_t count, std::uint64_t, Room& room) const override {
    room.values.assign(count, 0);
    room.validity.assign((count + 7) / 8, std::byte{0});
    const KeyBatch keys(std::span<const std::uint64_t>(room.values));
    return count > 0 ? keys.with_validity(room.validity) : keys;
  }

 private:
  std::size_t size_;
};

/// Indices into distinct values, which are hashed once each.
class DictionaryColumn final : public Column {
 public:
  DictionaryColumn(const ArrayView& view, Values indices, std::unique_ptr<Column> values, Kept kept)
      : view_(view), indices_(indices), values_(std::move(values)), kept_(std::move(kept)) {
    if (view.size > 0) view.values<std::byte>(1);
  }
  std::size_t size() const noexcept override { return view_.size; }
  KindsOfKeys kind() const noexcept override { return values_->kind(); }
  KeyBatch batch(std::size_t first, std::size_t count, std::uint64_t seed,
                 Room& room) const override {
    const Hashes& hashes = hashes_for(seed);
    room.values.resize(count);
    room.validity.assign((count + 7) / 8, std::byte{0});
    for (std::size_t i = 0; i < count; ++i) {
      if (!view_.valid(first + i)) continue;
      const std::uint64_t index = checked_index(first + i);
      if (!hashes.valid[index]) continue;
      room.values[i] = hashes.of[index];
      room.validity[i / 8] |= std::byte(1u << (i % 8));
    }
    const KeyBatch keys = KeyBatch::from_hashes(room.values);
    return count > 0 ? keys.with_validity(room.validity) : keys;
  }
  void check(std::size_t first, std::size_t count) const override {
    for (std::size_t i = first; i < first + count; ++i) {
      if (view_.valid(i)) checked_index(i);
    }
    if (first == 0) values_->check(0, values_->size());
  }

 private:
  struct Hashes {
    std::uint64_t seed;
    std::vector<std::uint64_t> of;
    std::vector<bool> valid;
  };

  /// The hashes of all values; those for the last seed are kept. One thread at a time reads a
  /// column.
  const Hashes& hashes_for(std::uint64_t seed) const {
    if (hashes_ && hashes_->seed == seed) return *hashes_;
    Hashes made{seed, std::vector<std::uint64_t>(values_->size()),
                std::vector<bool>(values_->size())};
    Room room;
    for (std::size_t first = 0; first < values_->size();) {
      const std::size_t count = std::min(values_->size() - first, kConverted);
      for_each_hash(values_->batch(first, count, seed, room), seed,
                    [&](std::size_t i, std::uint64_t hash) {
                      made.of[first + i] = hash;
                      made.valid[first + i] = true;
                    });
      first += count;
    }
    hashes_ = std::move(made);
    return *hashes_;
  }

  std::uint64_t checked_index(std::size_t i) const {
    const std::uint64_t index = index_of(i);
    if (index >= values_->size()) {
      broken(fmt::format("index {} is {}, and the dictionary has {} values", i,
                         static_cast<std::int64_t>(index), values_->size()));
    }
    return index;
  }
  std::uint64_t index_of(std::size_t i) const {
    const auto at = [&]<class T>(const T*) {
      return static_cast<std::uint64_t>(view_.buffer<T>(1)[view_.first + i]);
    };
    switch (indices_) {
      case Values::int8:
        return at(static_cast<const std::int8_t*>(nullptr));
      case Values::uint8:
        return at(static_cast<const std::uint8_t*>(nullptr));
      case Values::int16:
        return at(static_cast<const std::int16_t*>(nullptr));
      case Values::uint16:
        return at(static_cast<const std::uint16_t*>(nullptr));
      case Values::int32:
        return at(static_cast<const std::int32_t*>(nullptr));
      case Values::uint32:
        return at(static_cast<const std::uint32_t*>(nullptr));
      default:
        return at(static_cast<const std::uint64_t*>(nullptr));
    }
  }

  ArrayView view_;
  Values indices_;
  std::unique_ptr<Column> values_;
  Kept kept_;
  mutable std::optional<Hashes> hashes_;
};

/// The values of an array from `first` on, `size` of them if that is given. Throws InvalidArgument
/// unless it has them.
ArrayView view_of(const ArrowArray& array, std::size_t first = 0,
                  std::optional<std::size_t> size = {}) {
  if (array.length < 0 || array.offset < 0 || array.n_buffers < 0) {
    broken(fmt::format("its length is {}, its offset {}, and it has {} buffers", array.length,
                       array.offset, array.n_buffers));
  }
  if (array.n_buffers > 0 && !array.buffers) broken("its buffers are missing");
  const auto length = static_cast<std::size_t>(array.length),
             offset = static_cast<std::size_t>(array.offset);
  if (size && (first > length || *size > length - first)) {
    broken(fmt::format("a child has {} values, and its parent has them from {} to {}", length,
                       first, first + *size));
  }
  return {&array, offset + first, size.value_or(length)};
}

/// Throws InvalidArgument if the array shows that it is of another type: some producers hand over
/// batches that do not have their stream's schema.
void check_parts(const ArrowSchema& schema, Values values, const ArrowArray& array) {
  if (values == Values::null) return;  // nothing of the array is read
  const std::int64_t buffers = values == Values::bytes32 || values == Values::bytes64 ? 3 : 2;
  // Columns of views have more, and check that themselves.
  if (values != Values::view && array.n_buffers != buffers) {
    broken(
        fmt::format("format '{}' has {} buffers, and this array {} (is it of the schema of its "
                    "stream?)",
                    printable(schema.format), buffers, array.n_buffers));
  }
  if (array.n_children != 0 || (array.dictionary && !schema.dictionary)) {
    broken(
        fmt::format("format '{}' has neither children nor a dictionary, and this array has {} "
                    "(is it of the schema of its stream?)",
                    printable(schema.format), array.n_children != 0 ? "children" : "a dictionary"));
  }
}

std::unique_ptr<Column> column_of(const ArrowSchema& schema, const ArrayView& view, Kept kept) {
  const KeyType type = key_type(schema.format);
  if (view.size > 0) check_parts(schema, type.values, *view.array);
  if (schema.dictionary) {
    if (!view.array->dictionary) broken("the dictionary of the values is missing");
    const ArrayView values = view_of(*view.array->dictionary);
    return std::make_unique<DictionaryColumn>(view, type.values,
                                              column_of(*schema.dictionary, values, kept), kept);
  }
  if (view.size == 0 || type.values == Values::null) return std::make_unique<NullColumn>(view.size);
  const std::string_view format = schema.format;
  const bool is_text = format == "u" || format == "U" || format == "vu";
  const KindsOfKeys of_bytes = is_text ? KindsOfKeys::text : KindsOfKeys::bytes;
  const auto plain = [&](const KeyBatch& keys, KindsOfKeys kind) {
    return plain_column(view.with_nulls(keys), kind, {}, kept);
  };
  switch (type.values) {
    case Values::int8:
      return std::make_unique<NarrowColumn<std::int8_t, std::int32_t>>(view, kept);
    case Values::uint8:
      return std::make_unique<NarrowColumn<std::uint8_t, std::uint32_t>>(view, kept);
    case Values::int16:
      return std::make_unique<NarrowColumn<std::int16_t, std::int32_t>>(view, kept);
    case Values::uint16:
      return std::make_unique<NarrowColumn<std::uint16_t, std::uint32_t>>(view, kept);
    case Values::int32:
      return plain(numbers<std::int32_t>(view), KindsOfKeys::numbers);
    case Values::uint32:
      return plain(numbers<std::uint32_t>(view), KindsOfKeys::numbers);
    case Values::wide:
      return plain(numbers<std::uint64_t>(view), KindsOfKeys::numbers);
    case Values::bytes32:
      return plain(strings<std::int32_t>(view), of_bytes);
    case Values::bytes64:
      return plain(strings<std::int64_t>(view), of_bytes);
    case Values::view:
      return std::make_unique<ViewColumn>(view, of_bytes, kept);
    case Values::fixed: {
      const auto* bytes = view.buffer<std::byte>(1);
      if (!bytes) broken("the buffer of the bytes is missing");
      if (view.first + view.size > std::numeric_limits<std::ptrdiff_t>::max() / type.width) {
        broken(fmt::format("{} values of {} bytes", view.first + view.size, type.width));
      }
      return plain(KeyBatch::from_fixed({bytes + view.first * type.width, view.size * type.width},
                                        type.width),
                   KindsOfKeys::bytes);
    }
    case Values::null:
      break;
  }
  return std::make_unique<NullColumn>(view.size);
}

/// Can the values be keys?
void check_format(const ArrowSchema& schema) {
  if (!schema.format) broken("its schema has no format");
  check_extension(schema);
  if (schema.dictionary && !is_index(key_type(schema.format).values)) {
    broken(fmt::format("format '{}' for the indices of a dictionary", printable(schema.format)));
  }
  if (schema.dictionary) return check_format(*schema.dictionary);
  key_type(schema.format);
}

}  // namespace

void check_schema(const ArrowSchema& schema) {
  if (!schema.release) broken("its schema is released");
  if (!schema.format) broken("its schema has no format");
  if (std::string_view(schema.format) != "+s") return check_format(schema);
  check_extension(schema);
  if (schema.n_children != 1) {
    std::string names;
    for (std::int64_t i = 0; i < schema.n_children && schema.children && schema.children[i]; ++i) {
      const char* name = schema.children[i]->name;
      names += fmt::format("{}{}", i > 0 ? ", " : "", name ? printable(name) : "?");
    }
    throw InvalidKey(fmt::format("keys are one column, and this has {} ({}): choose one",
                                 schema.n_children, names));
  }
  if (!schema.children || !schema.children[0]) broken("the schema of its column is missing");
  check_format(*schema.children[0]);
}

std::unique_ptr<Column> part_of(const ArrowSchema& schema, const ArrowArray& array,
                                std::size_t first, std::optional<std::size_t> size,
                                const Kept& kept) {
  return column_of(schema, view_of(array, first, size), kept);
}

bool is_valid(const ArrowArray& array, std::size_t i) { return view_of(array).valid(i); }

std::unique_ptr<Column> column_of(const ArrowSchema& schema, Released<ArrowArray> array) {
  const auto kept = std::make_shared<Released<ArrowArray>>(std::move(array));
  const ArrayView view = view_of(**kept);
  if (std::string_view(schema.format) != "+s") return column_of(schema, view, kept);
  for (std::size_t i = 0; i < view.size; ++i) {
    if (!view.valid(i)) {
      throw InvalidKey(
          fmt::format("row {} of the struct is null as a whole: take the column out of it", i));
    }
    if (!view.bitmap()) break;
  }
  if (view.array->n_children != 1 || !view.array->children || !view.array->children[0]) {
    broken("it has other columns than its schema");
  }
  return column_of(*schema.children[0], view_of(*view.array->children[0], view.first, view.size),
                   kept);
}

}  // namespace scbf::python
