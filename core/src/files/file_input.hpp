// SPDX-License-Identifier: Apache-2.0
// Bytes that are read in order; shared by the readers of filter files and of containers.
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
#include "scbf/filter.hpp"

namespace scbf {

/// A source of bytes, with a name for messages and, if known, a length.
class Input {
 public:
  Input(std::string name, const ByteSource& source, std::optional<std::uint64_t> bytes = {})
      : name_(std::move(name)), source_(source), bytes_(bytes) {}
  Input(std::string name, const ByteSource& source, InputFile& file)
      : name_(std::move(name)), source_(source), bytes_(file.bytes()), file_(&file) {}

  const std::string& name() const noexcept { return name_; }
  std::optional<std::uint64_t> bytes() const noexcept { return bytes_; }
  std::uint64_t position() const noexcept { return position_; }

  /// Fills `out` as far as the source goes. Returns how many bytes were read.
  std::size_t read_some(std::span<std::byte> out) {
    std::size_t got = 0;
    while (got < out.size()) {
      const std::size_t n = source_(out.subspan(got));
      if (n > out.size() - got) {
        throw InvalidArgument(
            fmt::format("byte source: gave {} bytes where {} were asked for", n, out.size() - got));
      }
      if (n == 0) break;
      got += n;
    }
    position_ += got;
    return got;
  }
  /// Fills `out`, or throws CorruptFile with a message that `whole` bytes were expected.
  void read_all(std::span<std::byte> out, std::uint64_t whole) {
    if (read_some(out) < out.size()) file_format::throw_truncated(position_, whole, name_);
  }

  /// Skips `bytes`, without reading them where possible; `whole` as in read_all.
  void skip(std::uint64_t bytes, std::uint64_t whole) {
    if (bytes_ && file_ != nullptr) {
      file_->skip(bytes);
      position_ += bytes;
      return;
    }
    constexpr std::uint64_t kAtOnce = 1u << 16;
    std::vector<std::byte> buffer(std::min(bytes, kAtOnce));
    for (; bytes > 0; bytes -= std::min(bytes, kAtOnce)) {
      read_all(std::span(buffer).first(std::min(bytes, kAtOnce)), whole);
    }
  }

 private:
  std::string name_;
  const ByteSource& source_;
  std::optional<std::uint64_t> bytes_;
  InputFile* file_ = nullptr;
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

/// Throws CorruptFile if the input has not ended.
inline void check_end(Input& input) {
  std::byte more;
  const std::uint64_t end = input.position();
  if (input.read_some({&more, 1}) != 0) {
    throw CorruptFile(
        fmt::format("{}: bytes follow the filter: must be {} bytes", input.name(), end));
  }
}

}  // namespace scbf
