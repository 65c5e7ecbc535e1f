// SPDX-License-Identifier: Apache-2.0
// Which lines of a large table have their key in a small one? All of it runs on the GPU: a filter
// of the small table's keys throws out nearly all lines that do not; only the rest goes into the
// exact join.
//
//   example_semi_join [lines]
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/gather.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda/std/functional>
#include <exception>
#include <vector>

#include "scbf/cuda/device_filter.hpp"
#include "scbf/sizing.hpp"

namespace {

using Keys = thrust::device_vector<std::uint64_t>;
using Rows = thrust::device_vector<std::uint64_t>;  // numbers of lines

/// The numbers of those lines, among `rows`, whose key is in `wanted`, which is sorted.
Rows join(const Keys& line_keys, const Rows& rows, const Keys& wanted) {
  Keys keys(rows.size());
  thrust::gather(rows.begin(), rows.end(), line_keys.begin(), keys.begin());
  thrust::device_vector<bool> found(rows.size());
  thrust::binary_search(wanted.begin(), wanted.end(), keys.begin(), keys.end(), found.begin());
  Rows joined(rows.size());
  const auto end = thrust::copy_if(rows.begin(), rows.end(), found.begin(), joined.begin(),
                                   cuda::std::identity());
  joined.resize(end - joined.begin());
  return joined;
}

int run(std::uint64_t lines) {
  // One part in twenty is wanted. Line i has part i · 7919 modulo their number.
  const std::uint64_t parts = lines / 30 + 20;
  std::vector<std::uint64_t> some_parts, parts_of_lines;
  for (std::uint64_t part = 0; part < parts; part += 20) some_parts.push_back(part);
  for (std::uint64_t i = 0; i < lines; ++i) parts_of_lines.push_back(i * 7919 % parts);

  scbf::cuda::DeviceFilter filter(
      scbf::geometry_for(scbf::Layout::split_block, some_parts.size(), /*rate=*/0.01), /*seed=*/1);
  Keys wanted = some_parts;
  const Keys line_keys = parts_of_lines;
  filter.insert(wanted);

  // The filter is the predicate, the keys are what it is asked about.
  Rows candidates(lines);
  const auto end = thrust::copy_if(thrust::counting_iterator<std::uint64_t>(0),
                                   thrust::counting_iterator<std::uint64_t>(lines),
                                   line_keys.begin(), candidates.begin(), filter.ref());
  candidates.resize(end - candidates.begin());

  thrust::sort(wanted.begin(), wanted.end());
  const Rows joined = join(line_keys, candidates, wanted);

  Rows all(lines);
  thrust::sequence(all.begin(), all.end());
  if (join(line_keys, all, wanted) != joined) {
    std::puts("the join without the filter finds other lines");
    return 1;
  }
  std::printf("%llu lines, %zu pass the filter, %zu have a wanted part\n",
              static_cast<unsigned long long>(lines), candidates.size(), joined.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 6'000'000);
  } catch (const scbf::BackendUnavailable& e) {
    std::printf("SKIPPED: %s\n", e.what());
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}
