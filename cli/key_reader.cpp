// SPDX-License-Identifier: Apache-2.0
// Block sizes. A filter far larger than the caches is updated fastest in batches of millions of
// keys (docs/performance.md), so blocks are large. Within a block, bytes are read and split in
// small steps, so that a step is still in the L2 cache when it is split.
#include "key_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <future>
#include <system_error>
#include <utility>

#include "errors.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

static_assert(std::endian::native == std::endian::little, "u64 keys are read in place");

namespace {

constexpr std::size_t kBlockBytes = std::size_t{64} << 20;
constexpr std::size_t kStepBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxLines = std::size_t{4} << 20;
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 30;
constexpr std::size_t kWord = sizeof(std::uint64_t);

[[noreturn]] void throw_io(const std::string& input, const char* what, int error) {
  throw IoError(
      fmt::format("{}: {}: {}", display_name(input), what, std::generic_category().message(error)));
}

[[noreturn]] void throw_odd_length(const std::string& input, std::uint64_t bytes) {
  throw IoError(fmt::format(
      "{}: {} bytes: not a multiple of 8, so these are not u64 keys; for text use --keys lines",
      display_name(input), bytes));
}

struct stat status_of(const std::string& input) {
  struct stat status {};
  const int result = input == "-" ? ::fstat(STDIN_FILENO, &status) : ::stat(input.c_str(), &status);
  if (result < 0) throw_io(input, "cannot read", errno);
  if (S_ISDIR(status.st_mode)) throw_io(input, "cannot read", EISDIR);
  return status;
}

/// Number of newlines in `text` that end a non-empty line; `before` is the character in front of
/// it. The inner loop runs at most 255 steps, so that its count fits a byte and the compiler can
/// vectorise it over bytes.
std::uint64_t count_line_ends(std::string_view text, char before) {
  std::uint64_t ends = 0;
  if (!text.empty()) ends += text[0] == '\n' && before != '\n';
  for (std::size_t i = 1; i < text.size();) {
    const std::size_t stop = std::min(text.size(), i + 255);
    std::uint8_t here = 0;
    for (; i < stop; ++i) {
      here = static_cast<std::uint8_t>(here + ((text[i] == '\n') & (text[i - 1] != '\n')));
    }
    ends += here;
  }
  return ends;
}

}  // namespace

std::string display_name(const std::string& input) {
  return input == "-" ? "standard input" : input;
}

int open_input(const std::string& input) {
  if (input == "-") return STDIN_FILENO;
  const int fd = ::open(input.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_io(input, "cannot open", errno);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return fd;
}

std::size_t read_from(int fd, char* into, std::size_t bytes, const std::string& input) {
  for (;;) {
    const ssize_t n = ::read(fd, into, bytes);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno != EINTR) throw_io(input, "cannot read", errno);
  }
}

std::string_view to_string(KeyKind kind) noexcept {
  return kind == KeyKind::lines ? "lines" : "u64";
}

KeyKind key_kind_from_string(std::string_view name) {
  if (name == "lines") return KeyKind::lines;
  if (name == "u64") return KeyKind::u64;
  throw UsageError(fmt::format("--keys '{}': must be lines or u64", name));
}

KeyBatch KeyBlock::batch() const noexcept {
  return kind_ == KeyKind::lines ? KeyBatch(lines()) : KeyBatch(numbers_);
}

std::size_t KeyBlock::size() const noexcept {
  return kind_ == KeyKind::lines ? lines_.size() : numbers_.size();
}

void KeyBlock::reserve(std::size_t bytes, std::size_t kept) {
  if (bytes <= capacity_) return;
  const std::size_t words = (bytes + kWord - 1) / kWord;
  // Not cleared: the system maps pages only as they are written, so a small input takes little
  // memory.
  std::unique_ptr<std::uint64_t[]> fresh(new std::uint64_t[words]);
  if (kept > 0) std::memcpy(fresh.get(), words_.get(), kept);
  words_ = std::move(fresh);
  capacity_ = words * kWord;
}

KeyReader::KeyReader(std::vector<std::string> inputs, KeyKind kind, Pace pace)
    : inputs_(std::move(inputs)), kind_(kind), pace_(pace) {
  if (inputs_.empty()) inputs_.emplace_back("-");
  for (const std::string& input : inputs_) {
    const struct stat status = status_of(input);
    if (!S_ISREG(status.st_mode)) {
      total_bytes_.reset();
      continue;
    }
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    if (kind_ == KeyKind::u64 && input != "-" && bytes % kWord != 0) {
      throw_odd_length(input, bytes);
    }
    if (total_bytes_) *total_bytes_ += bytes;
  }
}

KeyReader::~KeyReader() { close_current(); }

std::string KeyReader::current_name() const { return inputs_[next_input_ - 1]; }

bool KeyReader::open_next() {
  close_current();
  if (next_input_ == inputs_.size()) return false;
  fd_ = open_input(inputs_[next_input_]);
  ++next_input_;
  input_bytes_ = 0;
  return true;
}

void KeyReader::close_current() noexcept {
  if (fd_ > STDIN_FILENO) ::close(fd_);
  fd_ = -1;
}

std::size_t KeyReader::read_some(char* into, std::size_t bytes) {
  const std::size_t n = read_from(fd_, into, bytes, current_name());
  input_bytes_ += n;
  bytes_read_ += n;
  return n;
}

