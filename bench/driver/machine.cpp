// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "scbf/scbf.hpp"

namespace scbf::bench {

namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "unknown";
}

std::string cache(int level) {
  const std::size_t bytes = cache_bytes(level);
  return bytes > 0 ? fmt::format("{} KiB", bytes / 1024) : "unknown";
}

std::string kernel() {
  utsname names{};
  return ::uname(&names) == 0 ? fmt::format("{} {}", names.sysname, names.release) : "unknown";
}

}  // namespace

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string model, details;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) model = value;
    // Virtual machines often hide the model's name. Family and model still identify the core.
    if (line.starts_with("cpu family")) details += " family " + value;
    if (line.starts_with("model\t")) details += " model " + value;
  }
  return model.empty() ? "unknown"
                       : model + " (" + (details.empty() ? "" : details.substr(1)) + ")";
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::size_t cache_bytes(int level) {
  // Not sysconf, because glibc reports the L3 of a whole package even if cores share only a part.
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    if (first_line((folder + "level").c_str()) != std::to_string(level) ||
        first_line((folder + "type").c_str()) == "Instruction") {
      continue;
    }
    const std::string size = first_line((folder + "size").c_str());  // "512K"
    const std::size_t unit = size.ends_with('K') ? 1024 : size.ends_with('M') ? 1024 * 1024 : 1;
    return static_cast<std::size_t>(std::strtoull(size.c_str(), nullptr, 10)) * unit;
  }
  return 0;
}

std::vector<std::pair<std::string, std::string>> context() {
  std::string available;
  for (const Backend* backend : backends()) {
    if (!backend->unavailable_reason().empty()) continue;
    available +=
        fmt::format("{}{} ({})", available.empty() ? "" : ", ", backend->name(), backend->target());
  }
  const char* commit = std::getenv("SCBF_BENCH_COMMIT");
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 30);
  return {{"cpu_model", cpu_model()},
          {"cores", std::to_string(std::thread::hardware_concurrency())},
          {"l1d", cache(1)},
          {"l2", cache(2)},
          {"l3", cache(3)},
          {"memory", fmt::format("{:.1f} GiB", memory)},
          {"huge_pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled")},
          {"kernel", kernel()},
          {"compiler", compiler()},
          {"build_type", SCBF_BENCH_BUILD_TYPE},
          {"commit", commit != nullptr && *commit != '\0' ? commit : SCBF_BENCH_COMMIT},
          {"scbf_version", SCBF_VERSION},
          {"backends", available}};
}

}  // namespace scbf::bench
