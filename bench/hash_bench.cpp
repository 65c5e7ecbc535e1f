// SPDX-License-Identifier: Apache-2.0
// What hashing byte strings takes, in batches of every kind (KeyBatch::hashes), and the same
// strings one after another (hash_of), which is xxHash in a loop.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/driver.hpp"
#include "driver/keys.hpp"
#include "scbf/key_batch.hpp"

namespace scbf::bench {

namespace {

constexpr const char* kUsage = "usage: hash_bench [keys …] [Google Benchmark's flags]\n";
constexpr std::uint64_t kSeed = 7;

/// Lengths in bytes, all equally likely.
struct Lengths {
  std::size_t least, most;
};

/// The same strings in the forms that a batch takes: bytes back to back, with their offsets or of
/// one width, views of these, and strings in another order, of which the long ones lie anywhere.
class StringsFixture final : public Fixture {
 public:
  StringsFixture(Lengths lengths, std::size_t n) : hashes_(n) {
    std::mt19937_64 random(n);
    std::uniform_int_distribution<std::size_t> length(lengths.least, lengths.most);
    offsets_.push_back(0);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t end = text_.size() + length(random);
      for (std::uint64_t part = 0; text_.size() < end; ++part) {
        const std::uint64_t word = key_word(present_number(part, i));
        text_.append(reinterpret_cast<const char*>(&word),
                     std::min(sizeof word, end - text_.size()));
      }
      offsets_.push_back(static_cast<std::int64_t>(text_.size()));
    }
    for (std::size_t i = 0; i < n; ++i) {
      const auto first = static_cast<std::size_t>(offsets_[i]);
      views_.push_back(
          std::string_view(text_).substr(first, static_cast<std::size_t>(offsets_[i + 1]) - first));
    }
    anywhere_.assign(views_.begin(), views_.end());
    std::ranges::shuffle(anywhere_, random);
  }

  void column(Repetition& r) {
    const auto bytes = std::as_bytes(std::span(text_));
    measure(r, KeyBatch::from_offsets(bytes, offsets_), views_);
  }
  void fixed(Repetition& r) {
    measure(r, KeyBatch::from_fixed(std::as_bytes(std::span(text_)), views_[0].size()), views_);
  }
  void views(Repetition& r) { measure(r, views_, views_); }
  void strings(Repetition& r) { measure(r, anywhere_, anywhere_); }

 private:
  template <class Strings>
  void measure(Repetition& r, const KeyBatch& keys, const Strings& strings) {
    const auto one_by_one = [&](auto use) {
      for (std::size_t i = 0; i < strings.size(); ++i) use(i, hash_of(strings[i], kSeed));
    };
    keys.hashes(kSeed, hashes_);
    one_by_one([&](std::size_t i, std::uint64_t hash) {
      if (hashes_[i] != hash) throw WrongAnswer("a batch has other hashes than its keys");
    });
    r.time("", keys.size(), [&] { keys.hashes(kSeed, hashes_); });
    r.time("loop", keys.size(),
           [&] { one_by_one([&](std::size_t i, std::uint64_t hash) { hashes_[i] = hash; }); });
  }

  std::string text_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::string_view> views_;
  std::vector<std::string> anywhere_;
  std::vector<std::uint64_t> hashes_;
};

void add_strings(Lengths lengths, std::size_t n) {
  using Measure = void (StringsFixture::*)(Repetition&);
  std::vector<Row> rows;
  for (const auto& [form, measure] :
       {std::pair<const char*, Measure>{"column", &StringsFixture::column},
        {"fixed", &StringsFixture::fixed},
        {"views", &StringsFixture::views},
        {"strings", &StringsFixture::strings}}) {
    if (form == std::string_view("fixed") && lengths.least < lengths.most) continue;
    Row& row = rows.emplace_back();
    row.name =
        fmt::format("hash/form:{}/least:{}/most:{}/n:{}", form, lengths.least, lengths.most, n);
    row.measure = by(measure);
    row.passes = std::max<std::size_t>(1, 4'000'000 / n);
  }
  add_case([=] { return std::make_unique<StringsFixture>(lengths, n); }, std::move(rows));
}

void add_cases(const std::vector<std::string>& arguments) {
  std::vector<std::size_t> sizes;
  for (const std::string& argument : arguments) sizes.push_back(parse_number(argument, 1));
  if (sizes.empty()) sizes = {10'000, 4'000'000};
  for (const std::size_t n : sizes) {
    for (const Lengths lengths :
         {Lengths{16, 16}, Lengths{3, 12}, Lengths{50, 50}, Lengths{20, 80}}) {
      add_strings(lengths, n);
    }
  }
}

}  // namespace

}  // namespace scbf::bench

int main(int argc, char** argv) {
  return scbf::bench::run(argc, argv, scbf::bench::kUsage, scbf::bench::add_cases);
}
