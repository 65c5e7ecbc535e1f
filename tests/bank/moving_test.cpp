// SPDX-License-Identifier: Apache-2.0
// Filters and banks that have been moved from, and such arguments. (cuda_fake_device_filter_test
// and secondary_index_test have the other types.)
#include "support/moving.hpp"

#include "scbf/bloom_bank.hpp"
#include "support/bank_model.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace scbf_test;
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
            [](Filter& f) { f.insert(1); },
            [](Filter& f) { f.insert("a"); },
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
            [](BloomBank& b) { b.reserve(3); },
            [&](BloomBank& b) { b.add_member(bits); },
            [](BloomBank& b) { b.add_members({}); },
            [](BloomBank& b) { b.remove_member(0); },
            [&](BloomBank& b) { b.replace_member(0, bits); },
            [](BloomBank& b) { (void)b.copy_member(0); },
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
