// SPDX-License-Identifier: Apache-2.0
// Memory behind which nothing can be read.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace scbf_test {

/// Words that end where a page ends; the next one cannot be read.
class AtTheEndOfAPage {
 public:
  explicit AtTheEndOfAPage(std::size_t words) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = (words * 8 + page - 1) / page * page;
    bytes_ = used + page;
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory_, MAP_FAILED);
    auto* const end = static_cast<std::byte*>(memory_) + used;
    EXPECT_EQ(mprotect(end, page, PROT_NONE), 0);
    words_ = reinterpret_cast<std::uint64_t*>(end) - words;
  }
  AtTheEndOfAPage(const AtTheEndOfAPage&) = delete;
  AtTheEndOfAPage& operator=(const AtTheEndOfAPage&) = delete;
  ~AtTheEndOfAPage() { munmap(memory_, bytes_); }
  std::uint64_t* words() const { return words_; }

 private:
  void* memory_;
  std::size_t bytes_;
  std::uint64_t* words_;
};

}  // namespace scbf_test
