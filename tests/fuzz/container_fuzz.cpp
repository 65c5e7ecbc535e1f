// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: every function that reads filters is given arbitrary bytes, as counters and as
// bits. Each returns a filter or throws CorruptFile (or, for another kind than is asked for,
// Incompatible), and all agree. An accepted filter is written again as the same bytes. No header
// makes a reader allocate much more memory than the file has bytes. Good seeds:
// tests/golden/scalable*.scbf.
#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <type_traits>

#include "fuzz_support.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/filter.hpp"

namespace {

using namespace scbf::fuzz;
using scbf::BloomFilter;
using scbf::Filter;

std::size_t largest_allocation = 0;

void see_allocation(const volatile void*, std::size_t bytes) {
  largest_allocation = std::max(largest_allocation, bytes);
}
void see_nothing(const volatile void*) {}

/// Returns what `call` returns, or nothing after CorruptFile, or Incompatible if `other_kind` may
/// be met.
template <class Call>
auto attempt(const Bytes& bytes, std::size_t most_at_once, bool other_kind, Call call)
    -> std::optional<decltype(call())> {
  std::optional<decltype(call())> result;
  largest_allocation = 0;
  try {
    result.emplace(call());
  } catch (const scbf::CorruptFile&) {
  } catch (const scbf::Incompatible&) {
    require(other_kind);
  } catch (const std::bad_alloc&) {
    // As in loader_fuzz: the header must justify the size.
    require(bytes.size() > 1u << 20);
  }
  require(largest_allocation <= most_at_once);
  return result;
}

template <class AnyFilter>
void use(AnyFilter& filter) {
  constexpr bool kCounts = std::is_same_v<AnyFilter, Filter>;
  if constexpr (kCounts) {
    for (std::uint64_t key = 0; key < 16; ++key)
      require(filter.contains(key) == (filter.count(key) > 0));
  }
  (void)filter.statistics();
  (void)filter.fpr_bound();
  (void)filter.growth().describe();
  if (filter.read_only()) return;
  if constexpr (kCounts) filter.remove(std::uint64_t{7});
  try {
    filter.insert(std::uint64_t{7});
    require(filter.contains(std::uint64_t{7}));
  } catch (const scbf::FilterFull&) {
  }
}

/// A filter that was read from the first `read` of these bytes must write the same bytes, except
/// for the last digits of logarithms, which depend on the C library, and the checksum over them.
/// When these bytes are read and written in turn, nothing may change.
template <class AnyFilter>
void require_same_but_for_digits(const AnyFilter& filter, const Bytes& bytes, std::size_t read) {
  Bytes written;
  filter.write([&](std::span<const std::byte> part) {
    written.insert(written.end(), part.begin(), part.end());
  });
  require(written.size() == read);
  Pieces again(written);
  require_same_bytes(AnyFilter::read(again.source()), written, written.size());
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

/// What the readers of one kind of filter made of the bytes.
template <class AnyFilter>
struct Outcome {
  std::optional<AnyFilter> read, loaded, mapped;
  bool whole;  ///< in a stream, something may follow the filter; in a file, nothing may
};

template <class AnyFilter>
Outcome<AnyFilter> read_as(const Bytes& bytes, const std::string& path, std::size_t of_file,
                           const std::optional<scbf::FileInfo>& info) {
  constexpr bool kCounts = std::is_same_v<AnyFilter, Filter>;
  Pieces pieces(bytes);
  Outcome<AnyFilter> out;
  // Streams are read in pieces of 1 MiB.
  out.read =
      attempt(bytes, of_file + (2u << 20), true, [&] { return AnyFilter::read(pieces.source()); });
  out.whole = out.read && pieces.given() == bytes.size();
  out.loaded = attempt(bytes, of_file, true, [&] { return AnyFilter::load(path); });
  bool maps = true;
  try {
    out.mapped = attempt(bytes, of_file, true, [&] { return AnyFilter::map(path); });
  } catch (const scbf::IoError&) {  // compressed
    require(is_packed(bytes));
    maps = false;
  }
  require(out.loaded.has_value() == out.whole);
  require(out.mapped || !out.whole || !maps);  // mapping does not verify counters
  require(info || !out.mapped);  // it reads the padding, which read_file_info does not
  if (out.loaded) {
    require(*out.loaded == *out.read && (!out.mapped || *out.mapped == *out.read));
    require(out.loaded->metadata() == out.read->metadata());
    use(*out.loaded);
  }
  if (out.mapped) {
    require(info->stages.size() == out.mapped->stages());
    use(*out.mapped);
  }
  const bool other_kind = info && !kCounts && info->cell() == scbf::Cell::counter;
  if (out.read && info && !other_kind) {
    const bool grows = out.read->growth().policy() != scbf::Growth::Policy::one;
    require(info->is_container() == grows);
    if (grows && !is_packed(bytes)) {
      require_same_but_for_digits(*out.read, bytes, pieces.given());
    } else {
      require_same_bytes(*out.read, bytes, pieces.given());
    }
  }
  return out;
}

void check(const Bytes& bytes) {
  static File file;
  file.assign(bytes);
  // Files are read up to their end. The rest allows for messages, and, if payloads are packed, for
  // a chunk and what zstd needs for one.
  const std::size_t of_file = 2 * bytes.size() + (1u << 16) + (is_packed(bytes) ? 4u << 20 : 0);
  const auto reading = [&](auto call) { return attempt(bytes, of_file, is_bank(bytes), call); };
  const auto info = reading([&] { return scbf::read_file_info(file.path()); });
  const auto verified = reading([&] { return scbf::verify_file(file.path()); });
  const auto counters = read_as<Filter>(bytes, file.path(), of_file, info);
  const auto bits = read_as<BloomFilter>(bytes, file.path(), of_file, info);
  // Bits are made of both kinds of file, counters of one.
  const bool delta = verified && verified->is_delta;
  require(verified.has_value() == (bits.whole || delta));
  if (verified && !delta) {
    require(info && verified->file_bytes == bytes.size());
    require(verified->stages.size() == bits.read->stages());
    // Whether spilled counts fit their bitmaps is looked at only where there are counts.
    const bool ranked = info->growth.layout() == scbf::Layout::ranked;
    const bool has_counters = verified->cell() == scbf::Cell::counter;
    require(counters.whole == has_counters || (ranked && has_counters));
  }
  require(bits.read || !counters.read);
  if (counters.read) require(BloomFilter(*counters.read) == *bits.read);
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
