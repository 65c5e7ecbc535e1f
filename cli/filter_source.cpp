// SPDX-License-Identifier: Apache-2.0
#include "filter_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "decoder.hpp"
#include "files/bank_format.hpp"
#include "files/file_io.hpp"
#include "free_memory.hpp"

namespace scbf::cli {

namespace {

constexpr std::string_view kNoFilter = "not a filter file (it does not begin with the magic)";

/// What to say of a file that begins as no filter.
std::string no_filter(const std::string& file, std::string_view first) {
  const std::string_view program = compression_of(first);
  if (program.empty()) return fmt::format("{}: {}", display_name(file), kNoFilter);
  return is_standard_input(file)
             ? fmt::format(
                   "{}: compressed by {}; filters are not decompressed: pipe it through {} -dc",
                   display_name(file), program, program)
             : fmt::format(
                   "{}: compressed by {}; filters are not decompressed: give - instead, with "
                   "standard input from {} -dc {}",
                   display_name(file), program, program, in_shell(file));
}

/// The first bytes of what comes from a pipe. Throws CorruptFile unless it begins as a filter or a
/// bank does; whether it is one that was cut is left to those who read it.
std::string_view beginning_of(ByteInput& in, const std::string& file) {
  const std::string_view first =
      in.peek([](std::string_view bytes) { return bytes.size() >= kMagicBytes; });
  if (first.size() < kMagicBytes || begins_as_filter(first)) return first;
  throw CorruptFile(no_filter(file, first));
}

}  // namespace

std::string filter_path(const std::string& file) { return file == "-" ? "/dev/stdin" : file; }

bool can_be_opened(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

bool is_regular_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool is_bank_file(const std::string& path) {
  if (!is_regular_file(path)) return false;
  std::array<std::byte, bank_format::kMagic.size()> first{};
  const std::size_t got = InputFile(path).read(first);
  return bank_format::is_bank(std::span(first).first(got));
}

std::string in_our_words(std::string_view message, std::string_view called,
                         const std::string& file) {
  if (message.ends_with(kNoFilter) && is_regular_file(filter_path(file))) {
    ByteInput in(filter_path(file), ByteInput::Decode::no);
    return no_filter(file, in.peek([](std::string_view) { return true; }));
  }
  std::string text(message);
  if (text.starts_with(called)) text.replace(0, called.size(), display_name(file));
  return text;
}

const char* verbs_for(FileKind kind) {
  switch (kind) {
    case FileKind::filter:
      return "'scbf query' asks it, 'scbf insert' changes it";
    case FileKind::filter_of_bits:
      return "'scbf query' asks it";
    case FileKind::delta:
      return "'scbf apply' applies it to a filter of bits";
    case FileKind::bank:
    case FileKind::bank_of_bits:
      break;
  }
  return "'scbf find' asks it, 'scbf bank --to' changes its members";
}

PipedFilter::PipedFilter(const std::string& file)
    : file_(file),
      in_(file, ByteInput::Decode::no),
      is_bank_(begins_as_bank(beginning_of(in_, file))) {}

std::size_t PipedFilter::read_some(std::span<std::byte> into) {
  return in_.read({reinterpret_cast<char*>(into.data()), into.size()});
}

void PipedFilter::check_end() {
  std::byte more{};
  if (read_some({&more, 1}) > 0) {
    throw CorruptFile(fmt::format("{}: bytes follow its end", in_.name()));
  }
}

Rereadable::Rereadable(const std::string& file) : name_(file), path_(filter_path(file)) {
  if (S_ISREG(status_of(file).st_mode)) return;
  ByteInput in(file, ByteInput::Decode::no);
  beginning_of(in, file);
  const int fd = ::memfd_create("scbf", MFD_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), file);
  copy_.reset(::fdopen(fd, "wb"));
  if (copy_ == nullptr) {
    ::close(fd);
    throw std::bad_alloc();
  }
  const std::uint64_t most = memory_to_spare();
  std::vector<char> buffer(1 << 20);
  for (std::uint64_t copied = 0; const std::size_t n = in.read(buffer);) {
    copied += n;
    if (copied > most) {
      throw IoError(
          fmt::format("{}: too large for memory, of which {} are free: write it to a file first",
                      in.name(), human_bytes(most)));
    }
    if (std::fwrite(buffer.data(), 1, n, copy_.get()) < n) throw std::bad_alloc();
  }
  if (std::fflush(copy_.get()) != 0) throw std::bad_alloc();
  path_ = fmt::format("/proc/self/fd/{}", fd);
}

}  // namespace scbf::cli
