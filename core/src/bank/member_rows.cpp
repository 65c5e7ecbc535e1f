// SPDX-License-Identifier: Apache-2.0
#include "bank/member_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <vector>

#include "kit/executor.hpp"

namespace scbf {

static_assert(std::endian::native == std::endian::little);  // bit m of a row is in byte m / 8

namespace {

constexpr std::uint64_t kLineBytes = 64;

// Rows of a strip of keys, on the stack.
constexpr std::size_t kMarkedRows = 8192;
// Lines of counters per task; when rows are copied, the rows of this many lines.
constexpr std::uint64_t kTaskLines = 256;

// Bytes of rows that are rebuilt at a time: they stay in L2.
constexpr std::uint64_t kWindowBytes = 256u << 10;

// Costs measured at 1,024 members of 10^5 keys (docs/performance_notes.md): marking one probe,
// where half of the probes find their counter zero; reading a line of counters; reading and writing
// a line of rows; gathering one line of counters of 64 members.
constexpr double kMarkProbeNs = 2.4, kReadLineNs = 5.0, kRowLineNs = 8.0, kGatherNs = 350;

void prefetch_row(const std::uint8_t* at) noexcept { __builtin_prefetch(at, 1, 3); }

/// Replaces the columns of `mask` in the words at `at` of consecutive rows by `bits`.
template <class Word>
void write_columns(std::uint8_t* at, std::uint64_t stride, std::uint64_t mask,
                   std::span<const std::uint64_t> bits) noexcept {
  for (std::size_t c = 0; c < bits.size(); ++c, at += stride) {
    Word row;
    std::memcpy(&row, at, sizeof row);
    row = static_cast<Word>((row & ~mask) | bits[c]);
    std::memcpy(at, &row, sizeof row);
  }
}

}  // namespace

MemberRows::MemberRows(const Geometry& geometry, std::uint32_t members)
    : geometry_(geometry), stride_(row_stride(members)) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(rows(), stride_, &bytes)) throw std::bad_alloc();
  memory_ = HostMemory(bytes);
}

MemberRows::MemberRows(const Geometry& geometry, std::uint32_t members, HostMemory rows) noexcept
    : geometry_(geometry), stride_(row_stride(members)), memory_(std::move(rows)) {}

MemberRows MemberRows::copy() const {
  MemberRows copy(geometry_, capacity());
  copy.memory_.copy_from(memory_);
  return copy;
}

void MemberRows::grow(std::uint32_t members, const BatchOptions& options) {
  if (row_stride(members) <= stride_) return;
  MemberRows longer(geometry_, members);
  const std::uint64_t task_rows = kTaskLines * gathered_rows(geometry_);
  const std::uint64_t tasks = (rows() + task_rows - 1) / task_rows;
  run_tasks(options, thread_count(options), tasks, [&](std::size_t task) {
    const std::uint64_t first = task * task_rows;
    const std::uint64_t last = std::min(rows(), first + task_rows);
    for (std::uint64_t row = first; row < last; ++row) {
      std::memcpy(longer.data() + row * longer.stride_, data() + row * stride_, stride_);
    }
  });
  *this = std::move(longer);
}

void MemberRows::mark_zeros(const RowKernels& kernels, const std::uint64_t* words,
                            std::uint32_t slot, const std::uint64_t* hashes, std::size_t n,
                            bool bit) noexcept {
  // Prefetching runs beyond the last row; row 0 stands there, which costs nothing.
  std::array<std::uint64_t, kMarkedRows + kMarksAhead> rows;
  const std::uint32_t k = geometry_.probes();
  const std::size_t per_strip = kMarkedRows / k;
  std::uint8_t* const column = data() + slot / 8;
  const auto set = static_cast<std::uint8_t>(bit ? 1u << slot % 8 : 0);
  const auto keep = static_cast<std::uint8_t>(~(1u << slot % 8));
  for (std::size_t first = 0; first < n; first += per_strip) {
    const std::size_t keys = std::min(per_strip, n - first);
    const std::size_t zeros =
        kernels.locate_zeros(geometry_, words, hashes + first, keys, rows.data());
    const std::size_t ahead = std::min(zeros, kMarksAhead);
    std::fill_n(rows.begin() + zeros, ahead, 0);
    for (std::size_t i = 0; i < ahead; ++i) prefetch_row(column + rows[i] * stride_);
    for (std::size_t i = 0; i < zeros; ++i) {
      prefetch_row(column + rows[i + ahead] * stride_);
      std::uint8_t& byte = column[rows[i] * stride_];
      byte = static_cast<std::uint8_t>((byte & keep) | set);
    }
  }
}

