// SPDX-License-Identifier: Apache-2.0
// The consistency check. It compares the entries of all rows with the postings, the postings with
// the counts, the counts with the filter, and the totals with the region's stored state.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "encoding.hpp"
#include "index_state.hpp"
#include "scbf/detail/hash.hpp"

namespace scbf {

using namespace index;

namespace {

constexpr std::size_t kListed = 100;
// Postings looked up in one batch, and values probed in the filters in one batch.
constexpr std::size_t kLookedUp = 1024;
constexpr std::size_t kValues = 16 * 1024;

/// Sums of equal sets of keys are equal, in whatever order they came. Those of others are equal by
/// chance: one in 2^64.
struct Sum {
  std::uint64_t number = 0, hashes = 0;

  void add(std::string_view key) noexcept {
    ++number;
    hashes += detail::hash_of_bytes(key, 0);
  }
  bool operator==(const Sum&) const = default;
};

class Checking {
 public:
  /// `beside_writer`: columns that are not indexed may have entries (definition.cpp).
  Checking(const Store& store, const Router& router, const TableSchema& schema, bool beside_writer,
           CheckReport& report)
      : store_(store),
        router_(router),
        schema_(schema),
        beside_writer_(beside_writer),
        report_(report) {}

  void region(const Region& region, std::string_view from, std::string_view to) {
    std::uint64_t rows = 0, values = 0;
    try {
      rows = check_rows(region.id, from, to);
      values = check_counts(region);
      if (expected_ != found_) name_missing(region.id, from, to);
    } catch (const CorruptFile& error) {
      return problem(region.id, fmt::format("cannot be checked to its end: {}", error.what()));
    }
    if (rows != region.rows) {
      problem(region.id,
              fmt::format("has {} rows, but its state says {}", rows, region.rows.load()));
    }
    if (values != region.values) {
      problem(region.id, fmt::format("has {} distinct values, but its state says {}", values,
                                     region.values.load()));
    }
  }

 private:
  void problem(RegionId id, const std::string& text) {
    if (report_.regions.empty() || report_.regions.back() != id) report_.regions.push_back(id);
    if (++report_.problem_count <= kListed) {
      report_.problems.push_back(fmt::format("region {} {}", id, text));
    }
  }
  bool ignored(std::string_view entry) const {
    return beside_writer_ && !is_indexed(schema_, entry);
  }
  std::string value_shown(std::string_view entry) const {
    const std::size_t column = column_of(entry);
    const std::string name =
        column < schema_.columns.size() ? schema_.columns[column].name : "(no such column)";
    return fmt::format("{} {}", name, shown(entry.substr(2)));
  }

  /// Calls use(key) for the posting of every entry of every row. Returns the number of rows.
  template <class Use>
  std::uint64_t for_each_expected(RegionId id, std::string_view from, std::string_view to,
                                  Use use) const {
    std::uint64_t rows = 0;
    for (auto row = store_.cursor(Family::rows, from, to); row.valid(); row.next(), ++rows) {
      const auto values = decode_row(row.key(), row.value(), schema_.columns.size());
      for (const std::string& entry : entries_of(schema_, values)) {
        use(posting_key(id, entry, row.key()));
      }
    }
    return rows;
  }

  /// Adds up the postings that rows should have. check_counts adds up those that are there.
  std::uint64_t check_rows(RegionId id, std::string_view from, std::string_view to) {
    expected_ = {};
    const std::uint64_t rows = for_each_expected(
        id, from, to, [&](const std::string& posting) { expected_.add(posting); });
    report_.rows += rows;
    return rows;
  }

  /// Looks up the posting of every entry of every row, to say which ones are missing.
  void name_missing(RegionId id, std::string_view from, std::string_view to) {
    std::vector<std::string> postings;
    const auto look = [&] {
      const auto found = store_.get(Family::postings, postings);
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i]) continue;
        const Posting posting = parse_posting(postings[i]);
        problem(id, fmt::format("has no posting of {} for row {}", value_shown(posting.entry),
                                shown(std::string_view(postings[i]).substr(posting.prefix))));
      }
      postings.clear();
    };
    for_each_expected(id, from, to, [&](std::string posting) {
      postings.push_back(std::move(posting));
      if (postings.size() >= kLookedUp) look();
    });
    look();
  }

  /// Compares postings and counts, value by value. Returns the number of values.
  std::uint64_t check_counts(const Region& region) {
    const std::string prefix = region_key(region.id);
    auto posting = store_.cursor(Family::postings, prefix, after_prefix(prefix));
    std::uint64_t values = 0;
    found_ = {};
    std::vector<std::string> entries;
    const auto ask = [&] {
      ask_filter(region, entries);
      entries.clear();
    };
    const auto without_count = [&] {
      const std::string entry = parse_posting(posting.key()).entry;
      if (ignored(entry)) return;
      problem(region.id, fmt::format("has a posting of {} without a count", value_shown(entry)));
      found_.add(posting.key());
    };
    for_each_value(store_, {}, region.id, [&](std::string_view entry, std::uint64_t rows) {
      if (ignored(entry)) return;
      // Postings escape the zero bytes of a value, but sort in the same order.
      const std::string begin = posting_prefix(region.id, entry);
      for (; posting.valid() && posting.key() < begin; posting.next()) without_count();
      std::uint64_t there = 0;
      for (; posting.valid() && posting.key().starts_with(begin); posting.next(), ++there) {
        found_.add(posting.key());
      }
      if (there != rows) {
        problem(region.id, fmt::format("has {} postings of {}, and counts {}", there,
                                       value_shown(entry), rows));
      }
      ++values;
      entries.emplace_back(entry);
      if (entries.size() >= kValues) ask();
    });
    ask();
    for (; posting.valid(); posting.next()) without_count();
    if (found_.number != expected_.number) {
      problem(region.id, fmt::format("has {} postings, but its rows have {} values", found_.number,
                                     expected_.number));
    }
    report_.postings += found_.number;
    report_.values += values;
    return values;
  }

  void ask_filter(const Region& region, const std::vector<std::string>& entries) {
    const std::vector<std::string_view> views(entries.begin(), entries.end());
    MemberLists lists;
    const std::vector<std::uint64_t> hashes = router_.hash(views);
    router_.find(hashes, lists);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const auto members = lists.of(i);
      if (!std::binary_search(members.begin(), members.end(), region.member)) {
        problem(region.id,
                fmt::format("has {}, which its filter does not know", value_shown(entries[i])));
      }
    }
  }

  const Store& store_;
  const Router& router_;
  const TableSchema& schema_;
  const bool beside_writer_;
  CheckReport& report_;
  Sum expected_, found_;  // of the postings that the region's rows require, and of those it has
};

}  // namespace

CheckReport SecondaryIndex::check(const IndexProgress& progress) const {
  CheckReport report;
  Checking checking(*state_->store, state_->router, state_->schema, state_->read_only, report);
  const std::uint64_t rows = statistics().rows;
  std::string from;
  // A region may be split meanwhile, so go on at the key where the last region ended.
  for (bool more = true; more;) {
    state_->with_region_of(from, [&](std::size_t at, const RegionMap& now) {
      const std::string to(now.end(at));
      // Check the whole region, even if it was merged meanwhile with one that is already checked.
      checking.region(*now[at].region, now[at].from, to);
      more = !to.empty();
      from = to;
    });
    if (progress) progress(report.rows, rows);
  }
  return report;
}

}  // namespace scbf
