// SPDX-License-Identifier: Apache-2.0
// Passes each key of a stream once, batch by batch on the GPU, and forgets a batch after some time:
// what a filter of counters can do, and one of bits cannot.
//
//   example_deduplicate [keys in a batch]
#include <thrust/copy.h>
#include <thrust/device_vector.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <unordered_set>
#include <utility>
#include <vector>

#include "scbf/cuda/device_filter.hpp"
#include "scbf/sizing.hpp"

namespace {

using Keys = thrust::device_vector<std::uint64_t>;

constexpr std::size_t kRemembered = 4;  // batches
constexpr std::size_t kBatches = 12;

struct IsNew {
  __host__ __device__ bool operator()(std::uint8_t verdict) const { return verdict == 1; }
};

/// Passes on the keys that were not seen in the last batches.
class Deduplicator {
 public:
  Deduplicator(std::size_t batch_size, double rate)
      : filter_(scbf::geometry_for(scbf::Layout::split_block, (kRemembered + 1) * batch_size, rate),
                /*seed=*/1) {}

  /// Returns the new keys, in their order. A new key is taken for an old one at the filter's rate.
  Keys pass(const Keys& keys) {
    thrust::device_vector<std::uint8_t> verdicts(keys.size());
    filter_.insert_new(keys, verdicts.data().get());
    Keys fresh(keys.size());
    fresh.resize(
        thrust::copy_if(keys.begin(), keys.end(), verdicts.begin(), fresh.begin(), IsNew()) -
        fresh.begin());
    remembered_.push_back(fresh);
    if (remembered_.size() > kRemembered) forget_oldest();
    return fresh;
  }

 private:
  void forget_oldest() {
    const Keys& oldest = remembered_.front();
    thrust::device_vector<std::uint8_t> verdicts(oldest.size());
    filter_.remove(oldest, verdicts.data().get());
    remembered_.pop_front();
  }

  scbf::cuda::DeviceFilter filter_;
  std::deque<Keys> remembered_;  // what was inserted, for its removal
};

/// Half the keys of a batch are in the batch before, too, and some of a batch come twice.
std::vector<std::uint64_t> batch_of(std::size_t number, std::size_t size) {
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < size; ++i) {
    keys.push_back((number * size / 2 + i) * 0x9E37'79B9'7F4A'7C15u);
  }
  keys.insert(keys.end(), keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(size / 8));
  return keys;
}

int run(std::size_t batch_size) {
  Deduplicator deduplicator(batch_size, 0.01);
  std::unordered_set<std::uint64_t> passed;
  std::size_t in = 0, twice = 0;
  for (std::size_t b = 0; b < kBatches; ++b) {
    const std::vector<std::uint64_t> keys = batch_of(b, batch_size);
    const Keys fresh = deduplicator.pass(keys);
    std::vector<std::uint64_t> here(fresh.size());
    thrust::copy(fresh.begin(), fresh.end(), here.begin());
    in += keys.size();
    for (const std::uint64_t key : here) twice += !passed.insert(key).second;
  }
  const std::size_t distinct = (kBatches + 1) * batch_size / 2;
  std::printf("%zu keys, %zu of %zu distinct ones passed, %zu of them twice\n", in, passed.size(),
              distinct, twice);
  // No key comes again after it was forgotten, so none may pass twice; few new ones may be missing.
  return twice == 0 && passed.size() <= distinct && passed.size() + distinct / 200 + 5 > distinct
             ? 0
             : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000);
  } catch (const scbf::BackendUnavailable& e) {
    std::printf("SKIPPED: %s\n", e.what());
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}