void MemberRows::flip(std::uint32_t slot, std::span<const std::uint64_t> rows) noexcept {
  std::uint8_t* const column = data() + slot / 8;
  for (const std::uint64_t row : rows) prefetch_row(column + row * stride_);
  for (const std::uint64_t row : rows) {
    std::uint8_t& byte = column[row * stride_];
    byte = static_cast<std::uint8_t>(byte ^ 1u << slot % 8);
  }
}

/// Columns that share a 64-bit word of a row.
struct MemberRows::Group {
  std::uint32_t index;     // of the word
  std::uint64_t mask = 0;  // its columns that are rebuilt
  std::array<const std::uint64_t*, kGatherMembers> words{};

  /// Takes the first columns, those of one word, out of `columns`, which are not empty.
  static Group take(std::span<const MemberColumn>& columns) noexcept {
    Group group{columns.front().slot / kGatherMembers};
    while (!columns.empty() && columns.front().slot / kGatherMembers == group.index) {
      const auto [slot, counters] = columns.front();
      group.mask |= std::uint64_t{1} << slot % kGatherMembers;
      group.words[slot % kGatherMembers] = counters;
      columns = columns.subspan(1);
    }
    return group;
  }
};

void MemberRows::rebuild(const RowKernels& kernels, Cell cell,
                         std::span<const MemberColumn> columns,
                         const BatchOptions& options) noexcept {
  if (columns.empty()) return;
  if (columns.front().slot / kGatherMembers != columns.back().slot / kGatherMembers) {
    try {
      std::vector<Group> groups;
      for (auto left = columns; !left.empty();) groups.push_back(Group::take(left));
      return rebuild_groups(kernels, cell, groups, options);
    } catch (const std::bad_alloc&) {
      // One after another, the columns need no memory.
    }
  }
  while (!columns.empty()) {
    const Group group = Group::take(columns);
    rebuild_groups(kernels, cell, {&group, 1}, options);
  }
}

void MemberRows::rebuild_groups(const RowKernels& kernels, Cell cell, std::span<const Group> groups,
                                const BatchOptions& options) noexcept {
  const auto write_bits = stride_ == 1   ? write_columns<std::uint8_t>
                          : stride_ == 2 ? write_columns<std::uint16_t>
                          : stride_ == 4 ? write_columns<std::uint32_t>
                                         : write_columns<std::uint64_t>;
  const std::uint32_t line_rows = this->line_rows(cell);
  const std::uint64_t bit_words = geometry_.with(Cell::bit).words();
  const auto rebuild_line = [&](const Group& group, std::uint64_t line, bool fetch_next) noexcept {
    const std::uint64_t word = line * kWordsPerBlock;
    std::array<const std::uint64_t*, kGatherMembers> lines{};
    for (std::uint32_t m = 0; m < kGatherMembers; ++m) {
      if (group.words[m] == nullptr) continue;
      lines[m] = group.words[m] + word;
      if (fetch_next) __builtin_prefetch(lines[m] + kWordsPerBlock);
    }
    alignas(64) std::array<std::uint64_t, kMostGatheredRows> bits;
    if (cell == Cell::bit) {
      kernels.gather_bits(lines, std::min<std::uint64_t>(kWordsPerBlock, bit_words - word),
                          bits.data());
    } else {
      kernels.gather(geometry_, lines, bits.data());
    }
    const std::uint64_t row = line * line_rows;
    write_bits(data() + row * stride_ + group.index * sizeof(std::uint64_t), stride_, group.mask,
               std::span(bits).first(std::min<std::uint64_t>(line_rows, rows() - row)));
  };
  // A few lines of all groups at a time, so that their rows stay in cache until every group has
  // written. Within that, group by group: equally large members lie in memory so that their lines
  // compete for the same few cache sets.
  const std::uint64_t all_lines = lines(cell);
  const std::uint64_t window =
      std::clamp<std::uint64_t>(kWindowBytes / (line_rows * stride_), 1, kTaskLines);
  run_tasks(options, thread_count(options), (all_lines + kTaskLines - 1) / kTaskLines,
            [&](std::size_t task) {
              const std::uint64_t last = std::min(all_lines, (task + 1) * kTaskLines);
              for (std::uint64_t first = task * kTaskLines; first < last; first += window) {
                const std::uint64_t end = std::min(last, first + window);
                for (const Group& group : groups) {
                  for (std::uint64_t line = first; line < end; ++line) {
                    rebuild_line(group, line, line + 1 < end);
                  }
                }
              }
            });
}

