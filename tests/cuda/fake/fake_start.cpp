// SPDX-License-Identifier: Apache-2.0
// Linked to suites of all backends, so that these run on fake devices without a change.
#include "fake_test_support.hpp"

namespace {

// Runs before the tests are generated from the table of backends.
[[maybe_unused]] const bool kStarted = scbf_test::start_fake_cuda();

}  // namespace
