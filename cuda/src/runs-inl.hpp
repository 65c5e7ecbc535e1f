// SPDX-License-Identifier: Apache-2.0
// The functions of runs.hpp, written over Device, which the including file defines: a GPU in
// kernels.cu, the host in tests.
#include <algorithm>
#include <span>
#include <vector>

#include "engine/operations.hpp"
#include "runs.hpp"
#include "stream.hpp"
#include "temporary.hpp"

namespace scbf::cuda {

namespace {

/// Calls use(values) with the keys as 64-bit values; byte strings are hashed on the device.
template <class Use>
void with_values(Device& device, const FilterRef& filter, const DeviceKeys& keys, Use use) {
  if (keys.size() == 0) return;
  const bool ready = keys.kind() == DeviceKeys::Kind::hashes;
  if (ready || keys.kind() == DeviceKeys::Kind::u64) {
    use(ValueKeys{keys.values(), keys.size(), ready, keys.validity()});
    return;
  }
  const auto hashes = device.temporary<std::uint64_t>(keys.size());
  device.for_each(keys.size(), HashBytes{keys, filter.seed(), hashes.get()});
  use(ValueKeys{hashes.get(), keys.size(), true, keys.validity()});
}

/// The same for several filters of one seed: integers are hashed once for all of them, too.
template <class Use>
void with_values(Device& device, std::span<const FilterRef> filters, const DeviceKeys& keys,
                 Use use) {
  with_values(device, filters[0], keys, [&](const ValueKeys& values) {
    if (values.hashed || filters.size() == 1) return use(values);
    const auto hashes = device.temporary<std::uint64_t>(values.n);
    device.for_each(values.n, HashValues{values, filters[0], hashes.get()});
    use(ValueKeys{hashes.get(), values.n, true, values.validity});
  });
}

/// Runs look() on the keys.
template <bool counting, class Answers>
void run_look(const FilterRef& filter, const DeviceKeys& keys, const Answers& answers,
              const Run& run) {
  Device device(run.stream, run.memory);
  with_values(device, filter, keys,
              [&](const ValueKeys& values) { look<counting>(device, filter, values, answers); });
}

/// The same for several filters of one seed, with their answers joined.
template <bool counting>
void run_look_in_all(std::span<const FilterRef> filters, const DeviceKeys& keys, std::uint8_t* out,
                     std::uint64_t* hits, const Run& run) {
  Device device(run.stream, run.memory);
  with_values(device, filters, keys, [&](const ValueKeys& values) {
    look<counting>(device, filters[0], values, ByteAnswers{out});
    for (const FilterRef& filter : filters.subspan(1)) {
      look<counting>(device, filter, values, JoinedAnswers<counting>{out});
    }
    if (hits != nullptr) book_those(device, values.n, IsHit{out}, hits);
  });
}

}  // namespace

void run_insert(const FilterRef& filter, const DeviceKeys& keys, std::uint64_t* filled,
                const Run& run) {
  Device device(run.stream, run.memory);
  with_values(device, filter, keys,
              [&](const ValueKeys& values) { insert(device, filter, values, run.tuning, filled); });
}

void run_insert_new(const FilterRef& filter, const DeviceKeys& keys, std::uint8_t* verdicts,
                    std::uint64_t* inserted, std::uint64_t* filled, const Run& run) {
  Device device(run.stream, run.memory);
  with_values(device, filter, keys, [&](const ValueKeys& values) {
    insert_new(device, filter, values, verdicts, run.tuning, filled);
    book_those(device, values.n, IsHit{verdicts}, inserted);
  });
}

void run_contains(std::span<const FilterRef> filters, const DeviceKeys& keys, std::uint8_t* out,
                  std::uint64_t* hits, const Run& run) {
  run_look_in_all<false>(filters, keys, out, hits, run);
}

void run_contains_bits(const FilterRef& filter, const DeviceKeys& keys, std::uint8_t* bits,
                       const Run& run) {
  run_look<false>(filter, keys, BitAnswers{bits}, run);
}

void run_find(const FilterRef& filter, const DeviceKeys& keys, std::uint64_t* indices,
              std::uint64_t* hits, const Run& run) {
  Device device(run.stream, run.memory);
  device.fill(hits, 1, 0);  // for batches of none
  with_values(device, filter, keys,
              [&](const ValueKeys& values) { find(device, filter, values, indices, hits); });
}

void run_count(std::span<const FilterRef> filters, const DeviceKeys& keys, std::uint8_t* out,
               std::uint64_t* hits, const Run& run) {
  run_look_in_all<true>(filters, keys, out, hits, run);
}

void run_remove(std::span<const FilterRef> filters, const DeviceKeys& keys, std::uint8_t* verdicts,
                std::uint64_t* removed, std::uint64_t* emptied, std::uint64_t* ambiguous,
                const Run& run) {
  Device device(run.stream, run.memory);
  with_values(device, filters, keys, [&](const ValueKeys& values) {
    if (filters.size() > 1) {
      remove_from_several(device, filters, values, verdicts, removed, emptied, ambiguous,
                          run.tuning);
    } else {
      remove(device, filters[0], values, verdicts, run.tuning, emptied);
      book_those(device, values.n, IsHit{verdicts}, removed);
    }
  });
}

std::uint64_t run_find_and_wait(const FilterRef& filter, const DeviceKeys& keys,
                                std::uint64_t* indices, const Run& run) {
  const Temporary<std::uint64_t> on_device(run.memory, run.stream, 1);
  run_find(filter, keys, indices, on_device.get(), run);
  return fetched(on_device.get(), run.stream, "the number of hits");
}

void run_book_keys(const DeviceKeys& keys, std::uint64_t* book, const Run& run) {
  if (!keys.validity()) return run_book(keys.size(), book, run);
  Device device(run.stream, run.memory);
  book_those(device, keys.size(), IsValid{keys.validity()}, book);
}

void run_book(std::uint64_t amount, std::uint64_t* book, const Run& run) {
  Device(run.stream, run.memory).for_each(1, Book{book, amount});
}

void run_add_books(std::uint64_t* books, const std::uint64_t* others, std::size_t n,
                   const Run& run) {
  Device(run.stream, run.memory).for_each(n, AddBooks{books, others});
}

void run_merge(const Geometry& geometry, std::uint64_t* into, const std::uint64_t* from,
               const Run& run) {
  with_cells(geometry, [&](auto cells) {
    Device(run.stream, run.memory)
        .for_each(geometry.words(), MergeWords<decltype(cells)>{into, from});
  });
}

void run_intersect(std::uint64_t* into, const std::uint64_t* from, std::size_t words,
                   const Run& run) {
  Device(run.stream, run.memory).for_each(words, IntersectWords{into, from});
}

std::uint64_t run_count_joined(const std::uint64_t* a, const std::uint64_t* b, std::size_t words,
                               const Run& run) {
  return Device(run.stream, run.memory).reduce(words, OnesInEither{a, b});
}

void run_project(std::uint64_t* bits, const std::uint64_t* counters, std::size_t words,
                 const Run& run) {
  Device(run.stream, run.memory).for_each(words, ProjectWords{bits, counters});
}

SubtractCounts run_check_subtract(const std::uint64_t* from, const std::uint64_t* what,
                                  std::size_t words, const Run& run) {
  Device device(run.stream, run.memory);
  const CheckSubtract::Sum sum = device.reduce(words, CheckSubtract{from, what});
  return {sum.below, sum.inexact};
}

void run_subtract(std::uint64_t* from, const std::uint64_t* what, std::size_t words,
                  const Run& run) {
  Device(run.stream, run.memory).for_each(words, SubtractWords{from, what});
}

std::vector<Histogram> run_histograms(const FilterRef& filter, const Run& run) {
  Device device(run.stream, run.memory);
  std::vector<Histogram> histograms(filter.probes());
  static_assert(sizeof(Histogram) == kValues * sizeof(std::uint64_t));
  const auto on_device = device.temporary<std::uint64_t>(histograms.size() * kValues);
  count_values(device, filter, on_device.get());
  fetch(histograms.data(), on_device.get(), histograms.size() * sizeof(Histogram), run.stream,
        "histograms");
  const Geometry& geometry = filter.geometry();
  const std::uint64_t padding = geometry.words() * geometry.cells_per_word() / geometry.probes() -
                                geometry.counters_per_slice();
  for (Histogram& slice : histograms) slice[0] -= padding;
  return histograms;
}

}  // namespace scbf::cuda
