// SPDX-License-Identifier: Apache-2.0
// Filters and banks that have been moved from, and such arguments. (bulk_insertion_test,
// secondary_index_test and cuda_fake_device_filter_test have the other types, delta_test has
// Delta.)
#include "support/moving.hpp"

#include <utility>

#include "scbf/bloom_bank.hpp"
#include "scbf/delta.hpp"
#include "support/bank_model.hpp"
#include "support/temporary_folder.hpp"

namespace scbf_test::moving_test {
namespace {

using scbf::Bank;
using scbf::BloomBank;
using scbf::BloomFilter;
using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;

// Views and values are copied when they are moved.
template <class T>
concept PlainValue = std::is_trivially_copyable_v<T>;
static_assert(PlainValue<scbf::KeyBatch> && PlainValue<scbf::StageView> && PlainValue<Growth> &&
              PlainValue<Geometry> && PlainValue<scbf::StageShape> &&
              PlainValue<scbf::ConstFilterRef> && PlainValue<scbf::BloomFilterRef> &&
              PlainValue<scbf::FilterRef>);
static_assert(!std::is_move_constructible_v<scbf::Backend> &&
              !std::is_move_constructible_v<scbf::CounterStore> &&
              !std::is_move_assignable_v<scbf::CounterStore>);

const Keys kKeys = random_keys(300, 1);
Answers answers(kKeys.size());
std::vector<std::uint64_t> numbers(kKeys.size());

std::vector<Growth> growths() {
  return {Growth::one(Geometry::split_block(1, 20)), Growth::tightening(60, 0.1)};
}

Filter filled(const Growth& growth) {
  Filter filter(growth, {.seed = 7});
  filter.insert(kKeys);
  filter.set_metadata("text");
  return filter;
}

TEST(Moving, Filters) {
  const TemporaryFolder folder;
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    const Filter want = filled(growth);
    Filter good = want;
    expect_rule_of_moving<Filter>(
        [&] { return filled(growth); },
        [&](const Filter& f) { return f == want && f.metadata() == "text"; },
        {
            [](Filter& f) { (void)f.growth(); },
            [](Filter& f) { (void)f.seed(); },
            [](Filter& f) { (void)f.backend(); },
            [](Filter& f) { f.to("scalar"); },
            [](Filter& f) { (void)f.read_only(); },
            [](Filter& f) { (void)f.stages(); },
            [](Filter& f) { (void)f.stage(0); },
            [](Filter& f) { (void)f.geometry(); },
            [](Filter& f) { (void)f.bytes(); },
            [](Filter& f) { (void)f.keys_inserted(); },
            [](Filter& f) { (void)f.keys_removed(); },
            [](Filter& f) { (void)f.fpr_bound(); },
            [](Filter& f) { f.insert(kKeys); },
            [](Filter& f) { f.contains(kKeys, answers); },
            [](Filter& f) { f.contains_bits(kKeys, std::span(answers).first(38)); },
            [](Filter& f) { f.find(kKeys, numbers); },
            [](Filter& f) { f.remove(kKeys, answers); },
            [](Filter& f) { f.count(kKeys, answers); },
            [](Filter& f) { f.insert_new(kKeys, answers); },
            [](Filter& f) { (void)f.bulk(); },
            [](Filter& f) { (void)f.ref(); },
            [](Filter& f) { (void)std::as_const(f).ref(); },
            [](Filter& f) { f.insert(1); },
            [](Filter& f) { f.insert("a"); },
            [](Filter& f) { (void)f.insert_new(1); },
            [](Filter& f) { (void)f.insert_new("a"); },
            [](Filter& f) { (void)f.contains(1); },
            [](Filter& f) { (void)f.contains("a"); },
            [](Filter& f) { (void)f.remove(1); },
            [](Filter& f) { (void)f.remove("a"); },
            [](Filter& f) { (void)f.count(1); },
            [](Filter& f) { (void)f.count("a"); },
            [&](Filter& f) { f.merge(good); },
            [&](Filter& f) { good.merge(f); },
            [&](Filter& f) { f.subtract(good); },
            [&](Filter& f) { good.subtract(f); },
            [](Filter& f) { f.clear(); },
            [&](Filter& f) { (void)(f == good); },
            [&](Filter& f) { (void)(good == f); },
            [](Filter& f) { (void)f.statistics(); },
            [](Filter& f) { (void)f.nonzero(); },
            [](Filter& f) { (void)f.fill(); },
            [](Filter& f) { (void)f.words(); },
            [](Filter& f) { f.read_words(0, numbers); },
            [](Filter& f) { f.assign(numbers, 0, 0); },
            [](Filter& f) { f.set_metadata("more"); },
            [](Filter& f) { (void)f.metadata(); },
            [&](Filter& f) { f.save(folder / "filter.scbf"); },
            [](Filter& f) { f.write([](std::span<const std::byte>) { FAIL(); }); },
            [](Filter& f) { const Filter copy = f; },
            [&](Filter& f) { good = f; },
            [&](Filter& f) {
              Bank bank(growth, {.seed = 7});
              bank.add_member(std::move(f));
            },
        });
    EXPECT_TRUE(good == want);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    // Copied into.
    Filter empty = std::move(good);
    good = want;
    EXPECT_TRUE(good == want);
  }
}

TEST(Moving, FiltersOfBits) {
  const TemporaryFolder folder;
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    const Filter counters = filled(growth);
    const auto made = [&] {
      BloomFilter bits(counters);
      bits.set_metadata("text");
      return bits;
    };
    const BloomFilter want = made();
    BloomFilter good = want, published = want;
    const scbf::Delta delta = published.advance(counters);
    expect_rule_of_moving<BloomFilter>(
        made, [&](const BloomFilter& f) { return f == want && f.metadata() == "text"; },
        {
            [](BloomFilter& f) { (void)f.growth(); },
            [](BloomFilter& f) { (void)f.seed(); },
            [](BloomFilter& f) { (void)f.backend(); },
            [](BloomFilter& f) { f.to("scalar"); },
            [](BloomFilter& f) { (void)f.read_only(); },
            [](BloomFilter& f) { (void)f.stages(); },
            [](BloomFilter& f) { (void)f.stage(0); },
            [](BloomFilter& f) { (void)f.geometry(); },
            [](BloomFilter& f) { (void)f.bytes(); },
            [](BloomFilter& f) { (void)f.keys_inserted(); },
            [](BloomFilter& f) { (void)f.keys_removed(); },
            [](BloomFilter& f) { (void)f.fpr_bound(); },
            [](BloomFilter& f) { f.insert(kKeys); },
            [](BloomFilter& f) { f.insert_new(kKeys, answers); },
            [](BloomFilter& f) { (void)f.bulk(); },
            [](BloomFilter& f) { (void)f.ref(); },
            [](BloomFilter& f) { (void)std::as_const(f).ref(); },
            [](BloomFilter& f) { f.contains(kKeys, answers); },
            [](BloomFilter& f) { f.contains_bits(kKeys, std::span(answers).first(38)); },
            [](BloomFilter& f) { f.find(kKeys, numbers); },
            [](BloomFilter& f) { f.insert(1); },
            [](BloomFilter& f) { f.insert("a"); },
            [](BloomFilter& f) { (void)f.insert_new(1); },
            [](BloomFilter& f) { (void)f.insert_new("a"); },
            [](BloomFilter& f) { (void)f.contains(1); },
            [](BloomFilter& f) { (void)f.contains("a"); },
            [&](BloomFilter& f) { f.merge(good); },
            [&](BloomFilter& f) { good.merge(f); },
            [&](BloomFilter& f) { f.intersect(good); },
            [&](BloomFilter& f) { good.intersect(f); },
            [](BloomFilter& f) { f.clear(); },
            [&](BloomFilter& f) { (void)(f == good); },
            [&](BloomFilter& f) { (void)(good == f); },
            [](BloomFilter& f) { (void)f.estimated_keys(); },
            [&](BloomFilter& f) { (void)f.estimated_union(good); },
            [&](BloomFilter& f) { (void)good.estimated_union(f); },
            [&](BloomFilter& f) { (void)f.estimated_intersection(good); },
            [&](BloomFilter& f) { (void)good.estimated_intersection(f); },
            [](BloomFilter& f) { (void)f.epoch(); },
            [&](BloomFilter& f) { (void)f.advance(counters); },
            [&](BloomFilter& f) { (void)f.advance(good); },
            [&](BloomFilter& f) { (void)published.advance(f); },
            [&](BloomFilter& f) { f.apply(delta); },
            [](BloomFilter& f) { (void)f.statistics(); },
            [](BloomFilter& f) { (void)f.nonzero(); },
            [](BloomFilter& f) { (void)f.fill(); },
            [](BloomFilter& f) { (void)f.words(); },
            [](BloomFilter& f) { f.read_words(0, numbers); },
            [](BloomFilter& f) { f.set_metadata("more"); },
            [](BloomFilter& f) { (void)f.metadata(); },
            [&](BloomFilter& f) { f.save(folder / "bits.scbf"); },
            [](BloomFilter& f) { f.write([](std::span<const std::byte>) { FAIL(); }); },
            [](BloomFilter& f) { const BloomFilter copy = f; },
            [&](BloomFilter& f) { good = f; },
        });
    EXPECT_TRUE(good == want);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    Filter gone = counters;
    const Filter taken = std::move(gone);
    EXPECT_THROW(BloomFilter{gone}, scbf::InvalidArgument);
    EXPECT_THROW(published.advance(gone), scbf::InvalidArgument);
  }
}

