// SPDX-License-Identifier: Apache-2.0
// Lookups, counts and removals in several filters at once, against filters asked one by one. They
// run on every backend and vector target, far memory included, for all layouts, threads, paths and
// scratch sizes: 0 to 10 filters of mixed shapes; keys in the oldest filter, the newest, several or
// none; batches around the sizes of strips, lanes and chunks; nulls, strings, hashes, and one key
// many times.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace scbf_test::several_filters_test {
namespace {

using scbf::ConstCounterView;
using scbf::CounterView;
using scbf::Geometry;
using scbf::KeyBatch;
using Keys = std::vector<std::uint64_t>;

const bool kAdded = add_far_backends();
constexpr std::uint64_t kSeed = 77;

struct Case {
  const scbf::Backend* backend;
  std::string shapes;
  Mode mode;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.backend->name() << ' ' << c.shapes << ' ' << c.mode;
}

/// Ten shapes of a kind. The first is tiny and later ones are larger, as in filters that grow.
std::vector<Geometry> shapes_of(const std::string& kind) {
  std::vector<Geometry> shapes;
  for (std::uint32_t i = 0; i < 10; ++i) {
    const std::uint64_t blocks = 1 + i * i * 3;
    if (kind == "blocks_1") shapes.push_back(Geometry::split_block(1, blocks));
    if (kind == "blocks_2") shapes.push_back(Geometry::split_block(2, blocks));
    if (kind == "blocks_1_to_3") shapes.push_back(Geometry::split_block(1 + i % 3, blocks));
    // Like the stages of a `fixed` growth.
    if (kind == "alike") shapes.push_back(Geometry::split_block(1, 40));
    if (kind == "slices") shapes.push_back(Geometry::split(1 + i * 2, 30 + 100 * i));
    if (kind == "both") {
      shapes.push_back(i % 2 == 0 ? Geometry::split_block(1 + i % 3, blocks)
                                  : Geometry::split(4 + i, 60 + 100 * i));
    }
  }
  return shapes;
}

/// Several filters, as counters in the memory of a backend and as models.
class Filters {
 public:
  Filters(const scbf::Backend& backend, const std::string& kind, std::size_t filters)
      : backend_(backend), scenario_(kind + std::to_string(filters)) {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    scenario_ += test.substr(0, test.find('/'));
    for (const Geometry& g : shapes_of(kind)) {
      if (stores_.size() == filters) break;
      geometries_.push_back(g);
      stores_.push_back(backend.allocate(g.words()));
      models_.push_back(std::make_unique<scbf::Filter>(
          g, scbf::FilterOptions{.seed = kSeed, .backend = "scalar"}));
    }
  }
  void insert(std::size_t i, const KeyBatch& keys) {
    backend_.insert(CounterView{geometries_[i], kSeed, stores_[i]->words()}, keys, {.threads = 1});
    models_[i]->insert(keys);
  }
  std::size_t size() const { return stores_.size(); }
  /// About as many keys as fill half of the counters.
  std::size_t room(std::size_t i) const {
    return static_cast<std::size_t>(0.69 * static_cast<double>(geometries_[i].counters()) /
                                    geometries_[i].probes());
  }
  Answers ask(const KeyBatch& keys, const scbf::BatchOptions& options) const {
    return answers(keys, options, &scbf::Backend::contains);
  }
  Answers count(const KeyBatch& keys, const scbf::BatchOptions& options) const {
    return answers(keys, options, &scbf::Backend::count);
  }
  /// What the models answer one by one: whether any has a key, and the sums of their counts.
  const Answers& one_by_one(const KeyBatch& keys) const {
    return once(keys, 1, [&](const auto& model) { return scbf_test::contains(model, keys); });
  }
  const Answers& counts_one_by_one(const KeyBatch& keys) const {
    return once(keys, 15, [&](const auto& model) { return scbf_test::count(model, keys); });
  }
  /// Removes from all filters at once, and key by key from the models. Compares verdicts, counts,
  /// changes and counters.
  ::testing::AssertionResult remove(const KeyBatch& keys, const scbf::BatchOptions& options) {
    std::vector<scbf::CounterView> views;
    for (std::size_t i = 0; i < size(); ++i) {
      views.push_back({geometries_[i], kSeed, stores_[i]->words()});
    }
    Answers verdicts(keys.size() + 1, 0xCC);
    std::vector<scbf::RemovalChange> changes(size());
    const scbf::RemoveCounts counts =
        backend_.remove(views, keys, verdicts.data(), changes, options);
    if (verdicts.back() != 0xCC) return ::testing::AssertionFailure() << "written past the end";
    verdicts.pop_back();
    Answers want;
    std::vector<std::uint64_t> removed(size(), 0), before;
    for (const auto& model : models_) before.push_back(model->nonzero());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::vector<std::size_t> claims;
      for (std::size_t f = 0; f < size(); ++f) {
        if (scbf_test::contains(*models_[f], keys.slice(i, 1))[0] != 0) claims.push_back(f);
      }
      want.push_back(static_cast<std::uint8_t>(std::min<std::size_t>(claims.size(), 2)));
      if (claims.size() != 1) continue;
      models_[claims[0]]->remove(keys.slice(i, 1));
      ++removed[claims[0]];
    }
    if (const auto same = same_answers(verdicts, want); !same) return same;
    if (counts.removed != static_cast<std::uint64_t>(std::ranges::count(want, 1)) ||
        counts.ambiguous != static_cast<std::uint64_t>(std::ranges::count(want, 2))) {
      return ::testing::AssertionFailure()
             << counts.removed << " removed, " << counts.ambiguous << " ambiguous";
    }
    for (std::size_t f = 0; f < size(); ++f) {
      std::vector<std::uint64_t> words(geometries_[f].words());
      stores_[f]->read(0, words);
      if (const auto same = same_words(words, models_[f]->words()); !same) return same;
      const std::uint64_t emptied_there = before[f] - models_[f]->nonzero();
      const bool must_count = backend_.memory() == scbf::kHostMemory;
      if (changes[f].emptied.value_or(must_count ? ~0u : emptied_there) != emptied_there) {
        return ::testing::AssertionFailure()
               << "filter " << f << ": " << changes[f].emptied.value_or(~0u)
               << " emptied, the model " << emptied_there;
      }
      if (changes[f].keys != removed[f]) {
        return ::testing::AssertionFailure()
               << "filter " << f << ": " << changes[f].keys << " keys, the model " << removed[f];
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  std::vector<ConstCounterView> newest_first() const {
    std::vector<ConstCounterView> views;
    for (std::size_t i = size(); i-- > 0;) {
      views.push_back({geometries_[i], kSeed, stores_[i]->words()});
    }
    return views;
  }

  template <class Operation>
  Answers answers(const KeyBatch& keys, const scbf::BatchOptions& options,
                  Operation operation) const {
    Answers out(keys.size() + 1, 0xCC);
    const std::uint64_t hits = (backend_.*operation)(newest_first(), keys, out.data(), options);
    EXPECT_EQ(out.back(), 0xCC) << "written past the end";
    out.pop_back();
    EXPECT_EQ(hits, out.size() - static_cast<std::uint64_t>(std::ranges::count(out, 0)));
    return out;
  }
  /// The sums of the models' answers, up to `most`. They are computed once: a test asks the same
  /// questions in the same order on every backend and in every mode.
  template <class Answer>
  const Answers& once(const KeyBatch& keys, int most, Answer answer) const {
    static std::map<std::pair<std::string, int>, Answers> known;
    const auto [found, is_new] = known.try_emplace({scenario_, asked_++}, keys.size());
    Answers& sums = found->second;
    if (!is_new) return sums;
    for (const auto& model : models_) {
      const Answers answers = answer(*model);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] = static_cast<std::uint8_t>(std::min(sums[i] + answers[i], most));
      }
    }
    return sums;
  }

