// SPDX-License-Identifier: Apache-2.0
// Where answers go: into the caller's `out`, or into a new NumPy array.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "calls/run.hpp"
#include "keys/buffers.hpp"
#include "scbf/errors.hpp"
#include "text.hpp"

namespace scbf::python {

/// A new NumPy array that takes over the memory.
template <class Element, class Memory>
nanobind::object numpy_array(std::unique_ptr<Memory> memory, std::size_t size, const void* data) {
  const nanobind::capsule owner(memory.get(),
                                [](void* held) noexcept { delete static_cast<Memory*>(held); });
  memory.release();
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, Element, nanobind::ndim<1>>(
      const_cast<void*>(data), {size}, owner));
}

template <class Element, class Stored = Element>
nanobind::object numpy_array(std::vector<Stored> values) {
  auto memory = std::make_unique<std::vector<Stored>>(std::move(values));
  const void* data = memory->data();
  const std::size_t size = memory->size();
  return numpy_array<Element>(std::move(memory), size, data);
}

/// One byte for each answer: the caller's array of bool or uint8, or a new one.
class Answers {
 public:
  /// `types`: what its items may be, ? for bool and B for uint8. Throws InvalidArgument unless
  /// `out` is None or a contiguous array of `size` of these. If it may lie in the memory of the
  /// keys, it is written last, by the destructor.
  Answers(nanobind::object out, const Parts& keys, std::size_t size, std::string_view types)
      : size_(size) {
    if (out.is_none()) {
      fresh_ = std::make_unique<Bytes>(Bytes{std::make_unique_for_overwrite<std::uint8_t[]>(size)});
      data_ = fresh_->bytes.get();
      return;
    }
    try {
      buffer_ = std::make_unique<Buffer>(out, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
    } catch (nanobind::python_error& error) {
      if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError) &&
          !error.matches(PyExc_BufferError)) {
        throw;
      }
      throw InvalidArgument(
          fmt::format("out: must be a contiguous array of {} that can be written", names(types)));
    }
    const Py_buffer& view = *buffer_->operator->();
    const std::string_view format = view.format ? view.format : "B";
    if (format.size() != 1 || types.find(format) == std::string_view::npos) {
      throw InvalidArgument(
          fmt::format("out: has items of format '{}', must have {}", format, names(types)));
    }
    if (static_cast<std::size_t>(view.len) != size) {
      throw InvalidArgument(fmt::format("out: has {}, must have {}",
                                        counted(static_cast<std::uint64_t>(view.len), "item"),
                                        size));
    }
    data_ = reinterpret_cast<std::uint8_t*>(buffer_->data());
    out_ = std::move(out);
    if (keys.overlap(span())) {
      apart_ = std::make_unique_for_overwrite<std::uint8_t[]>(size);
      std::copy_n(data_, size, apart_.get());
      data_ = apart_.get();
    }
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers() {
    if (apart_) std::copy_n(apart_.get(), size_, reinterpret_cast<std::uint8_t*>(buffer_->data()));
  }

  std::span<std::uint8_t> span() const noexcept { return {data_, size_}; }

  /// What the call returns: `out`, or the new array, of bool or std::uint8_t.
  template <class Element>
  nanobind::object array() && {
    if (!fresh_) return out_;
    const void* data = data_;
    return numpy_array<Element>(std::move(fresh_), size_, data);
  }

 private:
  static std::string_view names(std::string_view types) {
    return types == "B" ? "uint8" : "bool or uint8";
  }

  struct Bytes {
    std::unique_ptr<std::uint8_t[]> bytes;
  };

  std::size_t size_;
  nanobind::object out_;
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<Bytes> fresh_;
  std::unique_ptr<std::uint8_t[]> apart_;
  std::uint8_t* data_;
};

}  // namespace scbf::python
