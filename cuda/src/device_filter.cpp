// SPDX-License-Identifier: Apache-2.0
#include "scbf/cuda/device_filter.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "allocation.hpp"
#include "check.hpp"
#include "limits.hpp"
#include "runs.hpp"
#include "stream.hpp"

namespace scbf::cuda {

namespace {

/// Words that are copied from a filter at once: 8 MiB.
constexpr std::uint64_t kCopyWords = std::uint64_t{1} << 20;

enum Book : std::size_t { kInserted, kRemovals, kBooks };

template <class AnyFilter>
const Geometry& only_geometry(const AnyFilter& filter) {
  if (filter.stages() == 1) return filter.geometry();
  throw InvalidArgument(fmt::format(
      "the filter has {} stages ({}): a DeviceFilter has one; make one of each stage, or use the "
      "backend 'cuda'",
      filter.stages(), filter.growth().describe()));
}

Run run_of(const DeviceOptions& options) {
  Tuning tuning = tuning_of_current_device();
  tuning.path = options.path;
  tuning.scratch_bytes = options.scratch_bytes;
  tuning.alone = options.alone;
  return {options.stream, options.memory != nullptr ? *options.memory : pool_memory(), tuning};
}

}  // namespace

/// Work that is enqueued on several streams, by any host threads, and done one after another.
class DeviceFilter::Turns {
 public:
  Turns() { check(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "creating an event"); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;
  ~Turns() { ignore(cudaEventDestroy(done_)); }

  /// Throws InvalidArgument if the stream is being captured: in the graph, the order with work
  /// outside of it would be lost.
  template <class Enqueue>
  void take(cudaStream_t stream, Enqueue enqueue) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &capture), "asking whether a stream is being captured");
    if (capture != cudaStreamCaptureStatusNone) {
      throw InvalidArgument(
          "insert: an insertion into a filter of layout ranked cannot be captured into a graph");
    }
    const std::scoped_lock lock(mutex_);
    if (recorded_) check(cudaStreamWaitEvent(stream, done_, 0), "waiting for another stream");
    recorded_ = true;
    try {
      enqueue();
    } catch (...) {
      ignore(cudaEventRecord(done_, stream));  // some of it may be under way
      throw;
    }
    check(cudaEventRecord(done_, stream), "recording an event");
  }

 private:
  std::mutex mutex_;
  cudaEvent_t done_ = nullptr;
  bool recorded_ = false;
};

DeviceFilter::DeviceFilter(const Geometry& geometry, std::uint64_t seed, cudaStream_t stream)
    : geometry_(geometry),
      seed_(seed),
      words_(allocate_words(geometry.words() + kBooks, geometry.describe())) {
  try {
    check(cudaGetDevice(&device_), "asking for the current device");
    if (ref().is_ranked()) turns_ = std::make_unique<Turns>();
    clear_async(stream);
  } catch (...) {
    release();
    throw;
  }
}

DeviceFilter::DeviceFilter(const Filter& filter, cudaStream_t stream)
    : DeviceFilter(only_geometry(filter), filter.seed(), stream) {
  // The delegated constructor is complete, so from here on the destructor frees the memory.
  copy_from(filter, stream);
}
DeviceFilter::DeviceFilter(const BloomFilter& filter, cudaStream_t stream)
    : DeviceFilter(only_geometry(filter), filter.seed(), stream) {
  copy_from(filter, stream);
}

template <class AnyFilter>
void DeviceFilter::copy_from(const AnyFilter& filter, cudaStream_t stream) {
  const auto copy = [&](std::uint64_t first, std::span<const std::uint64_t> words) {
    check(cudaMemcpyAsync(words_ + first, words.data(), words.size_bytes(), cudaMemcpyHostToDevice,
                          stream),
          "copying counters to the device");
    synchronize(stream);
  };
  std::vector<std::uint64_t> buffer;
  for (std::uint64_t first = 0; first < geometry_.words(); first += kCopyWords) {
    buffer.resize(std::min(kCopyWords, geometry_.words() - first));
    filter.read_words(first, buffer);
    copy(first, buffer);
  }
  const std::array<std::uint64_t, kBooks> books{filter.keys_inserted(), filter.keys_removed()};
  copy(geometry_.words(), books);
}

DeviceFilter::DeviceFilter(DeviceFilter&& other) noexcept
    : geometry_(other.geometry_),
      seed_(other.seed_),
      device_(other.device_),
      words_(std::exchange(other.words_, nullptr)),
      turns_(std::move(other.turns_)) {}

DeviceFilter& DeviceFilter::operator=(DeviceFilter&& other) noexcept {
  if (this != &other) {
    release();
    geometry_ = other.geometry_;
    seed_ = other.seed_;
    device_ = other.device_;
    words_ = std::exchange(other.words_, nullptr);
    turns_ = std::move(other.turns_);
  }
  return *this;
}

