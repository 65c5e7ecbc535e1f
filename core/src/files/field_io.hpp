// SPDX-License-Identifier: Apache-2.0
// Moves integers and doubles between memory and the bytes of a file, one after another.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace scbf::file_format {

static_assert(std::endian::native == std::endian::little, "fields are little-endian in files");

// Both directions walk the fields in the same order, so that an offset cannot be mistyped.
struct FieldWriter {
  std::byte* at;
  void put(double value) { put(std::bit_cast<std::uint64_t>(value)); }
  void put(std::unsigned_integral auto value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  }
};

struct FieldReader {
  const std::byte* at;
  double get_double() { return std::bit_cast<double>(get<std::uint64_t>()); }
  template <std::unsigned_integral T>
  T get() {
    T value;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  }
};

}  // namespace scbf::file_format
