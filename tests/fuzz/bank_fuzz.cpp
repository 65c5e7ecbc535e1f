// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: arbitrary bytes, read as a bank from a stream and from a file, give a bank,
// CorruptFile, or Incompatible where they begin as a filter; all ways of reading agree. The rows of
// an accepted bank are those of its counters, and a bank of its bits has these rows. It is written
// again as the same bytes, or, where there are several ways to write it, as bytes that give the
// same bank. Of a bank of bits likewise, and a mapped one answers as the loaded one, or, if its
// rows are damaged, names members that exist. Good seeds: tests/golden/*bank*.scbf.
#include <algorithm>
#include <new>
#include <optional>

#include "filter/last_digits.hpp"
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

template <class AnyBank>
Bytes written(const AnyBank& bank, bool compress) {
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

/// A bank of bits has the shapes of its growth, where a file's may differ in last digits.
bool same_stages(const BloomFilter& a, const BloomFilter& b) {
  if (a.growth() != b.growth() || a.seed() != b.seed() || a.stages() != b.stages()) return false;
  for (std::size_t i = 0; i < a.stages(); ++i) {
    if (!scbf::is_close(a.stage(i).shape(), b.stage(i).shape())) return false;
    if (!std::ranges::equal(a.stage(i).words(), b.stage(i).words())) return false;
  }
  return true;
}

void compare(const BloomBank& bits, const Bank& bank) {
  std::map<std::uint32_t, BloomFilter> members;
  for (std::uint32_t m = 0; m < bank.slots(); ++m) {
    if (bank.has_member(m)) members.emplace(m, BloomFilter(bank.copy_member(m)));
  }
  require(!scbf_test::bits_error(bits, members));
  for (const auto& [member, filter] : members) {
    require(same_stages(bits.copy_member(member), filter));
  }
  for (std::uint64_t key = 0; key < 8; ++key) require(bits.find(key) == bank.find(key));
}

// Where the header of a bank of bits has what a level's rows are.
constexpr std::size_t kLevelCountAt = 136, kLevelsAt = 168, kLevel = 40, kRowBytesAt = 24;

/// Bytes of all rows of a bank of bits with a good header.
std::uint64_t row_bytes(const Bytes& bytes) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < get<std::uint32_t>(bytes, kLevelCountAt); ++i) {
    sum += get<std::uint64_t>(bytes, kLevelsAt + kLevel * i + kRowBytesAt);
  }
  return sum;
}

void check_bits(const Bytes& bytes, const File& file) {
  const auto info = attempt(bytes, [&] { return scbf::read_bank_file_info(file.path()); });
  const auto verified = attempt(bytes, [&] { return scbf::verify_bank_file(file.path()); });
  require(info || !verified);
  if (!info || row_bytes(bytes) > 64u << 20) return;
  Pieces pieces(bytes);
  auto read = attempt(bytes, [&] { return BloomBank::read(pieces.source()); });
  auto loaded = attempt(bytes, [&] { return BloomBank::load(file.path()); });
  require(loaded.has_value() == (read && pieces.given() == bytes.size()));
  require(loaded.has_value() == verified.has_value());
  std::optional<BloomBank> mapped;
  if (!info->compressed) mapped = attempt(bytes, [&] { return BloomBank::map(file.path()); });
  require(mapped || !loaded || info->compressed);
  for (std::uint64_t key = 0; mapped && key < 8; ++key) {
    for (const std::uint32_t member : mapped->find(key)) require(mapped->has_member(member));
    require(!loaded || mapped->find(key) == loaded->find(key));
  }
  if (!loaded) return;
  std::map<std::uint32_t, BloomFilter> members;
  for (const auto& member : info->members) {
    members.emplace(member.number, loaded->copy_member(member.number));
  }
  require(!scbf_test::bits_error(*loaded, members));
  require(loaded->size() == members.size() && loaded->capacity() == info->capacity);
  const Bytes again = written(*loaded, info->compressed);
  require(written(*read, info->compressed) == again);
  if (mapped) require(written(*mapped, false) == again);
  const bool exact = !info->compressed && info->growth.policy() == scbf::Growth::Policy::one;
  require(!exact || again == bytes);
  Pieces more(again);
  require(written(BloomBank::read(more.source()), info->compressed) == again);
  if (members.empty()) return;
  const std::uint32_t member = loaded->add_member(members.begin()->second);
  for (std::uint64_t key = 0; key < 8; ++key) {
    const auto found = loaded->find(key);
    const bool there = members.begin()->second.contains(key);
    require((std::ranges::find(found, member) != found.end()) == there);
  }
}

void check(const Bytes& bytes) {
  static File file;
  file.assign(bytes);
  if (is_bank_of_bits(bytes)) return check_bits(bytes, file);
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
  const BloomBank made(*loaded);
  compare(made, *loaded);
  const Bytes of_bits = written(made, info->compressed);
  Pieces bits_pieces(of_bits);
  compare(BloomBank::read(bits_pieces.source()), *loaded);
  use(*loaded);
}

/// Corrects all checksums of a bank of bits, as far as the bytes go.
void sign_bits(std::span<std::byte> bytes) {
  constexpr std::size_t kMembersAt = 32, kPayloadAt = 88, kHeaderBytesAt = 96, kStagesAt = 144;
  constexpr std::uint64_t kChunk = 1u << 20, kMember = 16, kStage = 32;
  if (bytes.size() < kLevelsAt) return;
  const auto header_bytes = get<std::uint64_t>(bytes, kHeaderBytesAt);
  if (get<std::uint64_t>(bytes, kPayloadAt) == 2) {
    sign_header(bytes, header_bytes);
    sign_chunks(bytes, header_bytes, ~std::uint64_t{0});
    return;
  }
  const std::uint64_t levels = get<std::uint32_t>(bytes, kLevelCountAt);
  std::uint64_t table = kLevelsAt + kLevel * levels +
                        kMember * get<std::uint32_t>(bytes, kMembersAt) +
                        kStage * get<std::uint64_t>(bytes, kStagesAt);
  for (std::uint64_t i = 0, at = kLevelsAt; i < levels && at + kLevel <= bytes.size();
       ++i, at += kLevel) {
    const auto length = get<std::uint64_t>(bytes, at + kRowBytesAt);
    const auto begin = get<std::uint64_t>(bytes, at + kRowBytesAt + 8);
    for (std::uint64_t done = 0; done < length; done += kChunk, table += 8) {
      if (begin + done >= bytes.size() || table >= bytes.size() - 8) break;
      const std::uint64_t left = std::min(length - done, bytes.size() - begin - done);
      put(bytes, table, XXH3_64bits(bytes.data() + begin + done, std::min(kChunk, left)));
    }
  }
  sign_header(bytes, header_bytes);
}

/// Corrects all checksums of a bank and of its members, as far as the bytes go.
void sign_bank(std::span<std::byte> bytes) {
  if (is_bank_of_bits(bytes)) return sign_bits(bytes);
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
