// SPDX-License-Identifier: Apache-2.0
#include "scbf/key_batch.hpp"

#include <fmt/format.h>

#include <bit>
#include <type_traits>

#include "kit/counted.hpp"
#include "kit/hash_keys.hpp"
#include "kit/known_backends.hpp"
#include "kit/row_kernels.hpp"
#include "scbf/backend.hpp"
#include "scbf/detail/hash.hpp"
#include "scbf/errors.hpp"

namespace scbf {

namespace {

template <class Offset>
void check_offsets(std::span<const std::byte> data, std::span<const Offset> offsets) {
  if (offsets.empty()) return;
  if (offsets.front() < 0) {
    throw InvalidArgument(fmt::format("offset 0 is {}: must not be negative", offsets.front()));
  }
  // Only sign bits, so that compilers vectorise; the wrong offset is looked for only if there is
  // one. The first negative offset is less than the one before.
  using Bits = std::make_unsigned_t<Offset>;
  Bits negative = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    const auto before = static_cast<Bits>(offsets[i - 1]), here = static_cast<Bits>(offsets[i]);
    negative |= here | static_cast<Bits>(here - before);
  }
  if (static_cast<Offset>(negative) < 0) {
    std::size_t i = 1;
    while (offsets[i - 1] <= offsets[i]) ++i;
    throw InvalidArgument(fmt::format("offset {} is {}: must be at least offset {}, {}", i,
                                      offsets[i], i - 1, offsets[i - 1]));
  }
  if (static_cast<std::uint64_t>(offsets.back()) > data.size()) {
    throw InvalidArgument(fmt::format("last offset is {}: the data has only {}", offsets.back(),
                                      counted(data.size(), "byte")));
  }
}

const char* chars(std::span<const std::byte> data) noexcept {
  return reinterpret_cast<const char*>(data.data());
}

}  // namespace

KeyBatch::KeyBatch(std::span<const std::uint64_t> keys) noexcept
    : KeyBatch(Kind::u64, keys.data(), nullptr, 0, keys.size()) {}
KeyBatch::KeyBatch(std::span<const std::int64_t> keys) noexcept
    : KeyBatch(Kind::u64, keys.data(), nullptr, 0, keys.size()) {}
KeyBatch::KeyBatch(std::span<const std::uint32_t> keys) noexcept
    : KeyBatch(Kind::u32, keys.data(), nullptr, 0, keys.size()) {}
KeyBatch::KeyBatch(std::span<const std::int32_t> keys) noexcept
    : KeyBatch(Kind::i32, keys.data(), nullptr, 0, keys.size()) {}
KeyBatch::KeyBatch(std::span<const std::string_view> keys) noexcept
    : KeyBatch(Kind::views, keys.data(), nullptr, 0, keys.size()) {}
KeyBatch::KeyBatch(std::span<const std::string> keys) noexcept
    : KeyBatch(Kind::strings, keys.data(), nullptr, 0, keys.size()) {}

KeyBatch KeyBatch::from_hashes(std::span<const std::uint64_t> hashes) noexcept {
  return {Kind::hashes, hashes.data(), nullptr, 0, hashes.size()};
}

KeyBatch KeyBatch::from_fixed(std::span<const std::byte> data, std::size_t width) {
  if (width == 0) throw InvalidArgument("key width 0: must be at least 1 byte");
  if (data.size() % width != 0) {
    throw InvalidArgument(fmt::format("{} of keys: not a multiple of the key width {}",
                                      counted(data.size(), "byte"), width));
  }
  return {Kind::fixed, nullptr, chars(data), width, data.size() / width};
}

KeyBatch KeyBatch::from_offsets(std::span<const std::byte> data,
                                std::span<const std::int32_t> offsets) {
  check_offsets(data, offsets);
  return {Kind::bytes32, offsets.data(), chars(data), 0, offsets.empty() ? 0 : offsets.size() - 1};
}

