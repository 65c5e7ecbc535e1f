// SPDX-License-Identifier: Apache-2.0
#include "keys/buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "errors.hpp"

namespace scbf::python {
namespace {

/// A buffer's format (the struct module's): what its items are, and whether their bytes are in this
/// machine's order.
struct Format {
  char code;
  bool swapped;
};

Format format_of(const Py_buffer& view) {
  std::string_view text = view.format ? view.format : "B";
  bool swapped = false;
  if (!text.empty() && std::string_view("<>=@!^").find(text.front()) != std::string_view::npos) {
    const bool big = text.front() == '>' || text.front() == '!';
    const bool little = text.front() == '<';
    swapped = std::endian::native == std::endian::little ? big : little;
    text.remove_prefix(1);
  }
  if (text.starts_with('Z')) return {'Z', false};  // complex
  const std::size_t code = text.find_first_not_of("0123456789");
  if (code == std::string_view::npos || code + 1 != text.size()) return {'T', false};  // a struct
  return {text[code], swapped};
}

[[noreturn]] void refuse(const Py_buffer& view, char code) {
  struct Entry {
    char code;
    const char *what, *advice;
  };
  static constexpr Entry kEntries[] = {
      {'?', "bool", "true and false are no keys; was a mask given for the column?"},
      {'e', "float16",
       "round floating-point numbers to integers, or take their bytes by view('V2')"},
      {'f', "float32",
       "round floating-point numbers to integers, or take their bytes by view('V4')"},
      {'d', "float64",
       "round floating-point numbers to integers, or take their bytes by view('V8')"},
      {'g', "longdouble", "round floating-point numbers to integers"},
      {'Z', "complex numbers", "take their bytes by view('V16')"},
      {'T', "records", "choose one of their fields"},
  };
  for (const Entry& entry : kEntries) {
    if (entry.code == code) {
      throw InvalidKey(fmt::format("an array of {} cannot be keys: {}", entry.what, entry.advice));
    }
  }
  throw InvalidKey(
      fmt::format("an array of format '{}' cannot be keys: use integers, str, bytes, or bytes of "
                  "one width (dtype 'V16')",
                  view.format ? view.format : "B"));
}

/// Where the items of a buffer lie.
class Items {
 public:
  explicit Items(std::unique_ptr<Buffer> buffer) : buffer_(std::move(buffer)) {
    const Buffer& view = *buffer_;
    size_ = static_cast<std::size_t>(view->shape[0]);
    width_ = static_cast<std::size_t>(view->itemsize);
    step_ = view->strides ? view->strides[0] : view->itemsize;
  }
  std::size_t size() const noexcept { return size_; }
  std::size_t width() const noexcept { return width_; }
  const char* item(std::size_t i) const noexcept {
    return buffer_->data() + static_cast<std::ptrdiff_t>(i) * step_;
  }
  /// The memory that they lie in.
  std::span<const std::byte> memory() const noexcept {
    if (size_ == 0) return {};
    const char *const first = item(0), *const last = item(size_ - 1);
    return {reinterpret_cast<const std::byte*>(std::min(first, last)),
            static_cast<std::size_t>(std::abs(last - first)) + width_};
  }
  /// Do the items lie one after another, at addresses of this alignment?
  bool contiguous(std::size_t alignment = 1) const noexcept {
    return (size_ <= 1 || step_ == static_cast<std::ptrdiff_t>(width_)) &&
           reinterpret_cast<std::uintptr_t>(buffer_->data()) % alignment == 0;
  }
  std::unique_ptr<Buffer> release() && { return std::move(buffer_); }

 private:
  std::unique_ptr<Buffer> buffer_;
  std::size_t size_, width_;
  std::ptrdiff_t step_;
};

template <class T>
T load(const char* at, bool swapped) noexcept {
  std::array<unsigned char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), at, sizeof(T));
  if (swapped) std::ranges::reverse(bytes);
  return std::bit_cast<T>(bytes);
}

/// Integers that are narrow, apart, unaligned or of the other byte order.
template <std::integral T>
class IntegerColumn final : public Column {
 public:
  IntegerColumn(Items items, bool swapped) : items_(std::move(items)), swapped_(swapped) {}
  std::size_t size() const noexcept override { return items_.size(); }
  KindsOfKeys kind() const noexcept override { return KindsOfKeys::numbers; }
  KeyBatch batch(std::size_t first, std::size_t count, std::uint64_t, Room& room) const override {
    using Wide = std::conditional_t<std::signed_integral<T>, std::int64_t, std::uint64_t>;
    room.values.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      room.values[i] = static_cast<std::uint64_t>(Wide{load<T>(items_.item(first + i), swapped_)});
    }
    return std::span<const std::uint64_t>(room.values);
  }
  bool overlaps(std::span<const std::byte> memory) const noexcept override {
    return share_bytes(items_.memory(), memory);
  }

 private:
  Items items_;
  bool swapped_;
};

