// SPDX-License-Identifier: Apache-2.0
// A second opinion on what a filter of several stages does: the rules of its header, one key at a
// time, over the second opinion on a filter (reference.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "scbf/filter.hpp"
#include "support/reference.hpp"
#include "support/setups.hpp"

namespace scbf_test {

class StagesModel {
 public:
  StagesModel(const scbf::Growth& growth, std::uint64_t seed) : growth_(growth), seed_(seed) {
    add();
  }

  /// False if there is no room, and then nothing has changed.
  template <class Key>
  bool insert(const Key& key) {
    for (Stage& stage : stages_) {
      if (nonzero(stage.filter) < stage.shape.full_at) {
        stage.filter.insert(key);
        return true;
      }
    }
    if (stages_.size() == growth_.most_stages()) return false;
    add();
    stages_.back().filter.insert(key);
    return true;
  }
  template <class Key>
  unsigned count(const Key& key) const {
    unsigned sum = 0;
    for (const Stage& stage : stages_) sum += stage.filter.count(key);
    return std::min(sum, 15u);
  }
  template <class Key>
  scbf::Removal remove(const Key& key) {
    std::vector<Stage*> claims;
    for (Stage& stage : stages_) {
      if (stage.filter.contains(key)) claims.push_back(&stage);
    }
    if (claims.size() > 1) return scbf::Removal::ambiguous;
    if (claims.empty()) return scbf::Removal::absent;
    claims[0]->filter.remove(key);
    return scbf::Removal::removed;
  }

  ::testing::AssertionResult equals(const scbf::Filter& filter) const {
    if (filter.stages() != stages_.size()) {
      return ::testing::AssertionFailure()
             << filter.stages() << " stages, the model has " << stages_.size();
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const auto same = same_words(words_of(filter.stage(s)), stages_[s].filter.words());
      if (!same) return ::testing::AssertionFailure() << "stage " << s << ": " << same.message();
    }
    return ::testing::AssertionSuccess();
  }
  std::size_t stages() const { return stages_.size(); }

 private:
  struct Stage {
    scbf::StageShape shape;
    ReferenceFilter filter;
  };
  static std::uint64_t nonzero(const ReferenceFilter& filter) { return filter.nonzero(); }
  void add() {
    const auto shape = growth_.stage(static_cast<std::uint32_t>(stages_.size()));
    stages_.push_back({shape, ReferenceFilter(shape.geometry, seed_)});
  }

  scbf::Growth growth_;
  std::uint64_t seed_;
  std::vector<Stage> stages_;
};

}  // namespace scbf_test
