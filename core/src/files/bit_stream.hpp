// SPDX-License-Identifier: Apache-2.0
// Numbers of any width as a stream of bits, from the least significant bit of each byte on, and
// Rice codes: the high part of a number in unary, the rest in binary. A Rice code whose parameter
// fits the mean is within 0.04 bits of the entropy of geometrically distributed numbers, such as
// the gaps between ones at random places (Rice 1979; Gallager and van Voorhis 1975).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace scbf::file_format {

class BitWriter {
 public:
  explicit BitWriter(std::vector<std::byte>& out) noexcept : out_(out) {}

  /// Writes the low `width` bits, at most 32. Higher bits of `value` must be 0.
  void put(std::uint64_t value, unsigned width) {
    pending_ |= value << used_;
    used_ += width;
    while (used_ >= 8) {
      out_.push_back(static_cast<std::byte>(pending_));
      pending_ >>= 8;
      used_ -= 8;
    }
  }
  /// value >> k zeros, a one, and the low k bits; k ≤ 31.
  void put_rice(std::uint64_t value, unsigned k) {
    std::uint64_t zeros = value >> k;
    for (; zeros >= 32; zeros -= 32) put(0, 32);
    put(std::uint64_t{1} << zeros, static_cast<unsigned>(zeros) + 1);
    put(value & ((std::uint64_t{1} << k) - 1), k);
  }
  /// Fills the last byte with zeros.
  void finish() {
    if (used_ > 0) put(0, 8 - used_);
  }

 private:
  std::vector<std::byte>& out_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;  ///< bits of `pending_`; below 8 between calls
};

/// Reads what BitWriter wrote. Past the end it reads zeros and says so.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  /// At most 32 bits.
  std::uint64_t get(unsigned width) noexcept {
    refill();
    const std::uint64_t value = pending_ & ((std::uint64_t{1} << width) - 1);
    drop(width);
    return value;
  }
  /// Returns a number above `most` if the code stands for one, or the stream ends before its one.
  std::uint64_t get_rice(unsigned k, std::uint64_t most) noexcept {
    std::uint64_t zeros = 0;
    for (;;) {
      refill();
      if (pending_ != 0) break;
      if (at_ == bytes_.size() || zeros > most >> k) return most + 1;
      zeros += have_;
      have_ = 0;
    }
    const auto run = static_cast<unsigned>(std::countr_zero(pending_));
    drop(run);
    drop(1);
    zeros += run;
    if (zeros > most >> k) return most + 1;
    return zeros << k | get(k);
  }
  /// Have more bits been read than there are?
  bool overrun() const noexcept { return overrun_; }
  /// Is nothing left but the zeros of the last byte?
  bool at_end() const noexcept {
    return !overrun_ && at_ == bytes_.size() && have_ < 8 && pending_ == 0;
  }

 private:
  /// Makes at least 32 bits pending, unless the stream ends before.
  void refill() noexcept {
    if (have_ >= 32) return;
    if (at_ + 4 <= bytes_.size()) {
      std::uint32_t four;
      std::memcpy(&four, bytes_.data() + at_, sizeof four);
      pending_ |= std::uint64_t{four} << have_;
      at_ += 4;
      have_ += 32;
      return;
    }
    for (; have_ <= 56 && at_ < bytes_.size(); ++at_, have_ += 8) {
      pending_ |= std::to_integer<std::uint64_t>(bytes_[at_]) << have_;
    }
  }
  void drop(unsigned width) noexcept {
    if (width > have_) {
      overrun_ = true;
      pending_ = 0;
      have_ = 0;
      return;
    }
    pending_ >>= width;  // fewer than 64, so the shift is defined
    have_ -= width;
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::uint64_t pending_ = 0;  ///< the next `have_` bits; higher bits are 0
  unsigned have_ = 0;
  bool overrun_ = false;
};

}  // namespace scbf::file_format
