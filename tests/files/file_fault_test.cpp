// SPDX-License-Identifier: Apache-2.0
// Saving while system calls fail, are interrupted or cut short, or the process is killed. At every
// system call of a save, the old file stays whole until the new one takes its place.
// file_format_test covers what is written.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "files/file_io.hpp"
#include "files/file_test_support.hpp"
#include "files/save_filter.hpp"

namespace scbf::test::file_fault_test {
namespace {

/// The real calls. Before each, `before` gets its number (from 1) and its name. If it returns an
/// errno, the call fails with that.
class WatchedCalls : public FileSystemCalls {
 public:
  std::function<int(int, const std::string&)> before = [](int, const std::string&) { return 0; };
  std::size_t most_bytes = SIZE_MAX;  // written or read by one call
  std::vector<std::string> log;
  std::vector<off_t> placed;                   // offsets of pwrite
  std::vector<std::pair<off_t, off_t>> begun;  // stretches of begin_writeback: offset, bytes

  int open(const char* path, int flags, mode_t mode) override {
    return fails("open") ? -1 : FileSystemCalls::open(path, flags, mode);
  }
  int close(int fd) override {
    const int error = announce("close");
    const int result = FileSystemCalls::close(fd);  // a close that fails still closes
    errno = error;
    return error != 0 ? -1 : result;
  }
  ssize_t read(int fd, void* buffer, std::size_t bytes) override {
    return fails("read") ? -1 : FileSystemCalls::read(fd, buffer, std::min(bytes, most_bytes));
  }
  ssize_t write(int fd, const void* buffer, std::size_t bytes) override {
    if (fails("write")) return -1;
    return FileSystemCalls::write(fd, buffer, std::min(bytes, most_bytes));
  }
  ssize_t pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) override {
    if (fails("pwrite")) return -1;
    placed.push_back(offset);
    return FileSystemCalls::pwrite(fd, buffer, std::min(bytes, most_bytes), offset);
  }
  int fsync(int fd) override { return fails("fsync") ? -1 : FileSystemCalls::fsync(fd); }
  int begin_writeback(int fd, off_t offset, off_t bytes) override {
    begun.emplace_back(offset, bytes);
    return fails("begin_writeback") ? -1 : FileSystemCalls::begin_writeback(fd, offset, bytes);
  }
  int fstat(int fd, struct stat* out) override {
    return fails("fstat") ? -1 : FileSystemCalls::fstat(fd, out);
  }
  int stat(const char* path, struct stat* out) override {
    return fails("stat") ? -1 : FileSystemCalls::stat(path, out);
  }
  int access(const char* path, int mode) override {
    return fails("access") ? -1 : FileSystemCalls::access(path, mode);
  }
  int fchown(int fd, uid_t user, gid_t group) override {
    return fails("fchown") ? -1 : FileSystemCalls::fchown(fd, user, group);
  }
  int fchmod(int fd, mode_t mode) override {
    return fails("fchmod") ? -1 : FileSystemCalls::fchmod(fd, mode);
  }
  int rename(const char* from, const char* to) override {
    return fails("rename") ? -1 : FileSystemCalls::rename(from, to);
  }
  int unlink(const char* path) override {
    return fails("unlink") ? -1 : FileSystemCalls::unlink(path);
  }