KeyBatch KeyBatch::from_offsets(std::span<const std::byte> data,
                                std::span<const std::int64_t> offsets) {
  check_offsets(data, offsets);
  return {Kind::bytes64, offsets.data(), chars(data), 0, offsets.empty() ? 0 : offsets.size() - 1};
}

KeyBatch KeyBatch::with_validity(std::span<const std::byte> bitmap, std::size_t bit_offset) const {
  const std::size_t bits = bitmap.size() * 8;
  if (bit_offset > bits || bits - bit_offset < size_) {
    throw InvalidArgument(fmt::format("validity bitmap of {} bits from bit {} on: {} keys need {}",
                                      bits, bit_offset, size_, size_));
  }
  KeyBatch result = *this;
  result.validity_ = size_ == 0 ? nullptr : bitmap.data();
  result.validity_offset_ = bit_offset;
  return result;
}

KeyBatch KeyBatch::slice(std::size_t first, std::size_t count) const {
  if (first > size_ || count > size_ - first) {
    throw InvalidArgument(fmt::format("slice of {} from key {} on: the batch has {}",
                                      counted(count, "key"), first, size_));
  }
  KeyBatch result = *this;
  result.size_ = count;
  result.validity_offset_ += first;
  switch (kind_) {
    case Kind::u64:
    case Kind::hashes:
      result.items_ = values() + first;
      break;
    case Kind::u32:
    case Kind::i32:
      result.items_ = static_cast<const std::uint32_t*>(items_) + first;
      break;
    case Kind::fixed:
      result.data_ = data_ + first * width_;
      break;
    case Kind::bytes32:
      result.items_ = static_cast<const std::int32_t*>(items_) + first;
      break;
    case Kind::bytes64:
      result.items_ = static_cast<const std::int64_t*>(items_) + first;
      break;
    case Kind::views:
      result.items_ = static_cast<const std::string_view*>(items_) + first;
      break;
    case Kind::strings:
      result.items_ = static_cast<const std::string*>(items_) + first;
      break;
  }
  return result;
}

std::size_t KeyBatch::nulls() const noexcept {
  if (!validity_) return 0;
  std::size_t valid_keys = 0;
  std::size_t i = 0;
  for (; i < size_ && (validity_offset_ + i) % 8 != 0; ++i) valid_keys += valid(i);
  for (; i + 8 <= size_; i += 8) {
    valid_keys += static_cast<std::size_t>(
        std::popcount(static_cast<std::uint8_t>(validity_[(validity_offset_ + i) / 8])));
  }
  for (; i < size_; ++i) valid_keys += valid(i);
  return size_ - valid_keys;
}

namespace {

/// For this machine's best vectors.
const HashKernels& best_hashes() {
  static const HashKernels kernels = find_backend(kAutomatic).rows().hashes;
  return kernels;
}

}  // namespace

std::vector<std::uint64_t> KeyBatch::hashes(std::uint64_t seed) const {
  std::vector<std::uint64_t> hashes(size_);
  hashes.resize(hash_keys(*this, 0, size_, seed, best_hashes(), hashes.data()));
  return hashes;
}

void KeyBatch::hashes(std::uint64_t seed, std::span<std::uint64_t> out) const {
  if (out.size() != size_) {
    throw InvalidArgument(fmt::format("room for {} hashes: there are {} keys", out.size(), size_));
  }
  std::size_t left = hash_keys(*this, 0, size_, seed, best_hashes(), out.data());
  if (!has_validity()) return;
  // From the end, so that no hash is written over before it has moved.
  for (std::size_t i = size_; i-- > 0;) out[i] = valid(i) ? out[--left] : 0;
}

std::uint64_t hash_of(std::uint64_t key, std::uint64_t seed) noexcept {
  return detail::hash_u64<detail::PlainOps>(key, detail::u64_seed_mask(seed));
}

std::uint64_t hash_of(std::string_view key, std::uint64_t seed) noexcept {
  return detail::hash_of_bytes(key, seed);
}

}  // namespace scbf
