// SPDX-License-Identifier: Apache-2.0
#include "input.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "decoder.hpp"
#include "files/bank_format.hpp"
#include "files/container_format.hpp"
#include "files/file_format.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kPeekBytes = std::size_t{64} << 10;
constexpr std::size_t kPackedBytes = std::size_t{256} << 10;
constexpr int kPipeBytes = 1 << 20;

[[noreturn]] void throw_io(const std::string& name, const char* what, int error) {
  throw IoError(fmt::format("{}: {}: {}", name, what, std::generic_category().message(error)));
}

int open_for_reading(const std::string& input) {
  if (input == "-") return STDIN_FILENO;
  const int fd = ::open(input.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_io(in_quotes(input), "cannot open", errno);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return fd;
}

bool is_regular(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

std::string display_name(const std::string& input) {
  return input == "-" ? "standard input" : in_quotes(input);
}

bool is_standard_input(const std::string& input) { return input == "-" || input == "/dev/stdin"; }

struct stat status_of(const std::string& input) {
  struct stat status {};
  const int result = input == "-" ? ::fstat(STDIN_FILENO, &status) : ::stat(input.c_str(), &status);
  if (result < 0) throw_io(display_name(input), "cannot read", errno);
  if (S_ISDIR(status.st_mode)) throw_io(display_name(input), "cannot read", EISDIR);
  return status;
}

namespace {

bool begins_with(std::string_view first, std::span<const unsigned char, kMagicBytes> magic) {
  return std::ranges::equal(first.substr(0, magic.size()), magic, {},
                            [](char c) { return static_cast<unsigned char>(c); });
}

}  // namespace

bool begins_as_bank(std::string_view first) noexcept {
  return begins_with(first, bank_format::kMagic);
}

bool begins_as_filter(std::string_view first) noexcept {
  return begins_with(first, file_format::kMagic) || begins_with(first, container_format::kMagic) ||
         begins_as_bank(first);
}

StopSignal::StopSignal() : fd_(::eventfd(0, EFD_CLOEXEC)) {
  if (fd_ < 0) throw_io("input", "cannot read", errno);
}

StopSignal::~StopSignal() { ::close(fd_); }

void StopSignal::stop() noexcept { ::eventfd_write(fd_, 1); }

ByteInput::ByteInput(const std::string& input, Decode decode, const StopSignal* stop)
    : name_(display_name(input)),
      fd_(open_for_reading(input)),
      regular_(is_regular(fd_)),
      stop_(regular_ ? nullptr : stop),
      recognised_(decode == Decode::no) {
  // So that whoever writes to a pipe need not wait for us that often; with 64 KiB, both mostly
  // wait. No error if it is no pipe, or may not be as large.
  const int pipe = ::fcntl(fd_, F_GETPIPE_SZ);
  if (pipe >= 0 && pipe < kPipeBytes) ::fcntl(fd_, F_SETPIPE_SZ, kPipeBytes);
}

ByteInput::~ByteInput() {
  if (fd_ > STDIN_FILENO) ::close(fd_);
}

/// Waits until there is something to read.
void ByteInput::wait() const {
  if (stop_ == nullptr) return;
  std::array<struct pollfd, 2> look = {{{fd_, POLLIN, 0}, {stop_->fd(), POLLIN, 0}}};
  while (::poll(look.data(), look.size(), -1) < 0 && errno == EINTR) {
  }
  if (look[1].revents != 0) throw IoError(fmt::format("{}: reading was stopped", name_));
}

std::size_t ByteInput::read_file(char* into, std::size_t bytes) {
  for (;;) {
    wait();
    const ssize_t n = ::read(fd_, into, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_io(name_, "cannot read", errno);
    file_ended_ = n == 0;
    bytes_read_ += static_cast<std::uint64_t>(n);
    return static_cast<std::size_t>(n);
  }
}

/// Reads the first bytes, and no more than it takes to know whether they are compressed.
void ByteInput::recognise() {
  recognised_ = true;
  do {
    const std::size_t had = ahead_.size();
    ahead_.resize(kPeekBytes);
    ahead_.resize(had + read_file(ahead_.data() + had, kPeekBytes - had));
  } while (may_become_compressed(ahead_) && !file_ended_);
  decoder_ = decoder_for(ahead_);
  if (!decoder_) return;
  buffer_.reset(new char[kPackedBytes]);
  ahead_.copy(buffer_.get(), ahead_.size());
  packed_ = {buffer_.get(), ahead_.size()};
  ahead_.clear();
}

std::size_t ByteInput::decode(std::span<char> into) {
  std::span<char> rest = into;
  while (rest.size() == into.size()) {
    if (packed_.empty() && !holds_output_) {
      packed_ = {buffer_.get(), read_file(buffer_.get(), kPackedBytes)};
      if (packed_.empty() && decoder_->complete()) return 0;
      if (packed_.empty()) throw IoError(fmt::format("{}: the compressed data is cut off", name_));
    }
    try {
      decoder_->step(packed_, rest);
      holds_output_ = rest.empty() && !decoder_->complete();
    } catch (const std::runtime_error& error) {
      throw IoError(fmt::format("{}: {}", name_, error.what()));
    }
  }
  return into.size() - rest.size();
}

std::size_t ByteInput::read(std::span<char> into) {
  if (!recognised_) recognise();
  if (at_ < ahead_.size()) {
    const std::size_t n = ahead_.copy(into.data(), into.size(), at_);
    at_ += n;
    return n;
  }
  if (into.empty()) return 0;
  return decoder_ ? decode(into) : read_file(into.data(), into.size());
}

std::string_view ByteInput::peek(const std::function<bool(std::string_view)>& enough) {
  if (!recognised_) recognise();
  const auto shown = [&] { return std::string_view(ahead_).substr(at_); };
  while ((shown().empty() || !enough(shown())) && shown().size() < kPeekBytes) {
    ahead_.erase(0, std::exchange(at_, 0));
    std::string more(kPeekBytes - ahead_.size(), '\0');
    const std::size_t n = decoder_ ? decode(more) : read_file(more.data(), more.size());
    if (n == 0) break;
    ahead_.append(more, 0, n);
  }
  return shown();
}

std::optional<ByteInput::Place> ByteInput::pass_over(std::size_t bytes) {
  if (!recognised_) recognise();
  if (!regular_ || decoder_ || at_ < ahead_.size()) return {};
  const off_t from = ::lseek(fd_, 0, SEEK_CUR);
  struct stat status {};
  if (from < 0 || ::fstat(fd_, &status) < 0 || status.st_size <= from) return {};
  const auto offset = static_cast<std::uint64_t>(from);
  const auto n =
      std::min<std::uint64_t>(bytes, static_cast<std::uint64_t>(status.st_size) - offset);
  if (::lseek(fd_, static_cast<off_t>(n), SEEK_CUR) < 0) return {};
  bytes_read_ += n;
  return Place{offset, static_cast<std::size_t>(n)};
}

std::size_t ByteInput::read_at(Place place, char* into) const {
  std::size_t read = 0;
  while (read < place.bytes) {
    const ssize_t n =
        ::pread(fd_, into + read, place.bytes - read, static_cast<off_t>(place.offset + read));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_io(name_, "cannot read", errno);
    if (n == 0) break;
    read += static_cast<std::size_t>(n);
  }
  return read;
}

bool ByteInput::compressed() {
  if (!recognised_) recognise();
  return decoder_ != nullptr;
}

bool ByteInput::more_is_waiting() const {
  if (at_ < ahead_.size() || !packed_.empty() || holds_output_) return true;
  struct pollfd look {
    fd_, POLLIN, 0
  };
  return ::poll(&look, 1, 0) != 0;  // regular files are always ready
}

std::optional<std::uint64_t> total_bytes(std::span<const std::string> inputs) {
  std::uint64_t bytes = 0;
  bool known = true;
  for (const std::string& input : inputs) {
    const struct stat status = status_of(input);
    known &= S_ISREG(status.st_mode);
    bytes += static_cast<std::uint64_t>(status.st_size);
  }
  return known ? std::optional(bytes) : std::nullopt;
}

}  // namespace scbf::cli
