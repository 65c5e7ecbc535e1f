// SPDX-License-Identifier: Apache-2.0
// A backend that is known by name but cannot run here. It is in the table so that it is listed, and
// asking for it gives the reason.
#pragma once

#include <string>

#include "scbf/backend.hpp"

namespace scbf {

/// find_backend refuses it with its reason. Every operation throws BackendUnavailable with that
/// reason.
class UnavailableBackend final : public Backend {
 public:
  /// `reason` must not be empty: it is what makes the backend unavailable.
  UnavailableBackend(std::string name, std::string description, std::string target,
                     std::string reason);

  std::string_view name() const noexcept override { return name_; }
  std::string_view description() const noexcept override { return description_; }
  std::string_view target() const noexcept override { return target_; }
  std::string unavailable_reason() const override { return reason_; }
  std::unique_ptr<CounterStore> allocate(std::uint64_t words) const override;

  NonzeroChange insert(CounterView, const KeyBatch&, const BatchOptions&) const override;
  std::uint64_t contains(std::span<const ConstCounterView>, const KeyBatch&, std::uint8_t*,
                         const BatchOptions&) const override;
  std::uint64_t count(std::span<const ConstCounterView>, const KeyBatch&, std::uint8_t*,
                      const BatchOptions&) const override;
  RemoveCounts remove(std::span<const CounterView>, const KeyBatch&, std::uint8_t*,
                      std::span<RemovalChange>, const BatchOptions&) const override;
  void merge(CounterView, ConstCounterView, const BatchOptions&) const override;
  SubtractCounts check_subtract(ConstCounterView, ConstCounterView,
                                const BatchOptions&) const override;
  void subtract(CounterView, ConstCounterView, const BatchOptions&) const override;
  std::vector<Histogram> histograms(ConstCounterView, const BatchOptions&) const override;

 private:
  [[noreturn]] void refuse() const;

  std::string name_, description_, target_, reason_;
};

}  // namespace scbf
