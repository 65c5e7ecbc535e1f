// SPDX-License-Identifier: Apache-2.0
// The command, whole processes: build, query, count and remove, with keys from files that lie in
// memory (a folder of a tmpfs, or in the page cache). Beside each time stands what one thread takes
// for a random line of memory. Answers and files are those of the library.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "driver/driver.hpp"
#include "driver/floors.hpp"
#include "driver/keys.hpp"
#include "scbf/filter.hpp"

extern char** environ;  // NOLINT: POSIX has it so

namespace scbf::bench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: command_bench COMMAND FOLDER [keys [lines]] [Google Benchmark's flags]\n"
    "  FOLDER takes 35 bytes for each key, 145 for each line; what it holds is replaced\n";
constexpr const char* kFpr = "0.01";

/// A file, mapped to be read.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path) : bytes_(fs::file_size(path)) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    data_ = fd < 0 ? MAP_FAILED : ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0) ::close(fd);
    if (data_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path.string());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() { ::munmap(data_, bytes_); }
  std::string_view text() const { return {static_cast<const char*>(data_), bytes_}; }

 private:
  std::size_t bytes_;
  void* data_;
};

/// The time of a process, and what it printed.
struct Ran {
  double seconds, cpu_seconds;
  std::string printed;
};

/// Runs a program. Its output goes to `out`; of a regular file, the contents are returned.
Ran run_program(const std::vector<std::string>& words, const fs::path& out) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0666);
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), words[0]);
  int status = 0;
  struct rusage used {};
  while (::wait4(child, &status, 0, &used) < 0 && errno == EINTR) {
  }
  Ran ran{};
  ran.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const timeval& time : {used.ru_utime, used.ru_stime}) {
    ran.cpu_seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw WrongAnswer(fmt::format("{} {}: ended with status {}", words[0], words[1], status));
  }
  if (fs::is_regular_file(out)) {
    std::ostringstream text;
    text << std::ifstream(out).rdbuf();
    ran.printed = text.str();
  }
  return ran;
}

/// The number after `name` in what was printed, or the first one if `name` is empty.
std::uint64_t number_in(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name);
  std::uint64_t number = 0;
  const char* const from = text.data() + at + name.size();
  if (at == std::string::npos ||
      std::from_chars(from, text.data() + text.size(), number).ec != std::errc{}) {
    throw WrongAnswer(fmt::format("no number {} in what was printed: {}", name, text));
  }
  return number;
}

/// What the keys are read from: a file of integers, one of lines, or a table with these lines in a
/// column.
enum class Kind : unsigned char { u64, lines, column };
constexpr const char* kKinds[] = {"u64", "lines", "column"};

class CommandFixture final : public Fixture {
 public:
  CommandFixture(std::string command, const fs::path& folder, Kind kind, std::size_t n)
      : command_(std::move(command)), folder_(folder), kind_(kind), n_(n) {
    fs::create_directories(folder_);
    write_keys("keys", present_keys(0, n));
    std::size_t hits = 0;
    write_keys("asked", mixed_keys(0, n, n, hits));
  }
  ~CommandFixture() override {
    for (const char* name :
         {"keys", "asked", "filter.scbf", "less.scbf", "built.scbf", "printed"}) {
      std::error_code ignored;
      fs::remove(folder_ / name, ignored);
    }
  }

  /// What the library says of the same keys.
  void verify() override {
    build(1, "filter.scbf");
    const fs::path built = folder_ / "filter.scbf";
    const Filter of_command = Filter::load(built);
    Filter filter(of_command.geometry());
    for_each_batch("keys", [&](const KeyBatch& keys) { filter.insert(keys); });
    if (!(filter == of_command)) throw WrongAnswer("build: other counters than the library's");
    present_ = 0;
    for_each_batch("asked", [&](const KeyBatch& keys) {
      std::vector<std::uint8_t> answers(keys.size());
      present_ += filter.contains(keys, answers).hits;
    });
    for_each_batch("keys", [&](const KeyBatch& keys) { filter.remove(keys); });
    remove(1);
    if (!(filter == Filter::load(folder_ / "less.scbf"))) {
      throw WrongAnswer("remove: other counters than the library's");
    }
  }

  void measure(Repetition& r, int verb, unsigned threads) {
    const bool changes = verb == kBuild || verb == kRemove;
    const Ran ran = verb == kBuild    ? build(threads, "built.scbf")
                    : verb == kRemove ? remove(threads)
                                      : ask(verb, threads);
    r.add("", n_, ran.seconds);
    r.add("cpu", n_, ran.cpu_seconds);
    if (n_ < 1'000'000) return;  // starting takes longer
    const FloorResult floor =
        measure_floor(changes ? Floor::line_update : Floor::line_read, Where::memory, 1);
    r.add("floor", 1, 1e-9 * floor.ns_per_line);
  }

  static constexpr int kBuild = 0, kQuery = 1, kPrint = 2, kCount = 3, kRemove = 4;

