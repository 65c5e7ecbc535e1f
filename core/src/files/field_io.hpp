// SPDX-License-Identifier: Apache-2.0
// Moves integers and doubles between memory and the bytes of a file, one after another. The order
// of a struct's fields in the file is written once, for both directions: fields.in_order() is a
// tuple of references to them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>

namespace scbf::file_format {

static_assert(std::endian::native == std::endian::little, "fields are little-endian in files");

struct FieldWriter {
  std::byte* at;
  template <class T>
  void put(const T& value) {
    static_assert(std::is_unsigned_v<T> || std::is_same_v<T, double>);
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  }
  template <class Fields>
  void put_all(Fields fields) {
    std::apply([&](const auto&... field) { (put(field), ...); }, fields.in_order());
  }
  void put_text(const std::string& text) {
    std::memcpy(at, text.data(), text.size());
    at += text.size();
  }
};

struct FieldReader {
  const std::byte* at;
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  }
  template <class Fields>
  Fields get_all() {
    Fields fields;
    const auto set = [&]<class T>(T& field) { field = get<T>(); };
    std::apply([&](auto&... field) { (set(field), ...); }, fields.in_order());
    return fields;
  }
  /// As many bytes as the text has.
  void get_text(std::string& text) {
    std::memcpy(text.data(), at, text.size());
    at += text.size();
  }
};

}  // namespace scbf::file_format
