// SPDX-License-Identifier: Apache-2.0
#include "kit/unavailable_backend.hpp"

#include <fmt/format.h>

#include <utility>

#include "scbf/errors.hpp"

namespace scbf {

UnavailableBackend::UnavailableBackend(std::string name, std::string description,
                                       std::string target, std::string reason)
    : name_(std::move(name)),
      description_(std::move(description)),
      target_(std::move(target)),
      reason_(std::move(reason)) {}

void UnavailableBackend::refuse() const {
  throw BackendUnavailable(fmt::format("{} backend: {}", name_, reason_));
}

std::unique_ptr<CounterStore> UnavailableBackend::allocate(std::uint64_t) const { refuse(); }
NonzeroChange UnavailableBackend::insert(CounterView, const KeyBatch&, const BatchOptions&) const {
  refuse();
}
std::uint64_t UnavailableBackend::contains(std::span<const ConstCounterView>, const KeyBatch&,
                                           std::uint8_t*, const BatchOptions&) const {
  refuse();
}
std::uint64_t UnavailableBackend::count(std::span<const ConstCounterView>, const KeyBatch&,
                                        std::uint8_t*, const BatchOptions&) const {
  refuse();
}
RemoveCounts UnavailableBackend::remove(std::span<const CounterView>, const KeyBatch&,
                                        std::uint8_t*, std::span<RemovalChange>,
                                        const BatchOptions&) const {
  refuse();
}
void UnavailableBackend::merge(CounterView, ConstCounterView, const BatchOptions&) const {
  refuse();
}
SubtractCounts UnavailableBackend::check_subtract(ConstCounterView, ConstCounterView,
                                                  const BatchOptions&) const {
  refuse();
}
void UnavailableBackend::subtract(CounterView, ConstCounterView, const BatchOptions&) const {
  refuse();
}
std::vector<Histogram> UnavailableBackend::histograms(ConstCounterView, const BatchOptions&) const {
  refuse();
}

}  // namespace scbf
