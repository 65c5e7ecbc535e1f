// SPDX-License-Identifier: Apache-2.0
// Linked to suites that know nothing of it: their backends are those on the fake devices.
#include "fake_test_support.hpp"

namespace {

// Before tests are made from what is in the table.
[[maybe_unused]] const bool kStarted = scbf_test::start_fake_cuda();

}  // namespace
