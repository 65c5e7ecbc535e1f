// SPDX-License-Identifier: Apache-2.0
// Which kinds of keys a filter holds, to notice when it is asked for the other: the number 5 and
// the text "5" are two keys.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>

namespace scbf::python {

/// A set of kinds, as bits. Bytes may be the same keys as text, and those of width 8 as numbers.
enum class KindsOfKeys : std::uint8_t { none = 0, numbers = 1, text = 2, bytes = 4 };

constexpr KindsOfKeys operator|(KindsOfKeys a, KindsOfKeys b) noexcept {
  return static_cast<KindsOfKeys>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}

/// The kinds that a filter holds, if they are known: those of its insertions since it was made
/// empty, and the one that the command noted in its metadata. Any number of threads may use it.
class KeyKinds {
 public:
  /// The filter has come from elsewhere.
  void forget() noexcept { state_.store(0, std::memory_order_relaxed); }
  /// It has just been made, or emptied. What its metadata note stays.
  void begin_empty() noexcept {
    state_.store((state() & kNoted) | kKnown, std::memory_order_relaxed);
  }
  /// It is what its metadata note.
  void begin_with(KindsOfKeys noted) noexcept {
    state_.store(bits(noted) | bits(noted) << kNotedShift | kKnown, std::memory_order_relaxed);
  }
  /// It has been made of another, with its metadata.
  void take(const KeyKinds& other) noexcept {
    state_.store(other.state() & ~kWarned, std::memory_order_relaxed);
  }

  // Both return whether the metadata note a kind, and that is no longer all.

  /// Another filter has been merged into it.
  [[nodiscard]] bool join(const KeyKinds& other) noexcept {
    if ((other.state() & kKnown) != 0)
      return inserted(static_cast<KindsOfKeys>(other.state() & kKinds));
    state_.fetch_and(~kKnown, std::memory_order_relaxed);
    return drop_note();
  }
  [[nodiscard]] bool inserted(KindsOfKeys kinds) noexcept {
    const std::uint32_t before = state();
    if ((before & bits(kinds)) != bits(kinds)) {
      state_.fetch_or(bits(kinds), std::memory_order_relaxed);
    }
    const std::uint32_t noted = (before & kNoted) >> kNotedShift;
    return noted != 0 && (bits(kinds) & ~noted) != 0 && drop_note();
  }

  /// Warns, once, if keys were asked for that are no keys of the filter: text of a filter of
  /// numbers, or the other way round. With Python's global lock. Throws python_error if warnings
  /// are errors.
  void asked_for(KindsOfKeys kinds) const {
    const std::uint32_t now = state();
    const std::uint32_t held = now & kKinds;
    const bool strange = held == kNumbers ? kinds == KindsOfKeys::text
                                          : held == kText && kinds == KindsOfKeys::numbers;
    if (strange && (now & kKnown) != 0 &&
        (state_.fetch_or(kWarned, std::memory_order_relaxed) & kWarned) == 0) {
      warn(kinds);
    }
  }

 private:
  static constexpr std::uint32_t kKinds = 7, kNotedShift = 3, kNoted = kKinds << kNotedShift,
                                 kKnown = 64, kWarned = 128;
  static constexpr auto kNumbers = static_cast<std::uint32_t>(KindsOfKeys::numbers),
                        kText = static_cast<std::uint32_t>(KindsOfKeys::text);
  static constexpr std::uint32_t bits(KindsOfKeys kinds) noexcept {
    return static_cast<std::uint32_t>(kinds);
  }
  std::uint32_t state() const noexcept { return state_.load(std::memory_order_relaxed); }
  bool drop_note() noexcept {
    return (state_.fetch_and(~kNoted, std::memory_order_relaxed) & kNoted) != 0;
  }
  static void warn(KindsOfKeys kinds) {
    const auto category = nanobind::module_::import_("scbf.errors").attr("KeyKindWarning");
    if (PyErr_WarnEx(category.ptr(),
                     kinds == KindsOfKeys::text
                         ? "the filter holds numbers, and is asked for text: 5 and '5' are two "
                           "keys; make numbers of the text, for example by astype('int64')"
                         : "the filter holds text, and is asked for numbers: 5 and '5' are two "
                           "keys; make text of the numbers, for example by astype(str)",
                     1) != 0) {
      throw nanobind::python_error();
    }
  }

  mutable std::atomic<std::uint32_t> state_{0};
};

}  // namespace scbf::python
