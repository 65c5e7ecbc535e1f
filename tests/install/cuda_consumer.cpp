// SPDX-License-Identifier: Apache-2.0
// Uses the device interface of an installed copy of scbf: returns 0 if it works on a device, or
// says why it cannot.
#include <cstdio>
#include <scbf/cuda/device_filter.hpp>

int main() {
  try {
    scbf::cuda::DeviceFilter filter(scbf::Geometry::split_block(1, 100), 0);
    filter.clear_async();
    scbf::cuda::DeviceFilter::synchronize();
    return filter.keys_inserted() == 0 ? 0 : 1;
  } catch (const scbf::BackendUnavailable& error) {
    std::printf("%s\n", error.what());
    return 0;
  }
}
