// SPDX-License-Identifier: Apache-2.0
// Filters and banks as bytes, and from bytes.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
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
    while (!part.empty()) {
      const std::size_t used = size_ % kPieceBytes;
      if (used == 0) pieces_.emplace_back(kPieceBytes);
      const std::size_t n = std::min(part.size(), kPieceBytes - used);
      std::memcpy(pieces_.back().at(used), part.data(), n);
      size_ += n;
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
      std::size_t left = size_;
      for (Piece& piece : pieces_) {
        const std::size_t n = std::min(left, kPieceBytes);
        std::memcpy(to, piece.at(0), n);
        to += n;
        left -= n;
        piece = Piece();
      }
    }
    return nb::borrow<nb::bytes>(all);
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

  /// Memory that goes back to the system when it is freed, which that of malloc need not.
  class Piece {
   public:
    Piece() noexcept = default;
    explicit Piece(std::size_t bytes)
        : memory_(
              ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
      if (memory_ == MAP_FAILED) throw std::bad_alloc();
    }
    Piece(Piece&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
    Piece& operator=(Piece&& other) noexcept {
      Piece(std::move(other)).swap(*this);
      return *this;
    }
    ~Piece() {
      if (memory_ != nullptr) ::munmap(memory_, kPieceBytes);
    }
    std::byte* at(std::size_t i) const noexcept { return static_cast<std::byte*>(memory_) + i; }

   private:
    void swap(Piece& other) noexcept { std::swap(memory_, other.memory_); }
    void* memory_ = nullptr;
  };
  std::vector<Piece> pieces_;
  std::size_t size_ = 0;
};

template <class F>
nb::bytes to_bytes(const Held<F>& self, bool compress) {
  Pieces pieces;
  {
    const Passage inside(self.gate, Passage::To::read);
    Outside others_may_run;
    SignalCheck check_signals;
    self.value.write(
        [&](std::span<const std::byte> part) {
          check_signals();
          pieces.append(part);
        },
        {.compress = compress});
  }
  return std::move(pieces).joined();
}

/// The bytes of a buffer, from its beginning. Notices Ctrl-C, so it is for work that is outside.
class BytesSource {
 public:
  explicit BytesSource(std::span<const std::byte> all) : rest_(all) {}
  std::size_t operator()(std::span<std::byte> into) {
    check_signals_();
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
  SignalCheck check_signals_;
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
