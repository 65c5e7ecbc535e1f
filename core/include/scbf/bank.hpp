// SPDX-License-Identifier: Apache-2.0
// Bank: many filters that together answer one question: which of them may hold this key?
//
//   scbf::Bank servers(scbf::Growth::tightening(10'000, 0.01), {.capacity = 1000});
//   const std::uint32_t server = servers.add_member();
//   servers.insert(server, keys);
//   scbf::MemberLists where;
//   servers.find(queries, where);               // where.of(i): the members that may hold query i
//
// A member behaves exactly like a Filter of this growth and seed: same bytes, same verdicts.
// Besides the counters, a bank keeps a row of bits for each counter of a stage. The row has one bit
// per member, which is 1 if that member's counter is not zero. A key is hashed once, and located
// once for each shape of stage in the bank; the AND of its k rows is the answer, whatever the
// number of members. docs/bank.md describes how it works, what it costs and when it pays.
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
#include <utility>
#include <variant>
#include <vector>

#include "scbf/detail/not_a_key.hpp"
#include "scbf/filter.hpp"

namespace scbf {

/// The largest number of members of a bank.
inline constexpr std::uint32_t kMaxBankMembers = 1u << 20;

struct BankOptions {
  std::uint64_t seed = 0;  ///< of XXH3-64, for all members
  /// See find_backend; must be one that keeps counters on the host.
  std::string_view backend = "auto";
  std::uint32_t capacity = 8;  ///< members to make room for; a bank can outgrow it, see reserve
};

/// Keys for one member, in a call that changes several.
struct MemberKeys {
  std::uint32_t member;
  KeyBatch keys;
};

/// How a bank's memory is divided, in bytes. Rows take a quarter of the counters' memory when every
/// number below the capacity has a member (in `ranked`, about a half to seven eighths).
struct BankMemory {
  std::uint64_t counters = 0;  ///< of all members
  std::uint64_t rows = 0;
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

/// Some members had no room for all their keys, or no memory for more room. Their keys were
/// inserted as far as they fit, those of all other members completely; processed(i) says how far
/// batch i got. processed() and what() describe the first batch that was not completely inserted,
/// done() all batches together. Keys that were not inserted have changed no counter.
class MembersFull : public FilterFull {
 public:
  MembersFull(const Error& message, std::size_t batch, std::vector<std::uint64_t> processed,
              const InsertReport& done)
      : FilterFull(message, processed[batch], done),
        batch_(batch),
        processed_(std::move(processed)) {}
  using FilterFull::processed;
  /// The first batch that was not completely inserted; 0 if there was only one batch.
  std::size_t batch() const noexcept { return batch_; }
  /// How many keys of batch i were processed, nulls included; continue with the key at this index.
  /// Throws InvalidArgument if there is no batch i.
  std::uint64_t processed(std::size_t i) const;

 private:
  std::size_t batch_;
  std::vector<std::uint64_t> processed_;
};

struct BankState;  // internal: what a bank is made of

/// Members are addressed by the number that add_member returned. A member keeps its number until it
/// is removed; a later member may then get that number. Every function that takes a number throws
/// InvalidArgument, changing nothing, if no member has it.
///
/// Whatever a function throws, rows, counters and the map of stages agree afterwards. Functions
/// that add or replace members have then changed nothing. Batches throw std::bad_alloc only before
/// they change anything, except that empty stages may have been added; once some keys are in, the
/// exception is MembersFull. If memory is short, they go member by member and key by key instead.
/// An executor that throws costs speed, not keys (see Executor). Movable (errors.hpp: "Moving"),
/// not copyable.
class Bank {
 public:
  /// Makes a bank without members. Throws BackendUnavailable; InvalidArgument if the backend keeps
  /// counters on a device or the capacity exceeds kMaxBankMembers; std::bad_alloc.
  explicit Bank(const Growth& growth, const BankOptions& options = {});
  Bank(Bank&&) noexcept;
  Bank& operator=(Bank&&) noexcept;
  ~Bank();

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
  /// Memory of all stages.
  BankMemory memory() const;

  // ---- members --------------------------------------------------------------------------------

  /// Makes room for this many members in the rows of the first stage. Rows are 1, 2, 4 … 64 bytes
  /// long, then a multiple of 32. Cost: if rows become longer, one copy of all rows; old and new
  /// rows are in memory at the same time.
  void reserve(std::uint32_t members);

  /// Adds an empty member, of one stage. Returns its number, the smallest free one. If the bank is
  /// full, its capacity grows by half (see reserve).
  std::uint32_t add_member();
  /// Adds a filter, for example a loaded one, as a member. It then belongs to the bank and uses the
  /// bank's backend. A mapped filter can be queried but not changed. Throws Incompatible, naming
  /// the difference, unless growth and seed are the bank's and every stage belongs to this growth
  /// (merge may have added others). Cost: one pass over counters and rows of its stages.
  std::uint32_t add_member(Filter filter, const BatchOptions& options = {});
  /// The same for several filters, in one pass over the rows of each stage. Adds all or none.
  /// Returns their numbers.
  std::vector<std::uint32_t> add_members(std::vector<Filter> filters,
                                         const BatchOptions& options = {});
  /// Takes a member out and returns it, metadata included. The slots of its later stages become
  /// free. Cost: one pass over the rows of each of its stages.
  Filter remove_member(std::uint32_t member, const BatchOptions& options = {});
  /// Replaces a member by a filter and returns the old member. The mark set by ask_always is
  /// cleared. Throws Incompatible. Cost: that of remove_member and add_member together.
  Filter replace_member(std::uint32_t member, Filter filter, const BatchOptions& options = {});
  /// Copies a member, for its statistics or to save it alone. Cost: one pass over its counters.
  Filter copy_member(std::uint32_t member) const;
  bool has_member(std::uint32_t member) const;