template <std::integral T>
std::unique_ptr<Column> integers(Items items, bool swapped) {
  if constexpr (sizeof(T) >= 4) {
    if (!swapped && items.contiguous(alignof(T))) {
      const KeyBatch keys(std::span(reinterpret_cast<const T*>(items.item(0)), items.size()));
      const auto memory = items.memory();
      return plain_column(keys, KindsOfKeys::numbers, memory, std::move(items).release());
    }
  }
  return std::make_unique<IntegerColumn<T>>(std::move(items), swapped);
}

std::unique_ptr<Column> integers(Items items, bool is_signed, bool swapped) {
  switch (items.width()) {
    case 1:
      return is_signed ? integers<std::int8_t>(std::move(items), false)
                       : integers<std::uint8_t>(std::move(items), false);
    case 2:
      return is_signed ? integers<std::int16_t>(std::move(items), swapped)
                       : integers<std::uint16_t>(std::move(items), swapped);
    case 4:
      return is_signed ? integers<std::int32_t>(std::move(items), swapped)
                       : integers<std::uint32_t>(std::move(items), swapped);
    default:
      return is_signed ? integers<std::int64_t>(std::move(items), swapped)
                       : integers<std::uint64_t>(std::move(items), swapped);
  }
}

/// Byte strings, padded with zeros that do not belong to them.
class PaddedColumn final : public Column {
 public:
  explicit PaddedColumn(Items items) : items_(std::move(items)) {}
  std::size_t size() const noexcept override { return items_.size(); }
  KindsOfKeys kind() const noexcept override { return KindsOfKeys::bytes; }
  KeyBatch batch(std::size_t first, std::size_t count, std::uint64_t, Room& room) const override {
    room.views.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const char* item = items_.item(first + i);
      std::size_t length = items_.width();
      while (length > 0 && item[length - 1] == 0) --length;
      room.views[i] = {item, length};
    }
    return std::span<const std::string_view>(room.views);
  }
  bool overlaps(std::span<const std::byte> memory) const noexcept override {
    return share_bytes(items_.memory(), memory);
  }

 private:
  Items items_;
};

/// Bytes of one width, which lie apart.
class ApartColumn final : public Column {
 public:
  explicit ApartColumn(Items items) : items_(std::move(items)) {}
  std::size_t size() const noexcept override { return items_.size(); }
  KindsOfKeys kind() const noexcept override { return KindsOfKeys::bytes; }
  KeyBatch batch(std::size_t first, std::size_t count, std::uint64_t, Room& room) const override {
    room.views.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      room.views[i] = {items_.item(first + i), items_.width()};
    return std::span<const std::string_view>(room.views);
  }
  bool overlaps(std::span<const std::byte> memory) const noexcept override {
    return share_bytes(items_.memory(), memory);
  }

 private:
  Items items_;
};

/// Text of one width, four bytes for each character: becomes UTF-8.
class TextColumn final : public Column {
 public:
  TextColumn(Items items, bool swapped) : items_(std::move(items)), swapped_(swapped) {}
  std::size_t size() const noexcept override { return items_.size(); }
  KindsOfKeys kind() const noexcept override { return KindsOfKeys::text; }
  KeyBatch batch(std::size_t first, std::size_t count, std::uint64_t, Room& room) const override {
    room.offsets.assign(1, 0);
    std::size_t end = 0;
    for (std::size_t i = first; i < first + count; ++i) {
      end = append(i, room.text, end);
      room.offsets.push_back(static_cast<std::int64_t>(end));
    }
    return KeyBatch::from_offsets(std::as_bytes(std::span(room.text)).first(end), room.offsets);
  }
  void check(std::size_t first, std::size_t count) const override {
    for (std::size_t i = first; i < first + count; ++i) {
      const char* const item = items_.item(i);
      std::size_t j = 0;
      while (j + kBlock <= letters() && bits_of(block_at(item, j)) < kFirstNone) j += kBlock;
      for (; j < letters(); ++j) {
        if (const std::uint32_t c = letter(item, j); is_no_character(c)) refuse(i, c);
      }
    }
  }
  bool overlaps(std::span<const std::byte> memory) const noexcept override {
    return share_bytes(items_.memory(), memory);
  }

 private:
  // Most text is ASCII, or begins so: as long as it is, letters are taken in blocks of this
  // constant size, in vectors.
  static constexpr std::size_t kBlock = 8;
  using Block = std::array<std::uint32_t, kBlock>;
  static constexpr std::uint32_t kFirstNone = 0xD800;  // below it, all are characters

