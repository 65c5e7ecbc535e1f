// SPDX-License-Identifier: Apache-2.0
// A bank against separate filters with the same keys as its members ("alone"): queries, memory,
// updates. Each row measures both in turn. And readers: how soon they have answers from a file, and
// what a delta costs them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/driver.hpp"
#include "driver/keys.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/delta.hpp"
#include "scbf/errors.hpp"
#include "scbf/sizing.hpp"

namespace {

using namespace scbf;
using namespace scbf::bench;
using Column = std::span<const std::uint64_t>;

constexpr const char* kUsage =
    "usage: bank_bench [members] [keys per member] [layout] [batch ...]\n"
    "       bank_bench growing [members] [keys of the first stage] [layout] [batch ...]\n"
    "       and Google Benchmark's flags; growing: members of one, two and three stages\n";

constexpr BatchOptions kOneThread{.threads = 1};
constexpr std::size_t kVerified = 2000;  // keys

struct Shape {
  std::string name;  ///< "one", "growing"
  Growth growth;
  std::vector<std::size_t> shares;  ///< keys of each member
  std::size_t asked;                ///< the number of absent keys to ask for
};

/// A folder that goes with this object.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "bank_bench-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw IoError("cannot make the folder " + name);
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

class BankFixture final : public Fixture {
 public:
  explicit BankFixture(const Shape& shape)
      : growth_(shape.growth), asked_(shape.asked), members_(shape.shares.size()) {
    // Members hold consecutive parts of one column of distinct keys.
    for (const std::size_t share : shape.shares) held_ += share;
    const std::size_t spread = spread_of(members_);
    keys_.resize(held_ + members_ * spread + asked_);
    for (std::size_t i = 0; i < keys_.size(); ++i) keys_[i] = key_word(i);
    for (std::size_t m = 0, first = 0; m < members_; first += shape.shares[m++]) {
      const auto member = static_cast<std::uint32_t>(m);
      load_.push_back({member, Column(keys_).subspan(first, shape.shares[m])});
      more_.push_back({member, Column(keys_).subspan(held_ + m * spread, spread)});
    }
    make_empty();
    change_alone(load_, true);
    change_bank(load_, true);
    first_ = {load_[0]};
  }

  /// The number of keys that an update adds to each member.
  static std::size_t spread_of(std::size_t members) {
    return std::max<std::size_t>(1, 1'000'000 / std::max<std::size_t>(members, 1024));
  }

  void verify() override {
    for (std::uint32_t m = 0; m < members_; ++m) {
      if (bank_->stages(m) != alone_[m].stages()) {
        throw WrongAnswer(fmt::format("stages of member {}", m));
      }
      for (std::size_t s = 0; s < alone_[m].stages(); ++s) {
        if (!(bank_->stage(m, s) == alone_[m].stage(s))) {
          throw WrongAnswer(fmt::format("member {}, stage {}", m, s));
        }
      }
    }
    verify_answers(Column(keys_).subspan(held_ / 2, std::min(kVerified, asked_)));
    verify_answers(Column(keys_).last(std::min(kVerified, asked_)));
  }

  std::map<std::string, double> counters() const override {
    std::size_t stages = 0, most = 0;
    for (const Filter& filter : alone_) {
      stages += filter.stages();
      most = std::max(most, filter.stages());
    }
    const BankMemory memory = bank_->memory();
    return {{"mb", static_cast<double>(memory.counters + memory.rows) / 1e6},
            {"mb_alone", static_cast<double>(memory.counters) / 1e6},
            {"stages", static_cast<double>(stages)},
            {"most_stages", static_cast<double>(most)}};
  }

  /// The bank is asked several batches of different keys, because its rows would stay in cache for
  /// repeated ones; the separate filters are asked one. Each form is asked once before it is timed,
  /// because the form before it has filled the cache.
  void query(Repetition& r, std::size_t batch, int calls) {
    r.label(growth_.describe());
    std::vector<std::uint8_t> bits(batch * bank_->answer_bytes()), answers(batch);
    const auto ask = [&](const char* form, int times, const auto& call) {
      call(next(batch));
      for (int i = 0; i < times; ++i) {
        const Column keys = next(batch);
        r.time(form, batch, [&] { call(keys); });
      }
    };
    ask("", calls, [&](Column keys) { bank_->contains_bits(keys, bits, kOneThread); });
    ask("lists", calls, [&](Column keys) { bank_->find(keys, lists_, kOneThread); });
    ask("alone", 1, [&](Column keys) {
      for (const Filter& filter : alone_) filter.contains(keys, answers, kOneThread);
    });
  }

