// SPDX-License-Identifier: Apache-2.0
// What a result needs beside its numbers to mean something: the machine and the build.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace scbf::bench {

/// Bytes of the data cache of this level that the first core sees; 0 when the system does not tell.
std::size_t cache_bytes(int level);

/// Name and value: cpu_model, cores, caches, memory, huge_pages, kernel, compiler, build_type,
/// commit, scbf_version, backends, libbloom. What the system does not tell is "unknown".
std::vector<std::pair<std::string, std::string>> context();

}  // namespace scbf::bench
