// SPDX-License-Identifier: Apache-2.0
// Removal with most_absent, against the model (the scalar backend without it): if the model says
// that more keys are absent, nothing may change, and the exception says what the model says.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scbf/bank.hpp"
#include "scbf/filter.hpp"
#include "support/bank_check.hpp"
#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace scbf_test::all_or_nothing_test {
namespace {

using scbf::Bank;
using scbf::BatchOptions;
using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using scbf::Path;
using scbf::RemoveReport;

[[maybe_unused]] const bool kFar = add_far_backends();

std::vector<Growth> growths() {
  return {Growth::one(Geometry::split_block(1, 60)),
          Growth::one(Geometry::split_block(2, 50)),
          Growth::one(Geometry::split(5, 900)),
          Growth::one(Geometry::ranked(100, 60, 40)),
          Growth::fixed(Geometry::split_block(2, 20), 40),
          Growth::tightening(80, 0.1)};
}

/// Keys to remove: most are in the filter, some are in the batch more often than in the filter, and
/// some are absent.
std::vector<std::uint64_t> some_keys(const std::vector<std::uint64_t>& in, unsigned absent,
                                     Random& random) {
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < in.size(); i += 1 + random.below(4)) keys.push_back(in[i]);
  for (unsigned i = 0; i < absent; ++i) {
    keys.push_back(random.below(2) == 0 ? keys[random.below(keys.size())] : random());
  }
  for (std::size_t i = keys.size(); i-- > 1;) std::swap(keys[i], keys[random.below(i + 1)]);
  return keys;
}

void expect_equal(const RemoveReport& got, const RemoveReport& want) {
  EXPECT_EQ(got.removed, want.removed);
  EXPECT_EQ(got.absent, want.absent);
  EXPECT_EQ(got.ambiguous, want.ambiguous);
  EXPECT_EQ(got.nulls, want.nulls);
}
::testing::AssertionResult same_filter(const Filter& got, const Filter& want) {
  if (!(got == want)) return ::testing::AssertionFailure() << "counters differ";
  for (std::size_t s = 0; s < got.stages(); ++s) {
    if (got.stage(s).keys_inserted() != want.stage(s).keys_inserted() ||
        got.stage(s).keys_removed() != want.stage(s).keys_removed()) {
      return ::testing::AssertionFailure() << "numbers of keys of stage " << s << " differ";
    }
  }
  return knows_its_fill(got);
}

TEST(AllOrNothing, OfFiltersAndMembersAsTheModelSays) {
  Random random(7);
  int refused = 0, removed = 0, with_duplicates = 0;
  for (const scbf::Backend* backend : available_backends()) {
    for (const Growth& growth : growths()) {
      if (!backend->supports(growth.layout())) continue;
      for (const Mode& mode :
           {Mode{1, Path::direct}, {1, Path::partitioned}, {2, Path::partitioned}}) {
        for (const unsigned absent : {0u, 1u, 3u, 40u}) {
          SCOPED_TRACE(std::string(backend->name()) + ", " + growth.describe() + ", " +
                       mode.name() + ", " + std::to_string(absent));
          std::vector<std::uint64_t> in = random_keys(400, absent);
          in.insert(in.end(), 20, in[0]);  // saturated
          in.insert(in.end(), 14, in[1]);
          Filter model(growth, {.seed = 3, .backend = "scalar"});
          model.insert(in);
          Filter filter = model;
          filter.to(backend->name());
          const std::vector<std::uint64_t> keys = some_keys(in, absent, random);
          std::vector<std::byte> bitmap((keys.size() + 7) / 8, std::byte{0xFF});
          if (absent == 3) bitmap.back() = std::byte{1}, bitmap.front() = std::byte{0xFD};
          const KeyBatch batch = KeyBatch(keys).with_validity(bitmap);
          Filter after = model;
          Answers verdicts(keys.size());
          const RemoveReport want = after.remove(batch, verdicts);
          Answers seen = contains(model, batch);
          with_duplicates +=
              want.absent >
              static_cast<std::uint64_t>(std::count(seen.begin(), seen.end(), 0)) - want.nulls;
          for (const std::uint64_t most : {std::uint64_t{0}, want.absent - (want.absent > 0),
                                           want.absent, want.absent + 1, scbf::kAnyNumber - 1}) {
            BatchOptions options = mode.options();
            options.most_absent = most;
            const bool refuses = want.absent > most;
            refused += refuses;
            removed += !refuses;
            const auto check = [&](auto&& remove) {
              for (const bool tell : {true, false}) {
                Answers got(tell ? keys.size() : 0, 0xCC);
                bool threw = false;
                try {
                  expect_equal(remove(got), want);
                } catch (const scbf::KeysAbsent& error) {
                  threw = true;
                  expect_equal(error.report(), want);
                  EXPECT_NE(std::string(error.what()).find(std::to_string(want.absent) + " of "),
                            std::string::npos);
                }
                ASSERT_EQ(threw, refuses);
                if (tell) {
                  ASSERT_TRUE(same_answers(got, verdicts));
                }
              }
            };
            ASSERT_NO_FATAL_FAILURE(check([&](Answers& got) {
              Filter copy = filter;
              struct Check {
                const Filter &got, &want;
                ~Check() { EXPECT_TRUE(same_filter(got, want)); }
              } compare{copy, refuses ? model : after};
              return copy.remove(batch, got, options);
            }));
            if (backend->memory() != scbf::kHostMemory) continue;
            ASSERT_NO_FATAL_FAILURE(check([&](Answers& got) {
              Bank bank(growth, {.seed = 3, .backend = backend->name()});
              bank.add_member();
              bank.add_member(model);
              struct Check {
                const Bank& bank;
                const Filter& want;
                ~Check() {
                  EXPECT_TRUE(same_filter(bank.copy_member(1), want));
                  EXPECT_EQ(scbf_test::bank_error(bank), std::nullopt);
                }
              } compare{bank, refuses ? model : after};
              return bank.remove(1, batch, got, options);
            }));
          }
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(removed, 100);
  EXPECT_GT(with_duplicates, 10);
}

TEST(AllOrNothing, IsForOneMemberOfABank) {
  Bank bank(Growth::tightening(100, 0.01));
  bank.add_member();
  const std::vector<std::uint64_t> keys{1, 2};
  bank.insert(0, keys);
  const std::vector<scbf::MemberKeys> batches{{0, keys}};
  SCBF_EXPECT_THROW(bank.remove(batches, {.most_absent = 0}), scbf::InvalidArgument,
                    "most_absent 0");
  EXPECT_EQ(bank.stage(0, 0).keys_removed(), 0u);
}

}  // namespace
}  // namespace scbf_test::all_or_nothing_test