 private:
  int announce(const char* name) {
    log.emplace_back(name);
    return before(static_cast<int>(log.size()), name);
  }
  bool fails(const char* name) {
    errno = announce(name);
    return errno != 0;
  }
};

void save_with(const Filter& filter, const fs::path& path, FileSystemCalls& calls) {
  write_file(
      path, [&](const ByteSink& sink) { filter.write(sink); }, calls);
}
/// As Filter::save does it.
void save_in_one_pass(const Filter& filter, const fs::path& path, FileSystemCalls& calls) {
  write_file(
      path, [&](const OutputFile& file) { write_and_summarise(filter, {}, file); }, calls);
}

using Save = void (*)(const Filter&, const fs::path&, FileSystemCalls&);

class FileFault : public testing::Test {
 protected:
  Save save_ = save_with;
  const TemporaryFolder folder_;
  const fs::path path_ = folder_ / "filter.scbf";
  const Filter old_ = sample(Geometry::split_block(1, 10));
  // Two chunks, so three writes: header, chunk, chunk.
  const Filter new_ = sample(Geometry::split_block(1, 20'000), 300);
  const Bytes old_bytes_ = to_bytes(old_), new_bytes_ = to_bytes(new_);

  std::vector<std::string> calls_of_a_save() {
    WatchedCalls calls;
    save_(new_, path_, calls);
    return calls.log;
  }
};

class EverySave : public FileFault, public testing::WithParamInterface<Save> {
 protected:
  EverySave() { save_ = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(InOrder, EverySave, testing::Values(save_with));
INSTANTIATE_TEST_SUITE_P(InOnePass, EverySave, testing::Values(save_in_one_pass));

TEST_F(FileFault, ASaveInOnePassWritesTheHeaderLast) {
  WatchedCalls calls;
  save_in_one_pass(new_, path_, calls);
  EXPECT_EQ(calls.log,
            (std::vector<std::string>{"open", "open", "pwrite", "pwrite", "pwrite", "fsync",
                                      "close", "rename", "open", "fsync", "close"}));
  EXPECT_EQ(read_bytes(path_), new_bytes_);
  const off_t payload = 4096;
  EXPECT_EQ(calls.placed, (std::vector<off_t>{payload, payload + (1 << 20), 0}));
}

TEST_F(FileFault, PartsGoToTheDiskAsTheyCome) {
  const Bytes piece(3 << 20, std::byte{7});
  WatchedCalls calls;
  write_file(
      path_,
      [&](const OutputFile& file) {
        for (int i = 9; i >= 0; --i) file.write_at(std::uint64_t(i) * piece.size(), piece);
      },
      calls);
  const off_t eight = off_t{8} << 20;
  EXPECT_EQ(calls.begun,
            (std::vector<std::pair<off_t, off_t>>{{2 * eight, eight}, {eight, eight}, {0, eight}}));
  EXPECT_EQ(read_bytes(path_), Bytes(10 * piece.size(), std::byte{7}));
}

TEST_F(FileFault, ASaveDoesWhatItPromisesInThisOrder) {
  EXPECT_EQ(calls_of_a_save(),
            (std::vector<std::string>{"open", "open", "write", "write", "write", "fsync", "close",
                                      "rename", "open", "fsync", "close"}));
  EXPECT_EQ(calls_of_a_save(),
            (std::vector<std::string>{"open", "fstat", "access", "stat", "close",  // looks
                                      "open", "fchown", "fchmod", "write", "write", "write",
                                      "fsync", "close", "rename", "open", "fsync", "close"}));
  EXPECT_EQ(read_bytes(path_), new_bytes_);
}

TEST_F(FileFault, ALargeFileIsWrittenToTheDiskAsItComes) {
  const Bytes piece(3 << 20, std::byte{7});
  for (const bool works : {true, false}) {
    WatchedCalls calls;
    calls.before = [&](int, const std::string& name) {
      return !works && name == "begin_writeback" ? ENOSYS : 0;
    };
    write_file(
        path_,
        [&](const ByteSink& sink) {
          for (int i = 0; i < 10; ++i) sink(piece);
        },
        calls);
    // Ten pieces of 3 MiB: three make more than 8.
    const off_t nine = off_t{9} << 20;
    EXPECT_EQ(calls.begun,
              (std::vector<std::pair<off_t, off_t>>{{0, nine}, {nine, nine}, {2 * nine, nine}}));
    EXPECT_EQ(read_bytes(path_).size(), 10 * piece.size());
  }
}

TEST_P(EverySave, EveryCallFailsOnce) {
  for (const bool replacing : {false, true}) {
    fs::remove(path_);
    if (replacing) old_.save(path_);
    const std::vector<std::string> names = calls_of_a_save();
    for (const int error : {ENOSPC, EIO, EDQUOT}) {
      for (int failing = 1; failing <= static_cast<int>(names.size()); ++failing) {
        SCOPED_TRACE(names[failing - 1] + ", call " + std::to_string(failing) + ": " +
                     std::strerror(error));
        fs::remove(path_);
        if (replacing) old_.save(path_);
        WatchedCalls calls;
        calls.before = [&](int n, const std::string&) { return n == failing ? error : 0; };
        std::string message;
        try {
          save_(new_, path_, calls);
        } catch (const IoError& caught) {
          message = caught.what();
        }
        const auto call = [&](const char* name) {
          return std::find(names.begin(), names.end(), name) - names.begin() + 1;
        };
        if (replacing && failing == call("close")) {  // of the file to replace: nothing was written
          EXPECT_EQ(message, "");
          EXPECT_EQ(read_bytes(path_), new_bytes_);
        } else if (failing <= call("rename")) {
          EXPECT_TRUE(has(message, "filter.scbf': "));
          EXPECT_TRUE(has(message, std::generic_category().message(error)));
          EXPECT_EQ(fs::exists(path_), replacing);
          if (replacing) {
            EXPECT_EQ(read_bytes(path_), old_bytes_);
          }
        } else {
          // The new file is in place but may not be durable. Closing the folder does not matter.
          if (failing < static_cast<int>(names.size())) {
            EXPECT_TRUE(has(message, "may not survive a power failure"));
          } else {
            EXPECT_EQ(message, "");
          }
          EXPECT_EQ(read_bytes(path_), new_bytes_);
        }
        EXPECT_EQ(folder_.entries(), fs::exists(path_) ? 1u : 0u) << "temporary file left behind";
      }
    }
  }
}

TEST_P(EverySave, KilledAtEveryCall) {
  for (const bool replacing : {false, true}) {
    fs::remove(path_);
    if (replacing) old_.save(path_);
    const std::vector<std::string> names = calls_of_a_save();
    const auto renamed = std::find(names.begin(), names.end(), "rename") - names.begin() + 1;
    for (const std::size_t most_bytes : {SIZE_MAX, std::size_t{300'000}}) {
      // Small writes take more calls than `names` has. The last rounds find the save finished.
      const int last = static_cast<int>(names.size()) + (most_bytes == SIZE_MAX ? 0 : 8);
      int finished = 0;
      for (int fatal = 1; fatal <= last; ++fatal) {
        SCOPED_TRACE("killed at call " + std::to_string(fatal));
        fs::remove_all(folder_.path());
        fs::create_directory(folder_.path());
        if (replacing) old_.save(path_);
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
          WatchedCalls calls;
          calls.most_bytes = most_bytes;
          calls.before = [&](int n, const std::string&) {
            if (n == fatal) ::_exit(9);
            return 0;
          };
          save_(new_, path_, calls);
          ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status));
        finished += WEXITSTATUS(status) == 0;
        if (most_bytes == SIZE_MAX) {
          EXPECT_EQ(WEXITSTATUS(status), 9);
          // The old file until the rename has happened, then the new one; never anything between.
          EXPECT_EQ(fs::exists(path_), replacing || fatal > renamed);
          if (fs::exists(path_)) {
            EXPECT_EQ(read_bytes(path_), fatal > renamed ? new_bytes_ : old_bytes_);
          }
        }
        if (replacing || fs::exists(path_)) {
          const Filter found = Filter::load(path_);
          EXPECT_TRUE(found == (found.geometry() == new_.geometry() ? new_ : old_));
          EXPECT_NO_THROW(verify_file(path_));
        }
        EXPECT_LE(folder_.entries(), (fs::exists(path_) ? 1u : 0u) + 1u);
        // What the killed save left does not hinder the next one.
        new_.save(path_);
        EXPECT_EQ(read_bytes(path_), new_bytes_);
      }
      if (most_bytes != SIZE_MAX) {
        EXPECT_GT(finished, 0) << "not every call was reached";
      }
    }
  }
}

TEST_P(EverySave, InterruptedAndShortCallsAreCarriedOn) {
  old_.save(path_);
  const std::size_t usual = calls_of_a_save().size();
  for (const std::size_t most_bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{100'001}}) {
    const Filter& filter = most_bytes == 1 ? old_ : new_;
    WatchedCalls calls;
    calls.most_bytes = most_bytes;
    // Every other call is interrupted before it does anything.
    calls.before = [&](int n, const std::string&) { return n % 2 == 0 ? EINTR : 0; };
    save_(filter, path_, calls);
    EXPECT_GT(calls.log.size(), usual);
    EXPECT_TRUE(Filter::load(path_) == filter);

    calls.log.assign(1, "so that opening is interrupted");
    InputFile file(path_, calls);
    Bytes bytes(to_bytes(filter).size() + 1);
    ASSERT_EQ(file.read(bytes), bytes.size() - 1);
    bytes.pop_back();
    EXPECT_EQ(bytes, to_bytes(filter));
    EXPECT_EQ(folder_.entries(), 1u);
  }
}

TEST_F(FileFault, ReadsThatFail) {
  old_.save(path_);
  for (const std::string failing : {"open", "fstat", "read"}) {
    SCOPED_TRACE(failing);
    WatchedCalls calls;
    calls.before = [&](int, const std::string& name) { return name == failing ? EIO : 0; };
    const auto read_it = [&] {
      InputFile file(path_, calls);
      Bytes bytes(100);
      file.read(bytes);
    };
    EXPECT_THROW_WITH(read_it(), IoError, "Input/output error");
    EXPECT_EQ(std::count(calls.log.begin(), calls.log.end(), "close"), failing == "open" ? 0 : 1);
  }
}

TEST_F(FileFault, AProducerThatThrowsLeavesTheOldFile) {
  old_.save(path_);
  struct Stop {};
  const auto produce = [&](const ByteSink& sink) {
    sink(old_bytes_);
    throw Stop{};
  };
  EXPECT_THROW(write_file(path_, produce), Stop);
  EXPECT_EQ(read_bytes(path_), old_bytes_);
  EXPECT_EQ(folder_.entries(), 1u);
}

TEST_F(FileFault, TheOwnerMayBeLostButNotTheFile) {
  old_.save(path_);
  WatchedCalls calls;
  calls.before = [](int, const std::string& name) { return name == "fchown" ? EPERM : 0; };
  save_(new_, path_, calls);
  EXPECT_EQ(read_bytes(path_), new_bytes_);
}

TEST_F(FileFault, TheGroupIsKeptWhereTheOwnerCannotBe) {
  struct NotRoot : FileSystemCalls {
    std::vector<std::pair<uid_t, gid_t>> owners;
    mode_t mode = 0;
    bool in_the_group = true;
    int fchown(int, uid_t user, gid_t group) override {
      owners.emplace_back(user, group);
      if (in_the_group && user == static_cast<uid_t>(-1)) return 0;
      errno = EPERM;
      return -1;
    }
    int fchmod(int fd, mode_t wanted) override {
      mode = wanted;
      return FileSystemCalls::fchmod(fd, wanted);
    }
  };
  old_.save(path_);
  ASSERT_EQ(::chmod(path_.c_str(), 06664), 0);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  NotRoot calls;
  save_(new_, path_, calls);
  EXPECT_EQ(read_bytes(path_), new_bytes_);
  const std::vector<std::pair<uid_t, gid_t>> wanted{{status.st_uid, status.st_gid},
                                                    {static_cast<uid_t>(-1), status.st_gid}};
  EXPECT_EQ(calls.owners, wanted);
  EXPECT_EQ(calls.mode, 0664u);  // what ran as its owner must not run as another

  ASSERT_EQ(::chmod(path_.c_str(), 0664), 0);
  calls.in_the_group = false;
  save_with(old_, path_, calls);
  EXPECT_EQ(read_bytes(path_), old_bytes_);
  EXPECT_EQ(calls.mode, 0644u);  // another group may do no more than others
}

TEST_F(FileFault, ATakenTemporaryNameIsNotUsed) {
  WatchedCalls calls;
  calls.before = [](int n, const std::string& name) {  // the first looks for a file to replace
    return name == "open" && n > 1 && n < 6 ? EEXIST : 0;
  };
  save_(new_, path_, calls);
  EXPECT_EQ(read_bytes(path_), new_bytes_);
  EXPECT_GE(std::count(calls.log.begin(), calls.log.end(), "open"), 6);
}

TEST_F(FileFault, TheFileSizeLimitOfTheProcess) {
  old_.save(path_);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit { .rlim_cur = 600'000, .rlim_max = 600'000 };
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      new_.save(path_);
      ::_exit(1);
    } catch (const IoError& error) {
      ::_exit(std::strstr(error.what(), "File too large") != nullptr ? 0 : 2);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_bytes(path_), old_bytes_);
  EXPECT_EQ(folder_.entries(), 1u);
}

// ---- destinations -------------------------------------------------------------------------------

TEST_F(FileFault, DestinationsThatCannotTakeIt) {
  EXPECT_THROW_WITH(new_.save("/dev/full"), IoError, "'/dev/full': cannot write: No space left");
  EXPECT_THROW_WITH(new_.save(folder_.path()), IoError, "Is a directory");
  EXPECT_THROW_WITH(new_.save(folder_ / "absent/filter.scbf"), IoError,
                    "cannot create a temporary file beside it: No such file or directory");
  new_.save(path_);
  EXPECT_THROW_WITH(new_.save(path_ / "filter.scbf"), IoError, "Not a directory");
  fs::create_symlink("b", folder_ / "a");
  fs::create_symlink("a", folder_ / "b");
  EXPECT_THROW_WITH(new_.save(folder_ / "a"), IoError, "Too many levels of symbolic links");
  EXPECT_NO_THROW(new_.save("/dev/null"));
  EXPECT_EQ(folder_.entries(), 3u);
}

TEST_F(FileFault, PipesAreWrittenStraightAndReadAsStreams) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { new_.save(pipe); });
  const Filter found = Filter::load(pipe);
  writer.join();
  EXPECT_TRUE(found == new_);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(folder_.entries(), 1u);
}

// Also on a disk, where a new file may get the number of one that is gone: folders for temporary
// files often lie in memory, where it does not.
TEST_F(FileFault, AnotherSaveMayOvertake) {
  const TemporaryFolder on_disk(fs::current_path());
  for (const fs::path& path : {path_, on_disk / "filter.scbf"}) {
    for (const int times : {1, 3}) {
      old_.save(path);
      WatchedCalls calls;
      int left = times;
      calls.before = [&](int, const std::string& name) {
        // What looks again finds another file each time.
        if (name == "stat" && left-- > 0) old_.save(path);
        return 0;
      };
      save_with(new_, path, calls);
      EXPECT_LE(left, 0);
      EXPECT_EQ(read_bytes(path), new_bytes_);
    }
  }
}

TEST_F(FileFault, AFileWithoutAName) {
  old_.save(path_);
  const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  fs::remove(path_);
  EXPECT_THROW_WITH(new_.save("/proc/self/fd/" + std::to_string(fd)), IoError,
                    "the file has no name any more");
  ::close(fd);
}

TEST_F(FileFault, AnEmptyPathIsRefusedBeforeAnythingIsProduced) {
  EXPECT_THROW_WITH(write_file("", [](const ByteSink&) { FAIL() << "produced"; }), IoError,
                    "'': cannot write: No such file or directory");
}

TEST_F(FileFault, BytesAfterAFilterInAPipeAreDetected) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Bytes longer = old_bytes_;
  longer.push_back(std::byte{0});
  std::thread writer([&] { write_bytes(pipe, longer); });
  EXPECT_THROW_WITH(Filter::load(pipe), CorruptFile, "bytes follow its end: must be 4736");
  writer.join();
}

TEST_F(FileFault, LinksStayAndTheirTargetsAreReplaced) {
  fs::create_directory(folder_ / "deep");
  fs::create_symlink("deep/link", folder_ / "outer");
  fs::create_symlink("../target.scbf", folder_ / "deep/link");
  for (const Filter* filter : {&old_, &new_}) {  // the target is missing at first
    filter->save(folder_ / "outer");
    EXPECT_TRUE(fs::is_symlink(folder_ / "outer"));
    EXPECT_TRUE(fs::is_symlink(folder_ / "deep/link"));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "target.scbf")));
    EXPECT_EQ(read_bytes(folder_ / "target.scbf"), to_bytes(*filter));
  }
  EXPECT_EQ(folder_.entries(), 3u);
}