  /// How many stages a member has; at least 1.
  std::size_t stages(std::uint32_t member) const;
  /// Stage i, oldest first. Valid until the bank is changed. Throws InvalidArgument past the last.
  StageView stage(std::uint32_t member, std::size_t i) const;
  /// As Filter::fpr_bound.
  double fpr_bound(std::uint32_t member) const;
  /// Filter::metadata of a member, for example its name.
  const std::string& metadata(std::uint32_t member) const;
  /// Throws InvalidArgument if it is longer than kMaxMetadataBytes.
  void set_metadata(std::uint32_t member, std::string metadata);

  /// Marks a member that must be asked whatever its counters say, for example because it is
  /// unknown, stale or being rebuilt. It is in every answer, except for null keys, until the mark
  /// is cleared with ask = false.
  void ask_always(std::uint32_t member, bool ask);
  bool asked_always(std::uint32_t member) const;

  // ---- changes --------------------------------------------------------------------------------

  /// As Filter::insert. Updates the row of each counter that leaves 0, or rebuilds the member's
  /// columns where that is cheaper. Throws MembersFull, which says which keys were inserted.
  InsertReport insert(std::uint32_t member, const KeyBatch& keys, const BatchOptions& options = {});
  /// As Filter::remove, options.most_absent included: verdicts[i] is a Removal; `verdicts` may be
  /// empty.
  RemoveReport remove(std::uint32_t member, const KeyBatch& keys,
                      std::span<std::uint8_t> verdicts = {}, const BatchOptions& options = {});
  /// Inserts batches into several members at once; batches of one member go in order. Members
  /// advance together in rounds. In a round, each member inserts as many keys as are sure to go to
  /// one of its stages. One cache line of rows serves 512 members, and threads share the members.
  /// Rounds: at most ⌈log2 counters⌉ + 2 for each stage that fills. Throws MembersFull. Temporary
  /// memory: for each thread, 9 bytes per key for at most 2^22 keys at a time, and 150 bytes per
  /// batch.
  InsertReport insert(std::span<const MemberKeys> batches, const BatchOptions& options = {});
  /// The same for removal. In members with several stages, keys are removed in runs, and a key that
  /// several stages claim ends a run. Throws InvalidArgument if options.most_absent is set, which
  /// works for one member only. Temporary memory: 40 bytes per key for at most 2^20 keys at a time.
  RemoveReport remove(std::span<const MemberKeys> batches, const BatchOptions& options = {});

  /// Merges a filter into a member, as Filter::merge: stage by stage where the sum fits, otherwise
  /// as further stages. All or nothing; the mark set by ask_always stays. To merge two members:
  /// merge(a, copy_member(b)). Throws Incompatible as Filter::merge and add_member do, ReadOnly for
  /// a mapped member. Cost: one pass over the rows of the member's stages, old and new; with a
  /// growth of several stages also two copies of its counters.
  void merge(std::uint32_t member, const Filter& other, const BatchOptions& options = {});
  /// Subtracts a filter from a member, as Filter::subtract; otherwise as merge.
  SubtractReport subtract(std::uint32_t member, const Filter& other,
                          const BatchOptions& options = {});
  /// Resets a member to one empty stage. Cost: one pass over the rows of each of its stages.
  void clear(std::uint32_t member, const BatchOptions& options = {});

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

  // ---- the whole: docs/file_format.md ---------------------------------------------------------

  /// Free-form text that is saved with the bank, as Filter::metadata.
  const std::string& metadata() const;
  /// Throws InvalidArgument if it is longer than kMaxMetadataBytes.
  void set_metadata(std::string metadata);

  /// Writes all members, with their numbers, marks and metadata, into one file, atomically as
  /// Filter::save. The rows are not in it. Throws IoError, or CorruptFile if the words of a mapped
  /// `ranked` member are invalid. Cost: two passes over all counters. Temporary memory: some 500
  /// bytes for each stage, the metadata, and 1/131072 of the counters.
  void save(const std::filesystem::path& path, const SaveOptions& options = {}) const;
  /// Reads and verifies everything, and builds the rows. A larger options.capacity makes room for
  /// more members; options.seed is ignored, here and in read. Throws IoError, CorruptFile, or
  /// Incompatible if the file holds a filter or a BloomBank; otherwise as the constructor. Cost:
  /// that of reading, and of add_members.
  static Bank load(const std::filesystem::path& path, const BankOptions& options = {});
  /// The same bytes as save, to any sink.
  void write(const ByteSink& sink, const SaveOptions& options = {}) const;
  /// Reads the bytes that write wrote and verifies everything. Throws as load.
  static Bank read(const ByteSource& source, const BankOptions& options = {});

 private:
  friend struct BankAccess;  // not installed
  explicit Bank(std::unique_ptr<BankState> state) noexcept;

  detail::Owned<BankState> state_;
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
/// members. Throws IoError, CorruptFile, or Incompatible if the file holds a filter.
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