  /// A process opens a file that is in the system's cache, and asks one batch: a bank of bits,
  /// mapped or loaded, or the file of counters.
  void first_answers(Repetition& r, std::size_t batch) {
    if (!files_) {
      files_.emplace();
      BloomBank(*bank_).save(*files_ / "bits");
      bank_->save(*files_ / "counters");
    }
    const Column keys = next(batch);
    bank_->find(keys, lists_, kOneThread);
    const auto ask = [&](const char* form, const auto& open) {
      MemberLists found;
      r.time(form, batch, [&] {
        const BloomBank reader = open();
        reader.find(keys, found, kOneThread);
      });
      if (found.offsets != lists_.offsets || found.members != lists_.members) {
        throw WrongAnswer(fmt::format("bits, {}", form));
      }
    };
    ask("", [&] { return BloomBank::map(*files_ / "bits"); });
    ask("loaded", [&] { return BloomBank::load(*files_ / "bits"); });
    ask("of_counters", [&] { return BloomBank::load(*files_ / "counters"); });
  }

  /// A hundredth of a member's keys go, as many come, and a reader applies the delta: to its bank,
  /// or to a filter beside the bank, which then replaces the member. An item is a bit that changes.
  void apply_delta(Repetition& r) {
    if (!reader_) {
      reader_.emplace(*bank_);
      counters_.emplace(alone_[0]);
      beside_.emplace(*counters_);
      beside_->advance(*counters_);
      reader_->replace_member(0, *beside_, kOneThread);
    }
    const std::size_t some = std::clamp<std::size_t>(load_[0].keys.size() / 100, 1, asked_);
    const KeyBatch held = load_[0].keys.slice(0, some), absent = Column(keys_).last(some);
    counters_->remove(exchanged_ ? absent : held, {}, kOneThread);
    counters_->insert(exchanged_ ? held : absent, kOneThread);
    exchanged_ = !exchanged_;
    const Delta delta = BloomFilter(*beside_).advance(*counters_);
    r.time("", delta.changes(), [&] { reader_->apply(0, delta, kOneThread); });
    const BloomFilter applied = reader_->copy_member(0, kOneThread);
    r.time("replaced", delta.changes(), [&] {
      beside_->apply(delta);
      reader_->replace_member(0, *beside_, kOneThread);
    });
    if (applied != *beside_ || applied.epoch() != delta.epoch()) throw WrongAnswer("a delta");
  }

  /// Inserts all keys into empty members in one call.
  void insert_all(Repetition& r) {
    if (growth_.policy() == Growth::Policy::one) {
      // Both keep their memory, so that neither pays for fresh pages.
      for (std::uint32_t m = 0; m < members_; ++m) {
        alone_[m].clear();
        bank_->clear(m, kOneThread);
      }
    } else {
      make_empty();  // growing filters need fresh pages anyway, on both sides
    }
    r.time("alone", held_, [&] { change_alone(load_, true); });
    r.time("", held_, [&] { change_bank(load_, true); });
  }

  /// Changes a few keys of each member in one call, or all keys of one member. Either the insertion
  /// or the removal is timed; the other one undoes it.
  void update(Repetition& r, bool insert, bool one_member) {
    const std::vector<MemberKeys>& batches = one_member ? first_ : more_;
    const auto undo = [&] {
      change_bank(batches, !insert);
      change_alone(batches, !insert);
    };
    std::size_t keys = 0;
    for (const MemberKeys& one : batches) keys += one.keys.size();
    const bool held_before = one_member;
    if (insert == held_before) undo();
    r.time("", keys, [&] { change_bank(batches, insert); });
    r.time("alone", keys, [&] { change_alone(batches, insert); });
    if (insert != held_before) undo();
  }

 private:
  void make_empty() {
    bank_.reset();
    alone_.assign(members_, Filter(growth_));
    bank_.emplace(growth_, BankOptions{.capacity = static_cast<std::uint32_t>(members_)});
    for (std::size_t m = 0; m < members_; ++m) bank_->add_member();
  }
  void change_bank(const std::vector<MemberKeys>& batches, bool insert) {
    const MemberKeys& first = batches[0];
    if (batches.size() == 1 && insert) {
      bank_->insert(first.member, first.keys, kOneThread);
    } else if (batches.size() == 1) {
      bank_->remove(first.member, first.keys, {}, kOneThread);
    } else if (insert) {
      bank_->insert(batches, kOneThread);
    } else {
      bank_->remove(batches, kOneThread);
    }
  }
  void change_alone(const std::vector<MemberKeys>& batches, bool insert) {
    for (const MemberKeys& one : batches) {
      if (insert) {
        alone_[one.member].insert(one.keys, kOneThread);
      } else {
        alone_[one.member].remove(one.keys, {}, kOneThread);
      }
    }
  }

