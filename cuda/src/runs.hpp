// SPDX-License-Identifier: Apache-2.0
// The interface between host code (plain C++) and device code (nvcc): the engine on a GPU. Pointers
// are to device memory. Work is enqueued on the stream of `run`; functions wait only where they say
// so.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/device_tuning.hpp"
#include "scbf/backend.hpp"
#include "scbf/cuda/device_keys.hpp"
#include "scbf/cuda/filter_ref.hpp"
#include "scbf/cuda/memory.hpp"

namespace scbf::cuda {

/// Where and how an operation runs.
struct Run {
  cudaStream_t stream;
  MemoryResource& memory;
  Tuning tuning;
};

/// Throws CudaError if this library has no kernels for the current device.
void check_kernels();

/// *filled += how many counters, or bits, were 0 and are not any more, unless `filled` is null.
void run_insert(const FilterRef& filter, const DeviceKeys& keys, std::uint64_t* filled,
                const Run& run);
/// Inserts keys one after another, each if it is absent at its turn: verdicts[i] = 1 if key i was
/// inserted, else 0; *inserted += how many were. *filled as by run_insert.
void run_insert_new(const FilterRef& filter, const DeviceKeys& keys, std::uint8_t* verdicts,
                    std::uint64_t* inserted, std::uint64_t* filled, const Run& run);
/// Looks keys up in one filter or more, all of one seed: is the key in any of them? *hits += how
/// many are, unless `hits` is null.
void run_contains(std::span<const FilterRef> filters, const DeviceKeys& keys, std::uint8_t* out,
                  std::uint64_t* hits, const Run& run);
void run_contains_bits(const FilterRef& filter, const DeviceKeys& keys, std::uint8_t* bits,
                       const Run& run);
void run_find(const FilterRef& filter, const DeviceKeys& keys, std::uint64_t* indices,
              std::uint64_t* hits, const Run& run);
/// The sum of the key's counts in all filters, at most 15. *hits += how many are not 0, unless
/// `hits` is null.
void run_count(std::span<const FilterRef> filters, const DeviceKeys& keys, std::uint8_t* out,
               std::uint64_t* hits, const Run& run);
/// Removes each key from the one filter that claims it at its turn; verdicts are Removals.
/// removed[f] += how many keys were removed from filter f, emptied[f] += how many of its counters
/// became 0, *ambiguous += how many keys several claim. For one filter, `emptied` may be null, and
/// `ambiguous` is not used.
void run_remove(std::span<const FilterRef> filters, const DeviceKeys& keys, std::uint8_t* verdicts,
                std::uint64_t* removed, std::uint64_t* emptied, std::uint64_t* ambiguous,
                const Run& run);

/// As run_find, but waits for the number of hits and returns it.
std::uint64_t run_find_and_wait(const FilterRef& filter, const DeviceKeys& keys,
                                std::uint64_t* indices, const Run& run);

/// The books of a filter are its numbers of keys inserted and removed. run_book_keys adds how many
/// keys are valid, run_book an amount, run_add_books the books of another filter.
void run_book_keys(const DeviceKeys& keys, std::uint64_t* book, const Run& run);
void run_book(std::uint64_t amount, std::uint64_t* book, const Run& run);
void run_add_books(std::uint64_t* books, const std::uint64_t* others, std::size_t n,
                   const Run& run);

/// Counters are added, bits joined.
void run_merge(const Geometry& geometry, std::uint64_t* into, const std::uint64_t* from,
               const Run& run);
/// For bits: keeps those that both have.
void run_intersect(std::uint64_t* into, const std::uint64_t* from, std::size_t words,
                   const Run& run);
/// For bits: how many are 1 in one or both. Waits for the result.
std::uint64_t run_count_joined(const std::uint64_t* a, const std::uint64_t* b, std::size_t words,
                               const Run& run);
/// Writes this many words of bits, made from four times as many words of counters.
void run_project(std::uint64_t* bits, const std::uint64_t* counters, std::size_t words,
                 const Run& run);
/// Waits for the result.
SubtractCounts run_check_subtract(const std::uint64_t* from, const std::uint64_t* what,
                                  std::size_t words, const Run& run);
void run_subtract(std::uint64_t* from, const std::uint64_t* what, std::size_t words,
                  const Run& run);
/// Waits for the result: one histogram per slice, padding not included.
std::vector<Histogram> run_histograms(const FilterRef& filter, const Run& run);

}  // namespace scbf::cuda
