// SPDX-License-Identifier: Apache-2.0
// The only writer to standard output (and to the files of gen). It is buffered and reports every
// failure. Standard error is written by note() here and by progress.hpp.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace scbf::cli {

using Json = nlohmann::ordered_json;

/// A buffered writer to a file descriptor. Throws ReaderGone if the reader of a pipe has closed it,
/// and IoError with name and reason for all other failures. Call finish() to write the last bytes.
/// The destructor drops them, because without finish() something else has failed already.
class Output {
 public:
  /// Writes to standard output.
  Output();
  /// Creates a file or overwrites an existing one.
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
  /// Writes a JSON document and a newline. Invalid UTF-8 becomes U+FFFD.
  void write_json(const Json& json);
  void flush();
  /// Flushes; closes the file unless it is standard output.
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

/// Writes a line to standard error, prefixed "scbf: ".
void note(std::string_view text);

}  // namespace scbf::cli
