// SPDX-License-Identifier: Apache-2.0
// What tests of faults go through: backends, growths, modes and kinds of keys; and whether a filter
// holds what it should after a fault.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scbf/filter.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace scbf_test {

/// The keys of a batch in one of the forms that it can have.
struct FaultColumn {
  explicit FaultColumn(std::size_t n, std::uint64_t seed) : values(random_keys(n, seed)) {
    std::vector<std::string> text;
    for (std::size_t i = 0; i < n; ++i) {
      // Some keys occur twice, so that removal has conflicts.
      if (i % 7 == 6) values[i] = values[i / 2];
      text.push_back(std::to_string(values[i]));
    }
    strings.emplace(text);
    validity.resize((n + 7) / 8);
    for (auto& byte : validity) byte = std::byte{0xED};
  }
  static constexpr int kKinds = 5;
  scbf::KeyBatch as(int kind) const {
    switch (kind) {
      case 0:
        return values;
      case 1:
        return scbf::KeyBatch(values).with_validity(validity);
      case 2:
        return strings->strings;
      case 3:
        return scbf::KeyBatch::from_offsets(strings->data, strings->offsets32)
            .with_validity(validity);
      default:
        return scbf::KeyBatch::from_hashes(values);
    }
  }

  std::vector<std::uint64_t> values;
  std::optional<StringColumn> strings;
  std::vector<std::byte> validity;
};

inline constexpr std::size_t kFaultKeys = 1500;

inline std::vector<scbf::Growth> fault_growths() {
  return {scbf::Growth::one(scbf::Geometry::split_block(1, 200)),
          scbf::Growth::one(scbf::Geometry::split_block(2, 150)),
          scbf::Growth::one(scbf::Geometry::split(5, 3000)),
          scbf::Growth::fixed(scbf::Geometry::split_block(2, 35), 40),
          scbf::Growth::fixed(scbf::Geometry::split(3, 800), 20),
          scbf::Growth::tightening(300, 0.05)};
}

inline std::vector<Mode> fault_modes() {
  return {{1, scbf::Path::direct},
          {2, scbf::Path::direct},
          {1, scbf::Path::partitioned},
          {2, scbf::Path::partitioned},
          {2, scbf::Path::partitioned, 1}};
}

/// Equal counters and numbers of keys. `got` may have further stages that are empty.
inline ::testing::AssertionResult same_after_fault(const scbf::Filter& got,
                                                   const scbf::Filter& want) {
  for (std::size_t s = 0; s < std::max(got.stages(), want.stages()); ++s) {
    if (s >= got.stages()) return ::testing::AssertionFailure() << "stage " << s << " is missing";
    if (s >= want.stages()) {
      if (got.stage(s).nonzero() == 0) continue;
      return ::testing::AssertionFailure() << "stage " << s << " should be empty";
    }
    const auto same = same_words(words_of(got.stage(s)), words_of(want.stage(s)));
    if (!same) return ::testing::AssertionFailure() << "stage " << s << ": " << same.message();
    if (got.stage(s).keys_inserted() != want.stage(s).keys_inserted() ||
        got.stage(s).keys_removed() != want.stage(s).keys_removed()) {
      return ::testing::AssertionFailure() << "stage " << s << ": numbers of keys differ";
    }
  }
  return knows_its_fill(got);
}

/// Calls test(filter, keys, options) for filters of every backend and growth, in every mode; the
/// kinds of keys take turns.
template <class Test>
void for_each_setup(Test test) {
  const FaultColumn before(kFaultKeys, 1), batch(kFaultKeys, 2);
  int kind = 0;
  for (const char* name : {"scalar", "simd", "far"}) {
    for (const scbf::Growth& growth : fault_growths()) {
      scbf::Filter filter(growth, {.seed = 3, .backend = name});
      filter.insert(before.values, {.threads = 1});
      ++kind;  // so that each kind meets each mode
      for (const Mode& mode : fault_modes()) {
        kind = (kind + 1) % FaultColumn::kKinds;
        SCOPED_TRACE(std::string(name) + ", " + growth.describe() + ", " +
                     growth.first_geometry().describe() + ", " + mode.name() + ", kind " +
                     std::to_string(kind));
        test(filter, batch.as(kind), mode.options());
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace scbf_test
