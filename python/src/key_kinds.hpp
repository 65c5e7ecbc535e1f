// SPDX-License-Identifier: Apache-2.0
// Which kinds of keys a filter holds, to notice when it is asked for the other: the number 5 and
// the text "5" are two keys.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>

namespace scbf::python {

/// A set of kinds, as bits.
enum class KindsOfKeys : std::uint8_t { none = 0, numbers = 1, text = 2 };

constexpr KindsOfKeys operator|(KindsOfKeys a, KindsOfKeys b) noexcept {
  return static_cast<KindsOfKeys>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}

/// The kinds that a filter holds, if they are known: those of its insertions since it was made
/// empty, or the one that the command noted in its file. Any number of threads may use it.
class KeyKinds {
 public:
  /// The filter has come from elsewhere.
  void forget() noexcept { state_.store(0, std::memory_order_relaxed); }
  /// It has just been made, or emptied.
  void begin_empty() noexcept { state_.store(kKnown, std::memory_order_relaxed); }
  void begin_with(KindsOfKeys kinds) noexcept {
    state_.store(bits(kinds) | kKnown, std::memory_order_relaxed);
  }
  void take(const KeyKinds& other) noexcept {
    state_.store(other.state_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  /// Another filter has been merged into this one.
  void join(const KeyKinds& other) noexcept {
    const std::uint8_t theirs = other.state_.load(std::memory_order_relaxed);
    if ((theirs & kKnown) == 0) state_.fetch_and(~kKnown, std::memory_order_relaxed);
    state_.fetch_or(theirs & kKinds, std::memory_order_relaxed);
  }
  void inserted(KindsOfKeys kinds) noexcept {
    const std::uint8_t before = state_.load(std::memory_order_relaxed);
    if ((before & bits(kinds)) != bits(kinds)) {
      state_.fetch_or(bits(kinds), std::memory_order_relaxed);
    }
  }
  /// Warns, once, if the filter holds no keys of these kinds, and others. With Python's global
  /// lock. Throws python_error if warnings are errors.
  void asked_for(KindsOfKeys kinds) const {
    const std::uint8_t state = state_.load(std::memory_order_relaxed);
    const bool strange = (state & kKnown) != 0 && (state & kKinds) != 0 && bits(kinds) != 0 &&
                         (state & bits(kinds)) == 0;
    if (strange && (state_.fetch_or(kWarned, std::memory_order_relaxed) & kWarned) == 0) {
      warn(kinds);
    }
  }

 private:
  static constexpr std::uint8_t kKinds = 3, kKnown = 4, kWarned = 8;
  static constexpr std::uint8_t bits(KindsOfKeys kinds) noexcept {
    return static_cast<std::uint8_t>(kinds);
  }
  static void warn(KindsOfKeys kinds) {
    const bool text = kinds == KindsOfKeys::text;
    const auto category = nanobind::module_::import_("scbf.errors").attr("KeyKindWarning");
    if (PyErr_WarnEx(category.ptr(),
                     text ? "the filter holds numbers, and is asked for text: 5 and '5' are two "
                            "keys; make numbers of the text, for example by astype('int64')"
                          : "the filter holds text, and is asked for numbers: 5 and '5' are two "
                            "keys; make text of the numbers, for example by astype(str)",
                     1) != 0) {
      throw nanobind::python_error();
    }
  }

  mutable std::atomic<std::uint8_t> state_{0};
};

}  // namespace scbf::python
