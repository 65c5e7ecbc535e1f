// SPDX-License-Identifier: Apache-2.0
// The text of one input, which is read in pieces. Each piece is cut where a line or a record ends;
// what is left over begins the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "input.hpp"
#include "text_piece.hpp"

namespace scbf::cli {

/// Bytes of a piece of text: they stay in a second-level cache while they are worked on.
inline constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

/// How a text is written, what is refused in it, and how it is read.
struct TextForm {
  TextRules rules;
  std::optional<std::string> column = {};  ///< the name of the column, if its number is not known
  bool refuse_zeros = false;               ///< near the beginning
  bool may_be_integers = true;             ///< messages advise --keys u64
  std::size_t piece_bytes = kPieceBytes;   ///< of what is read; at least 1
};

class InputText {
 public:
  InputText(std::unique_ptr<ByteInput> input, TextForm form);

  /// Begins the next piece. Bytes that must be read in order are read: it waits for the first, and
  /// takes what is there. Throws IoError and bad_alloc.
  void begin(TextPiece& piece);
  /// Cuts a piece that is loaded. Throws IoError and bad_alloc.
  void cut(TextPiece& piece);
  ByteInput& input() noexcept { return *input_; }
  const ByteInput& input() const noexcept { return *input_; }

 private:
  std::size_t last_end(const TextPiece& piece);
  std::size_t skip_header(std::string_view text);
  void check_zeros(std::string_view text) const;
  void check_begun();

  std::unique_ptr<ByteInput> input_;
  std::shared_ptr<const std::string> name_;
  const TextForm form_;
  std::exception_ptr failed_;  // what the next begin() throws
  // What cut() needs. Meanwhile another thread may begin a piece.
  TextRules rules_;                    // with the column's number, once it is known
  std::optional<std::string> column_;  // its name, until then
  std::uint64_t first_line_ = 1;       // of the next piece, if that is one of the first; else 0
  bool at_start_ = true;               // no text of the input has been given yet
  bool quoted_ = false;                // CSV: what was cut so far ends within quotes
  std::uint64_t line_feeds_ = 0;       // in a table, so far
  std::uint64_t bytes_ = 0;            // so far
  std::string left_over_;
  std::size_t next_check_ = 0;  // how long it must be to be looked at again
};

}  // namespace scbf::cli
