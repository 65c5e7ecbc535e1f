// SPDX-License-Identifier: Apache-2.0
// A backend on the host that works on counters only, as one that a user adds may: the scalar
// backend without what it does for bits. It knows how many words of counters there are.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dispatch/backend_table.hpp"
#include "kit/known_backends.hpp"
#include "scbf/backend.hpp"
#include "scbf/store.hpp"

namespace scbf_test {

class CountersOnly final : public scbf::Backend {
 public:
  /// Words of counters in memory now.
  static std::uint64_t words() noexcept { return words_; }

  std::string_view name() const noexcept override { return "counters only"; }
  std::string_view description() const noexcept override { return "the model of counters"; }
  std::string_view target() const noexcept override { return "host"; }
  std::string unavailable_reason() const override { return {}; }
  std::unique_ptr<scbf::CounterStore> allocate(std::uint64_t words) const override {
    return std::make_unique<Store>(model().allocate(words), words);
  }
  scbf::NonzeroChange insert(scbf::CounterView view, const scbf::KeyBatch& keys,
                             const scbf::BatchOptions& options) const override {
    return model().insert(view, keys, options);
  }
  std::uint64_t contains(std::span<const scbf::ConstCounterView> filters,
                         const scbf::KeyBatch& keys, std::uint8_t* out,
                         const scbf::BatchOptions& options) const override {
    for (const auto& view : filters) EXPECT_EQ(view.geometry.cell(), scbf::Cell::counter);
    return model().contains(filters, keys, out, options);
  }
  std::uint64_t count(std::span<const scbf::ConstCounterView> filters, const scbf::KeyBatch& keys,
                      std::uint8_t* out, const scbf::BatchOptions& options) const override {
    return model().count(filters, keys, out, options);
  }
  scbf::RemoveCounts remove(std::span<const scbf::CounterView> filters, const scbf::KeyBatch& keys,
                            std::uint8_t* verdicts, std::span<scbf::RemovalChange> changes,
                            const scbf::BatchOptions& options) const override {
    return model().remove(filters, keys, verdicts, changes, options);
  }
  void merge(scbf::CounterView into, scbf::ConstCounterView from,
             const scbf::BatchOptions& options) const override {
    model().merge(into, from, options);
  }
  scbf::SubtractCounts check_subtract(scbf::ConstCounterView from, scbf::ConstCounterView what,
                                      const scbf::BatchOptions& options) const override {
    return model().check_subtract(from, what, options);
  }
  void subtract(scbf::CounterView from, scbf::ConstCounterView what,
                const scbf::BatchOptions& options) const override {
    model().subtract(from, what, options);
  }
  std::vector<scbf::Histogram> histograms(scbf::ConstCounterView view,
                                          const scbf::BatchOptions& options) const override {
    EXPECT_EQ(view.geometry.cell(), scbf::Cell::counter);
    return model().histograms(view, options);
  }

 private:
  class Store final : public scbf::CounterStore {
   public:
    Store(std::unique_ptr<scbf::CounterStore> of, std::uint64_t words)
        : CounterStore({.words = of->words()}), of_(std::move(of)), size_(words) {
      words_ += size_;
    }
    ~Store() override { words_ -= size_; }

    void clear() override { of_->clear(); }
    void read(std::uint64_t first, std::span<std::uint64_t> out) const override {
      of_->read(first, out);
    }
    void write(std::uint64_t first, std::span<const std::uint64_t> in) override {
      of_->write(first, in);
    }
    void copy_from(const scbf::CounterStore& other) override { of_->copy_from(other); }

   private:
    std::unique_ptr<scbf::CounterStore> of_;
    std::uint64_t size_;
  };
  static const scbf::Backend& model() { return scbf::scalar_backend(); }

  static inline std::atomic<std::uint64_t> words_{0};
};

/// Adds it to the table. Call it while the program starts.
inline bool add_counters_only() {
  static const CountersOnly backend;
  scbf::add_backend(backend);
  return true;
}

}  // namespace scbf_test
