// SPDX-License-Identifier: Apache-2.0
// Bytes that are read in order, from a file, a stream or memory: what all readers of files read.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "files/file_format.hpp"
#include "files/file_io.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/errors.hpp"
#include "scbf/files.hpp"

namespace scbf {

/// A source of bytes, with a name for messages and, if known, a length.
class Input {
 public:
  /// For a part whose length is unknown.
  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

  Input(std::string name, const ByteSource& source) : name_(std::move(name)), source_(&source) {}
  Input(std::string name, const ByteSource& source, InputFile& file)
      : name_(std::move(name)), source_(&source), bytes_(file.bytes()), file_(&file) {}
  Input(std::string name, std::span<const std::byte> memory)
      : name_(std::move(name)), bytes_(memory.size()), memory_(memory) {}
  /// A part of another input, which begins where that one is and has at most `most` bytes. What is
  /// read or skipped here is read or skipped there.
  Input(std::string name, Input& whole, std::uint64_t most)
      : name_(std::move(name)), whole_(&whole), most_(most) {
    if (whole.bytes() && most != kNoLimit) bytes_ = most;
  }

  const std::string& name() const noexcept { return name_; }
  std::optional<std::uint64_t> bytes() const noexcept { return bytes_; }
  std::uint64_t position() const noexcept { return position_; }

  /// Fills `out` as far as the source goes. Returns how many bytes were read.
  std::size_t read_some(std::span<std::byte> out) {
    const std::size_t got =
        whole_ != nullptr
            ? whole_->read_some(out.first(std::min<std::uint64_t>(out.size(), most_ - position_)))
            : read_source(out);
    position_ += got;
    return got;
  }
  /// Fills `out`, or throws CorruptFile with a message that `whole` bytes were expected.
  void read_all(std::span<std::byte> out, std::uint64_t whole) {
    if (read_some(out) < out.size()) file_format::throw_truncated(position_, whole, name_);
  }
  /// Fills `out`, or throws CorruptFile with a message that the input ends within `what`.
  void read_whole(std::span<std::byte> out, const char* what) {
    if (read_some(out) < out.size()) throw_ended(what);
  }

  /// Throws CorruptFile, as skip does, if it is known that fewer bytes follow.
  void check_left(std::uint64_t bytes, const char* what) const {
    if (const std::optional<std::uint64_t> left = can_skip(); left && *left < bytes) {
      throw_ended(what);
    }
  }
  /// Skips `bytes`, without reading them where possible, or throws CorruptFile with a message that
  /// the input ends within `what`.
  void skip(std::uint64_t bytes, const char* what) {
    if (const std::optional<std::uint64_t> left = can_skip()) {
      if (bytes > *left) throw_ended(what);
      move_by(bytes);
      return;
    }
    constexpr std::uint64_t kAtOnce = 1u << 16;
    std::vector<std::byte> buffer(std::min(bytes, kAtOnce));
    for (; bytes > 0; bytes -= std::min(bytes, kAtOnce)) {
      read_whole(std::span(buffer).first(std::min(bytes, kAtOnce)), what);
    }
  }

 private:
  std::size_t read_source(std::span<std::byte> out) {
    if (source_ == nullptr) {
      const auto left = memory_.subspan(position_);
      const std::size_t n = std::min(left.size(), out.size());
      std::copy_n(left.begin(), n, out.begin());
      return n;
    }
    std::size_t got = 0;
    while (got < out.size()) {
      const std::size_t n = (*source_)(out.subspan(got));
      if (n > out.size() - got) {
        throw InvalidArgument(
            fmt::format("byte source: gave {} bytes where {} were asked for", n, out.size() - got));
      }
      if (n == 0) break;
      got += n;
    }
    return got;
  }
  [[noreturn]] void throw_ended(const char* what) const {
    throw CorruptFile(
        fmt::format("{}: truncated: ends after {} bytes, within {}", name_, position_, what));
  }
  /// How many bytes can be skipped without reading; nothing if none can.
  std::optional<std::uint64_t> can_skip() const noexcept {
    if (whole_ != nullptr) {
      const std::optional<std::uint64_t> there = whole_->can_skip();
      return there ? std::optional(std::min(*there, most_ - position_)) : there;
    }
    if (!bytes_ || (source_ != nullptr && file_ == nullptr)) return {};
    return *bytes_ - std::min(*bytes_, position_);
  }
  void move_by(std::uint64_t bytes) {
    if (whole_ != nullptr) whole_->move_by(bytes);
    if (file_ != nullptr) file_->skip(bytes);
    position_ += bytes;
  }

  std::string name_;
  const ByteSource* source_ = nullptr;  ///< null for memory, and for a part
  std::optional<std::uint64_t> bytes_;
  InputFile* file_ = nullptr;
  std::span<const std::byte> memory_ = {};
  Input* whole_ = nullptr;
  std::uint64_t most_ = kNoLimit;
  std::uint64_t position_ = 0;
};

/// An open file as an Input. Both are held together because the input borrows the source.
struct FileInput {
  explicit FileInput(const std::filesystem::path& path)
      : file(path),
        source([this](std::span<std::byte> out) { return file.read(out); }),
        input(detail::in_quotes(path.string()), source, file) {}
  FileInput(const FileInput&) = delete;
  FileInput& operator=(const FileInput&) = delete;

  InputFile file;
  ByteSource source;
  Input input;
};

/// Gives out bytes in memory, which must outlive it.
inline ByteSource source_of(std::span<const std::byte> bytes) {
  return [bytes](std::span<std::byte> out) mutable {
    const std::size_t n = std::min(out.size(), bytes.size());
    std::copy_n(bytes.begin(), n, out.begin());
    bytes = bytes.subspan(n);
    return n;
  };
}

/// Throws CorruptFile if the input has not ended.
inline void check_end(Input& input) {
  std::byte more;
  const std::uint64_t end = input.position();
  if (input.read_some({&more, 1}) != 0) {
    throw CorruptFile(fmt::format("{}: bytes follow its end: must be {} bytes", input.name(), end));
  }
}

}  // namespace scbf
