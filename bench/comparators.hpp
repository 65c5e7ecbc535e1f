// SPDX-License-Identifier: Apache-2.0
// The structures that our filters are compared with. All but one work on one key at a time.
#pragma once

#include <cstddef>
#include <memory>

#include "driver/filter_case.hpp"
#include "driver/subject.hpp"

namespace scbf::bench {

/// The counting Bloom filter of the textbooks.
std::unique_ptr<Subject> make_textbook(std::size_t n, double fpr);
std::unique_ptr<Subject> make_unordered_set(std::size_t n);
/// Null when built without libbloom.
std::unique_ptr<Subject> make_libbloom(std::size_t n, double fpr);
/// A plain Bloom filter in blocks, given its keys in one batch or, with Calls::key, one by one.
std::unique_ptr<Subject> make_blocked(std::size_t n, double fpr, Calls calls);

}  // namespace scbf::bench
