// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "errors.hpp"
#include "files/file_io.hpp"
#include "input.hpp"
#include "scbf/errors.hpp"
#include "scbf/files.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_io(const std::string& name, int error) {
  throw IoError(fmt::format("{}: cannot write: {}", name, std::generic_category().message(error)));
}

/// Throws IoError unless a new file can be made at `path` or take the place of the one there: now,
/// not after an hour of work.
void check_folder(const fs::path& path) {
  const fs::path parent = path.parent_path();
  const fs::path folder = parent.empty() ? fs::path(".") : parent;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw IoError(fmt::format("{}: cannot write: {} is not a directory", in_quotes(path.string()),
                              in_quotes(folder.string())));
  }
  // Of a link that leads nowhere yet, the folder of the target counts.
  if (fs::is_symlink(path, error) || ::access(folder.c_str(), W_OK | X_OK) == 0) return;
  const int reason = errno;
  throw IoError(fmt::format("{}: cannot write into {}: {}", in_quotes(path.string()),
                            in_quotes(folder.string()), std::generic_category().message(reason)));
}

/// What was changed; empty before.
std::string& changed() {
  static std::string name;
  return name;
}

void write_to_standard_output(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) throw ReaderGone{};
    if (n <= 0) throw_io("standard output", n < 0 ? errno : EIO);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// Replaces every string that is not UTF-8 by its bytes.
void spell_out_bytes(Json& json) {
  if (json.is_structured()) {
    for (Json& item : json) spell_out_bytes(item);
  } else if (json.is_string()) {
    try {
      json.dump();
    } catch (const Json::type_error&) {
      const auto& text = json.get_ref<const std::string&>();
      Json bytes = Json::array();
      for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
      json = Json{{"bytes", std::move(bytes)}};
    }
  }
}

// ---- unfinished files and signals ------------------------------------------------------------

/// The temporary file that is being written. The handler reads the name while `set` is true.
struct Unfinished {
  std::array<char, 4096> name;
  std::atomic<bool> set;
};
Unfinished unfinished;  // NOLINT: a handler of signals can reach nothing else

void remove_unfinished(int signal) {
  if (unfinished.set.load()) ::unlink(unfinished.name.data());
  ::raise(signal);  // by now its default again: SA_RESETHAND
}

/// A page of a mapped file is not there any more.
void report_cut_file(int) {
  constexpr std::string_view text =
      "scbf: a filter was cut short while it was in use: it must be replaced as a whole; --load "
      "reads it into memory\n";
  if (unfinished.set.load()) ::unlink(unfinished.name.data());
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(kInputOutput);
}

/// Notes the name of the temporary file, which is the one that must not exist yet.
class NotingCalls final : public FileSystemCalls {
 public:
  /// `to_new`: nothing may be replaced, not even what another process has made meanwhile.
  explicit NotingCalls(bool to_new) : to_new_(to_new) {}

  int open(const char* path, int flags, mode_t mode) override {
    if ((flags & O_EXCL) == 0) return FileSystemCalls::open(path, flags, mode);
    const std::size_t length = std::strlen(path);
    if (length < unfinished.name.size()) {
      std::memcpy(unfinished.name.data(), path, length + 1);
      unfinished.set = true;
    }
    const int fd = FileSystemCalls::open(path, flags, mode);
    if (fd < 0) unfinished.set = false;
    return fd;
  }
  int rename(const char* from, const char* to) override {
    const int result = to_new_ ? rename_to_new(from, to) : FileSystemCalls::rename(from, to);
    if (result == 0) unfinished.set = false;
    return result;
  }
  int unlink(const char* path) override {
    unfinished.set = false;
    return FileSystemCalls::unlink(path);
  }

 private:
  int rename_to_new(const char* from, const char* to) {
    const int result = ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    // Not every file system and kernel can do this.
    if (result == 0 || (errno != EINVAL && errno != ENOSYS)) return result;
    if (::link(from, to) == 0) return FileSystemCalls::unlink(from);
    return errno == EEXIST ? -1 : FileSystemCalls::rename(from, to);
  }

  const bool to_new_;
};

