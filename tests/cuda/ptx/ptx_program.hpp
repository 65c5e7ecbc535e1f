// SPDX-License-Identifier: Apache-2.0
// PTX as the interpreter executes it: kernels as lists of decoded instructions, whose operands are
// numbers of rows. A row has a value for each of the 32 lanes of a warp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ptx {

inline constexpr unsigned kLanes = 32;
/// A set of lanes, one bit each.
using Lanes = std::uint32_t;
inline constexpr Lanes kAll = ~Lanes{0};

using Row = std::array<std::uint64_t, kLanes>;
/// Registers are rows 0, 1, 2, …; constants are rows −1, −2, …
using RowNumber = std::int32_t;
inline constexpr RowNumber kNoRow = INT32_MIN;

/// `.b` types are unsigned here. A row may hold more bits than a type has: each instruction takes
/// those of its own type.
enum class Type : std::uint8_t { pred, u8, u16, u32, u64, s8, s16, s32, s64 };

constexpr unsigned bytes_of(Type type) {
  constexpr unsigned kBytes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8};
  return kBytes[static_cast<unsigned>(type)];
}
constexpr bool is_signed(Type type) { return type >= Type::s8; }

enum class Op : std::uint8_t {
  // Arithmetic: values in, one value out (ptx_arithmetic).
  move,
  add,
  subtract,
  multiply_low,
  multiply_high,
  multiply_wide,
  multiply_add_low,
  multiply_add_wide,
  divide,
  remainder,
  minimum,
  maximum,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  negate,
  shift_left,
  shift_right,
  insert_bits,
  mask_bits,
  permute_bytes,
  reverse_bits,
  leading_zeros,
  count_bits,
  compare,
  select,
  convert,
  // All else (ptx_execute).
  pack,
  unpack,
  load,
  store,
  atomic,
  branch,
  finish,
  barrier,
  sync_warp,
  shuffle,
  vote,
  sum_lanes,
  fence,
  pause,
  trap
};
enum class Comparison : std::uint8_t { eq, ne, lt, le, gt, ge };
enum class AtomicOp : std::uint8_t { add, cas, min, max, bit_or, bit_and, bit_xor, exchange };
enum class ShuffleMode : std::uint8_t { up, down, butterfly, index };
enum class VoteMode : std::uint8_t { ballot, any, all };
enum class BarrierMode : std::uint8_t { sync, reduce_or, reduce_and };

enum class Space : std::uint8_t { global, shared, param };
/// How an access of memory is ordered with others: not at all; as a relaxed access is among the
/// threads of a block, which may load what other blocks have overwritten; as a volatile or relaxed
/// access is; or through a cache that does not see writes of the same kernel.
enum class Order : std::uint8_t { plain, of_block, strong, read_only };

struct Instruction {
  Op op = Op::trap;
  Type type = Type::u64;
  Type from = Type::u64;    ///< of the source, where a conversion or a comparison has another
  std::uint8_t mode = 0;    ///< one of the enumerations above
  std::uint8_t vector = 1;  ///< how many values a load, store, pack or unpack has
  Space space = Space::global;
  Order order = Order::plain;
  bool acquires = false, releases = false;
  bool aligned = false;   ///< a barrier that all lanes of a warp must reach together
  bool labelled = false;  ///< a branch leads here
  bool if_not = false;    ///< executed where the guard is false
  RowNumber guard = kNoRow;
  std::array<RowNumber, 4> to{kNoRow, kNoRow, kNoRow, kNoRow};
  std::array<RowNumber, 5> from_rows{kNoRow, kNoRow, kNoRow, kNoRow, kNoRow};
  std::int32_t target = 0;  ///< of a branch
  std::int64_t offset = 0;  ///< added to an address
  std::uint32_t line = 0;   ///< in the PTX
};

enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  envreg1,
  envreg2  // the address of the grid's workspace, in two halves
};

struct Parameter {
  std::size_t offset, bytes;
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<Parameter> parameters;
  std::size_t parameter_bytes = 0;
  std::size_t shared_bytes = 0;  ///< without what a launch adds, which lies behind
  unsigned most_threads = 1024;
  unsigned registers = 0;
  std::vector<Row> constants;
  std::map<Special, RowNumber> specials;  ///< registers that have these values from the beginning
};

/// A module's variables in global memory.
struct Variable {
  std::size_t bytes;
  std::unique_ptr<std::uint64_t[]> words;
};

struct Module {
  std::map<std::string, Kernel, std::less<>> kernels;
  std::vector<Variable> variables;
};

/// The text is not PTX, or uses what the interpreter does not know.
class NotUnderstood : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads a module. `only`: reads the kernels whose names contain this, and skips the others.
Module parse(std::string_view text, std::string_view only = "");

}  // namespace ptx
