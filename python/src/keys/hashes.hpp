// SPDX-License-Identifier: Apache-2.0
// Hashes: ready-made hashes, which calls take in place of keys.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "keys/buffers.hpp"
#include "keys/columns.hpp"

namespace scbf::python {

/// A column of uint64 that are hashes already.
class Hashes {
 public:
  /// Throws InvalidKey unless the object has a buffer of uint64, one after another.
  explicit Hashes(nanobind::handle object);

  std::size_t size() const noexcept { return values_.size(); }
  std::span<const std::uint64_t> values() const noexcept { return values_; }

 private:
  std::unique_ptr<Buffer> buffer_;
  std::span<const std::uint64_t> values_;
};

/// The column of a Hashes object; null for any other object.
std::unique_ptr<KeySource> hashes_source(nanobind::handle object);

}  // namespace scbf::python
