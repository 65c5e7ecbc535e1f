// SPDX-License-Identifier: Apache-2.0
#include "subjects.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "accurate.hpp"
#include "cuckoo.hpp"
#include "d_left.hpp"
#include "dynamic_count.hpp"
#include "quotient.hpp"
#include "spectral.hpp"

namespace scbf::bench {

namespace {

template <class Structure>
class FieldSubject final : public Subject {
 public:
  FieldSubject(std::size_t n, double fpr) : structure_(n, fpr) {}

  void insert(KeySpan keys) override {
    std::size_t refused = 0;
    for (std::size_t i = 0; i < keys.size; ++i) refused += !structure_.insert(hash(keys, i));
    if (refused == 0) return;
    throw std::runtime_error(std::string(Structure::kName) + ": refuses " +
                             std::to_string(refused) + " of " + std::to_string(keys.size) +
                             " keys");
  }
  std::uint64_t contains(KeySpan keys, std::uint8_t* out) override {
    std::uint64_t hits = 0;
    for (std::size_t i = 0; i < keys.size; ++i) hits += out[i] = structure_.contains(hash(keys, i));
    return hits;
  }
  std::uint64_t remove([[maybe_unused]] KeySpan keys, [[maybe_unused]] std::uint8_t* out) override {
    if constexpr (kRemoves) {
      std::uint64_t removed = 0;
      for (std::size_t i = 0; i < keys.size; ++i) {
        removed += out[i] = structure_.remove(hash(keys, i));
      }
      return removed;
    } else {
      throw std::logic_error(std::string(Structure::kName) + " cannot remove");
    }
  }
  void count(KeySpan keys, std::uint8_t* out) override {
    for (std::size_t i = 0; i < keys.size; ++i) {
      out[i] =
          static_cast<std::uint8_t>(std::min<std::uint64_t>(structure_.count(hash(keys, i)), 255));
    }
  }
  bool can_remove() const override { return kRemoves; }
  bool uses_marks() const override { return kMarks; }
  void mark() override {
    if constexpr (kMarks) marked_ = structure_.state();
  }
  void return_to_mark() override {
    if constexpr (kMarks) structure_.set_state(marked_);
  }
  void reset(KeySpan) override { structure_.clear(); }
  bool empty() const override { return structure_.empty(); }
  double bytes() const override { return static_cast<double>(structure_.bytes()); }
  std::optional<double> predicted_fpr(std::size_t n) const override {
    return structure_.predicted_fpr(n);
  }
  std::string target() const override { return "one key at a time"; }

  static constexpr bool kRemoves = requires(Structure structure) {
    structure.remove(std::uint64_t{});
  };
  static constexpr bool kMarks = requires(Structure structure) { structure.state(); };
  static_assert(kRemoves || kMarks);

 private:
  static std::uint64_t hash(KeySpan keys, std::size_t i) noexcept {
    return keys.words_each == 1 ? hash_of(keys.words + i, 8) : hash_of(keys.words + 2 * i, 16);
  }

  Structure structure_;
  std::vector<std::uint64_t> marked_;
};

template <class Structure>
FieldStructure structure() {
  return {Structure::kName, FieldSubject<Structure>::kRemoves, [](std::size_t n, double fpr) {
            return std::make_unique<FieldSubject<Structure>>(n, fpr);
          }};
}

}  // namespace

const std::vector<FieldStructure>& field_structures() {
  static const std::vector<FieldStructure> all = {
      structure<SpectralFilter>(), structure<DynamicCountFilter>(), structure<AccurateFilter>(),
      structure<DLeftFilter>(),    structure<QuotientFilter>(),     structure<CuckooFilter>()};
  return all;
}

}  // namespace scbf::bench
