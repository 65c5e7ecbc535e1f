// SPDX-License-Identifier: Apache-2.0
// Backend::begin_bulk of backends without a better way.
#include <memory>
#include <optional>
#include <utility>

#include "scbf/backend.hpp"

namespace scbf {

namespace {

/// Inserts every batch as it comes.
class BatchByBatch final : public BulkInsertion {
 public:
  BatchByBatch(const Backend& backend, CounterView view, const BatchOptions& options) noexcept
      : backend_(backend), view_(view), options_(options) {}

  void take(const KeyBatch& keys) override {
    const NonzeroChange filled = std::exchange(filled_, std::nullopt);  // unknown if this throws
    const NonzeroChange more = backend_.insert(view_, keys, options_);
    if (filled && more) filled_ = *filled + *more;
  }
  NonzeroChange finish() noexcept override { return std::exchange(filled_, 0); }

 private:
  const Backend& backend_;
  CounterView view_;
  BatchOptions options_;
  NonzeroChange filled_ = 0;
};

}  // namespace

std::unique_ptr<BulkInsertion> Backend::begin_bulk(CounterView view,
                                                   const BatchOptions& options) const {
  return std::make_unique<BatchByBatch>(*this, view, options);
}

}  // namespace scbf
