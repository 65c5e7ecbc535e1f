// SPDX-License-Identifier: Apache-2.0
// Named points in the code where a crash would be critical, so that tests can crash there.
#pragma once

namespace scbf::index {

/// Called with the name of each point that is passed; null outside tests.
inline void (*at_crash_point)(const char* name) = nullptr;

inline void crash_point(const char* name) {
  if (at_crash_point != nullptr) at_crash_point(name);
}

}  // namespace scbf::index
