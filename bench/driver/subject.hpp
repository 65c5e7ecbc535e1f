// SPDX-License-Identifier: Apache-2.0
// What is measured: our filter and the structures it is compared with, behind one interface of
// batches, so that the same driver verifies and times all of them. A call per batch, not per key:
// the comparators loop inside, and no virtual call is timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "keys.hpp"

namespace scbf::bench {

class Subject {
 public:
  Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  virtual ~Subject() = default;

  virtual void insert(KeySpan keys) = 0;
  /// out[i] = 1 where key i may be present; returns how many.
  virtual std::uint64_t contains(KeySpan keys, std::uint8_t* out) = 0;
  /// out[i] = 1 where key i was removed; returns how many.
  virtual std::uint64_t remove(KeySpan keys, std::uint8_t* out) = 0;
  virtual void count(KeySpan keys, std::uint8_t* out) = 0;
  virtual bool can_remove() const { return true; }
  virtual bool can_count() const { return true; }

  /// Of those that cannot remove: keeps the present state for return_to_mark(), so that inserts
  /// into an almost full structure can be timed again and again.
  virtual void mark() {}
  virtual void return_to_mark() {}

  /// Empties it; where it can be avoided without giving memory back, so that the next insert
  /// pays for no page faults. `present` are the keys that are in it.
  virtual void reset(KeySpan present) = 0;
  /// True when nothing is left in it: every counter is zero.
  virtual bool empty() const = 0;
  /// True when a counter is saturated and stays when all keys are removed.
  virtual bool saturated() const { return false; }
  /// A number for its contents that backends must agree on; none where nothing is to be compared.
  virtual std::optional<std::uint64_t> fingerprint() const { return {}; }

  virtual double bytes() const = 0;
  /// False-positive rate that its maths promise with n keys; none where nothing is promised.
  virtual std::optional<double> predicted_fpr(std::size_t n) const = 0;
  /// For the report: "AVX2", "one key at a time".
  virtual std::string target() const = 0;
};

}  // namespace scbf::bench
