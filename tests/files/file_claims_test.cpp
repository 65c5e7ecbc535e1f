// SPDX-License-Identifier: Apache-2.0
// A header's claims cost no memory until they have been compared with the length of the file. This
// program replaces operator new, so as to see allocations.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>
#include <variant>

#include "files/file_test_support.hpp"
#include "scbf/bank.hpp"
#include "scbf/filter.hpp"

namespace {

std::size_t largest_allocation = 0, largest_mapping = 0;

}  // namespace

extern "C" void* mmap(void* at, std::size_t bytes, int access, int flags, int fd,
                      off_t offset) noexcept {
  largest_mapping = std::max(largest_mapping, bytes);
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, access, flags, fd, offset));
}

void* operator new(std::size_t bytes) {
  largest_allocation = std::max(largest_allocation, bytes);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace scbf::test {
namespace {

constexpr std::uint64_t kMostMetadata = 1u << 20;

/// Writes a golden file with a consistent header that claims more metadata than there are bytes.
void write_claim(const fs::path& path, const std::string& golden, std::size_t header_bytes_at,
                 std::uint64_t before_metadata) {
  Bytes bytes = read_bytes(fs::path(SCBF_TEST_DATA_DIR) / "golden" / golden);
  const std::uint64_t header_bytes = (before_metadata + kMostMetadata + 4095) / 4096 * 4096;
  put<std::uint64_t>(bytes, 112, kMostMetadata);
  put<std::uint64_t>(bytes, header_bytes_at, header_bytes);
  sign_header(bytes, header_bytes);
  write_bytes(path, bytes);
}

/// Expects a refusal that takes little memory.
template <class Read>
void expect_refused_cheaply(const fs::path& path, Read read) {
  constexpr std::size_t kLittle = 1u << 16;
  largest_allocation = 0;
  EXPECT_THROW_WITH(read(path), CorruptFile, "truncated");
  EXPECT_GT(largest_allocation, 0u) << "no allocation was seen";
  EXPECT_LT(largest_allocation, kLittle);
}

TEST(Claims, CostNothing) {
  const TemporaryFolder folder;
  const fs::path path = folder / "f.scbf";
  for (const bool container : {false, true}) {
    if (container) {
      write_claim(path, "scalable.scbf", 96, 128 + 3 * 48);
    } else {
      write_claim(path, "split_k7.scbf", 80, 128 + 8);
    }
    expect_refused_cheaply(path, [](const fs::path& p) { Filter::load(p); });
    expect_refused_cheaply(path, [](const fs::path& p) { Filter::map(p); });
    expect_refused_cheaply(path, [](const fs::path& p) { read_file_info(p); });
    expect_refused_cheaply(path, [](const fs::path& p) { verify_file(p); });
  }
}

/// Rows of bits are made when all members have been read.
TEST(Claims, RowsOfABankThatIsNotWhole) {
  const TemporaryFolder folder;
  const fs::path path = folder / "b.scbf";
  Bytes bytes = read_bytes(fs::path(SCBF_TEST_DATA_DIR) / "golden" / "bank.scbf");
  put<std::uint64_t>(bytes, 104, kMaxBankMembers);
  sign_header(bytes, get<std::uint64_t>(bytes, 96));
  constexpr std::uint64_t kRows = 8 * 16 * 13 * std::uint64_t{kMaxBankMembers} / 8;
  largest_mapping = 0;
  EXPECT_EQ(Bank::read(source_of(bytes)).memory().rows, kRows);
  EXPECT_GE(largest_mapping, kRows) << "no mapping was seen";
  bytes.back() ^= std::byte{1};
  write_bytes(path, bytes);
  largest_mapping = 0;
  EXPECT_THROW_WITH(Bank::load(path), CorruptFile, "checksum mismatch");
  EXPECT_EQ(std::get<BankFileInfo>(read_any_file_info(path)).row_bytes, kRows);
  EXPECT_LT(largest_mapping, 1u << 20);
}

}  // namespace
}  // namespace scbf::test
