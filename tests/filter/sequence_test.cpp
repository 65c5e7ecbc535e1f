// SPDX-License-Identifier: Apache-2.0
// Random sequences of operations on filters of every growth; RapidCheck shrinks those that fail.
// Any sequence must equal the reference (support/reference.hpp). While only inserted keys are
// removed, by a multiset, there must be no false negatives. A batch must equal any split of it.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "support/far_backend.hpp"
#include "support/keys.hpp"
#include "support/reference.hpp"
#include "support/setups.hpp"

namespace scbf_test::sequence_test {
namespace {

using scbf::Filter;
using scbf::Geometry;
using scbf::Growth;
using scbf::KeyBatch;
using scbf::Layout;
using Keys = std::vector<std::uint64_t>;

const bool kAdded = add_far_backends();

struct Step {
  enum Kind { insert, insert_new, remove, ask, merge, subtract, clear, copy } kind;
  Keys keys;
};
void showValue(const Step& step, std::ostream& out) {
  static constexpr const char* kNames[] = {"insert", "insert_new", "remove", "ask",
                                           "merge",  "subtract",   "clear",  "copy"};
  out << kNames[step.kind] << '(';
  for (const auto key : step.keys) out << key << ' ';
  out << ')';
}

/// Few different keys, so that sequences repeat them.
rc::Gen<Keys> some_keys() {
  return rc::gen::container<Keys>(rc::gen::inRange<std::uint64_t>(0, 50));
}
std::vector<Step> some_steps() {
  return *rc::gen::container<std::vector<Step>>(rc::gen::apply(
      [](Step::Kind kind, Keys keys) {
        return Step{kind, std::move(keys)};
      },
      rc::gen::weightedElement<Step::Kind>({{6, Step::insert},
                                            {3, Step::insert_new},
                                            {5, Step::remove},
                                            {2, Step::ask},
                                            {1, Step::merge},
                                            {1, Step::subtract},
                                            {1, Step::clear},
                                            {1, Step::copy}}),
      some_keys()));
}

/// A growth so small that filters get several stages, or many collisions in the only one.
Growth some_growth() {
  const auto layout = *rc::gen::element(Layout::split, Layout::split_block);
  const auto policy = *rc::gen::element(Growth::Policy::one, Growth::Policy::one,
                                        Growth::Policy::fixed, Growth::Policy::tightening);
  if (policy == Growth::Policy::tightening) {
    return Growth::tightening(*rc::gen::inRange<std::uint64_t>(1, 60),
                              *rc::gen::element(0.5, 0.1, 0.01), layout,
                              *rc::gen::element(1.0, 1.5, 2.0, 4.0), *rc::gen::element(0.5, 0.8));
  }
  const bool one = policy == Growth::Policy::one;
  const auto size = *rc::gen::inRange<std::uint64_t>(1, layout == Layout::split ? 400 : 40);
  const Geometry geometry =
      layout == Layout::split ? Geometry::split(*rc::gen::element<std::uint32_t>(1, 3, 7, 10, 20),
                                                one ? size : size + 9)
                              : Geometry::split_block(*rc::gen::inRange<std::uint32_t>(1, 4), size);
  return one ? Growth::one(geometry)
             : Growth::fixed(geometry, *rc::gen::element<std::uint32_t>(1, 2, 5, 256));
}

/// A growth, and two backends and two modes to compare.
struct Setup {
  Growth growth = some_growth();
  std::uint64_t seed = *rc::gen::arbitrary<std::uint64_t>();
  const scbf::Backend* backends[2] = {*rc::gen::elementOf(available_backends()),
                                      *rc::gen::elementOf(available_backends())};
  Mode modes[2] = {*rc::gen::elementOf(contract_modes()), *rc::gen::elementOf(contract_modes())};

