// SPDX-License-Identifier: Apache-2.0
// For the test of docs/api.md: the member functions of Arrow's arrays that the page uses, with the
// same results, so that it compiles without Arrow. Both arrays are slices that begin at index 3.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace arrow {

struct Buffer {
  std::string bytes;
  const std::uint8_t* data() const { return reinterpret_cast<const std::uint8_t*>(bytes.data()); }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes.size()); }
};

struct Array {
  std::vector<std::uint8_t> bitmap;
  std::int64_t offset() const { return 3; }
  std::int64_t length() const { return 3; }
  const std::uint8_t* null_bitmap_data() const { return bitmap.data(); }
};

struct Int64Array : Array {
  std::vector<std::int64_t> values;
  const std::int64_t* raw_values() const { return values.data() + offset(); }
};

struct StringArray : Array {
  std::shared_ptr<Buffer> data;
  std::vector<std::int32_t> offsets;
  std::shared_ptr<Buffer> value_data() const { return data; }
  const std::int32_t* raw_value_offsets() const { return offsets.data() + offset(); }
};

}  // namespace arrow

inline arrow::Int64Array example_ids() { return {{{0b101'000}}, {1, 2, 3, -5, 0, 12}}; }
inline arrow::StringArray example_cities() {
  return {{{0b101'000}},
          std::make_shared<arrow::Buffer>(arrow::Buffer{"RigaBernOsloLima"}),
          {0, 4, 8, 8, 12, 12, 16}};
}