TEST(Moving, Banks) {
  const TemporaryFolder folder;
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    BankModel model(growth, 7);
    model.members.emplace(0, filled(growth));
    const Filter other = filled(growth);
    scbf::MemberLists lists;
    const std::vector<scbf::MemberKeys> batches{{0, kKeys}};
    Bank good(growth, {.seed = 7});
    good.add_member(other);
    expect_rule_of_moving<Bank>(
        [&] {
          Bank bank(growth, {.seed = 7});
          bank.add_member(filled(growth));
          return bank;
        },
        [&](const Bank& b) { return bool(same_bank(b, model, kKeys, {})); },
        {
            [](Bank& b) { (void)b.growth(); },
            [](Bank& b) { (void)b.seed(); },
            [](Bank& b) { (void)b.backend(); },
            [](Bank& b) { (void)b.size(); },
            [](Bank& b) { (void)b.slots(); },
            [](Bank& b) { (void)b.capacity(); },
            [](Bank& b) { (void)b.memory(); },
            [](Bank& b) { b.reserve(3); },
            [](Bank& b) { b.add_member(); },
            [&](Bank& b) { b.add_member(other); },
            [](Bank& b) { b.add_members({}); },
            [](Bank& b) { b.remove_member(0); },
            [&](Bank& b) { b.replace_member(0, other); },
            [](Bank& b) { (void)b.copy_member(0); },
            [](Bank& b) { (void)b.has_member(0); },
            [](Bank& b) { (void)b.stages(0); },
            [](Bank& b) { (void)b.stage(0, 0); },
            [](Bank& b) { (void)b.fpr_bound(0); },
            [](Bank& b) { (void)b.metadata(0); },
            [](Bank& b) { b.set_metadata(0, "text"); },
            [](Bank& b) { (void)b.metadata(); },
            [](Bank& b) { b.set_metadata("text"); },
            [&](Bank& b) { b.save(folder / "b.bank"); },
            [](Bank& b) { b.write([](std::span<const std::byte>) {}); },
            [](Bank& b) { b.ask_always(0, true); },
            [](Bank& b) { (void)b.asked_always(0); },
            [](Bank& b) { b.insert(0, kKeys); },
            [](Bank& b) { b.remove(0, kKeys); },
            [&](Bank& b) { b.insert(batches); },
            [&](Bank& b) { b.remove(batches); },
            [](Bank& b) { b.insert(std::span<const scbf::MemberKeys>()); },
            [&](Bank& b) { b.merge(0, other); },
            [&](Bank& b) { b.subtract(0, other); },
            [](Bank& b) { b.clear(0); },
            [](Bank& b) { (void)b.answer_bytes(); },
            [](Bank& b) { b.contains_bits(kKeys, answers); },
            [&](Bank& b) { b.find(kKeys, lists); },
            [](Bank& b) { (void)b.find(1); },
            [](Bank& b) { (void)b.find("a"); },
            [&](Bank& b) { (void)(b == good); },
            [&](Bank& b) { (void)(good == b); },
            [](Bank& b) { const Bank copy = b; },
            [&](Bank& b) { good = b; },
            [](Bank& b) { const BloomBank bits(b); },
            [](Bank& b) { const BloomBank bits(std::move(b)); },
        });
    EXPECT_TRUE(same_bank(good, model, kKeys, {}));
    const BloomFilter bits(other);
    BloomFilter published = bits;
    const scbf::Delta delta = published.advance(other);
    BloomBank good_bits(good);
    expect_rule_of_moving<BloomBank>(
        [&] {
          BloomBank bank(growth, {.seed = 7});
          bank.add_member(bits);
          return bank;
        },
        [&](const BloomBank& b) { return b.size() == 1 && b.copy_member(0) == bits; },
        {
            [](BloomBank& b) { (void)b.growth(); },
            [](BloomBank& b) { (void)b.seed(); },
            [](BloomBank& b) { (void)b.backend(); },
            [](BloomBank& b) { (void)b.size(); },
            [](BloomBank& b) { (void)b.slots(); },
            [](BloomBank& b) { (void)b.capacity(); },
            [](BloomBank& b) { (void)b.bytes(); },
            [](BloomBank& b) { (void)b.read_only(); },
            [](BloomBank& b) { b.reserve(3); },
            [&](BloomBank& b) { b.add_member(bits); },
            [](BloomBank& b) { b.add_members({}); },
            [](BloomBank& b) { b.remove_member(0); },
            [&](BloomBank& b) { b.replace_member(0, bits); },
            [](BloomBank& b) { (void)b.copy_member(0); },
            [](BloomBank& b) { (void)b.epoch(0); },
            [&](BloomBank& b) { b.apply(0, delta); },
            [&](BloomBank& b) { b.save(folder / "bits.bank"); },
            [](BloomBank& b) { b.write([](std::span<const std::byte>) { FAIL(); }); },
            [](BloomBank& b) { (void)b.has_member(0); },
            [](BloomBank& b) { (void)b.stages(0); },
            [](BloomBank& b) { (void)b.fpr_bound(0); },
            [](BloomBank& b) { (void)b.metadata(0); },
            [](BloomBank& b) { b.set_metadata(0, "text"); },
            [](BloomBank& b) { (void)b.metadata(); },
            [](BloomBank& b) { b.set_metadata("text"); },
            [](BloomBank& b) { b.ask_always(0, true); },
            [](BloomBank& b) { (void)b.asked_always(0); },
            [](BloomBank& b) { (void)b.answer_bytes(); },
            [](BloomBank& b) { b.contains_bits(kKeys, answers); },
            [&](BloomBank& b) { b.find(kKeys, lists); },
            [](BloomBank& b) { (void)b.find(1); },
            [](BloomBank& b) { (void)b.find("a"); },
            [&](BloomBank& b) { (void)(b == good_bits); },
            [&](BloomBank& b) { (void)(good_bits == b); },
            [](BloomBank& b) { const BloomBank copy = b; },
            [&](BloomBank& b) { good_bits = b; },
        });
    EXPECT_TRUE(good_bits.size() == 1 && good_bits.copy_member(0) == bits);
    // As an argument.
    BloomBank bank(growth, {.seed = 7});
    bank.add_member(bits);
    BloomFilter gone = bits;
    const BloomFilter taken = std::move(gone);
    EXPECT_THROW(bank.add_member(std::move(gone)), scbf::InvalidArgument);
    EXPECT_THROW(bank.replace_member(0, std::move(gone)), scbf::InvalidArgument);
    EXPECT_TRUE(bank.size() == 1 && bank.copy_member(0) == taken);
  }
}

}  // namespace
}  // namespace scbf_test::moving_test
