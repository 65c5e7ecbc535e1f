// SPDX-License-Identifier: Apache-2.0
// Where filters, banks and deltas come from: files, and pipes, which can be read only once. Errors
// name the input as the command line does, and advise verbs where the library advises classes.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "input.hpp"
#include "scbf/errors.hpp"
#include "scbf/files.hpp"
#include "sizes.hpp"

namespace scbf::cli {

/// The path of a filter that may be "-".
std::string filter_path(const std::string& file);
bool can_be_opened(const std::string& path);
bool is_regular_file(const std::string& path);
/// Is this a regular file with a bank?
bool is_bank_file(const std::string& path);

/// A message of the library in the words of the command. `called` is what the library calls `file`.
std::string in_our_words(std::string_view message, std::string_view called,
                         const std::string& file);
/// Which verbs take such a file.
const char* verbs_for(FileKind kind);
/// Calls use(), and puts into our words what it throws: CorruptFile, Incompatible or IoError.
template <class Use>
auto as_named(const std::string& file, std::string_view called, Use use) {
  try {
    return use();
  } catch (const CorruptFile& error) {
    throw CorruptFile(in_our_words(error.what(), called, file));
  } catch (const WrongKind& error) {
    throw WrongKind(error.found(), in_our_words(error.finding(), called, file),
                    verbs_for(error.found()));
  } catch (const Incompatible& error) {
    throw Incompatible(in_our_words(error.what(), called, file));
  } catch (const IoError& error) {
    throw IoError(in_our_words(error.what(), called, file), error.error_number(), error.path());
  }
}

/// What comes from a pipe, read once.
class PipedFilter {
 public:
  /// Waits for the first bytes. Throws CorruptFile unless it begins as a filter or a bank does.
  explicit PipedFilter(const std::string& file);
  bool is_bank() const noexcept { return is_bank_; }
  /// Reads it as a Filter, BloomFilter, Bank, BloomBank or Delta, and verifies it.
  template <class Kind, class... Options>
  Kind read(const Options&... options) {
    return as_named(file_, "stream", [&] {
      Kind kind =
          Kind::read([this](std::span<std::byte> into) { return read_some(into); }, options...);
      check_end();
      return kind;
    });
  }

 private:
  std::size_t read_some(std::span<std::byte> into);
  void check_end();

  std::string file_;
  ByteInput in_;
  bool is_bank_;
};

/// Loads and verifies a Filter, BloomFilter, Bank, BloomBank or Delta.
template <class Kind, class... Options>
Kind load_as(const std::string& file, const Options&... options) {
  const std::string path = filter_path(file);
  if (!is_regular_file(path)) return PipedFilter(file).read<Kind>(options...);
  return as_named(file, in_quotes(path), [&] { return Kind::load(path, options...); });
}

/// A file that can be read twice: the file itself, or a copy in memory of what comes from a pipe.
class Rereadable {
 public:
  /// Throws CorruptFile, before it copies anything, if a pipe does not begin as a filter or bank
  /// does, and IoError if there is too little memory for the copy.
  explicit Rereadable(const std::string& file);
  const std::string& path() const noexcept { return path_; }
  const std::string& name() const noexcept { return name_; }
  /// Calls use(path()); errors name the file, not the copy.
  template <class Use>
  auto with_path(Use use) const {
    return as_named(name_, in_quotes(path_), [&] { return use(path_); });
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string name_, path_;
  std::unique_ptr<std::FILE, Close> copy_;
};

/// Calls use(path) for what is read once, from its beginning, by a function that opens a path.
/// Standard input that cannot be opened, such as a socket, is copied.
template <class Use>
auto with_path_of(const std::string& file, Use use) {
  const std::string path = filter_path(file);
  if (path != file && !can_be_opened(path)) return Rereadable(file).with_path(use);
  return as_named(file, in_quotes(path), [&] { return use(path); });
}

}  // namespace scbf::cli
