// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "errors.hpp"
#include "scbf/errors.hpp"

namespace scbf::cli {

namespace {

[[noreturn]] void throw_io(const std::string& name, int error) {
  if (error == EPIPE) throw ReaderGone{};
  throw IoError(fmt::format("{}: cannot write: {}", name, std::generic_category().message(error)));
}

std::unique_ptr<char[]> raw_buffer(std::size_t bytes) {
  return std::unique_ptr<char[]>(
      new char[bytes]);  // not cleared: bytes are read only after they are written
}

}  // namespace

Output::Output()
    : name_("standard output"), fd_(STDOUT_FILENO), owned_(false), buffer_(raw_buffer(kCapacity)) {}

Output::Output(const std::string& path)
    : name_(path),
      fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)),
      owned_(true),
      buffer_(raw_buffer(kCapacity)) {
  if (fd_ < 0) throw_io(name_, errno);
}

Output::~Output() {
  if (owned_ && fd_ >= 0) ::close(fd_);
}

void Output::write_json(const Json& json) {
  write(json.dump(2, ' ', false, Json::error_handler_t::replace));
  write('\n');
}

void Output::flush() { write_out({buffer_.get(), std::exchange(used_, 0)}); }

void Output::finish() {
  flush();
  if (owned_ && ::close(std::exchange(fd_, -1)) < 0 && errno != EINTR) throw_io(name_, errno);
}

bool Output::is_terminal() const noexcept { return ::isatty(fd_) == 1; }

void Output::write_slowly(std::string_view bytes) {
  flush();
  if (bytes.size() >= kCapacity) return write_out(bytes);
  write(bytes);
}

void Output::write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_io(name_, errno);
    if (n == 0) throw_io(name_, EIO);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void print_json(const Json& json) {
  Output out;
  out.write_json(json);
  out.finish();
}

void print_text(std::string_view text) {
  Output out;
  out.write(text);
  out.finish();
}

void note(std::string_view text) {
  // Not fmt::print, which throws if standard error is full or closed. A lost note is no failure.
  const std::string line = fmt::format("scbf: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace scbf::cli
