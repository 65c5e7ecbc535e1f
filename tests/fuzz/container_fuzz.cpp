// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: every function that reads the container of a growing filter is given arbitrary
// bytes. Each returns a filter or throws CorruptFile, and all agree. An accepted filter is written
// again as the same bytes. No header makes a reader allocate much more memory than the file has
// bytes. Good seed: tests/golden/scalable.scbf.
#include <sanitizer/allocator_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "fuzz_support.hpp"
#include "scbf/filter.hpp"

namespace {

using namespace scbf::fuzz;
using scbf::Filter;

/// Corrects all checksums of a container and of its stages, as far as the bytes go.
void sign_container(std::span<std::byte> bytes) {
  constexpr std::size_t kStagesAt = 32, kHeaderBytesAt = 96, kEntry = 48, kStageChecksumAt = 40;
  if (bytes.size() < kFixedBytes) return;
  const auto stages = get<std::uint32_t>(bytes, kStagesAt);
  for (std::size_t i = 0, at = kFixedBytes;
       i < stages && i < scbf::kMaxStages && at + kEntry <= bytes.size(); ++i, at += kEntry) {
    const auto offset = get<std::uint64_t>(bytes, at), length = get<std::uint64_t>(bytes, at + 8);
    if (offset >= bytes.size()) continue;
    const std::span<std::byte> stage =
        bytes.subspan(offset, std::min<std::uint64_t>(length, bytes.size() - offset));
    sign_filter(stage);
    if (stage.size() < kFixedBytes) continue;
    put(bytes, at + kStageChecksumAt, get<std::uint64_t>(stage, kChecksumAt));
  }
  sign_header(bytes, get<std::uint64_t>(bytes, kHeaderBytesAt));
}

/// A regular file in memory.
class File {
 public:
  File() : fd_(::memfd_create("container", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    require(fd_ >= 0);
  }
  void assign(const Bytes& bytes) {
    require(::ftruncate(fd_, 0) == 0);
    require(::pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

std::size_t largest_allocation = 0;

void see_allocation(const volatile void*, std::size_t bytes) {
  largest_allocation = std::max(largest_allocation, bytes);
}
void see_nothing(const volatile void*) {}

/// Returns what `call` returns, or nothing after CorruptFile.
template <class Call>
auto attempt(const Bytes& bytes, std::size_t most_at_once, Call call)
    -> std::optional<decltype(call())> {
  std::optional<decltype(call())> result;
  largest_allocation = 0;
  try {
    result.emplace(call());
  } catch (const scbf::CorruptFile&) {
  } catch (const std::bad_alloc&) {
    // As in loader_fuzz: the header must justify the size.
    require(bytes.size() > 1u << 20);
  }
  require(largest_allocation <= most_at_once);
  return result;
}

void use(Filter& filter) {
  for (std::uint64_t key = 0; key < 16; ++key)
    require(filter.contains(key) == (filter.count(key) > 0));
  (void)filter.statistics();
  (void)filter.fpr_bound();
  (void)filter.growth().describe();
  if (filter.read_only()) return;
  filter.remove(std::uint64_t{7});
  try {
    filter.insert(std::uint64_t{7});
    require(filter.contains(std::uint64_t{7}));
  } catch (const scbf::FilterFull&) {
  }
}

/// A filter that was read from the first `read` of these bytes must write the same bytes, except
/// for the last digits of logarithms, which depend on the C library, and the checksum over them.
/// When these bytes are read and written in turn, nothing may change.
void require_same_but_for_digits(const Filter& filter, const Bytes& bytes, std::size_t read) {
  Bytes written;
  filter.write([&](std::span<const std::byte> part) {
    written.insert(written.end(), part.begin(), part.end());
  });
  require(written.size() == read);
  Pieces again(written);
  require_same_bytes(Filter::read(again.source()), written, written.size());
  const auto take_over = [&](std::size_t at) {
    std::memcpy(written.data() + at, bytes.data() + at, 8);
  };
  const auto about = [&](std::size_t count_at, std::size_t rate_at) {
    const auto a = get<std::uint64_t>(bytes, count_at), b = get<std::uint64_t>(written, count_at);
    const auto p = get<double>(bytes, rate_at), q = get<double>(written, rate_at);
    require(std::max(a, b) - std::min(a, b) <= 1 && std::abs(p - q) <= 1e-8 * q);
    take_over(count_at);
    take_over(rate_at);
  };
  about(40, 48);  // first_capacity, fpr
  for (std::size_t s = 0; s < filter.stages(); ++s) about(128 + 48 * s + 16, 128 + 48 * s + 24);
  take_over(120);  // checksum
  require(std::memcmp(written.data(), bytes.data(), read) == 0);
}

void check(const Bytes& bytes) {
  static File file;
  file.assign(bytes);
  // Streams are read in pieces of 1 MiB, and files up to their end. kSmall allows for messages.
  constexpr std::size_t kMiB = 1u << 20, kSmall = 1u << 16;
  const std::size_t of_file = 2 * bytes.size() + kSmall, of_stream = of_file + 2 * kMiB;
  Pieces pieces(bytes);
  const auto read = attempt(bytes, of_stream, [&] { return Filter::read(pieces.source()); });
  auto loaded = attempt(bytes, of_file, [&] { return Filter::load(file.path()); });
  const auto verified = attempt(bytes, of_file, [&] { return scbf::verify_file(file.path()); });
  auto mapped = attempt(bytes, of_file, [&] { return Filter::map(file.path()); });
  const auto info = attempt(bytes, of_file, [&] { return scbf::read_file_info(file.path()); });
  // In a stream, something may follow the filter; in a file, nothing may.
  const bool whole = read && pieces.given() == bytes.size();
  require(loaded.has_value() == whole && verified.has_value() == whole);
  // Functions that read only headers accept more.
  require((mapped && info) || !whole);
  require(info || !mapped);  // map reads the padding, too
  if (read) {
    const bool grows = read->growth().policy() != scbf::Growth::Policy::one;
    if (grows) {
      require_same_but_for_digits(*read, bytes, pieces.given());
    } else {
      require_same_bytes(*read, bytes, pieces.given());
    }
    require(!info || info->is_container() == grows);
  }
  if (loaded) {
    require(*loaded == *read && *mapped == *read && loaded->metadata() == read->metadata());
    require(verified->file_bytes == bytes.size() && verified->stages.size() == read->stages());
    use(*loaded);
  }
  if (mapped) {
    require(info->stages.size() == mapped->stages());
    use(*mapped);
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  require(__sanitizer_install_malloc_and_free_hooks(see_allocation, see_nothing) != 0);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  as_is_and_signed(data, size, sign_container, check);
  return 0;
}
