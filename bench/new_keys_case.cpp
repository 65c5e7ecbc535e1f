// SPDX-License-Identifier: Apache-2.0
#include "new_keys_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "driver/driver.hpp"
#include "driver/keys.hpp"
#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"

namespace scbf::bench {

namespace {

class NewKeysFixture final : public Fixture {
 public:
  explicit NewKeysFixture(const NewKeysCase& c)
      : options_{.threads = c.threads},
        filter_(geometry_for(c.layout, c.n, c.fpr)),
        keys_(present_keys(0, c.n)),
        answers_(c.n) {
    absent_.reserve(c.n);
  }

  void verify() override {
    filter_.insert_new(batch(), answers_, options_);
    check_answers();
    std::vector<std::uint8_t> found(keys_.size());
    if (filter_.contains(batch(), found, options_).hits != keys_.size()) {
      throw WrongAnswer("a key that is new, or was there, is not found");
    }
    filter_.clear();
  }

  void measure(Repetition& r) {
    r.label(std::string(filter_.backend().target()));
    r.time("", keys_.size(), [&] { filter_.insert_new(batch(), answers_, options_); });
    check_answers();
    r.time("again", keys_.size(), [&] { filter_.insert_new(batch(), answers_, options_); });
    check_all_present();
    filter_.clear();
    r.time("asked", keys_.size(), [&] { ask_and_insert(); });
    r.time("asked_again", keys_.size(), [&] { ask_and_insert(); });
    check_all_present();
    filter_.clear();
  }

 private:
  std::span<const std::uint64_t> batch() const { return {keys_.span().words, keys_.size()}; }

  void ask_and_insert() {
    filter_.contains(batch(), answers_, options_);
    absent_.clear();
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      answers_[i] ^= 1;
      if (answers_[i] != 0) absent_.push_back(batch()[i]);
    }
    filter_.insert(absent_, options_);
  }

  /// Keys are distinct, so all are new, but for those that are taken for others.
  void check_answers() const {
    const auto n = static_cast<double>(keys_.size());
    const double old = n - static_cast<double>(std::ranges::count(answers_, 1));
    if (old > predicted_fpr(filter_.geometry(), n) * n + 50) {
      throw WrongAnswer(fmt::format("{} of {} new keys are taken for old ones", old, n));
    }
  }
  void check_all_present() const {
    if (std::ranges::count(answers_, 1) > 0) throw WrongAnswer("a key is new that is there");
  }

  BatchOptions options_;
  Filter filter_;
  KeyList keys_;
  std::vector<std::uint8_t> answers_;
  std::vector<std::uint64_t> absent_;
};

}  // namespace

void add_new_keys_case(const NewKeysCase& c) {
  Row row;
  row.name =
      fmt::format("new/filter:{}/n:{}/fpr:{:g}/keys:u64/backend:simd/path:automatic/threads:{}",
                  to_string(c.layout), c.n, c.fpr, c.threads);
  row.repetitions = c.repetitions;
  row.measure = by(&NewKeysFixture::measure);
  row.passes = std::max<std::size_t>(1, 2'000'000 / c.n);
  add_case([c] { return std::make_unique<NewKeysFixture>(c); }, {std::move(row)});
}

}  // namespace scbf::bench
