// SPDX-License-Identifier: Apache-2.0
// What a Python object of this package holds: an object of the library, and whose turn it is.
#pragma once

#include <atomic>
#include <memory>
#include <type_traits>
#include <utility>

#include "gate.hpp"
#include "planned_for.hpp"
#include "scbf/errors.hpp"

namespace scbf::python {

template <class Value>
struct Held {
  Value value;
  mutable Gate gate;
  /// Buffers of its counters that are in use (memoryview, numpy.asarray).
  mutable std::atomic<int> exports{0};
  /// What a filter was planned for, if it was made for a number of keys.
  PlannedFor planned;

  explicit Held(Value&& from) : value(std::move(from)) {}

  /// Calls that may move the counters to other memory are refused while there are buffers of them.
  void check_no_exports() const {
    if (exports.load(std::memory_order_acquire) > 0) {
      throw Error("the counters are in use as a buffer: release the memoryview or array first");
    }
  }
};

template <class Value>
requires(!std::is_reference_v<Value>) std::unique_ptr<Held<Value>> hold(Value&& value) {
  return std::make_unique<Held<Value>>(std::move(value));
}

}  // namespace scbf::python
