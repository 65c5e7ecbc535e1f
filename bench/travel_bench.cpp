// SPDX-License-Identifier: Apache-2.0
// What travels from a writer to readers: deltas between epochs of a filter of bits, against the
// whole filter, and compressed files of counters and of bits, against their entropy.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "driver/driver.hpp"
#include "driver/keys.hpp"
#include "scbf/delta.hpp"
#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"

namespace {

using namespace scbf;
using namespace scbf::bench;
using Column = std::span<const std::uint64_t>;

constexpr const char* kUsage =
    "usage: travel_bench [keys] [Google Benchmark's flags]\n"
    "       by default 10000000 keys, at least 10000\n";

constexpr double kRate = 0.01;
constexpr BatchOptions kAlone{.threads = 1};

Column column(const KeyList& keys) { return {keys.span().words, keys.span().size}; }

/// The best geometry of a layout for n keys.
Geometry geometry_for(const std::string& layout, std::size_t n) {
  return plan({.capacity = n,
               .fpr = kRate,
               .layout = layout == "split" ? Layout::split : Layout::split_block})
      .geometry;
}

double entropy(double p) {
  return p <= 0 || p >= 1 ? 0 : -p * std::log2(p) - (1 - p) * std::log2(1 - p);
}

// ---- deltas -------------------------------------------------------------------------------------

/// A full filter of counters, its published bits, and those of a reader.
class DeltaFixture final : public Fixture {
 public:
  DeltaFixture(const std::string& layout, std::size_t n)
      : counters_(geometry_for(layout, n)), published_(counters_), reader_(counters_) {
    counters_.insert(column(present_keys(0, n)), kAlone);
    reader_.apply(published_.advance(counters_));
  }

  void verify() override {
    if (!(published_ == BloomFilter(counters_))) throw WrongAnswer("not the writer's bits");
    if (!(reader_ == published_)) throw WrongAnswer("the reader has other bits");
  }

  /// In each epoch, half of the keys that change come and the other half, older ones, go.
  void next_epoch(Repetition& r, std::size_t changed) {
    const std::size_t half = changed / 2;
    counters_.insert(column(present_keys(++set_, half)), kAlone);
    const KeyList old = present_keys(0, gone_ + half);
    counters_.remove(column(old).subspan(gone_), {}, kAlone);
    gone_ += half;
    Delta delta = r.time("", changed, [&] { return published_.advance(counters_); });
    r.time("apply", changed, [&] { reader_.apply(delta); });
    const auto bits = static_cast<double>(counters_.geometry().counters());
    const auto changes = static_cast<double>(delta.changes());
    r.counter("bytes", static_cast<double>(delta.message().size()));
    r.counter("changes", changes);
    r.counter("whole", delta.whole());
    r.counter("whole_bytes", static_cast<double>(published_.bytes()));
    r.counter("entropy_bytes", bits * entropy(changes / bits) / 8);
  }

 private:
  Filter counters_;
  BloomFilter published_, reader_;
  std::uint64_t set_ = 0;
  std::size_t gone_ = 0;
};

void add_deltas(const std::string& layout, std::size_t n) {
  std::vector<Row> rows;
  for (const double share : {0.0001, 0.001, 0.01, 0.1}) {
    const auto changed = static_cast<std::size_t>(share * static_cast<double>(n)) & ~std::size_t{1};
    rows.push_back({.name = fmt::format("delta/layout:{}/n:{}/changed:{}", layout, n, changed),
                    .repetitions = 3,
                    .measure = by(&DeltaFixture::next_epoch, changed),
                    .changes = true});
  }
  add_case([=] { return std::make_unique<DeltaFixture>(layout, n); }, std::move(rows));
}

// ---- compressed files ---------------------------------------------------------------------------

/// The entropy of counters, from their histogram, in bytes.
double entropy_bytes(const Filter& filter) {
  const auto counters = static_cast<double>(filter.geometry().counters());
  const Statistics statistics = filter.statistics(kAlone);
  double bits = 0;
  for (const std::uint64_t count : statistics.stages[0].histogram) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / counters;
    bits -= counters * p * std::log2(p);
  }
  return bits / 8;
}

std::vector<std::byte> compressed(const auto& filter) {
  std::vector<std::byte> bytes;
  filter.write(
      [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); },
      {.compress = true});
  return bytes;
}

class FileFixture final : public Fixture {
 public:
  FileFixture(const std::string& layout, std::size_t n, std::size_t held)
      : counters_(geometry_for(layout, n)), bits_(counters_) {
    counters_.insert(column(present_keys(0, held)), kAlone);
    bits_ = BloomFilter(counters_);
  }

  void pack(Repetition& r, bool bits) {
    const auto whole = static_cast<double>(bits ? bits_.bytes() : counters_.bytes());
    const double fill = bits_.fill(kAlone);
    r.counter("fill", fill);
    r.counter("plain_bytes", whole);
    r.counter("entropy_bytes",
              bits ? entropy(fill) * static_cast<double>(bits_.geometry().counters()) / 8
                   : entropy_bytes(counters_));
    if (bits) {
      measure(r, bits_, whole);
    } else {
      measure(r, counters_, whole);
    }
  }

 private:
  /// An item is a byte before packing, so a nanosecond for each is a gigabyte per second.
  template <class AnyFilter>
  void measure(Repetition& r, const AnyFilter& filter, double whole) {
    const auto items = static_cast<std::size_t>(whole);
    const auto packed = r.time("", items, [&] { return compressed(filter); });
    r.counter("bytes", static_cast<double>(packed.size()));
    const auto again = r.time("read", items, [&] {
      return AnyFilter::read([rest = std::span(packed)](std::span<std::byte> out) mutable {
        const std::size_t some = std::min(out.size(), rest.size());
        std::copy_n(rest.begin(), some, out.begin());
        rest = rest.subspan(some);
        return some;
      });
    });
    if (!(again == filter)) throw WrongAnswer("another filter is read than was written");
  }

  Filter counters_;
  BloomFilter bits_;
};

void add_files(const std::string& layout, std::size_t n) {
  // So many of every thousand keys that the filter is made for.
  for (const std::size_t load : {1, 10, 100, 300, 1000}) {
    std::vector<Row> rows;
    for (const bool bits : {false, true}) {
      rows.push_back({.name = fmt::format("pack/layout:{}/cells:{}/n:{}/load:{}", layout,
                                          bits ? "bits" : "counters", n, load),
                      .repetitions = 3,
                      .measure = by(&FileFixture::pack, bits),
                      .item = "byte"});
    }
    const std::size_t held = n / 1000 * load;
    add_case([=] { return std::make_unique<FileFixture>(layout, n, held); }, std::move(rows));
  }
}

void add_cases(const std::vector<std::string>& arguments) {
  if (arguments.size() > 1) throw UsageError("one number of keys at most");
  const std::size_t n = arguments.empty() ? 10'000'000 : parse_number(arguments[0], 10'000);
  for (const char* layout : {"split_block", "split"}) {
    add_deltas(layout, n);
    add_files(layout, n);
  }
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, kUsage, add_cases); }
