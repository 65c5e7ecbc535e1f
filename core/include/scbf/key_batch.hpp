// SPDX-License-Identifier: Apache-2.0
// A column of keys, as a view: their kind and where they lie. It owns nothing; the memory must
// outlive the call it is passed to. detail/hash.hpp turns keys into hashes.
#pragma once

#include "scbf/detail/language.hpp"  // first

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "scbf/detail/not_a_key.hpp"

namespace scbf {

namespace detail {

template <class T>
inline constexpr bool kIsCharacter = std::is_same_v<T, wchar_t> || std::is_same_v<T, char32_t>;

/// The key type of elements of type T. Integers take the fixed-width type of their size, because
/// long and long long are two types of 64 bits.
template <class T>
struct KeyElement {
  static constexpr bool kInteger =
      std::is_integral_v<T> && !kIsCharacter<T> &&
      (sizeof(T) == sizeof(std::uint32_t) || sizeof(T) == sizeof(std::uint64_t));
  static_assert(!std::is_floating_point_v<T>,
                "float and double cannot be keys: numbers that print alike may differ in their "
                "bits, 0.0 == -0.0 do, and NaN != NaN. Round them to integers, or take their bytes "
                "by KeyBatch::from_fixed");
  static_assert(std::is_floating_point_v<T> || kInteger || std::is_same_v<T, std::string> ||
                    std::is_same_v<T, std::string_view>,
                "keys are integers of 32 or 64 bits, std::string or std::string_view; widen other "
                "integers, and take bytes by KeyBatch::from_fixed or from_offsets");
  using Signed = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  using Unsigned = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  using Type =
      std::conditional_t<kInteger, std::conditional_t<std::is_signed_v<T>, Signed, Unsigned>, T>;

  static std::span<const Type> keys(std::span<const T> elements) noexcept {
    return {reinterpret_cast<const Type*>(elements.data()), elements.size()};
  }
};

}  // namespace detail

/// A batch of keys of one kind, optionally with a validity bitmap (Arrow's layout: bit i of byte
/// i/8, least significant first, 1 = valid). Null keys are neither inserted nor found; operations
/// report how many there were.
///
/// Equal bytes are equal keys whatever the kind. An integer's bytes are the 8 of its 64-bit two's
/// complement, least significant first, so the same number is the same key whether it comes as
/// int32_t, uint32_t, int64_t or uint64_t. (-1 and 2^64 - 1 have the same bits: they are one key.)
class KeyBatch {
 public:
  enum class Kind : std::uint8_t {
    u64,      ///< 64-bit integers, signed ones as their two's complement
    u32,      ///< unsigned 32-bit integers, widened as they are hashed
    i32,      ///< signed 32-bit integers, likewise
    hashes,   ///< ready-made, uniformly distributed 64-bit hashes; the seed is not applied
    fixed,    ///< byte strings of one width
    bytes32,  ///< byte strings by 32-bit offsets (Arrow binary/utf8)
    bytes64,  ///< byte strings by 64-bit offsets (Arrow large_binary/large_utf8)
    views,    ///< std::string_view
    strings,  ///< std::string
  };

  /// Integer keys. All these are implicit, so that spans and vectors can be passed as they are.
  KeyBatch(std::span<const std::uint64_t> keys) noexcept;
  KeyBatch(std::span<const std::int64_t> keys) noexcept;
  KeyBatch(std::span<const std::uint32_t> keys) noexcept;
  KeyBatch(std::span<const std::int32_t> keys) noexcept;
  /// String keys.
  KeyBatch(std::span<const std::string_view> keys) noexcept;
  KeyBatch(std::span<const std::string> keys) noexcept;
  /// Vectors and arrays of these types, and spans that are not const or have a fixed extent; also
  /// of other integers of 32 or 64 bits, such as long long. (The library, which is compiled
  /// separately, reads these as fixed-width types of their size. If it is optimized together with
  /// the caller, use those.) Other types do not compile, floating-point numbers among them.
  template <class T, class Allocator>
  KeyBatch(const std::vector<T, Allocator>& keys) noexcept
      : KeyBatch(detail::KeyElement<T>::keys(keys)) {}
  template <class T, std::size_t size>
  KeyBatch(const std::array<T, size>& keys) noexcept
      : KeyBatch(detail::KeyElement<T>::keys(keys)) {}
  template <class T, std::size_t extent>
  KeyBatch(std::span<T, extent> keys) noexcept
      : KeyBatch(detail::KeyElement<std::remove_cv_t<T>>::keys(keys)) {}

  /// Ready-made hashes, for example of a column that is hashed anyway. They must be uniform over
  /// all 64 bits, or the filter's rate suffers. Never mix them with other kinds in one filter,
  /// unless they are the XXH3-64 of the same bytes with the filter's seed.
  static KeyBatch from_hashes(std::span<const std::uint64_t> hashes) noexcept;
  /// `data.size() / width` keys of `width` bytes each, back to back.
  /// Throws InvalidArgument if width is 0 or does not divide data.size().
  static KeyBatch from_fixed(std::span<const std::byte> data, std::size_t width);
  /// Key i is data[offsets[i] … offsets[i+1]); offsets.size() is the number of keys + 1 (or 0 for
  /// none). Throws InvalidArgument, naming its index, if an offset is negative, smaller than the
  /// one before or larger than data.size(). Cost: one pass over the offsets.
  static KeyBatch from_offsets(std::span<const std::byte> data,
                               std::span<const std::int32_t> offsets);
  static KeyBatch from_offsets(std::span<const std::byte> data,
                               std::span<const std::int64_t> offsets);