  const scbf::Backend& backend_;
  std::string scenario_;
  mutable int asked_ = 0;
  std::vector<Geometry> geometries_;
  std::vector<std::unique_ptr<scbf::CounterStore>> stores_;
  std::vector<std::unique_ptr<scbf::Filter>> models_;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  std::vector<const scbf::Backend*> backends = backends_to_compare();
  backends.push_back(&scbf::find_backend("scalar"));
  for (const scbf::Backend* backend : backends) {
    for (const char* shapes :
         {"blocks_1", "blocks_2", "blocks_1_to_3", "slices", "both", "alike"}) {
      for (const Mode& mode : contract_modes()) {
        const bool far = backend->memory() != scbf::kHostMemory;
        if (far && (mode.threads > 1 || backend->name() == "far:again")) continue;
        if (!is_worthwhile(*backend, mode)) continue;
        all.push_back({backend, shapes, mode});
      }
    }
  }
  return all;
}

class SeveralFilters : public ::testing::TestWithParam<Case> {
 protected:
  Filters filters(std::size_t n) const { return {*GetParam().backend, GetParam().shapes, n}; }
  scbf::BatchOptions options() const { return GetParam().mode.options(); }
};
INSTANTIATE_TEST_SUITE_P(All, SeveralFilters, ::testing::ValuesIn(cases()), [](const auto& test) {
  return identifier(test.param.backend->name()) + "_" + test.param.shapes + "_" +
         test.param.mode.name();
});

TEST_P(SeveralFilters, AsManyFiltersAndBatchesOfAllSizes) {
  for (const std::size_t n : {0u, 1u, 2u, 3u, 4u, 10u}) {
    SCOPED_TRACE(std::to_string(n) + " filters");
    Filters filters = this->filters(n);
    Keys asked;
    for (std::size_t i = 0; i < n; ++i) {
      const Keys keys = random_keys(filters.room(i), i);
      filters.insert(i, keys);
      asked.insert(asked.end(), keys.begin(), keys.end());
    }
    const Keys absent = random_keys(5000, 999);
    asked.insert(asked.end(), absent.begin(), absent.end());
    Random random(n);
    for (std::size_t i = asked.size(); i > 1; --i) std::swap(asked[i - 1], asked[random.below(i)]);
    for (const std::size_t size :
         {0u,   1u,   4u,   5u,   15u,  16u,   17u,   63u,   64u,   65u,   127u,
          128u, 129u, 511u, 512u, 513u, 1023u, 1024u, 1025u, 2047u, 2049u, 4999u}) {
      SCOPED_TRACE("batch of " + std::to_string(size));
      const KeyBatch batch = KeyBatch(asked).slice(size == 4999 ? 0 : random.below(100), size);
      ASSERT_TRUE(same_answers(filters.ask(batch, options()), filters.one_by_one(batch)));
      if (size > 17 && size != 1025 && size != 4999) continue;  // more keys are counted in one way
      ASSERT_TRUE(same_answers(filters.count(batch, options()), filters.counts_one_by_one(batch)));
    }
  }
}

TEST_P(SeveralFilters, KeysOfTheOldestTheNewestSeveralOrNone) {
  Filters filters = this->filters(10);
  const std::size_t last = filters.size() - 1;
  const Keys everywhere = random_keys(20, 7), newest = random_keys(filters.room(last), 8),
             oldest = random_keys(filters.room(0) + 1, 9), absent = random_keys(3000, 10);
  for (std::size_t i = 0; i <= last; ++i) filters.insert(i, everywhere);
  filters.insert(last, newest);
  filters.insert(0, oldest);
  // So often that the sum of all counts exceeds 15.
  for (std::size_t i = 0; i <= last; ++i) filters.insert(i, Keys(9, everywhere[0]));
  ASSERT_TRUE(
      same_answers(filters.count(everywhere, options()), filters.counts_one_by_one(everywhere)));
  ASSERT_EQ(filters.count(everywhere, options())[0], 15);
  for (const Keys& only : {everywhere, newest, oldest, absent}) {
    ASSERT_TRUE(same_answers(filters.ask(only, options()), filters.one_by_one(only)));
  }
  for (const Keys& present : {everywhere, newest, oldest}) {
    ASSERT_TRUE(same_answers(filters.ask(present, options()), Answers(present.size(), 1)));
  }
  // From all hits to nearly all misses: keys are found in each filter, in some, in none.
  for (const std::size_t every : {1u, 2u, 5u, 9u, 40u}) {
    SCOPED_TRACE("one of " + std::to_string(every) + " is present");
    Keys mix = absent;
    for (std::size_t i = 0; i < mix.size(); i += every) mix[i] = newest[i % newest.size()];
    for (std::size_t i = 3; i < mix.size(); i += 3 * every) mix[i] = oldest[i % oldest.size()];
    ASSERT_TRUE(same_answers(filters.ask(mix, options()), filters.one_by_one(mix)));
  }
  for (const std::uint64_t same : {everywhere[0], newest[0], oldest[0], absent[0]}) {
    const Keys repeated(3000, same);
    ASSERT_TRUE(same_answers(filters.ask(repeated, options()), filters.one_by_one(repeated)));
  }
  // Hashes at both ends of the range: only the first and the last partition have keys.
  Keys hashes(2500);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    hashes[i] = i % 2 == 0 ? i * 77 : ~(std::uint64_t{i} << 20);
  }
  filters.insert(4, KeyBatch::from_hashes(hashes).slice(0, 200));
  const KeyBatch batch = KeyBatch::from_hashes(hashes);
  ASSERT_TRUE(same_answers(filters.ask(batch, options()), filters.one_by_one(batch)));
}

