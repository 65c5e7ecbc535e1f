// SPDX-License-Identifier: Apache-2.0
// insert_new, beside what does the same without it: a lookup, and an insertion of the keys that it
// did not find. Each batch is given to an empty filter, in which nearly all keys are new, and then
// once more.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "driver/driver.hpp"
#include "driver/keys.hpp"
#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"

namespace scbf::bench {

namespace {

constexpr const char* kUsage = "usage: new_keys_bench [keys …] [Google Benchmark's flags]\n";

class NewKeysFixture final : public Fixture {
 public:
  NewKeysFixture(Layout layout, std::size_t n, double fpr, unsigned threads)
      : options_{.threads = threads},
        filter_(geometry_for(layout, n, fpr)),
        keys_(present_keys(0, n)),
        answers_(n) {
    absent_.reserve(n);
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

void add_new_keys(Layout layout, std::size_t n, double fpr) {
  for (const unsigned threads : {1u, 2u}) {
    if (threads > std::thread::hardware_concurrency()) continue;
    Row row;
    row.name =
        fmt::format("new/layout:{}/n:{}/fpr:{:g}/threads:{}", to_string(layout), n, fpr, threads);
    row.measure = by(&NewKeysFixture::measure);
    row.passes = std::max<std::size_t>(1, 2'000'000 / n);
    add_case([=] { return std::make_unique<NewKeysFixture>(layout, n, fpr, threads); },
             {std::move(row)});
  }
}

void add_cases(const std::vector<std::string>& arguments) {
  std::vector<std::size_t> sizes;
  for (const std::string& argument : arguments) sizes.push_back(parse_number(argument, 1000));
  if (sizes.empty()) sizes = {100'000, 10'000'000, 100'000'000};
  for (const std::size_t n : sizes) {
    add_new_keys(Layout::split_block, n, 0.01);
    add_new_keys(Layout::split_block, n, 0.001);
    add_new_keys(Layout::ranked, n, 0.01);
    add_new_keys(Layout::split, n, 0.01);
  }
}

}  // namespace

}  // namespace scbf::bench

int main(int argc, char** argv) {
  return scbf::bench::run(argc, argv, scbf::bench::kUsage, scbf::bench::add_cases);
}