TEST_F(FileFault, PermissionsAreKeptOrFollowTheUmask) {
  const mode_t umask = ::umask(027);
  old_.save(path_);
  ::umask(umask);
  const auto mode = [&] { return static_cast<unsigned>(fs::status(path_).permissions()); };
  EXPECT_EQ(mode(), 0640u);
  for (const unsigned kept : {0600u, 0640u, 0664u}) {
    fs::permissions(path_, static_cast<fs::perms>(kept));
    new_.save(path_);
    EXPECT_EQ(mode(), kept);
  }
}

TEST_F(FileFault, AFileThatNobodyMayWriteStays) {
  old_.save(path_);
  for (const unsigned mode : {0444u, 0555u, 0u}) {
    fs::permissions(path_, static_cast<fs::perms>(mode));
    EXPECT_THROW_WITH(new_.save(path_), IoError, "filter.scbf': cannot write: Permission denied");
    fs::permissions(path_, static_cast<fs::perms>(0644));
    EXPECT_EQ(read_bytes(path_), old_bytes_);
    EXPECT_EQ(folder_.entries(), 1u);
  }
  new_.save(path_);
  EXPECT_EQ(read_bytes(path_), new_bytes_);
}

TEST_F(FileFault, NamesInMessagesAreEscaped) {
  const fs::path odd = folder_ / std::string("a'b\n\xFF");
  EXPECT_THROW_WITH(Filter::load(odd), IoError, "a\\'b\\x0a\\xff': cannot open");
}

