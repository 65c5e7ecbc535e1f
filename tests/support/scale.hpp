// SPDX-License-Identifier: Apache-2.0
// How much work the tests do: all of it in an ordinary build, less where each step is slow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace scbf_test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#else
inline constexpr bool kAddressSanitizer = false;
#endif

inline constexpr bool kSanitized = kThreadSanitizer || kAddressSanitizer;

/// The share of the full work to do: the environment variable SCBF_TEST_SCALE if it is set,
/// otherwise a tenth in a sanitizer build and 1 elsewhere.
inline double scale() {
  static const double value = [] {
    const char* variable = std::getenv("SCBF_TEST_SCALE");
    if (variable != nullptr && *variable != '\0') return std::atof(variable);
    return kSanitized ? 0.1 : 1.0;
  }();
  return value;
}

/// `full` times scale(), but at least `least`, the size below which a test would prove nothing.
inline std::size_t scaled(std::size_t full, std::size_t least = 1) {
  const auto wanted = static_cast<std::size_t>(static_cast<double>(full) * scale());
  return std::min(full, std::max(least, wanted));
}

}  // namespace scbf_test
