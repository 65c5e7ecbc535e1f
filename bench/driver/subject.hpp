// SPDX-License-Identifier: Apache-2.0
// What is measured: our filter and its comparators, behind one interface, so that the same driver
// verifies and times all of them. Each call takes a batch, and comparators loop inside, so that no
// virtual call per key is timed.
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
  /// The same where no time is taken.
  virtual void fill(KeySpan keys) { insert(keys); }
  /// out[i] = 1 where key i may be present; returns how many.
  virtual std::uint64_t contains(KeySpan keys, std::uint8_t* out) = 0;
  /// out[i] = 1 where key i was removed; returns how many.
  virtual std::uint64_t remove(KeySpan keys, std::uint8_t* out) = 0;
  virtual void count(KeySpan keys, std::uint8_t* out) = 0;
  virtual bool can_remove() const { return true; }
  virtual bool can_count() const { return true; }

  /// Whether inserts into an almost full structure are timed from a saved state: of what cannot
  /// remove, and of what finds it easier to take keys that it has just removed than to take others.
  virtual bool uses_marks() const { return !can_remove(); }
  /// Only for those: saves the state for return_to_mark().
  virtual void mark() {}
  virtual void return_to_mark() {}

  /// Empties the structure, if possible without giving memory back, so that the next insert pays
  /// for no page faults. `present` are the keys in it.
  virtual void reset(KeySpan present) = 0;
  /// Whether nothing is left in it: every counter is zero.
  virtual bool empty() const = 0;
  /// Whether a counter is saturated, so that it stays when all keys are removed.
  virtual bool saturated() const { return false; }
  /// A hash of the contents, which must be equal on all backends; none if there is no other
  /// backend.
  virtual std::optional<std::uint64_t> fingerprint() const { return {}; }

  virtual double bytes() const = 0;
  /// The false-positive rate that theory predicts with n keys; none if nothing is predicted.
  virtual std::optional<double> predicted_fpr(std::size_t n) const = 0;
  /// A label for the report, such as "AVX2" or "one key at a time".
  virtual std::string target() const = 0;
};

}  // namespace scbf::bench