bool KeyReader::more_is_waiting() const {
  struct pollfd look {
    fd_, POLLIN, 0
  };
  return ::poll(&look, 1, 0) != 0;  // regular files are always ready
}

bool KeyReader::fill(KeyBlock& block) {
  block.kind_ = kind_;
  block.lines_.clear();
  block.numbers_ = {};
  block.reserve(kBlockBytes, 0);
  if (kind_ == KeyKind::lines) {
    fill_lines(block);
  } else {
    fill_numbers(block);
  }
  keys_ += block.size();
  block.keys_so_far_ = keys_;
  block.bytes_so_far_ = bytes_read_;
  return block.size() > 0;
}

void KeyReader::fill_lines(KeyBlock& block) {
  std::vector<std::string_view>& lines = block.lines_;
  block.reserve(cut_off_.size() + kStepBytes, 0);
  auto* data = reinterpret_cast<char*>(block.words_.get());
  cut_off_.copy(data, cut_off_.size());
  std::size_t line = 0;               // start of the line that is still incomplete
  std::size_t end = cut_off_.size();  // end of the bytes read and split so far
  cut_off_.clear();
  const auto add = [&](std::size_t stop) {
    if (stop > line) {
      lines.emplace_back(data + line, stop - line);
    } else {
      ++empty_lines_;
    }
  };

  while (lines.size() < kMaxLines) {
    if (fd_ < 0 && !open_next()) return;
    if (end == block.capacity_) {
      if (!lines.empty()) break;
      if (line > 0) {  // nothing but empty lines so far
        std::memmove(data, data + line, end - line);
        end -= line;
        line = 0;
        continue;
      }
      if (block.capacity_ >= kMaxLineBytes) {
        throw IoError(fmt::format("{}: a line of more than {}: not a file of lines? (--keys u64)",
                                  display_name(current_name()), human_bytes(kMaxLineBytes)));
      }
      block.reserve(std::min(2 * block.capacity_, kMaxLineBytes), end);
      data = reinterpret_cast<char*>(block.words_.get());
    }
    if (pace_ == Pace::prompt && !lines.empty() && !more_is_waiting()) break;
    const std::size_t n = read_some(data + end, std::min(kStepBytes, block.capacity_ - end));
    if (n == 0) {
      if (end > line) add(end);
      line = end;
      close_current();
      continue;
    }
    const char* at = data + end;
    end += n;
    while (const void* found = std::memchr(at, '\n', static_cast<std::size_t>(data + end - at))) {
      const char* newline = static_cast<const char*>(found);
      add(static_cast<std::size_t>(newline - data));
      at = newline + 1;
      line = static_cast<std::size_t>(at - data);
    }
  }
  cut_off_.assign(data + line, end - line);
}

void KeyReader::fill_numbers(KeyBlock& block) {
  auto* data = reinterpret_cast<char*>(block.words_.get());
  std::size_t end = cut_off_.size();
  cut_off_.copy(data, end);
  cut_off_.clear();
  while (end < block.capacity_) {
    if (fd_ < 0 && !open_next()) break;
    if (pace_ == Pace::prompt && end >= kWord && !more_is_waiting()) break;
    const std::size_t n = read_some(data + end, block.capacity_ - end);
    if (n == 0) {
      if (input_bytes_ % kWord != 0) throw_odd_length(current_name(), input_bytes_);
      close_current();
    }
    end += n;
  }
  const std::size_t whole = end / kWord * kWord;
  cut_off_.assign(data + whole, end - whole);
  block.numbers_ = {block.words_.get(), whole / kWord};
}

void for_each_block(KeyReader& reader, bool overlap,
                    const std::function<void(const KeyBlock&)>& use) {
  KeyBlock block;
  if (!overlap) {
    while (reader.fill(block)) use(block);
    return;
  }
  KeyBlock ahead;
  bool some = reader.fill(block);
  while (some) {
    // The future's destructor waits for the reader, so an exception from use() cannot free the
    // block while the reader fills it.
    std::future<bool> more = std::async(std::launch::async, [&] { return reader.fill(ahead); });
    use(block);
    some = more.get();
    std::swap(block, ahead);
  }
}

bool all_regular(std::span<const std::string> inputs) {
  return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const std::string& input) {
    return S_ISREG(status_of(input).st_mode) && input != "-";
  });
}

std::uint64_t count_keys(std::span<const std::string> inputs, KeyKind kind,
                         const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  std::uint64_t keys = 0, bytes = 0;
  if (kind == KeyKind::u64) {
    for (const std::string& input : inputs) {
      const auto length = static_cast<std::uint64_t>(status_of(input).st_size);
      if (length % kWord != 0) throw_odd_length(input, length);
      keys += length / kWord;
    }
    return keys;
  }
  const std::unique_ptr<char[]> buffer(new char[kStepBytes]);
  for (const std::string& input : inputs) {
    const int fd = open_input(input);
    const std::unique_ptr<const int, void (*)(const int*)> closer(
        &fd, [](const int* f) { ::close(*f); });
    char before = '\n';
    while (const std::size_t n = read_from(fd, buffer.get(), kStepBytes, input)) {
      keys += count_line_ends({buffer.get(), n}, before);
      before = buffer[n - 1];
      bytes += n;
      progress(keys, bytes);
    }
    keys += before != '\n';
  }
  return keys;
}

}  // namespace scbf::cli