TEST_P(SeveralFilters, RemovalIsOneKeyAfterAnother) {
  Filters filters = this->filters(4);
  Keys out;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    const Keys keys = random_keys(filters.room(i), i);
    filters.insert(i, keys);
    out.insert(out.end(), keys.begin(), keys.end());
  }
  const Keys everywhere = random_keys(5, 7), absent = random_keys(50, 8);
  for (std::size_t i = 0; i < filters.size(); ++i) filters.insert(i, everywhere);
  out.insert(out.end(), everywhere.begin(), everywhere.end());
  out.insert(out.end(), absent.begin(), absent.end());
  Random random(3);
  for (std::size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[random.below(i)]);
  // Each key twice, some null.
  const std::size_t half = std::min<std::size_t>(out.size(), 300);
  out.resize(half);
  out.insert(out.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(half));
  std::vector<std::byte> bitmap(out.size() / 8 + 2);
  for (auto& byte : bitmap) byte = static_cast<std::byte>(random() | random());
  const KeyBatch some = KeyBatch(out).with_validity(bitmap, 3);
  ASSERT_TRUE(filters.remove(some, options()));
  ASSERT_TRUE(filters.remove(KeyBatch(out).slice(0, 16), options()));
  ASSERT_TRUE(filters.remove(some.slice(20, 16), options()));
  ASSERT_TRUE(filters.remove(some.slice(40, 17), options()));
  ASSERT_TRUE(same_answers(filters.count(out, options()), filters.counts_one_by_one(out)));
}

