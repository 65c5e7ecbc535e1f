// SPDX-License-Identifier: Apache-2.0
// The structs of the Arrow C data interface and C stream interface, as their specification lays
// them out (https://arrow.apache.org/docs/format/CDataInterface.html), and who releases them.
#pragma once

#include <cstdint>

extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
  int (*get_next)(ArrowArrayStream*, ArrowArray* out);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

}  // extern "C"

namespace scbf::python {

/// Owns one of these structs: releases it, if it is not released yet. Movable.
template <class Struct>
class Released {
 public:
  Released() noexcept : value_{} {}
  /// Takes it over from whoever gave it, who then has a released one.
  explicit Released(Struct* from) noexcept : value_(*from) { from->release = nullptr; }
  Released(Released&& other) noexcept : Released(&other.value_) {}
  Released& operator=(Released&&) = delete;
  ~Released() {
    if (value_.release) value_.release(&value_);
  }

  Struct* get() noexcept { return &value_; }
  const Struct* operator->() const noexcept { return &value_; }
  const Struct& operator*() const noexcept { return value_; }
  bool released() const noexcept { return value_.release == nullptr; }

 private:
  Struct value_;
};

}  // namespace scbf::python
