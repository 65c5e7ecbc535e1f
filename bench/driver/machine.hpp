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

/// The processor's model, and "unknown" when the system does not tell.
std::string cpu_model();
/// "g++ 12.2.0".
std::string compiler();

/// Name and value: cpu_model, cores, caches, memory, huge_pages, kernel, compiler, build_type,
/// commit, scbf_version, backends. What the system does not tell is "unknown".
std::vector<std::pair<std::string, std::string>> context();

}  // namespace scbf::bench
