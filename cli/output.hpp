// SPDX-License-Identifier: Apache-2.0
// The one way to standard output (and to the files of gen): buffered, every failure noticed.
// Standard error has note() here and progress.hpp.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace scbf::cli {

using Json = nlohmann::ordered_json;

/// A buffered byte sink over a file descriptor. Errors are thrown: ReaderGone for a pipe without
/// reader, IoError with name and reason for all else. finish() must be called, for the last
/// bytes; the destructor drops them, because then something else has gone wrong already.
class Output {
 public:
  /// Standard output.
  Output();
  /// A new file, or one that is overwritten.
  explicit Output(const std::string& path);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  void write(std::string_view bytes) {
    if (bytes.size() > kCapacity - used_) return write_slowly(bytes);
    bytes.copy(buffer_.get() + used_, bytes.size());
    used_ += bytes.size();
  }
  void write(char c) { write(std::string_view(&c, 1)); }
  /// The text of a JSON document and a newline. Bytes that are no UTF-8 become U+FFFD.
  void write_json(const Json& json);
  void flush();
  /// Flushes and closes (a file) or just flushes (standard output).
  void finish();
  bool is_terminal() const noexcept;

 private:
  static constexpr std::size_t kCapacity = 1 << 18;
  void write_slowly(std::string_view bytes);
  void write_out(std::string_view bytes);

  std::string name_;
  int fd_;
  bool owned_;
  std::size_t used_ = 0;
  std::unique_ptr<char[]> buffer_;
};

/// Writes one JSON document to standard output.
void print_json(const Json& json);
/// Writes text to standard output.
void print_text(std::string_view text);

/// A line on standard error, prefixed "scbf: ".
void note(std::string_view text);

}  // namespace scbf::cli