  /// The same keys with a validity bitmap whose first bit is bit `bit_offset` of `bitmap`.
  /// Throws InvalidArgument if the bitmap has fewer than bit_offset + size() bits.
  KeyBatch with_validity(std::span<const std::byte> bitmap, std::size_t bit_offset = 0) const;

  /// Keys first … first + count − 1. Throws InvalidArgument past the end.
  KeyBatch slice(std::size_t first, std::size_t count) const;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  Kind kind() const noexcept { return kind_; }
  bool has_validity() const noexcept { return validity_ != nullptr; }
  bool valid(std::size_t i) const noexcept {
    if (!validity_) return true;
    const std::size_t bit = validity_offset_ + i;
    return (static_cast<unsigned>(validity_[bit / 8]) >> (bit % 8)) & 1u;
  }
  /// The bitmap, or null if there is none; validity_offset() is the index of key 0's bit in it.
  const std::byte* validity() const noexcept { return validity_; }
  std::size_t validity_offset() const noexcept { return validity_offset_; }
  /// Number of null keys. Cost: one pass over the bitmap.
  std::size_t nulls() const noexcept;

  /// The hashes of the valid keys, in order, as filters of this seed take them. Pass them to
  /// from_hashes to query several filters, or one again, without hashing the keys anew. Cost: one
  /// pass over the keys, on the calling thread.
  std::vector<std::uint64_t> hashes(std::uint64_t seed) const;
  /// The same into out[i] for key i, with 0 for null keys: answers stay in line with the batch if
  /// from_hashes(out) gets its validity, too. Throws InvalidArgument unless out.size() == size().
  void hashes(std::uint64_t seed, std::span<std::uint64_t> out) const;

  /// Kinds u64 and hashes: the values, in place.
  const std::uint64_t* values() const noexcept { return static_cast<const std::uint64_t*>(items_); }
  /// Is the batch of kind u64, hashes, u32 or i32? Then value(i) is value i, widened.
  bool has_values() const noexcept { return kind_ <= Kind::hashes; }
  std::uint64_t value(std::size_t i) const noexcept {
    switch (kind_) {
      case Kind::u32:
        return static_cast<const std::uint32_t*>(items_)[i];
      case Kind::i32:
        return static_cast<std::uint64_t>(
            std::int64_t{static_cast<const std::int32_t*>(items_)[i]});
      default: {
        using Value [[gnu::may_alias]] = std::uint64_t;  // long and long long are two types
        return static_cast<const Value*>(items_)[i];
      }
    }
  }
  /// All other kinds: returns use(bytes_of), where bytes_of(i) are the bytes of key i. So the kind
  /// is looked at once, and not for every key. Integers and hashes have no bytes here.
  template <class Use>
  decltype(auto) with_bytes(Use use) const {
    const auto between = [data = data_](const auto* offsets) {
      return [data, offsets](std::size_t i) {
        return std::string_view(data + offsets[i],
                                static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
      };
    };
    switch (kind_) {
      case Kind::fixed:
        return use([data = data_, width = width_](std::size_t i) {
          return std::string_view(data + i * width, width);
        });
      case Kind::bytes32:
        return use(between(static_cast<const std::int32_t*>(items_)));
      case Kind::bytes64:
        return use(between(static_cast<const std::int64_t*>(items_)));
      case Kind::views:
        return use([views = static_cast<const std::string_view*>(items_)](std::size_t i) {
          return views[i];
        });
      case Kind::strings:
        return use([strings = static_cast<const std::string*>(items_)](std::size_t i) {
          return std::string_view(strings[i]);
        });
      default:
        return use([](std::size_t) { return std::string_view(); });
    }
  }
  /// The bytes of one key.
  std::string_view bytes(std::size_t i) const noexcept {
    return with_bytes([i](auto bytes_of) { return bytes_of(i); });
  }

 private:
  KeyBatch(Kind kind, const void* items, const char* data, std::size_t width,
           std::size_t size) noexcept
      : kind_(kind), items_(items), data_(data), width_(width), size_(size) {}

  Kind kind_;
  const void* items_;  // values, offsets, views or strings, already at the first key
  const char* data_;   // bytes that offsets refer to, or the first fixed-width key
  std::size_t width_;  // fixed only
  std::size_t size_;
  const std::byte* validity_ = nullptr;
  std::size_t validity_offset_ = 0;
};

/// The hash of one key, as filters of this seed take it: the XXH3-64 of its bytes.
std::uint64_t hash_of(std::uint64_t key, std::uint64_t seed) noexcept;
std::uint64_t hash_of(std::string_view key, std::uint64_t seed) noexcept;
template <detail::NotAKey T>
std::uint64_t hash_of(T, std::uint64_t) = delete;
std::uint64_t hash_of(detail::Literals, std::uint64_t) = delete;

}  // namespace scbf
