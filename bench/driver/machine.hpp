// SPDX-License-Identifier: Apache-2.0
// The machine and the build, without which a result means nothing.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace scbf::bench {

/// Bytes of the first core's data cache of this level; 0 if the system does not tell.
std::size_t cache_bytes(int level);

/// The processor's model, or "unknown" if the system does not tell.
std::string cpu_model();
/// For example "g++ 12.2.0".
std::string compiler();

/// Pairs of name and value: cpu_model, cores, caches, memory, huge_pages, kernel, compiler,
/// build_type, commit, scbf_version, backends. A value is "unknown" if the system does not tell it.
std::vector<std::pair<std::string, std::string>> context();

}  // namespace scbf::bench
