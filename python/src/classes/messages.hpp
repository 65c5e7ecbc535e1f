// SPDX-License-Identifier: Apache-2.0
// Filters and banks as bytes, and from bytes.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "held.hpp"
#include "keys/buffers.hpp"
#include "outside.hpp"
#include "scbf/filter.hpp"

namespace scbf::python {

namespace nb = nanobind;

/// Bytes of a length that is not known before, without a copy whenever they grow: in pieces.
class Pieces {
 public:
  void append(std::span<const std::byte> part) {
    size_ += part.size();
    while (!part.empty()) {
      if (pieces_.empty() || pieces_.back().size() == kPieceBytes) {
        pieces_.emplace_back().reserve(kPieceBytes);
      }
      std::vector<std::byte>& last = pieces_.back();
      const std::size_t n = std::min(part.size(), kPieceBytes - last.size());
      last.insert(last.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n));
      part = part.subspan(n);
    }
  }
  /// All of them as one object. Each piece is freed once it has been copied, so this needs little
  /// more memory than the bytes take. Throws std::bad_alloc.
  nb::bytes joined() && {
    nb::object all = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size_)));
    if (!all) throw nb::python_error();
    char* to = PyBytes_AsString(all.ptr());
    {
      Outside others_may_run;  // nobody else has the object yet
      for (std::vector<std::byte>& piece : pieces_) {
        std::memcpy(to, piece.data(), piece.size());
        to += piece.size();
        std::vector<std::byte>().swap(piece);
      }
    }
    return nb::borrow<nb::bytes>(all);
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // large enough to be unmapped

  std::vector<std::vector<std::byte>> pieces_;
  std::size_t size_ = 0;
};

template <class F>
nb::bytes to_bytes(const Held<F>& self, bool compress) {
  Pieces pieces;
  {
    const Passage inside(self.gate, Passage::To::read);
    Outside others_may_run;
    self.value.write([&](std::span<const std::byte> part) { pieces.append(part); },
                     {.compress = compress});
  }
  return std::move(pieces).joined();
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
