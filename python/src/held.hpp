// SPDX-License-Identifier: Apache-2.0
// What a Python object of this package holds: an object of the library, whose turn it is, and what
// it was made for.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>

#include "gate.hpp"
#include "key_kinds.hpp"
#include "notes.hpp"
#include "planned_for.hpp"
#include "scbf/bank_base.hpp"
#include "scbf/errors.hpp"
#include "scbf/filter_base.hpp"

namespace scbf::python {

template <class Value>
struct Held {
  Value value;
  mutable Gate gate;
  /// Buffers of its counters that are in use (memoryview, numpy.asarray).
  mutable std::atomic<int> exports{0};
  /// What a filter, or each member of a bank, was planned for, if it was made for a number of keys.
  PlannedFor planned;
  /// Of a bank: the plans of the members that were looked at. Under Passage::To::change.
  std::map<std::uint32_t, PlannedFor> member_plans;
  KeyKinds kinds{std::is_base_of_v<BankBase, Value> ? "bank" : "filter"};  ///< of these two

  explicit Held(Value&& from) : value(std::move(from)) {}

  /// A filter or bank made of another has its plan and its kinds of keys.
  template <class Other>
  void take_notes_of(const Held<Other>& other) noexcept {
    planned.take(other.planned);
    kinds.take(other.kinds);
  }

  /// Calls that may move the counters to other memory are refused while there are buffers of them.
  void check_no_exports() const {
    if (exports.load(std::memory_order_acquire) > 0) {
      throw Error("the counters are in use as a buffer: release the memoryview or array first");
    }
  }
};

/// Filters and banks take what their metadata note.
template <class Value>
requires(!std::is_reference_v<Value>) std::unique_ptr<Held<Value>> hold(Value&& value) {
  auto held = std::make_unique<Held<Value>>(std::move(value));
  if constexpr (std::is_base_of_v<FilterBase, Value> || std::is_base_of_v<BankBase, Value>) {
    const Notes notes = read_notes(held->value.metadata());
    const bool one = held->value.growth().policy() == Growth::Policy::one;
    if (one && notes.capacity && notes.fpr) held->planned.set(*notes.capacity, *notes.fpr);
    if (notes.kinds != KindsOfKeys::none) held->kinds.begin_with(notes.kinds);
  }
  return held;
}

}  // namespace scbf::python
