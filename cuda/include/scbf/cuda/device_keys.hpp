// SPDX-License-Identifier: Apache-2.0
// A column of keys in device memory, as a view: the counterpart of scbf::KeyBatch. It owns nothing;
// the memory must stay unchanged until the work that uses it is done.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "scbf/detail/hash.hpp"
#include "scbf/key_batch.hpp"

namespace scbf::cuda {

/// Says which keys of a column are null: Arrow's bitmap in device memory, bit i of byte i/8, least
/// significant first, 1 = valid. Without a bitmap all keys are valid.
class Validity {
 public:
  Validity() noexcept = default;
  /// The first key's bit is bit `bit_offset` of `bitmap`.
  explicit Validity(const std::byte* bitmap, std::size_t bit_offset = 0) noexcept
      : bitmap_(bitmap), bit_offset_(bit_offset) {}

  /// Is there a bitmap?
  SCBF_INLINE explicit operator bool() const noexcept { return bitmap_ != nullptr; }
  SCBF_INLINE bool valid(std::size_t i) const noexcept {
    if (bitmap_ == nullptr) return true;
    const std::size_t bit = bit_offset_ + i;
    return (static_cast<unsigned>(bitmap_[bit / 8]) >> bit % 8 & 1u) != 0;
  }
  /// The same for a column that begins at key `first` of this one.
  Validity from(std::size_t first) const noexcept {
    Validity result = *this;
    if (bitmap_ != nullptr) result.bit_offset_ += first;
    return result;
  }

 private:
  const std::byte* bitmap_ = nullptr;
  std::size_t bit_offset_ = 0;
};

/// A batch of keys of one kind. All pointers are to memory that the device can read. Offsets are
/// not checked: they must ascend and stay inside the data, or the device reads outside it. Byte
/// strings are read in whole aligned words of eight bytes, so up to seven bytes beyond either end
/// are read.
class DeviceKeys {
 public:
  using Kind = KeyBatch::Kind;  ///< u64, hashes, fixed, bytes32 or bytes64

  /// 64-bit integer keys.
  DeviceKeys(const std::uint64_t* keys, std::size_t n) noexcept
      : DeviceKeys(Kind::u64, keys, nullptr, 0, n) {}
  /// From views: std::span, cuda::std::span and the like. Not from containers, whose memory is on
  /// the host; they are recognised by data(), which returns another type when they are const.
  template <class View>
  requires requires(const View& v, View& mutable_view) {
    { v.data() } -> std::convertible_to<const std::uint64_t*>;
    { mutable_view.data() } -> std::same_as<decltype(v.data())>;
    { v.size() } -> std::convertible_to<std::size_t>;
  }
  DeviceKeys(const View& keys) noexcept : DeviceKeys(keys.data(), keys.size()) {}
  /// From thrust::device_vector<std::uint64_t> and the like, which have size() and data().get().
  template <class Vector>
  requires requires(const Vector& v) {
    { v.data().get() } -> std::convertible_to<const std::uint64_t*>;
    { v.size() } -> std::convertible_to<std::size_t>;
  }
  DeviceKeys(const Vector& keys) noexcept : DeviceKeys(keys.data().get(), keys.size()) {}

  /// Ready-made hashes, see KeyBatch::from_hashes.
  static DeviceKeys from_hashes(const std::uint64_t* hashes, std::size_t n) noexcept {
    return {Kind::hashes, hashes, nullptr, 0, n};
  }
  /// n keys of `width` bytes each, back to back.
  static DeviceKeys from_fixed(const std::byte* data, std::size_t width, std::size_t n) noexcept {
    return {Kind::fixed, nullptr, data, width, n};
  }
  /// Key i is data[offsets[i] … offsets[i+1]); there are n + 1 offsets.
  static DeviceKeys from_offsets(const std::byte* data, const std::int32_t* offsets,
                                 std::size_t n) noexcept {
    return {Kind::bytes32, offsets, data, 0, n};
  }
  static DeviceKeys from_offsets(const std::byte* data, const std::int64_t* offsets,
                                 std::size_t n) noexcept {
    return {Kind::bytes64, offsets, data, 0, n};
  }
  /// The same keys, some of which are null.
  DeviceKeys with_validity(Validity validity) const noexcept {
    DeviceKeys result = *this;
    result.validity_ = validity;
    return result;
  }

  std::size_t size() const noexcept { return n_; }
  Kind kind() const noexcept { return kind_; }
  SCBF_INLINE const Validity& validity() const noexcept { return validity_; }

  /// The values, for kinds u64 and hashes only.
  const std::uint64_t* values() const noexcept { return static_cast<const std::uint64_t*>(items_); }

  struct Bytes {
    const std::byte* data;
    std::size_t length;
  };
  /// The bytes of key i, for the other kinds only.
  SCBF_INLINE Bytes bytes(std::size_t i) const noexcept {
    if (kind_ == Kind::fixed) return {data_ + i * width_, width_};
    if (kind_ == Kind::bytes32) return between(static_cast<const std::int32_t*>(items_), i);
    return between(static_cast<const std::int64_t*>(items_), i);
  }

 private:
  DeviceKeys(Kind kind, const void* items, const std::byte* data, std::size_t width,
             std::size_t n) noexcept
      : kind_(kind), items_(items), data_(data), width_(width), n_(n) {}

  template <class Offset>
  SCBF_INLINE Bytes between(const Offset* offsets, std::size_t i) const noexcept {
    return {data_ + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i])};
  }

  Kind kind_;
  const void* items_;  // values or offsets
  const std::byte* data_;
  std::size_t width_;  // fixed only
  std::size_t n_;
  Validity validity_;
};

}  // namespace scbf::cuda
