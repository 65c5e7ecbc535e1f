// SPDX-License-Identifier: Apache-2.0
// BankBase: what Bank (bank.hpp, members with counters) and BloomBank (bloom_bank.hpp, with bits)
// have in common.
//
// Thread safety: const member functions may run concurrently; the others need the bank to
// themselves. Batches run in parallel inside (BatchOptions::threads).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "scbf/backend.hpp"
#include "scbf/detail/not_a_key.hpp"
#include "scbf/detail/owned.hpp"
#include "scbf/files.hpp"
#include "scbf/growth.hpp"
#include "scbf/key_batch.hpp"

namespace scbf {

/// The largest number of members of a bank.
inline constexpr std::uint32_t kMaxBankMembers = 1u << 20;

struct BankOptions {
  std::uint64_t seed = 0;  ///< of XXH3-64, for all members
  /// See find_backend; must be one that keeps counters on the host.
  std::string_view backend = "auto";
  std::uint32_t capacity = 8;  ///< members to make room for; a bank can outgrow it, see reserve
};

struct BankReport {
  std::uint64_t nulls = 0;  ///< null keys; no member holds them
};

/// For each key, the members that may hold it, in ascending order.
struct MemberLists {
  std::vector<std::uint64_t> offsets;  ///< keys + 1 of them; key i's members begin at offsets[i]
  std::vector<std::uint32_t> members;

  std::size_t size() const noexcept { return offsets.empty() ? 0 : offsets.size() - 1; }
  std::span<const std::uint32_t> of(std::size_t key) const noexcept {
    return std::span(members).subspan(offsets[key], offsets[key + 1] - offsets[key]);
  }
};

struct BankState;  // internal: what a bank is made of

/// Members are addressed by the number that add_member returned. A member keeps its number until it
/// is removed; a later member may then get that number. Every function that takes a number throws
/// InvalidArgument, changing nothing, if no member has it.
///
/// Copyable (deep), movable (errors.hpp: "Moving"); not a type of its own: only the two banks are
/// made. A copy has the same members, numbers, marks, metadata, backend and capacity, and lies in
/// memory: of a mapped bank or member, it can be changed. Throws std::bad_alloc, or CorruptFile if
/// the rows of a mapped bank are damaged. Cost: a copy of counters and rows; for a mapped bank, one
/// more pass over the rows, to verify them.
class BankBase {
 public:
  const Growth& growth() const;
  std::uint64_t seed() const;
  const Backend& backend() const;
  /// How many members there are.
  std::size_t size() const;
  /// One more than the largest number that a member has had. Not every number below it need have a
  /// member.
  std::uint32_t slots() const;
  /// How many members there is room for, which is the number of bits in an answer. Rows of later
  /// stages are only as long as needed for the members with such a stage.
  std::uint32_t capacity() const;

  // ---- members --------------------------------------------------------------------------------

  /// Makes room for this many members in the rows of the first stage. Rows are 1, 2, 4 … 64 bytes
  /// long, then a multiple of 32. Cost: if rows become longer, one copy of all rows; old and new
  /// rows are in memory at the same time.
  void reserve(std::uint32_t members, const BatchOptions& options = {});
  bool has_member(std::uint32_t member) const;
  /// How many stages a member has; at least 1.
  std::size_t stages(std::uint32_t member) const;
  /// As Filter::fpr_bound.
  double fpr_bound(std::uint32_t member) const;
  /// Filter::metadata of a member, for example its name.
  const std::string& metadata(std::uint32_t member) const;
  /// Throws InvalidArgument if it is longer than kMaxMetadataBytes.
  void set_metadata(std::uint32_t member, std::string metadata);
  /// Marks a member that must be asked whatever its cells say, for example because it is unknown,
  /// stale or being rebuilt. It is in every answer, except for null keys, until the mark is cleared
  /// with ask = false.
  void ask_always(std::uint32_t member, bool ask);
  bool asked_always(std::uint32_t member) const;

  // ---- questions ------------------------------------------------------------------------------