TEST_P(SeveralFilters, NullsAndStrings) {
  Filters filters = this->filters(6);
  std::vector<std::string> strings;
  for (unsigned i = 0; i < 2300; ++i) strings.push_back(random_bytes(i % 40, i));
  std::vector<std::byte> bitmap(strings.size() / 8 + 2);
  Random random(3);
  for (auto& byte : bitmap) byte = static_cast<std::byte>(random());
  const KeyBatch all(strings), some = all.with_validity(bitmap, 3);
  for (std::size_t i = 0; i < filters.size(); ++i) {
    filters.insert(i, some.slice(i * 300, std::min<std::size_t>(filters.room(i), 300)));
  }
  ASSERT_TRUE(same_answers(filters.ask(all, options()), filters.one_by_one(all)));
  ASSERT_TRUE(same_answers(filters.ask(some, options()), filters.one_by_one(some)));
  const std::vector<std::byte> none(bitmap.size());
  const KeyBatch nulls = all.with_validity(none);
  ASSERT_TRUE(same_answers(filters.ask(nulls, options()), Answers(strings.size(), 0)));
  const Keys numbers = random_keys(2300, 5);
  const KeyBatch few = KeyBatch(numbers).with_validity(bitmap, 5);
  for (std::size_t i = 0; i < filters.size(); ++i) filters.insert(i, few.slice(100 * i, 40));
  ASSERT_TRUE(same_answers(filters.ask(few, options()), filters.one_by_one(few)));
}

/// Filters so large that lines are prefetched and that a batch goes through the filters in the
/// order of its hashes. Threads share the batch.
TEST(SeveralFiltersInMemory, EqualsFiltersAskedOneByOne) {
  const std::vector<Geometry> shapes = {
      Geometry::split_block(1, 100), Geometry::split_block(2, 9'000),
      Geometry::split_block(3, 70'000), Geometry::split_block(1, 80'000),
      Geometry::split_block(2, 66'000)};
  std::vector<scbf::Filter> filters;
  Keys asked;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    filters.emplace_back(shapes[i], scbf::FilterOptions{.seed = kSeed});
    const auto room = static_cast<std::size_t>(0.4 * static_cast<double>(shapes[i].counters()) /
                                               shapes[i].probes());
    const Keys keys = random_keys(room, i);
    filters.back().insert(keys);
    asked.insert(asked.end(), keys.begin(), keys.begin() + std::min<std::ptrdiff_t>(room, 60'000));
  }
  const Keys absent = random_keys(130'000, 55);
  asked.insert(asked.end(), absent.begin(), absent.end());
  Answers want(asked.size(), 0);
  for (const scbf::Filter& filter : filters) {
    const Answers answers = contains(filter, asked);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] |= answers[i];
  }
  for (const scbf::Backend* backend : available_backends()) {
    if (backend->memory() != scbf::kHostMemory) continue;
    if (backend->name() == "simd") continue;  // one of its targets under another name
    std::vector<ConstCounterView> views;
    for (std::size_t i = filters.size(); i-- > 0;) {
      views.push_back({shapes[i], kSeed, filters[i].words().data()});
    }
    for (const Mode& mode : contract_modes()) {
      if (mode.scratch_bytes == 1 && !is_best_target(*backend)) continue;
      if (!is_worthwhile(*backend, mode)) continue;
      SCOPED_TRACE(std::string(backend->name()) + " " + mode.name());
      const std::size_t before = two_threads().parallel_runs;
      Answers out(asked.size(), 0xCC);
      backend->contains(views, asked, out.data(), mode.options());
      ASSERT_TRUE(same_answers(out, want));
      if (mode.threads > 1 && backend->name() != "scalar") {
        EXPECT_GT(two_threads().parallel_runs, before);
      }
    }
  }
}

}  // namespace
}  // namespace scbf_test::several_filters_test