DeviceFilter::~DeviceFilter() { release(); }

void DeviceFilter::release() noexcept {
  // Waits for work that still uses the memory. Errors cannot be reported.
  if (words_ != nullptr) ignore(cudaFree(words_));
  words_ = nullptr;
}

void DeviceFilter::check_usable() const {
  check_owner();
  int current = 0;
  check(cudaGetDevice(&current), "asking for the current device");
  if (current != device_) {
    throw InvalidArgument(
        fmt::format("the filter is on device {}: device {} is current", device_, current));
  }
}

/// Calls `enqueue`; insertions into counters in the layout ranked take turns.
template <class Enqueue>
void DeviceFilter::insert_in_turn(cudaStream_t stream, Enqueue enqueue) {
  if (turns_ != nullptr) {
    turns_->take(stream, enqueue);
  } else {
    enqueue();
  }
}

void DeviceFilter::insert_async(const DeviceKeys& keys, const DeviceOptions& options) {
  check_usable();
  const Run run = run_of(options);
  insert_in_turn(options.stream, [&] { run_insert(ref(), keys, nullptr, run); });
  run_book_keys(keys, words_ + geometry_.words() + kInserted, run);
}

void DeviceFilter::insert_new_async(const DeviceKeys& keys, std::uint8_t* verdicts,
                                    const DeviceOptions& options) {
  check_usable();
  const Run run = run_of(options);
  insert_in_turn(options.stream, [&] {
    run_insert_new(ref(), keys, verdicts, words_ + geometry_.words() + kInserted, nullptr, run);
  });
}

void DeviceFilter::contains_async(const DeviceKeys& keys, std::uint8_t* out,
                                  const DeviceOptions& options) const {
  check_usable();
  const FilterRef filter = ref();
  run_contains({&filter, 1}, keys, out, nullptr, run_of(options));
}

void DeviceFilter::contains_bits_async(const DeviceKeys& keys, std::uint8_t* bits,
                                       const DeviceOptions& options) const {
  check_usable();
  run_contains_bits(ref(), keys, bits, run_of(options));
}

void DeviceFilter::find_async(const DeviceKeys& keys, std::uint64_t* indices, std::uint64_t* hits,
                              const DeviceOptions& options) const {
  check_usable();
  run_find(ref(), keys, indices, hits, run_of(options));
}

void DeviceFilter::count_async(const DeviceKeys& keys, std::uint8_t* out,
                               const DeviceOptions& options) const {
  check_usable();
  refuse_ranked_counters("count");
  const FilterRef filter = ref();
  run_count({&filter, 1}, keys, out, nullptr, run_of(options));
}

void DeviceFilter::check_counts(const char* what) const {
  if (geometry().cell() == Cell::counter) return;
  throw InvalidArgument(
      fmt::format("{}: the filter has bits, not counters ({})", what, geometry_.describe()));
}

/// Throws InvalidArgument for counters in the layout ranked, with which a device cannot do this.
void DeviceFilter::refuse_ranked_counters(const char* what) const {
  if (!ref().is_ranked()) return;
  throw InvalidArgument(fmt::format(
      "{}: on a device, a filter of layout ranked ({}) takes only insertions and lookups: do it on "
      "the host (to_filter), or use layout split_block",
      what, geometry_.describe()));
}

void DeviceFilter::remove_async(const DeviceKeys& keys, std::uint8_t* verdicts,
                                const DeviceOptions& options) {
  check_usable();
  check_counts("remove");
  refuse_ranked_counters("remove");
  const Run run = run_of(options);
  const FilterRef filter = ref();
  run_remove({&filter, 1}, keys, verdicts, words_ + geometry_.words() + kRemovals, nullptr, nullptr,
             run);
}

void DeviceFilter::insert(const DeviceKeys& keys, const DeviceOptions& options) {
  insert_async(keys, options);
  synchronize(options.stream);
}
void DeviceFilter::insert_new(const DeviceKeys& keys, std::uint8_t* verdicts,
                              const DeviceOptions& options) {
  insert_new_async(keys, verdicts, options);
  synchronize(options.stream);
}
void DeviceFilter::contains(const DeviceKeys& keys, std::uint8_t* out,
                            const DeviceOptions& options) const {
  contains_async(keys, out, options);
  synchronize(options.stream);
}
void DeviceFilter::contains_bits(const DeviceKeys& keys, std::uint8_t* bits,
                                 const DeviceOptions& options) const {
  contains_bits_async(keys, bits, options);
  synchronize(options.stream);
}
void DeviceFilter::count(const DeviceKeys& keys, std::uint8_t* out,
                         const DeviceOptions& options) const {
  count_async(keys, out, options);
  synchronize(options.stream);
}
void DeviceFilter::remove(const DeviceKeys& keys, std::uint8_t* verdicts,
                          const DeviceOptions& options) {
  remove_async(keys, verdicts, options);
  synchronize(options.stream);
}

