// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the CUDA engine on the host: batches, compared with the scalar model.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engine/operations.hpp"
#include "support/host_device.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace scbf_test {

inline scbf::cuda::ValueKeys view(const std::vector<std::uint64_t>& keys) {
  return {keys.data(), keys.size(), false, {}};
}

/// Inserts, and compares how many cells were filled, if they are counted.
inline void insert_and_count(HostDevice& device, const scbf::cuda::FilterRef& filter,
                             const scbf::cuda::ValueKeys& keys, const scbf::cuda::Tuning& tuning,
                             bool counts, const std::vector<std::uint64_t>& words) {
  const std::uint64_t before = nonzero_in(filter.geometry().cell(), words);
  std::uint64_t filled = 1000;
  scbf::cuda::insert(device, filter, keys, tuning, counts ? &filled : nullptr);
  const std::uint64_t change = nonzero_in(filter.geometry().cell(), words) - before;
  ASSERT_EQ(filled, 1000 + (counts ? change : 0));
}

/// Compares lookups, and their three forms of answers.
template <class Model>
void compare_lookups(HostDevice& device, const scbf::cuda::FilterRef& filter, const Model& model,
                     const std::vector<std::uint64_t>& keys) {
  Answers out(keys.size(), 0xCC);
  scbf::cuda::look<false>(device, filter, view(keys), scbf::cuda::ByteAnswers{out.data()});
  ASSERT_TRUE(same_answers(out, contains(model, keys)));
  Answers bits((keys.size() + 7) / 8, 0xCC), want_bits(bits.size());
  scbf::cuda::look<false>(device, filter, view(keys), scbf::cuda::BitAnswers{bits.data()});
  model.contains_bits(keys, want_bits);
  ASSERT_TRUE(same_answers(bits, want_bits));
  std::vector<std::uint64_t> indices(keys.size(), 0xCC), want_indices(keys.size(), 0xCC);
  std::uint64_t found = 0xCC;
  scbf::cuda::find(device, filter, view(keys), indices.data(), &found);
  ASSERT_EQ(found, model.find(keys, want_indices).hits);
  indices.resize(found);
  want_indices.resize(found);
  ASSERT_EQ(indices, want_indices);
}

}  // namespace scbf_test
