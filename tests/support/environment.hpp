// SPDX-License-Identifier: Apache-2.0
// Variables of the environment that a test sets.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace scbf_test {

/// Sets SCBF_BACKEND while in scope; null: unsets it.
class BackendVariable {
 public:
  explicit BackendVariable(const char* value) {
    if (const char* old = std::getenv(kName)) old_ = old;
    set(value);
  }
  BackendVariable(const BackendVariable&) = delete;
  BackendVariable& operator=(const BackendVariable&) = delete;
  ~BackendVariable() { set(old_ ? old_->c_str() : nullptr); }

 private:
  static constexpr const char* kName = "SCBF_BACKEND";
  static void set(const char* value) {
    if (value != nullptr) {
      ::setenv(kName, value, 1);
    } else {
      ::unsetenv(kName);
    }
  }

  std::optional<std::string> old_;
};

}  // namespace scbf_test
