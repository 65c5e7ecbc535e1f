// SPDX-License-Identifier: Apache-2.0
// Which kinds of keys a filter or bank holds, to notice when it is asked for the other: the number
// 5 and the text "5" are two keys.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace scbf::python {

/// A set of kinds, as bits. Bytes may be the same keys as text, and those of width 8 as numbers.
enum class KindsOfKeys : std::uint8_t { none = 0, numbers = 1, text = 2, bytes = 4 };

constexpr KindsOfKeys operator|(KindsOfKeys a, KindsOfKeys b) noexcept {
  return static_cast<KindsOfKeys>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}

/// The kinds that a filter or bank holds, if they are known: those of its insertions since it was
/// made empty, or the one that the command noted in its metadata. Any number of threads may use it.
class KeyKinds {
 public:
  /// `holder`: "filter" or "bank".
  explicit KeyKinds(const char* holder) noexcept : holder_(holder) {}

  /// The filter has come from elsewhere.
  void forget() noexcept { state_.fetch_and(kWarned, std::memory_order_relaxed); }
  /// It has just been made, or emptied.
  void begin_empty() noexcept { state_.store(kKnown, std::memory_order_relaxed); }
  /// It has come with this note.
  void begin_with(KindsOfKeys noted) noexcept {
    state_.store(bits(noted) | kKnown | kNoted, std::memory_order_relaxed);
  }
  /// It has been made of another.
  void take(const KeyKinds& other) noexcept {
    state_.store(other.state() & ~kWarned, std::memory_order_relaxed);
  }
  /// It has become what the other is.
  void follow(const KeyKinds& other) noexcept {
    const std::uint32_t warned = state() & kWarned;
    state_.store((other.state() & ~kWarned) | warned, std::memory_order_relaxed);
  }
  /// Another filter has been merged into it, or added to it.
  void join(const KeyKinds& other) noexcept {
    if ((other.state() & kKnown) == 0) return forget();
    inserted(static_cast<KindsOfKeys>(other.state() & kKinds));
  }
  void inserted(KindsOfKeys kinds) noexcept {
    if ((state() & bits(kinds)) != bits(kinds)) {
      state_.fetch_or(bits(kinds), std::memory_order_relaxed);
    }
  }

  /// Warns, once, if none of the keys was found that were asked for, and they are not of the
  /// filter's kind: text of a filter of numbers, or the other way round. With Python's global lock.
  /// Throws python_error if warnings are errors.
  void none_found(KindsOfKeys asked) const {
    warn_once(asked, {"it was asked for ", ", and has none of it"},
              {"astype('int64')", "astype(str)"}, 1);
  }

  /// The same for a column of Spark, before its keys are known. `stacklevel`: as that of
  /// warnings.warn() in the function that calls.
  void will_be_asked_for(KindsOfKeys asked, int stacklevel) const {
    warn_once(asked, {"and the column has ", ""}, {"cast(\"bigint\")", "cast(\"string\")"},
              stacklevel);
  }

 private:
  static constexpr std::uint32_t kKinds = 7, kKnown = 8, kNoted = 16, kWarned = 32;
  static constexpr std::uint32_t bits(KindsOfKeys kinds) noexcept {
    return static_cast<std::uint32_t>(kinds);
  }
  std::uint32_t state() const noexcept { return state_.load(std::memory_order_relaxed); }
  /// What a warning says before and after the kind that was asked for.
  struct Around {
    const char *before, *after;
  };
  /// What makes keys of the other kind.
  struct Casts {
    const char *to_numbers, *to_text;
  };
  /// Warns if it is known that the filter holds only the other kind, and it has not warned before.
  void warn_once(KindsOfKeys asked, Around kind, Casts by, int stacklevel) const {
    const std::uint32_t now = state(), held = now & kKinds;
    const bool text = asked == KindsOfKeys::text;
    const bool other = held == bits(KindsOfKeys::numbers)
                           ? text
                           : held == bits(KindsOfKeys::text) && asked == KindsOfKeys::numbers;
    if (!other || (now & kKnown) == 0) return;
    if ((state_.fetch_or(kWarned, std::memory_order_relaxed) & kWarned) != 0) return;
    const std::string holds =
        (now & kNoted) != 0 ? fmt::format("the command built the {} of {}", holder_,
                                          text ? "numbers" : "lines of text")
                            : fmt::format("the {} holds {}", holder_, text ? "numbers" : "text");
    const std::string warning = fmt::format(
        "{}, {}{}{}: 5 and '5' are two keys; make {}, for example by {}", holds, kind.before,
        text ? "text" : "numbers", kind.after, text ? "numbers of the text" : "text of the numbers",
        text ? by.to_numbers : by.to_text);
    const auto category = nanobind::module_::import_("scbf.errors").attr("KeyKindWarning");
    if (PyErr_WarnEx(category.ptr(), warning.c_str(), stacklevel) != 0) {
      throw nanobind::python_error();
    }
  }

  const char* holder_;
  mutable std::atomic<std::uint32_t> state_{0};
};

}  // namespace scbf::python