/// What a file that exists is: "filter", "bank" or "delta"; empty if it is none of these.
std::string_view kind_of_file(const std::string& path) {
  try {
    ByteInput file(path, ByteInput::Decode::no);
    const std::string_view first =
        file.peek([](std::string_view bytes) { return bytes.size() >= kMagicBytes; });
    if (begins_as_bank(first)) return "bank";
    if (!begins_as_filter(first)) return {};
    return read_file_info(path).is_delta ? "delta" : "filter";
  } catch (const CorruptFile&) {
    return "filter";  // a damaged one
  } catch (const IoError&) {
    return {};  // cannot be read, so cannot be known for a filter
  }
}

bool is_regular(const struct stat& status) { return S_ISREG(status.st_mode); }

/// Writes a report to standard output.
void print(const std::function<void(Output&)>& produce) {
  try {
    Output out;
    produce(out);
    out.finish();
  } catch (const IoError& error) {
    if (changed().empty()) throw;
    throw ReportLost(fmt::format("{}; {} is changed already: do not repeat the command",
                                 error.what(), in_quotes(changed())));
  }
}

}  // namespace

Output::Output() : Output(write_to_standard_output) {}

Output::Output(Sink sink)
    : sink_(std::move(sink)),
      buffer_(new char[kCapacity]) {}  // not cleared: bytes are read only after they are written

void write_tsv_field(Output& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t plain = text.find_first_of("\t\r\n\\");
    out.write(text.substr(0, plain));
    if (plain == std::string_view::npos) return;
    const char c = text[plain];
    out.write(c == '\t' ? "\\t" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\\\");
    text.remove_prefix(plain + 1);
  }
}

std::string json_text(const Json& json, int indent) {
  try {
    return json.dump(indent);
  } catch (const Json::type_error&) {  // a string that is not UTF-8
    Json copy = json;
    spell_out_bytes(copy);
    // Names of columns cannot be objects.
    return copy.dump(indent, ' ', false, Json::error_handler_t::replace);
  }
}

void Output::write_json(const Json& json) {
  write(json_text(json, 2));
  write('\n');
}

void Output::flush() {
  if (used_ > 0) sink_({buffer_.get(), std::exchange(used_, 0)});
}

void Output::write_slowly(std::string_view bytes) {
  flush();
  if (bytes.size() >= kCapacity) return sink_(bytes);
  used_ = bytes.copy(buffer_.get(), kCapacity);
}

Destination::Destination(const std::string& option, std::string path, const Rules& rules)
    : path_(std::move(path)) {
  struct stat old {
  }, out{};
  const bool known_out = ::fstat(STDOUT_FILENO, &out) == 0;
  const bool exists = path_ != "-" && ::stat(path_.c_str(), &old) == 0;
  const int reason = errno;
  if (exists && known_out && same_file(old, out)) path_.assign(1, '-');
  const bool to_out = is_standard_output();
  if (path_.starts_with("--")) {
    throw UsageError(fmt::format("{}: this looks like an option; for a file of this name, write {}",
                                 option, in_shell("./" + path_)));
  }
  if (to_out) {
    if (rules.json) {
      throw UsageError(
          fmt::format("{} and --json: standard output can carry only one of them", option));
    }
    if (rules.binary && ::isatty(STDOUT_FILENO) == 1) {
      throw UsageError(fmt::format(
          "{}: the result is binary, and standard output is a terminal: use -o FILE", option));
    }
    if (!known_out) return;
    old = out;
  } else if (!exists) {
    if (path_.empty())
      throw UsageError(fmt::format("{}: must name a file; - is standard output", option));
    if (reason == ENAMETOOLONG || reason == ELOOP) throw_io(in_quotes(path_), reason);
    check_folder(path_);
    is_new_ = rules.replace == Rules::Replace::nothing && !rules.force;
    return;
  }
  if (S_ISDIR(old.st_mode)) {
    throw IoError(fmt::format("{}: cannot write: it is a directory", in_quotes(path_)));
  }
  if (is_regular(old) || S_ISFIFO(old.st_mode)) {
    for (const std::string& input : rules.inputs) {
      if (!same_file(old, status_of(input))) continue;
      throw UsageError(
          fmt::format("{}: it is also the input {}; {}", option, display_name(input),
                      rules.way_out.empty() ? "write to another file" : rules.way_out));
    }
  }
  struct stat error_stream {};
  if (!to_out && !is_regular(old) && ::fstat(STDERR_FILENO, &error_stream) == 0 &&
      same_file(old, error_stream) && (!S_ISCHR(old.st_mode) || ::isatty(STDERR_FILENO) == 1)) {
    throw UsageError(fmt::format("{}: messages go to standard error", option));
  }
  if (to_out || !is_regular(old)) return;
  check_replaceable(path_, old);
  check_folder(path_);
  using Replace = Rules::Replace;
  if (rules.force || rules.replace == Replace::anything || old.st_size == 0) return;
  std::string what;
  if (rules.replace != Replace::nothing) {
    const std::string_view wanted = rules.replace == Replace::banks ? "bank" : "filter";
    const std::string_view there = kind_of_file(path_);
    if (there == wanted) return;
    what =
        there.empty() ? fmt::format(" and is no {}", wanted) : fmt::format(" and is a {}", there);
  }
  throw UsageError(fmt::format("{}: it exists{}; --force replaces it", option, what));
}