std::uint64_t DeviceFilter::find(const DeviceKeys& keys, std::uint64_t* indices,
                                 const DeviceOptions& options) const {
  check_usable();
  const Run run = run_of(options);
  return run_find_and_wait(ref(), keys, indices, run);
}

/// Throws Incompatible unless the other filter has this geometry, and the seed of this filter.
void DeviceFilter::check_compatible(const DeviceFilter& other, const Geometry& wanted) const {
  check_usable();
  other.check_usable();
  if (wanted != other.geometry_) {
    throw Incompatible(fmt::format("the geometries differ: {} and {}", wanted.describe(),
                                   other.geometry_.describe()));
  }
  if (seed_ != other.seed_) {
    throw Incompatible(fmt::format("the seeds differ: {} and {}", seed_, other.seed_));
  }
}

void DeviceFilter::merge_async(const DeviceFilter& other, const DeviceOptions& options) {
  check_compatible(other, geometry_);
  refuse_ranked_counters("merge");
  const Run run = run_of(options);
  run_merge(geometry_, words_, other.words_, run);
  run_add_books(words_ + geometry_.words(), other.words_ + geometry_.words(), kBooks, run);
}

SubtractReport DeviceFilter::subtract(const DeviceFilter& other, const DeviceOptions& options) {
  check_compatible(other, geometry_);
  check_counts("subtract");
  refuse_ranked_counters("subtract");
  const Run run = run_of(options);
  const SubtractCounts counts = run_check_subtract(words_, other.words_, geometry_.words(), run);
  if (counts.below > 0) {
    throw Incompatible(fmt::format(
        "{} counters would fall below zero: the filter to subtract is not contained in this one",
        counts.below));
  }
  // Read before anything is changed: these calls wait and can fail.
  const std::uint64_t keys =
      keys_left(other.keys_inserted(options.stream), other.keys_removed(options.stream));
  run_subtract(words_, other.words_, geometry_.words(), run);
  run_book(keys, words_ + geometry_.words() + kRemovals, run);
  return {counts.inexact};
}

void DeviceFilter::project_async(DeviceFilter& bits, const DeviceOptions& options) const {
  check_counts("project");
  refuse_ranked_counters("project");
  check_compatible(bits, geometry_.with(Cell::bit));
  run_project(bits.words_, words_, bits.geometry_.words(), run_of(options));
  check(cudaMemcpyAsync(bits.words_ + bits.geometry_.words(), words_ + geometry_.words(),
                        kBooks * sizeof(std::uint64_t), cudaMemcpyDeviceToDevice, options.stream),
        "copying the books on the device");
}

void DeviceFilter::clear_async(cudaStream_t stream) {
  check_usable();
  check(cudaMemsetAsync(words_, 0, geometry_.bytes() + kBooks * sizeof(std::uint64_t), stream),
        "clearing counters");
}

std::vector<Histogram> DeviceFilter::histograms(const DeviceOptions& options) const {
  check_usable();
  if (geometry_.layout() == Layout::ranked) {
    throw InvalidArgument(fmt::format(
        "histograms: a filter of layout ranked ({}) is counted on the host (to_filter; of bits, "
        "download)",
        geometry_.describe()));
  }
  return run_histograms(ref(), run_of(options));
}

std::uint64_t DeviceFilter::booked(std::size_t which, cudaStream_t stream) const {
  check_usable();
  return fetched(words_ + geometry_.words() + which, stream, "the books");
}
std::uint64_t DeviceFilter::keys_inserted(cudaStream_t stream) const {
  return booked(kInserted, stream);
}
std::uint64_t DeviceFilter::keys_removed(cudaStream_t stream) const {
  return booked(kRemovals, stream);
}

void DeviceFilter::download(std::span<std::uint64_t> words, cudaStream_t stream) const {
  check_usable();
  if (words.size() != geometry_.words()) {
    throw InvalidArgument(
        fmt::format("words has room for {}: must be {}", words.size(), geometry_.words()));
  }
  fetch(words.data(), words_, geometry_.bytes(), stream, "counters");
}

Filter DeviceFilter::to_filter(const FilterOptions& options, cudaStream_t stream) const {
  check_counts("to_filter");
  std::vector<std::uint64_t> words(geometry().words());
  download(words, stream);
  FilterOptions with_seed = options;
  with_seed.seed = seed_;
  Filter filter(geometry_, with_seed);
  filter.assign(words, keys_inserted(stream), keys_removed(stream));
  return filter;
}

void DeviceFilter::synchronize(cudaStream_t stream) {
  check(cudaStreamSynchronize(stream), "waiting for the device");
}

}  // namespace scbf::cuda