  Setup() {
    RC_LOG() << growth.describe() << ' ' << backends[0]->name() << ' ' << modes[0] << " / "
             << backends[1]->name() << ' ' << modes[1] << " seed " << seed << '\n';
  }
  Filter filter(int which = 0) const {
    return Filter(growth, {.seed = seed, .backend = backends[which]->name()});
  }
  scbf::BatchOptions options(int which = 0) const { return modes[which].options(); }
};

/// Inserts as many keys as there is room for, and returns how many.
std::size_t insert(Filter& filter, const KeyBatch& keys, const scbf::BatchOptions& options = {}) {
  try {
    const auto report = filter.insert(keys, options);
    RC_ASSERT(report.inserted == keys.size());
    return keys.size();
  } catch (const scbf::FilterFull& full) {
    RC_ASSERT(full.done().inserted == full.processed());
    return full.processed();
  }
}

RC_GTEST_PROP(Sequences, EqualTheSecondOpinion, ()) {
  const Setup setup;
  Filter filter = setup.filter();
  ReferenceFilter reference(setup.growth, setup.seed);
  for (const Step& step : some_steps()) {
    switch (step.kind) {
      case Step::insert: {
        std::size_t in = 0;
        while (in < step.keys.size() && reference.insert(step.keys[in])) ++in;
        RC_ASSERT(insert(filter, step.keys, setup.options()) == in);
        break;
      }
      case Step::insert_new: {
        if (filter.backend().memory() != scbf::kHostMemory) break;
        Answers want;
        bool has_room = true;
        for (const auto key : step.keys) {
          const bool is_new = reference.count(key) == 0;
          if (is_new && !(has_room = reference.insert(key))) break;
          want.push_back(is_new);
        }
        Answers out(step.keys.size());
        try {
          filter.insert_new(step.keys, out, setup.options());
          RC_ASSERT(has_room);
        } catch (const scbf::FilterFull& full) {
          RC_ASSERT(full.processed() == want.size() && !has_room);
          out.resize(want.size());
        }
        RC_ASSERT(out == want);
        break;
      }
      case Step::remove:
        RC_ASSERT(remove(filter, step.keys, setup.options()) == reference.remove_all(step.keys));
        break;
      case Step::ask:
        RC_ASSERT(contains(filter, step.keys, setup.options()) ==
                  reference.contains_all(step.keys));
        RC_ASSERT(count(filter, step.keys, setup.options()) == reference.count_all(step.keys));
        break;
      case Step::merge:
      case Step::subtract: {
        Filter other = setup.filter();
        ReferenceFilter other_reference(setup.growth, setup.seed);
        insert(other, step.keys);
        other_reference.insert_all(step.keys);
        if (setup.growth.policy() != Growth::Policy::one) {
          if (step.kind == Step::subtract) break;  // stages_test
          // Removal empties the older stages of the other, so that only late ones are appended.
          const Keys older(step.keys.begin(),
                           step.keys.begin() + static_cast<std::ptrdiff_t>(step.keys.size() / 2));
          remove(other, older);
          other_reference.remove_all(older);
          if (reference.merge(other_reference)) {
            filter.merge(other, setup.options());
          } else {
            RC_ASSERT_THROWS_AS(filter.merge(other, setup.options()), scbf::Incompatible);
          }
        } else if (step.kind == Step::merge) {
          filter.merge(other, setup.options());
          reference.stage().merge(other_reference.stage());
        } else if (reference.stage().below(other_reference.stage()) > 0) {
          RC_ASSERT_THROWS_AS(filter.subtract(other, setup.options()), scbf::Incompatible);
        } else {
          const auto inexact = reference.stage().subtract(other_reference.stage());
          RC_ASSERT(filter.subtract(other, setup.options()).inexact_counters == inexact);
        }
        break;
      }
      case Step::clear:
        filter.clear();
        reference.clear();
        break;
      case Step::copy: {
        Filter copied = filter;
        insert(filter, step.keys);  // must not show in the copy
        filter = std::move(copied);
      }
    }
    RC_ASSERT(reference.equals(filter));
  }
}

RC_GTEST_PROP(Sequences, HaveNoFalseNegativesWhileOnlyWhatIsInIsRemoved, ()) {
  const Setup setup;
  Filter filter = setup.filter();
  std::map<std::uint64_t, unsigned> truth;
  for (const Step& step : some_steps()) {
    Keys keys;
    for (int copies = 0; copies < 3; ++copies) {  // so that filters grow
      for (const auto key : step.keys) keys.push_back(key + 50 * copies);
    }
    if (step.kind == Step::insert) {
      keys.resize(insert(filter, keys, setup.options()));
      for (const auto key : keys) ++truth[key];
    } else if (step.kind == Step::remove) {
      Keys legal;
      auto left = truth;
      for (const auto key : keys) {
        if (left[key] > 0) legal.push_back(key), --left[key];
      }
      const Answers verdicts = remove(filter, legal, setup.options());
      for (std::size_t i = 0; i < legal.size(); ++i) {
        // The key is present, so it is removed, or ambiguous where there are several stages.
        RC_ASSERT(verdicts[i] == 1 || (verdicts[i] == 2 && filter.stages() > 1));
        truth[legal[i]] -= verdicts[i] == 1;
      }
    } else if (step.kind == Step::merge) {
      Filter other(setup.growth, {.seed = setup.seed});
      keys.resize(insert(other, keys));
      try {
        filter.merge(other);
        for (const auto key : keys) ++truth[key];
      } catch (const scbf::Incompatible&) {
        RC_ASSERT(filter.stages() + other.stages() > setup.growth.most_stages());
      }
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
  const Setup setup;
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const auto n = *rc::gen::inRange<std::size_t>(0, 2000);
  Keys in(n), out(n);
  for (Keys* keys : {&in, &out}) {
    for (auto& key : *keys) key = random.below(n / 2 + 1);
  }
  auto ends =
      *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, n + 1));
  ends.push_back(n);
  std::sort(ends.begin(), ends.end());
  Filter whole = setup.filter(0), pieces = setup.filter(1);
  std::size_t done = 0;
  for (const std::size_t end : ends) {
    done += insert(pieces, KeyBatch(in).slice(done, end - done), setup.options(1));
    if (done < end) break;
  }
  RC_ASSERT(insert(whole, in, setup.options(0)) == done);
  RC_ASSERT(whole == pieces);
  Answers verdicts(n);
  for (std::size_t first = 0; const std::size_t end : ends) {
    pieces.remove(KeyBatch(out).slice(first, end - first),
                  std::span(verdicts).subspan(first, end - first), setup.options(1));
    first = end;
  }
  RC_ASSERT(remove(whole, out, setup.options(0)) == verdicts);
  RC_ASSERT(whole == pieces);
}

}  // namespace
}  // namespace scbf_test::sequence_test