  /// Size of one key's packed answer: capacity() / 8 bytes.
  std::size_t answer_bytes() const;
  /// The answer to keys[i] is the answer_bytes() bytes from i · answer_bytes() on. Bit m of it,
  /// least significant first, is 1 if member m may hold the key in any of its stages. Bits without
  /// a member are 0, and so is the whole answer to a null key. Requires bits.size() == keys.size()
  /// · answer_bytes(), else InvalidArgument. Cost: k rows for each shape of stage, only as long as
  /// needed for the members with such a stage. Temporary memory: 170 KiB of each thread's stack.
  BankReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                           const BatchOptions& options = {}) const;
  /// The same as lists: ascending, each member once. They replace the contents of `lists`.
  BankReport find(const KeyBatch& keys, MemberLists& lists, const BatchOptions& options = {}) const;
  /// The members that may hold one key, in ascending order. For many keys use batches.
  std::vector<std::uint32_t> find(std::uint64_t key) const;
  std::vector<std::uint32_t> find(std::string_view key) const;
  template <detail::NotAKey T>
  std::vector<std::uint32_t> find(T) const = delete;
  std::vector<std::uint32_t> find(detail::Literals) const = delete;

  // ---- the whole: docs/file_format.md. Each bank has load and read ----------------------------

  /// Free-form text that is saved with the bank, as Filter::metadata.
  const std::string& metadata() const;
  /// Throws InvalidArgument if it is longer than kMaxMetadataBytes.
  void set_metadata(std::string metadata);

 protected:
  explicit BankBase(std::unique_ptr<BankState> state) noexcept;
  BankBase(const BankBase&);
  BankBase& operator=(const BankBase&);
  BankBase(BankBase&&) noexcept;
  BankBase& operator=(BankBase&&) noexcept;
  ~BankBase();

  detail::Owned<BankState> state_;

 private:
  friend struct BankAccess;  // not installed
};

/// What a bank file says of one member.
struct MemberFileInfo {
  std::uint32_t number;
  bool asked_always;     ///< Bank::ask_always
  std::uint64_t offset;  ///< of the member in the file; offsets in `filter` count from here
  /// In a BloomBank's file, no member has a place of its own: `offset`, and everything in `filter`
  /// that says where something lies, are then 0.
  FileInfo filter;
};

/// What the headers of a bank file say.
struct BankFileInfo {
  std::uint32_t version;
  Growth growth;
  std::uint64_t seed;
  std::uint32_t capacity;               ///< Bank::capacity
  std::vector<MemberFileInfo> members;  ///< ascending by number
  std::uint64_t file_bytes;
  std::string metadata;
  bool compressed;  ///< see SaveOptions::compress
  Cell cell;        ///< of the members: counter for a Bank's file, bit for a BloomBank's
  /// Bytes that rows take when the bank is loaded, however few members there are: check this before
  /// loading a file that you do not trust. For a Bank, the rows of the first stage; for a
  /// BloomBank, those of all stages, and what is kept for each slot.
  std::uint64_t row_bytes;
};

/// Reads and verifies only the headers of the file of a Bank or a BloomBank, including those of the
/// members. Throws IoError, CorruptFile, or WrongKind if the file holds a filter.
BankFileInfo read_bank_file_info(const std::filesystem::path& path);
/// Reads and verifies the whole file: for a Bank every member, as verify_file does a filter; for a
/// BloomBank all rows. Memory: one chunk, and what is returned. Throws as read_bank_file_info.
BankFileInfo verify_bank_file(const std::filesystem::path& path);

/// What the headers of a file say, whichever kind of file it is.
using AnyFileInfo = std::variant<FileInfo, BankFileInfo>;
/// Reads and verifies only the headers, as read_file_info or read_bank_file_info, whichever fits.
/// Reads a pipe once. Throws IoError or CorruptFile.
AnyFileInfo read_any_file_info(const std::filesystem::path& path);
/// Reads and verifies the whole file, as verify_file or verify_bank_file. Throws IoError or
/// CorruptFile.
AnyFileInfo verify_any_file(const std::filesystem::path& path);

}  // namespace scbf
