// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: arbitrary bytes, read as a bank from a stream and from a file, give a bank,
// CorruptFile, or Incompatible where they begin as a filter; all ways of reading agree. The rows of
// an accepted bank are those of its counters, and a bank of its bits has these rows. It is written
// again as the same bytes, or, where there are several ways to write it, as bytes that give the
// same bank. Good seeds: tests/golden/*bank*.scbf.
#include <new>
#include <optional>

#include "fuzz_support.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_bank.hpp"
#include "support/bank_check.hpp"

namespace {

using namespace scbf::fuzz;
using scbf::Bank;
using scbf::BloomBank;
using scbf::BloomFilter;

/// What a call returns, or nothing.
template <class Call>
auto attempt(const Bytes& bytes, Call call) -> std::optional<decltype(call())> {
  try {
    return call();
  } catch (const scbf::CorruptFile&) {
  } catch (const scbf::Incompatible&) {
    require(!is_bank(bytes));
  } catch (const std::bad_alloc&) {
    require(bytes.size() > 1u << 20);  // as in loader_fuzz
  }
  return {};
}

Bytes written(const Bank& bank, bool compress) {
  Bytes bytes;
  bank.write(
      [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); },
      {.compress = compress});
  return bytes;
}

void use(Bank& bank) {
  require(!scbf_test::bank_error(bank));
  (void)bank.find(std::uint64_t{7});
  const std::uint32_t member = bank.add_member();
  bank.insert(member, std::vector<std::uint64_t>{7});
  const auto found = bank.find(std::uint64_t{7});
  require(std::ranges::find(found, member) != found.end());
  bank.remove_member(member);
}

void compare(const BloomBank& bits, const Bank& bank) {
  std::map<std::uint32_t, BloomFilter> members;
  for (std::uint32_t m = 0; m < bank.slots(); ++m) {
    if (bank.has_member(m)) members.emplace(m, BloomFilter(bank.copy_member(m)));
  }
  require(!scbf_test::bits_error(bits, members));
  for (const auto& [member, filter] : members) require(bits.copy_member(member) == filter);
  for (std::uint64_t key = 0; key < 8; ++key) require(bits.find(key) == bank.find(key));
}

void check(const Bytes& bytes) {
  static File file;
  file.assign(bytes);
  const auto info = attempt(bytes, [&] { return scbf::read_bank_file_info(file.path()); });
  const auto verified = attempt(bytes, [&] { return scbf::verify_bank_file(file.path()); });
  require(info || !verified);
  // A header may claim any capacity and geometry; a bank then takes what it takes.
  const auto rows_of = [](const scbf::BankFileInfo& of) {
    return of.growth.first_geometry().padded_counters() * (of.capacity / 8 + 1) +
           of.growth.first_geometry().bytes();
  };
  if (!info || rows_of(*info) > 64u << 20) return;
  Pieces pieces(bytes);
  auto read = attempt(bytes, [&] { return Bank::read(pieces.source()); });
  auto loaded = attempt(bytes, [&] { return Bank::load(file.path()); });
  require(loaded.has_value() == (read && pieces.given() == bytes.size()));
  // Whether spilled counts fit their bitmaps is looked at only where they are kept.
  const bool ranked = info->growth.layout() == scbf::Layout::ranked;
  require(loaded ? verified.has_value() : !verified || ranked);
  auto bits = attempt(bytes, [&] { return BloomBank::load(file.path()); });
  require(bits.has_value() == verified.has_value());
  if (!loaded) return;
  require(loaded->size() == info->members.size() && loaded->capacity() >= info->capacity);
  const Bytes again = written(*loaded, info->compressed);
  require(written(*read, info->compressed) == again);
  // Growths of several stages have numbers that are computed by logarithms.
  const bool exact = !info->compressed && info->growth.policy() == scbf::Growth::Policy::one &&
                     loaded->capacity() == info->capacity;
  require(!exact || again == bytes);
  Pieces more(again);
  require(written(Bank::read(more.source()), info->compressed) == again);
  compare(*bits, *loaded);
  compare(BloomBank(*loaded), *loaded);
  use(*loaded);
}

/// Corrects all checksums of a bank and of its members, as far as the bytes go.
void sign_bank(std::span<std::byte> bytes) {
  constexpr std::size_t kMembersAt = 32, kPayloadAt = 88, kHeaderBytesAt = 96, kEntry = 32;
  if (bytes.size() < kFixedBytes) return;
  const auto header_bytes = get<std::uint64_t>(bytes, kHeaderBytesAt);
  const bool packed = get<std::uint64_t>(bytes, kPayloadAt) == 2;
  std::uint64_t next = header_bytes;
  std::size_t at = kFixedBytes;
  for (std::uint32_t left = get<std::uint32_t>(bytes, kMembersAt);
       left > 0 && at + kEntry <= bytes.size(); --left, at += kEntry) {
    const auto offset = packed ? next : get<std::uint64_t>(bytes, at + 8);
    if (offset >= bytes.size()) continue;
    const auto length = packed ? bytes.size() : get<std::uint64_t>(bytes, at + 16);
    const std::span<std::byte> member =
        bytes.subspan(offset, std::min<std::uint64_t>(length, bytes.size() - offset));
    next = offset + sign(member);
    if (member.size() < kFixedBytes) continue;
    put(bytes, at + 24, get<std::uint64_t>(member, kChecksumAt));
  }
  sign_header(bytes, header_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  as_is_and_signed(data, size, sign_bank, check);
  return 0;
}
