// SPDX-License-Identifier: Apache-2.0
// BloomBank: a bank for readers, who only query it. It is to a Bank what a BloomFilter is to a
// Filter, and its members are BloomFilters:
//
//   scbf::BloomBank proxies(scbf::Growth::tightening(10'000, 0.01));
//   const std::uint32_t proxy = proxies.add_member(std::move(bits));   // what a proxy sent
//   proxies.find(urls, where);                  // where.of(i): the proxies that may hold url i
//   proxies.apply(proxy, scbf::Delta::read(message));                  // what changed there
//
//   scbf::BloomBank(regions).save("regions.bank");                     // of a Bank, for readers
//   const scbf::BloomBank reader = scbf::BloomBank::map("regions.bank");
//
// It keeps the rows of bits that a Bank has beside its counters, and no counters. A column of the
// rows is a member's filter of bits. Its file has the rows as they lie in memory, so any number of
// processes can share one mapped file, which is ready at once.
//
// Thread safety: as for Bank.
#pragma once

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
/// as whole filters; keys are added to a filter before it becomes a member. Where a contract is not
/// repeated here, it is BankBase's or Bank's. Whatever a function throws, members and answers are
/// as before; there may be room for more members.
class BloomBank : public BankBase {
 public:
  /// Makes a bank without members. Throws BackendUnavailable, also for a backend that works on
  /// counters only; otherwise as Bank's constructor.
  explicit BloomBank(const Growth& growth, const BankOptions& options = {});
  /// Growth::one(geometry): each member is a single stage that is never full.
  explicit BloomBank(const Geometry& geometry, const BankOptions& options = {})
      : BloomBank(Growth::one(geometry), options) {}
  /// Copies a bank's bits, growth, seed, capacity and metadata, and each member's number, mark and
  /// metadata. Answers are the same. The backend is the bank's, or "auto" if that works on counters
  /// only. Throws std::bad_alloc, or as the constructor above. Cost: a copy of the rows.
  explicit BloomBank(const Bank& counters);
  /// Takes over a bank, which is then moved from, and frees its counters.
  explicit BloomBank(Bank&& counters);

  /// Memory of the rows of all stages.
  std::uint64_t bytes() const;
  /// True for a mapped bank: adding, removing and replacing members, apply, and reserve throw
  /// ReadOnly. Marks and metadata can be set; the file keeps what it has.
  bool read_only() const;

  // ---- members --------------------------------------------------------------------------------

  /// Adds a filter of bits as a member and returns its number, the smallest free one. Its bits are
  /// kept in the rows only, so the file of a mapped filter is no longer needed. Throws
  /// Incompatible, naming the difference, unless growth and seed are the bank's and every stage
  /// belongs to this growth. Cost: one pass over the bits and over the rows of its stages.
  std::uint32_t add_member(BloomFilter&& bits, const BatchOptions& options = {});
  std::uint32_t add_member(const BloomFilter& bits, const BatchOptions& options = {});  // a copy
  /// The same for several filters, in one pass over the rows of each stage. Adds all or none.
  std::vector<std::uint32_t> add_members(std::vector<BloomFilter>&& bits,
                                         const BatchOptions& options = {});
  std::vector<std::uint32_t> add_members(const std::vector<BloomFilter>& bits,  // copies
                                         const BatchOptions& options = {});
  /// Takes a member out. Cost: one pass over the rows of each of its stages.
  void remove_member(std::uint32_t member, const BatchOptions& options = {});
  /// Replaces a member by another filter. The mark set by ask_always is cleared. Throws as
  /// add_member.
  void replace_member(std::uint32_t member, BloomFilter&& bits, const BatchOptions& options = {});
  void replace_member(std::uint32_t member, const BloomFilter& bits,
                      const BatchOptions& options = {});
  /// The epoch of a member: that of the filter that was added, or of the last delta since then.
  Epoch epoch(std::uint32_t member) const;
  /// As BloomFilter::apply, on a member: all of the delta or nothing, and its metadata. The mark
  /// set by ask_always stays. Throws Incompatible as that, or as add_member. Cost: a line of memory
  /// for each bit that changes, and one pass over the rows of each new stage; of a whole filter,
  /// that of replace_member.
  void apply(std::uint32_t member, const Delta& delta, const BatchOptions& options = {});
  /// The member as a filter of bits, with its metadata, numbers of keys and epoch. Cost: one pass
  /// over the rows of each of its stages. Throws std::bad_alloc.
  BloomFilter copy_member(std::uint32_t member, const BatchOptions& options = {}) const;

  // ---- the whole ------------------------------------------------------------------------------

  /// As of two Banks; epochs may differ, too. Rows of a mapped bank are not verified. Cost: one
  /// pass over the rows of both, up to the first difference; where later stages have other slots,
  /// bit by bit. Throws std::bad_alloc.
  friend bool operator==(const BloomBank& a, const BloomBank& b);

  /// Writes the rows, and the members' numbers, marks and metadata, into one file, atomically as
  /// Filter::save. Throws IoError, or CorruptFile if the bank is mapped from a file whose rows
  /// are damaged. Cost: two passes over the rows; with options.compress one, unless the bank is
  /// mapped. Temporary memory: some 250 bytes for each stage, and three times the metadata.
  void save(const std::filesystem::path& path, const SaveOptions& options = {}) const;
  /// Reads and verifies such a file, or that of a Bank, keeping only its bits. Throws as
  /// Bank::load. Memory: the rows and a chunk (1 MiB); for a Bank, the bits once more meanwhile.
  /// Making room for more members, as in Bank::load, takes the rows twice meanwhile.
  static BloomBank load(const std::filesystem::path& path, const BankOptions& options = {});
  /// Maps the rows of such a file read-only: nothing is copied. The header is verified, and so are
  /// rows of padding (in `split`, fewer than 128 for each slice). Other rows are not:
  /// verify_bank_file verifies them. Damaged rows give wrong answers, which still name only members
  /// that exist, and do no other harm. A later save under this name does not change the bank, but
  /// the file must not be truncated. Does not make room for more members. The file of a Bank has no
  /// rows, so it is loaded. Throws as load, and IoError if the file is compressed or cannot be
  /// mapped.
  static BloomBank map(const std::filesystem::path& path, const BankOptions& options = {});
  /// The same bytes as save, to any sink.
  void write(const ByteSink& sink, const SaveOptions& options = {}) const;
  /// Reads the bytes that write, or Bank::write, wrote and verifies everything. Throws as load.
  static BloomBank read(const ByteSource& source, const BankOptions& options = {});

 private:
  friend struct BankAccess;  // not installed
  explicit BloomBank(std::unique_ptr<BankState> state) noexcept;
};

}  // namespace scbf