 private:
  void write_keys(const char* name, const KeyList& keys) const {
    const KeySpan span = keys.span();
    std::ofstream out(folder_ / name, std::ios::binary);
    if (kind_ == Kind::u64) {
      out.write(reinterpret_cast<const char*>(span.words),
                static_cast<std::streamsize>(8 * span.size));
    } else {
      std::string line;
      for (std::size_t i = 0; i < span.size; ++i) {
        line.clear();
        fmt::format_to(std::back_inserter(line), "https://example.org/{:016x}/products.html",
                       span.words[i]);
        out << (kind_ == Kind::column ? fmt::format("{},{},9.99\n", i, line) : line + '\n');
      }
    }
    if (!out.flush()) throw std::runtime_error((folder_ / name).string() + ": cannot write");
  }

  template <class Use>
  void for_each_batch(const char* name, Use use) const {
    const MappedFile file(folder_ / name);
    std::string_view rest = file.text();
    if (kind_ == Kind::u64) {
      return use(KeyBatch(std::span(reinterpret_cast<const std::uint64_t*>(rest.data()), n_)));
    }
    constexpr std::size_t kMost = 1 << 20;
    std::vector<std::string_view> lines;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      lines.push_back(kind_ == Kind::column ? second_field(rest.substr(0, end))
                                            : rest.substr(0, end));
      rest.remove_prefix(end + 1);
      if (lines.size() < kMost && !rest.empty()) continue;
      use(KeyBatch(lines));
      lines.clear();
    }
  }

  static std::string_view second_field(std::string_view row) {
    const std::size_t from = row.find(',') + 1;
    return row.substr(from, row.find(',', from) - from);
  }

  std::string path(const char* name) const { return folder_ / name; }
  Ran run(std::vector<std::string> words, unsigned threads, bool keep = true) const {
    words.insert(words.begin(), command_);
    if (kind_ == Kind::column) words.insert(words.end(), {"--column", "2"});
    words.insert(words.end(), {"--threads", std::to_string(threads), "--progress", "never"});
    return run_program(words, keep ? folder_ / "printed" : fs::path("/dev/null"));
  }
  Ran build(unsigned threads, const char* name) const {
    const char* const kind = kind_ == Kind::u64 ? "u64" : "lines";
    Ran ran =
        run({"build", "--keys", kind, "--fpr", kFpr, "-o", path(name), path("keys"), "--json"},
            threads);
    expect("build", number_in(ran.printed, "\"keys\": "), n_);
    return ran;
  }
  Ran remove(unsigned threads) const {
    Ran ran = run({"remove", path("filter.scbf"), "-o", path("less.scbf"), path("keys"), "--json"},
                  threads);
    expect("remove", number_in(ran.printed, "\"removed\": "), n_);
    return ran;
  }
  Ran ask(int verb, unsigned threads) const {
    if (verb == kPrint) {
      return run({"query", path("filter.scbf"), path("asked")}, threads, false);
    }
    const bool counts = verb == kCount;
    Ran ran = run({counts ? "count" : "query", path("filter.scbf"), path("asked"),
                   counts ? "--json" : "--count"},
                  threads);
    expect(counts ? "count" : "query", number_in(ran.printed, counts ? "\"present\": " : ""),
           present_);
    return ran;
  }
  static void expect(const char* verb, std::uint64_t found, std::uint64_t wanted) {
    if (found != wanted) throw WrongAnswer(fmt::format("{}: {}, not {}", verb, found, wanted));
  }

  std::string command_;
  fs::path folder_;
  Kind kind_;
  std::size_t n_;
  std::uint64_t present_ = 0;
};

void add_size(const std::string& command, const std::string& folder, Kind kind, std::size_t n) {
  std::vector<Row> rows;
  const std::pair<int, const char*> verbs[] = {{CommandFixture::kBuild, "build"},
                                               {CommandFixture::kQuery, "query"},
                                               {CommandFixture::kPrint, "print"},
                                               {CommandFixture::kCount, "count"},
                                               {CommandFixture::kRemove, "remove"}};
  for (const auto& [verb, name] : verbs) {
    for (const unsigned threads : {1u, 2u}) {
      if (threads > std::thread::hardware_concurrency()) continue;
      rows.push_back({.name = fmt::format("command/verb:{}/keys:{}/n:{}/fpr:{}/threads:{}", name,
                                          kKinds[static_cast<std::size_t>(kind)], n, kFpr, threads),
                      .measure = by(&CommandFixture::measure, verb, threads)});
    }
  }
  add_case([=] { return std::make_unique<CommandFixture>(command, folder, kind, n); },
           std::move(rows));
}

void add_cases(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments.size() > 4) throw UsageError("a command and a folder");
  const auto number = [&](std::size_t i, std::size_t otherwise) {
    return arguments.size() > i ? parse_number(arguments[i], 1000) : otherwise;
  };
  const std::size_t keys = number(2, 100'000'000), lines = number(3, 10'000'000);
  if (keys > 10'000'000) add_size(arguments[0], arguments[1], Kind::u64, 10'000'000);
  add_size(arguments[0], arguments[1], Kind::u64, keys);
  add_size(arguments[0], arguments[1], Kind::lines, lines);
  add_size(arguments[0], arguments[1], Kind::column, lines);
}

}  // namespace

}  // namespace scbf::bench

int main(int argc, char** argv) {
  return scbf::bench::run(argc, argv, scbf::bench::kUsage, scbf::bench::add_cases);
}