  /// Other keys than those of the last calls, whose rows are in cache.
  Column next(std::size_t batch) {
    return Column(keys_).last(asked_).subspan(++round_ * batch * 61 % (asked_ - batch + 1), batch);
  }

  /// Each separate filter must give the answers of its member in the bank.
  void verify_answers(Column keys) const {
    std::vector<std::uint8_t> bits(keys.size() * bank_->answer_bytes()), answers(keys.size());
    bank_->contains_bits(keys, bits, kOneThread);
    for (std::uint32_t m = 0; m < members_; ++m) {
      alone_[m].contains(keys, answers, kOneThread);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto bit = bits[i * bank_->answer_bytes() + m / 8] >> m % 8 & 1;
        if (bit != answers[i]) throw WrongAnswer(fmt::format("key {}, member {}: {}", i, m, bit));
      }
    }
  }

  Growth growth_;
  std::size_t asked_, members_, held_ = 0, round_ = 0;
  std::vector<std::uint64_t> keys_;
  std::vector<MemberKeys> load_, more_, first_;
  std::optional<Bank> bank_;
  std::optional<Folder> files_;  ///< of the bank, which all changes leave as it was
  // A reader of the first member's counters, with its bits in the bank and beside it.
  std::optional<BloomBank> reader_;
  std::optional<Filter> counters_;
  std::optional<BloomFilter> beside_;
  bool exchanged_ = false;  ///< some of the member's keys, for others
  std::vector<Filter> alone_;
  MemberLists lists_;
};

void add_bank(const Shape& shape, const std::vector<std::size_t>& batches) {
  const std::size_t members = shape.shares.size();
  const std::string what =
      fmt::format("bank:{}/members:{}/keys:{}", shape.name, members,
                  std::reduce(shape.shares.begin(), shape.shares.end()) / members);
  std::vector<Row> rows;
  for (const std::size_t n : batches) {
    const int repetitions = n == 1 ? 101 : n <= 1000 ? 15 : 3;
    const int calls = n == 1 ? 50 : n <= 1000 ? 7 : 2;
    rows.push_back({.name = fmt::format("query/{}/batch:{}", what, n),
                    .repetitions = repetitions,
                    .measure = by(&BankFixture::query, n, calls)});
  }
  for (const std::size_t n : batches) {
    rows.push_back({.name = fmt::format("first_answers/{}/batch:{}", what, n),
                    .repetitions = 3,
                    .measure = by(&BankFixture::first_answers, n)});
  }
  rows.push_back({.name = "apply_delta/" + what, .measure = by(&BankFixture::apply_delta)});
  rows.push_back({.name = "insert_all/" + what,
                  .repetitions = 3,
                  .measure = by(&BankFixture::insert_all),
                  .changes = true});
  for (const bool one_member : {false, true}) {
    const std::string into = one_member
                                 ? "/one_member:" + std::to_string(shape.shares[0])
                                 : "/into_each:" + std::to_string(BankFixture::spread_of(members));
    for (const bool insert : {true, false}) {
      rows.push_back({.name = (insert ? "insert/" : "remove/") + what + into,
                      .measure = by(&BankFixture::update, insert, one_member),
                      .changes = true});
    }
  }
  add_case([shape] { return std::make_unique<BankFixture>(shape); }, std::move(rows));
}

void add_cases(const std::vector<std::string>& arguments) {
  const bool growing = !arguments.empty() && arguments[0] == "growing";
  const std::size_t at = growing ? 1 : 0;
  const auto number = [&](std::size_t i, std::size_t otherwise) {
    return arguments.size() > i ? std::size_t{parse_number(arguments[i], 1)} : otherwise;
  };
  const std::size_t members = number(at, growing ? 256 : 1024);
  const std::size_t keys = number(at + 1, growing ? 20'000 : 100'000);
  const Layout layout =
      layout_from_string(arguments.size() > at + 2 ? arguments[at + 2] : "split_block");
  std::vector<std::size_t> batches;
  for (std::size_t i = at + 3; i < arguments.size(); ++i) batches.push_back(number(i, 0));
  if (batches.empty()) batches = {100'000, 1000, 1};
  Shape shape{.name = growing ? "growing" : "one",
              .growth = growing ? Growth::tightening(keys, 0.01, layout)
                                : Growth::one(geometry_for(layout, keys, 0.01)),
              .shares = std::vector<std::size_t>(members, keys),
              .asked = 8 * *std::ranges::max_element(batches)};
  for (std::size_t m = 0; growing && m < members; ++m) {
    // A third of the members stays in the first stage, a third half fills the second, and a third
    // half fills the third.
    shape.shares[m] = m % 3 == 0 ? keys * 4 / 5 : m % 3 == 1 ? keys * 2 : keys * 5;
  }
  add_bank(shape, batches);
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, kUsage, add_cases); }
