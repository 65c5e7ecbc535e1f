// SPDX-License-Identifier: Apache-2.0
// The only place where the command opens inputs: files, pipes and "-", standard input. Compressed
// ones (gzip, zstd) are decompressed as they are read.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace scbf::cli {

class Decoder;

/// Ends reads that wait for input, from any thread.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();
  void stop() noexcept;
  /// A file descriptor that becomes readable when stop() is called.
  int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

/// What some programs begin text with, to say that it is UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The name for messages: "standard input" for "-".
std::string display_name(const std::string& input);
/// Whether this name stands for standard input.
bool is_standard_input(const std::string& input);
/// What the system says of an input; "-" is standard input. Throws IoError if it is missing or a
/// folder.
struct stat status_of(const std::string& input);
/// With so many bytes, begins_as_filter can tell.
inline constexpr std::size_t kMagicBytes = 8;
/// Whether a file begins as a filter or a bank does.
bool begins_as_filter(std::string_view first) noexcept;
bool begins_as_bank(std::string_view first) noexcept;

/// Bytes from one input, read from beginning to end. gzip and zstd are found by the first bytes,
/// not by the name.
class ByteInput {
 public:
  enum class Decode : unsigned char { yes, no };

  /// Opens the input and reads nothing yet. A read that waits ends when `stop` says so; it then
  /// throws IoError. Throws IoError.
  explicit ByteInput(const std::string& input, Decode decode = Decode::yes,
                     const StopSignal* stop = nullptr);
  ByteInput(const ByteInput&) = delete;
  ByteInput& operator=(const ByteInput&) = delete;
  ~ByteInput();

  /// Reads up to `into.size()` bytes. Returns how many were read; 0 at the end. Throws IoError,
  /// also if compressed bytes are damaged or cut off.
  std::size_t read(std::span<char> into);
  /// The next bytes, without consuming them, at most 64 KiB. Empty at the end. A pipe may deliver
  /// any part of what was written to it, so bytes are read until enough(bytes) says that no more
  /// are needed, or there are no more.
  std::string_view peek(const std::function<bool(std::string_view)>& enough);
  /// Skips bytes that peek() has shown.
  void skip(std::size_t bytes) { at_ += bytes; }

  /// Where bytes are in a file, and how many.
  struct Place {
    std::uint64_t offset;
    std::size_t bytes;
  };
  /// If the next bytes are those of a regular file as they are there, and it has some left: passes
  /// over up to `bytes` of them and returns their place, for read_at().
  std::optional<Place> pass_over(std::size_t bytes);
  /// From any thread. Returns how many bytes there were, fewer if the file has been cut. Throws
  /// IoError.
  std::size_t read_at(Place place, char* into) const;

  /// Whether reading on will surely not wait. Compressed bytes may be waiting, and too few.
  bool will_not_wait() const { return regular_ || (!decoder_ && more_is_waiting()); }
  /// Bytes that peek() or the search for compression has read already, and read() will give.
  std::size_t bytes_ahead() const noexcept { return ahead_.size() - at_; }
  /// False if reading on would wait.
  bool more_is_waiting() const;
  bool compressed();
  /// Bytes read from the file, which are fewer than were delivered if it is compressed.
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  const std::string& name() const noexcept { return name_; }

 private:
  void wait() const;
  std::size_t read_file(char* into, std::size_t bytes);
  std::size_t decode(std::span<char> into);
  void recognise();

  std::string name_;
  int fd_;
  bool regular_;
  const StopSignal* stop_;  // none if reads never wait
  bool recognised_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<char[]> buffer_;
  std::string_view packed_;  // in buffer_: read from the file, not decoded yet
  std::string ahead_;        // decoded, not delivered yet, from at_ on
  std::size_t at_ = 0;
  std::uint64_t bytes_read_ = 0;
  bool file_ended_ = false;
  bool holds_output_ = false;  // the decoder has more than there was room for
};

/// Total length of the inputs; none if any of them is not a regular file. Throws IoError.
std::optional<std::uint64_t> total_bytes(std::span<const std::string> inputs);

}  // namespace scbf::cli
