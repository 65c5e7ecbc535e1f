// SPDX-License-Identifier: Apache-2.0
// Filters and banks as bytes, and from bytes.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "held.hpp"
#include "keys/buffers.hpp"
#include "outside.hpp"
#include "scbf/filter.hpp"

namespace scbf::python {

namespace nb = nanobind;

template <class F>
nb::bytes to_bytes(const Held<F>& self, bool compress) {
  std::vector<char> all;
  {
    const Passage inside(self.gate, Passage::To::read);
    Outside others_may_run;
    self.value.write(
        [&](std::span<const std::byte> part) {
          const char* from = reinterpret_cast<const char*>(part.data());
          all.insert(all.end(), from, from + part.size());
        },
        {.compress = compress});
  }
  return nb::bytes(all.data(), all.size());
}

/// The bytes of a buffer, from its beginning.
class BytesSource {
 public:
  explicit BytesSource(std::span<const std::byte> all) : rest_(all) {}
  std::size_t operator()(std::span<std::byte> into) {
    const std::size_t size = std::min(into.size(), rest_.size());
    if (size > 0) std::memcpy(into.data(), rest_.data(), size);
    rest_ = rest_.subspan(size);
    return size;
  }
  /// Throws CorruptFile if there is more.
  void check_at_end() const {
    if (!rest_.empty())
      throw CorruptFile(fmt::format("{} bytes after the end of the message", rest_.size()));
  }

 private:
  std::span<const std::byte> rest_;
};

inline std::span<const std::byte> bytes_in(const Buffer& buffer) {
  return {reinterpret_cast<const std::byte*>(buffer.data()), static_cast<std::size_t>(buffer->len)};
}

template <class F>
std::unique_ptr<Held<F>> from_bytes(nb::handle data, std::string_view backend) {
  const Buffer buffer(data, PyBUF_SIMPLE);
  Outside others_may_run;
  BytesSource source(bytes_in(buffer));
  auto made = hold(F::read(std::ref(source), {.backend = backend}));
  source.check_at_end();
  return made;
}

}  // namespace scbf::python