void MemberRows::read_column(std::uint32_t slot, std::span<std::uint64_t> words,
                             const BatchOptions& options) const {
  const std::uint8_t* const column = data() + slot / 8;
  const std::uint64_t task_words = kTaskLines * kWordsPerBlock;
  run_tasks(options, thread_count(options), (words.size() + task_words - 1) / task_words,
            [&](std::size_t task) {
              const std::uint64_t last = std::min(words.size(), (task + 1) * task_words);
              for (std::uint64_t word = task * task_words; word < last; ++word) {
                const std::uint64_t first_row = 64 * word;
                const std::uint64_t row_count =
                    first_row < rows() ? std::min<std::uint64_t>(64, rows() - first_row) : 0;
                std::uint64_t bits = 0;
                for (std::uint64_t r = 0; r < row_count; ++r) {
                  const std::uint8_t byte = column[(first_row + r) * stride_];
                  bits |= std::uint64_t{byte >> slot % 8 & 1u} << r;
                }
                words[word] = bits;
              }
            });
}

bool MemberRows::same_columns(const MemberRows& other, std::span<const SlotPair> slots) const {
  // Columns with the same slot are compared eight at a time.
  std::vector<std::uint8_t> mask(std::min(stride_, other.stride_));
  std::vector<SlotPair> moved;
  for (const SlotPair& pair : slots) {
    if (pair.here != pair.there) {
      moved.push_back(pair);
    } else {
      mask[pair.here / 8] = static_cast<std::uint8_t>(mask[pair.here / 8] | 1u << pair.here % 8);
    }
  }
  for (std::uint64_t row = 0; row < rows(); ++row) {
    const std::uint8_t* const here = data() + row * stride_;
    const std::uint8_t* const there = other.data() + row * other.stride_;
    unsigned differ = 0;
    for (std::size_t b = 0; b < mask.size(); ++b) differ |= (here[b] ^ there[b]) & mask[b];
    for (const SlotPair& pair : moved) {
      const unsigned a = here[pair.here / 8] >> pair.here % 8;
      differ |= (a ^ there[pair.there / 8] >> pair.there % 8) & 1u;
    }
    if (differ != 0) return false;
  }
  return true;
}

bool MemberRows::worth_rebuilding(std::uint64_t keys, std::uint64_t members,
                                  double mark_ns) const noexcept {
  if (mark_ns == 0) mark_ns = geometry_.probes() * kMarkProbeNs;
  const double marks = static_cast<double>(keys) * mark_ns;
  const auto all_lines = static_cast<double>(lines(Cell::counter));
  const double member_count = static_cast<double>(members);
  // The fewest groups and lines that the members can share.
  const double groups = std::max(1.0, member_count / kGatherMembers);
  const double row_lines = stride_ < kLineBytes
                               ? static_cast<double>(rows() * stride_ / kLineBytes)
                               : static_cast<double>(rows()) * std::max(1.0, member_count / 512);
  return marks >
         all_lines * (member_count * kReadLineNs + groups * kGatherNs) + row_lines * kRowLineNs;
}

}  // namespace scbf