  std::size_t letters() const noexcept { return items_.width() / 4; }
  std::uint32_t letter(const char* item, std::size_t j) const noexcept {
    return load<std::uint32_t>(item + 4 * j, swapped_);
  }
  static Block block_at(const char* item, std::size_t j) noexcept {
    Block block;
    std::memcpy(block.data(), item + 4 * j, sizeof block);
    return block;
  }
  /// All bits that any letter of this block has.
  std::uint32_t bits_of(const Block& block) const noexcept {
    std::uint32_t bits = 0;
    for (const std::uint32_t c : block) bits |= c;
    return load<std::uint32_t>(reinterpret_cast<const char*>(&bits), swapped_);
  }
  static bool is_no_character(std::uint32_t c) noexcept {
    return (c >= kFirstNone && c < 0xE000) || c > 0x10FFFF;
  }
  /// Writes an item into text[begin …], which is made larger if need be. Returns where it ends.
  std::size_t append(std::size_t i, std::vector<char>& text, std::size_t begin) const {
    constexpr std::size_t kMostBytes = 4;
    const char* const item = items_.item(i);
    std::size_t length = letters();
    while (length >= kBlock && bits_of(block_at(item, length - kBlock)) == 0) length -= kBlock;
    while (length > 0 && letter(item, length - 1) == 0) --length;
    const std::size_t most = begin + kMostBytes * length;
    if (most > text.size()) text.resize(std::max(most, 2 * text.size()));
    char* out = text.data() + begin;
    std::size_t j = 0;
    for (; !swapped_ && j + kBlock <= length; j += kBlock) {
      const Block block = block_at(item, j);
      if (bits_of(block) >= 0x80) break;
      std::array<char, kBlock> narrow;
      for (std::size_t k = 0; k < kBlock; ++k) narrow[k] = static_cast<char>(block[k]);
      std::memcpy(out, narrow.data(), kBlock);
      out += kBlock;
    }
    for (; j < length; ++j) {
      const std::uint32_t c = letter(item, j);
      const auto put = [&](std::uint32_t byte) { *out++ = static_cast<char>(byte); };
      const auto tail = [&](unsigned shift) { put(0x80 | ((c >> shift) & 0x3F)); };
      if (c < 0x80) {
        put(c);
      } else if (c < 0x800) {
        put(0xC0 | (c >> 6));
        tail(0);
      } else if (c < 0x10000) {
        if (is_no_character(c)) refuse(i, c);
        put(0xE0 | (c >> 12));
        tail(6), tail(0);
      } else {
        if (is_no_character(c)) refuse(i, c);
        put(0xF0 | (c >> 18));
        tail(12), tail(6), tail(0);
      }
    }
    return static_cast<std::size_t>(out - text.data());
  }
  [[noreturn]] static void refuse(std::size_t i, std::uint32_t c) {
    throw InvalidKey(
        fmt::format("key {} has the character U+{:04X}, which UTF-8 cannot hold", i, c));
  }

  Items items_;
  bool swapped_;
};

/// For float64: throws InvalidKey, saying how they become integers, if all are whole or NaN.
void refuse_if_whole(const Items& items, bool swapped) {
  constexpr double kMostExact = 9007199254740992;  // 2^53: beyond, integers have lost digits
  bool has_nan = false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const double value = load<double>(items.item(i), swapped);
    has_nan |= std::isnan(value);
    if (!std::isnan(value) && (value != std::trunc(value) || std::abs(value) > kMostExact)) return;
  }
  throw InvalidKey(
      has_nan ? "an array of float64 cannot be keys. This one holds only whole numbers and NaN: "
                "make them integers, in pandas by astype('Int64'), which keeps missing values, in "
                "NumPy by astype('int64') without the NaN"
              : "an array of float64 cannot be keys. This one holds only whole numbers: make them "
                "integers by astype('int64')");
}

}  // namespace

std::unique_ptr<Column> buffer_column(std::unique_ptr<Buffer> buffer) {
  const Py_buffer& view = *buffer->operator->();
  const Format format = format_of(view);
  if (format.code == 'O') return nullptr;
  if (view.ndim != 1) {
    throw InvalidKey(
        fmt::format("keys are a column, and this array has {} dimensions: {}", view.ndim,
                    view.ndim == 0 ? "use its item()" : "flatten it, for example by ravel()"));
  }
  if (view.shape[0] == 0) {  // whose type says little: numpy.array([]) is of float64
    return plain_column(KeyBatch(std::span<const std::uint64_t>()), KindsOfKeys::none, {},
                        std::move(buffer));
  }
  const std::string_view is_signed = "bhilqn", is_unsigned = "BHILQN";
  const bool known = is_signed.find(format.code) != std::string_view::npos ||
                     is_unsigned.find(format.code) != std::string_view::npos;
  const bool whole =
      view.itemsize == 1 || view.itemsize == 2 || view.itemsize == 4 || view.itemsize == 8;
  if (known && whole) {
    return integers(Items(std::move(buffer)), is_signed.find(format.code) != std::string_view::npos,
                    format.swapped);
  }
  if (format.code == 's') return std::make_unique<PaddedColumn>(Items(std::move(buffer)));
  if (format.code == 'w') {
    return std::make_unique<TextColumn>(Items(std::move(buffer)), format.swapped);
  }
  if (format.code == 'x' && view.itemsize > 0) {
    Items items(std::move(buffer));
    if (!items.contiguous()) return std::make_unique<ApartColumn>(std::move(items));
    const std::span data(reinterpret_cast<const std::byte*>(items.item(0)),
                         items.size() * items.width());
    const KeyBatch keys = KeyBatch::from_fixed(data, items.width());
    return plain_column(keys, KindsOfKeys::bytes, data, std::move(items).release());
  }
  const Items items(std::move(buffer));
  if (format.code == 'd' && items.width() == sizeof(double)) refuse_if_whole(items, format.swapped);
  refuse(view, format.code);
}

}  // namespace scbf::python
