// SPDX-License-Identifier: Apache-2.0
// BloomBank: a bank for whoever only asks. It is to a Bank what a BloomFilter is to a Filter, and
// its members are BloomFilters:
//
//   scbf::BloomBank proxies(scbf::Growth::tightening(10'000, 0.01));
//   const std::uint32_t proxy = proxies.add_member(std::move(bits));   // what a proxy sent
//   proxies.find(urls, where);                  // where.of(i): the proxies that may hold url i
//
//   scbf::BloomBank reader = scbf::BloomBank::load("regions.bank");    // of a Bank that was saved
//
// A bank's rows of bits are all that it keeps. A column of them is a member's filter of bits, so a
// member takes one bit for each counter, where a Bank takes four more.
//
// Thread safety: as of Bank.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scbf/bank.hpp"
#include "scbf/bloom_filter.hpp"

namespace scbf {

/// Members are BloomFilters of one growth and seed. They are numbered as in Bank, and come and go
/// as whole filters; keys are added to a filter before it comes. Where a contract is not repeated
/// here, it is Bank's. Whatever a function throws, it has changed nothing. Movable (errors.hpp:
/// "Moving"), not copyable.
class BloomBank {
 public:
  /// Makes a bank without members. Throws as Bank's constructor, and BackendUnavailable of a
  /// backend that works on counters only, too.
  explicit BloomBank(const Growth& growth, const BankOptions& options = {});
  /// The bits of a bank, with its growth, seed and capacity, and of its members the numbers, marks
  /// and metadata, on its backend; on "auto" if that works on counters only. Answers are the same.
  /// Cost: a copy of the rows. Throws std::bad_alloc.
  explicit BloomBank(const Bank& counters);
  /// The same of a bank that is given up. Cost: that of freeing its counters.
  explicit BloomBank(Bank&& counters);
  BloomBank(BloomBank&&) noexcept;
  BloomBank& operator=(BloomBank&&) noexcept;
  ~BloomBank();

  const Growth& growth() const;
  std::uint64_t seed() const;
  const Backend& backend() const;
  std::size_t size() const;
  std::uint32_t slots() const;
  std::uint32_t capacity() const;
  /// Memory of the rows of all stages.
  std::uint64_t bytes() const;

  // ---- members --------------------------------------------------------------------------------

  void reserve(std::uint32_t members);
  /// Adds a filter of bits as a member and returns its number, the smallest free one. The filter
  /// may be mapped; nothing of it is kept but what the rows hold. Throws Incompatible, naming the
  /// difference, unless growth and seed are the bank's and every stage belongs to this growth.
  /// Cost: one pass over the bits and over the rows of its stages.
  std::uint32_t add_member(BloomFilter bits, const BatchOptions& options = {});
  /// The same for several filters, in one pass over the rows of each stage. Adds all or none.
  std::vector<std::uint32_t> add_members(std::vector<BloomFilter> bits,
                                         const BatchOptions& options = {});
  /// Takes a member out. Cost: one pass over the rows of each of its stages.
  void remove_member(std::uint32_t member, const BatchOptions& options = {});
  /// Replaces a member, for example by its bits of a later epoch. The mark set by ask_always is
  /// cleared. Throws as add_member.
  void replace_member(std::uint32_t member, BloomFilter bits, const BatchOptions& options = {});
  /// The filter of bits that was added, with its metadata and numbers of keys; without its epoch.
  /// Cost: one pass over the rows of each of its stages. Throws std::bad_alloc.
  BloomFilter copy_member(std::uint32_t member, const BatchOptions& options = {}) const;
  bool has_member(std::uint32_t member) const;
  std::size_t stages(std::uint32_t member) const;
  double fpr_bound(std::uint32_t member) const;
  const std::string& metadata(std::uint32_t member) const;
  void set_metadata(std::uint32_t member, std::string metadata);
  void ask_always(std::uint32_t member, bool ask);
  bool asked_always(std::uint32_t member) const;

  // ---- questions ------------------------------------------------------------------------------

  std::size_t answer_bytes() const;
  BankReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                           const BatchOptions& options = {}) const;
  BankReport find(const KeyBatch& keys, MemberLists& lists, const BatchOptions& options = {}) const;
  std::vector<std::uint32_t> find(std::uint64_t key) const;
  std::vector<std::uint32_t> find(std::string_view key) const;
  template <std::floating_point T>
  std::vector<std::uint32_t> find(T) const = delete;  // cannot be keys

  // ---- the whole ------------------------------------------------------------------------------

  const std::string& metadata() const;
  void set_metadata(std::string metadata);

  /// Reads and verifies the file of a Bank, and keeps its bits. Throws as Bank::load. Memory: the
  /// rows, meanwhile the bits once more, and two chunks (1.25 MiB).
  static BloomBank load(const std::filesystem::path& path, const BankOptions& options = {});
  /// Reads the bytes that Bank::write wrote. Throws as load.
  static BloomBank read(const ByteSource& source, const BankOptions& options = {});

 private:
  friend struct BankAccess;  // not installed
  explicit BloomBank(std::unique_ptr<BankState> state) noexcept;

  detail::Owned<BankState> state_;
};

}  // namespace scbf