TEST_F(FileFault, ARelativeNameInTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  EXPECT_NO_THROW(new_.save("filter.scbf"));
  fs::current_path(before);
  EXPECT_EQ(read_bytes(path_), new_bytes_);
}

TEST_F(FileFault, AFileReplacedWhileItIsReadIsReadAndMappedToItsEnd) {
  old_.save(path_);
  InputFile file(path_);
  new_.save(path_);
  ASSERT_NE(read_bytes(path_), old_bytes_);
  Bytes bytes(old_bytes_.size());
  file.read(bytes);
  EXPECT_EQ(bytes, old_bytes_);
  const HostMemory mapped = file.map(0, bytes.size());
  EXPECT_EQ(std::memcmp(mapped.words(), bytes.data(), bytes.size()), 0);
}

TEST_F(FileFault, MappingAndSavingAtOnce) {
  // A mapped filter has the header and the payload of the same save.
  Filter a = sample(Geometry::split_block(1, 40), 10), b = a;
  b.insert(std::uint64_t{777});
  b.set_metadata(a.metadata() + std::string(5000, 'x'));  // another payload offset
  a.save(path_);
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) (i % 2 != 0 ? a : b).save(path_);
  });
  for (int i = 0; i < 1000; ++i) {
    const Filter mapped = Filter::map(path_);
    EXPECT_TRUE(mapped == (mapped.metadata() == a.metadata() ? a : b));
  }
  writer.join();
}

}  // namespace
}  // namespace scbf::test::file_fault_test