void Destination::write(const std::function<void(Output&)>& produce) const {
  write_parts([&](const OutputFile& file) {
    Output out([&](std::string_view bytes) { file.append(std::as_bytes(std::span(bytes))); });
    produce(out);
    out.finish();
  });
}

void Destination::write_parts(const std::function<void(const OutputFile&)>& produce) const {
  if (is_standard_output()) {
    return produce({.append = [](std::span<const std::byte> bytes) {
      write_to_standard_output({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }});
  }
  const auto made_meanwhile = [&] {
    return IoError(
        fmt::format("{}: cannot write: another command has made it meanwhile; --force replaces it",
                    in_quotes(path_)),
        EEXIST, path_);
  };
  if (struct stat now; is_new_ && ::stat(path_.c_str(), &now) == 0) throw made_meanwhile();
  NotingCalls calls(is_new_);
  try {
    write_file(path_, produce, calls);
  } catch (const IoError& error) {
    if (is_new_ && error.error_number() == EEXIST) throw made_meanwhile();
    throw;
  }
  work_is_done(path_);
}

void Destination::report(std::string_view text) const {
  if (!is_standard_output()) return print_text(text);
  while (text.ends_with('\n')) text.remove_suffix(1);
  note(text);
}

void check_inputs(std::span<const std::string> inputs) {
  struct stat out {};
  const bool known_out = ::fstat(STDOUT_FILENO, &out) == 0 && is_regular(out);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const struct stat status = status_of(inputs[i]);
    if (known_out && same_file(status, out)) {
      throw UsageError(
          fmt::format("{}: standard output goes to this input", display_name(inputs[i])));
    }
    // (Standard input goes on where it was left, even if it is a regular file.)
    const bool can_seek = is_regular(status) || S_ISCHR(status.st_mode);
    if (inputs[i] != "-" && can_seek) continue;
    for (std::size_t j = 0; j < i; ++j) {
      const bool twice = inputs[i] == "-" && inputs[j] == "-";
      if (!twice && (can_seek || !same_file(status, status_of(inputs[j])))) continue;
      throw UsageError(fmt::format("{} is named twice, and can be read only once",
                                   display_name(inputs[j] == "-" ? inputs[j] : inputs[i])));
    }
  }
}

void clean_up_on_signals() {
  std::signal(SIGPIPE, SIG_IGN);  // writing to a closed pipe gives an error code instead,
  std::signal(SIGXFSZ, SIG_IGN);  // and so does writing past `ulimit -f`
  struct sigaction action {};
  action.sa_handler = remove_unfinished;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;  // nohup
    ::sigaction(signal, &action, nullptr);
  }
  action.sa_handler = report_cut_file;
  ::sigaction(SIGBUS, &action, nullptr);
}

void work_is_done(const std::string& on) { changed() = on; }

void print_json(const Json& json) {
  print([&](Output& out) { out.write_json(json); });
}

void print_text(std::string_view text) {
  print([&](Output& out) { out.write(text); });
}

void note(std::string_view text) {
  // Not fmt::print, which throws if standard error is full or closed. A lost note is no failure.
  const std::string line = fmt::format("scbf: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace scbf::cli
