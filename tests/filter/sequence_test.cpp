// SPDX-License-Identifier: Apache-2.0
// Random sequences of operations, shrunk by RapidCheck when one fails: against a multiset (no
// false negatives while only what was inserted is removed), against the second opinion of
// support/reference.hpp (any sequence), and against the same batch cut into pieces.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <memory>

#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/setups.hpp"

namespace {

using namespace scbf_test;
using scbf::Geometry;
using Keys = std::vector<std::uint64_t>;

struct Step {
  enum Kind { insert, remove, ask, merge, subtract, clear, copy } kind;
  Keys keys;
};
void showValue(const Step& step, std::ostream& out) {
  static constexpr const char* kNames[] = {"insert",   "remove", "ask", "merge",
                                           "subtract", "clear",  "copy"};
  out << kNames[step.kind] << '(';
  for (const auto key : step.keys) out << key << ' ';
  out << ')';
}

/// Few different keys, so that sequences come back to them.
rc::Gen<Keys> some_keys() {
  return rc::gen::container<Keys>(rc::gen::inRange<std::uint64_t>(0, 50));
}
rc::Gen<Step> some_step() {
  return rc::gen::apply(
      [](Step::Kind kind, Keys keys) {
        return Step{kind, std::move(keys)};
      },
      rc::gen::weightedElement<Step::Kind>({{6, Step::insert},
                                            {5, Step::remove},
                                            {2, Step::ask},
                                            {1, Step::merge},
                                            {1, Step::subtract},
                                            {1, Step::clear},
                                            {1, Step::copy}}),
      some_keys());
}

Geometry some_geometry() {
  if (*rc::gen::arbitrary<bool>()) {
    const auto groups = *rc::gen::inRange<std::uint32_t>(1, 4);
    return Geometry::split_block(groups, *rc::gen::inRange<std::uint64_t>(1, 40));
  }
  const auto probes = *rc::gen::element<std::uint32_t>(1, 2, 7, 10, 20);
  return Geometry::split(probes, *rc::gen::inRange<std::uint64_t>(1, 400));
}
Mode some_mode() { return *rc::gen::elementOf(contract_modes()); }
const scbf::Backend& some_backend() { return **rc::gen::elementOf(available_backends()); }

void must_equal(const scbf::Filter& filter, const ReferenceFilter& reference) {
  RC_ASSERT(same_words(words_of(filter), reference.words()));
  RC_ASSERT(knows_its_fill(filter));
}

RC_GTEST_PROP(Sequences, EqualTheSecondOpinion, ()) {
  const Geometry geometry = some_geometry();
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Mode mode = some_mode();
  const scbf::Backend& backend = some_backend();
  RC_LOG() << geometry.describe() << ' ' << backend.name() << ' ' << mode << " seed " << seed
           << '\n';
  scbf::Filter filter(geometry, {.seed = seed, .backend = backend.name()});
  ReferenceFilter reference(geometry, seed);
  for (const Step& step : *rc::gen::container<std::vector<Step>>(some_step())) {
    scbf::Filter other(geometry, {.seed = seed, .backend = backend.name()});
    ReferenceFilter other_reference(geometry, seed);
    switch (step.kind) {
      case Step::insert:
        RC_ASSERT(filter.insert(step.keys, mode.options()).inserted == step.keys.size());
        for (const auto key : step.keys) reference.insert(key);
        break;
      case Step::remove: {
        Answers want;
        for (const auto key : step.keys) want.push_back(reference.remove(key));
        RC_ASSERT(remove(filter, step.keys, mode.options()) == want);
        break;
      }
      case Step::ask: {
        Answers hits, counts;
        for (const auto key : step.keys) {
          hits.push_back(reference.contains(key));
          counts.push_back(static_cast<std::uint8_t>(reference.count(key)));
        }
        RC_ASSERT(contains(filter, step.keys, mode.options()) == hits);
        RC_ASSERT(count(filter, step.keys, mode.options()) == counts);
        break;
      }
      case Step::merge:
      case Step::subtract:
        other.insert(step.keys);
        for (const auto key : step.keys) other_reference.insert(key);
        if (step.kind == Step::merge) {
          filter.merge(other, mode.options());
          reference.merge(other_reference);
        } else if (reference.below(other_reference) > 0) {
          RC_ASSERT_THROWS_AS(filter.subtract(other, mode.options()), scbf::Incompatible);
        } else {
          const auto inexact = reference.subtract(other_reference);
          RC_ASSERT(filter.subtract(other, mode.options()).inexact_counters == inexact);
        }
        break;
      case Step::clear:
        filter.clear();
        reference.clear();
        break;
      case Step::copy: {
        scbf::Filter copied = filter;
        filter.insert(step.keys);  // must not show in the copy
        filter = std::move(copied);
        break;
      }
    }
    must_equal(filter, reference);
  }
}

RC_GTEST_PROP(Sequences, HaveNoFalseNegativesWhileOnlyWhatIsInIsRemoved, ()) {
  const Geometry geometry = some_geometry();
  const Mode mode = some_mode();
  const scbf::Backend& backend = some_backend();
  RC_LOG() << geometry.describe() << ' ' << backend.name() << ' ' << mode << '\n';
  scbf::Filter filter(geometry, {.seed = 1, .backend = backend.name()});
  std::map<std::uint64_t, unsigned> truth;
  for (const Step& step : *rc::gen::container<std::vector<Step>>(some_step())) {
    if (step.kind == Step::insert) {
      filter.insert(step.keys, mode.options());
      for (const auto key : step.keys) ++truth[key];
    } else if (step.kind == Step::remove) {
      Keys legal;
      for (const auto key : step.keys) {
        if (truth[key] == 0) continue;
        --truth[key];
        legal.push_back(key);
      }
      // All are there, so all must be reported removed.
      RC_ASSERT(filter.remove(legal, {}, mode.options()).removed == legal.size());
    } else if (step.kind == Step::merge) {
      scbf::Filter other(geometry, {.seed = 1});
      other.insert(step.keys);
      filter.merge(other, mode.options());
      for (const auto key : step.keys) ++truth[key];
    } else if (step.kind == Step::clear) {
      filter.clear();
      truth.clear();
    }
    for (const auto& [key, copies] : truth) {
      RC_ASSERT(filter.contains(key) || copies == 0);
      RC_ASSERT(filter.count(key) >= std::min(copies, 15u));
    }
  }
}

RC_GTEST_PROP(Batches, EqualAnySplitOfThem, ()) {
  const Geometry geometry = some_geometry();
  const scbf::Backend& backend = some_backend();
  const Mode mode = some_mode(), other_mode = some_mode();
  RC_LOG() << geometry.describe() << ' ' << backend.name() << ' ' << mode << " / " << other_mode
           << '\n';
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const auto draw = [&](std::size_t n) {
    Keys keys(n);
    for (auto& key : keys) key = random.below(n / 2 + 1);
    return keys;
  };
  const auto n = *rc::gen::inRange<std::size_t>(0, 2000);
  const Keys in = draw(n), out = draw(n);
  const auto cuts =
      *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, n + 1));
  /// Calls f(first, count) for the pieces.
  const auto in_pieces = [&](auto f) {
    std::vector<std::size_t> ends = cuts;
    ends.push_back(n);
    std::sort(ends.begin(), ends.end());
    std::size_t first = 0;
    for (const std::size_t end : ends) {
      f(first, end - first);
      first = end;
    }
  };
  scbf::Filter whole(geometry, {.seed = 2, .backend = backend.name()}), pieces = whole;
  whole.insert(in, mode.options());
  in_pieces([&](std::size_t first, std::size_t size) {
    pieces.insert(scbf::KeyBatch(in).slice(first, size), other_mode.options());
  });
  RC_ASSERT(same_words(words_of(pieces), words_of(whole)));
  const Answers verdicts = remove(whole, out, mode.options());
  Answers verdicts_in_pieces(n);
  in_pieces([&](std::size_t first, std::size_t size) {
    pieces.remove(scbf::KeyBatch(out).slice(first, size),
                  std::span(verdicts_in_pieces).subspan(first, size), other_mode.options());
  });
  RC_ASSERT(verdicts_in_pieces == verdicts);
  RC_ASSERT(same_words(words_of(pieces), words_of(whole)));
}

}  // namespace
