// SPDX-License-Identifier: Apache-2.0
// Keys of text, read by one thread and by several in pieces of many sizes, against the keys that
// the text was made of.
#include "key_reader.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "read_ahead.hpp"
#include "scbf/errors.hpp"
#include "scbf/key_batch.hpp"
#include "support/temporary_folder.hpp"

namespace scbf::cli {
namespace {

constexpr std::uint64_t kSeed = 7;

/// A text, and the keys in it.
struct Text {
  std::string bytes;
  std::vector<std::string> keys;
  std::uint64_t empty = 0;
};

class Source {
 public:
  explicit Source(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t n) { return random_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  /// Mostly short, now and then longer than the room before a piece.
  std::string word(std::string_view letters) {
    std::string word(one_in(50) ? below(3000) : below(30), ' ');
    for (char& c : word) c = letters[below(letters.size())];
    return word;
  }

 private:
  std::mt19937_64 random_;
};

Text lines(std::uint64_t seed, std::size_t count, bool decimal) {
  Source source(seed);
  Text text;
  for (std::size_t i = 0; i < count; ++i) {
    std::string line = source.word("abc\r\t,\"");
    if (line.ends_with('\r')) line += 'x';
    if (decimal) line = source.one_in(10) ? "" : std::to_string(source.below(~std::size_t{0}));
    text.bytes += line + (source.one_in(3) && decimal ? "\r\n" : "\n");
    if (line.empty()) {
      ++text.empty;
    } else {
      text.keys.push_back(line);
    }
  }
  text.bytes += decimal ? "77" : "last";
  text.keys.push_back(decimal ? "77" : "last");
  if (source.one_in(2)) text.bytes += '\n';
  return text;
}

/// A table whose keys are in column 2. Ends of lines may differ.
Text csv(std::uint64_t seed, std::size_t rows, const std::vector<std::string>& ends) {
  Source source(seed);
  Text text;
  if (source.one_in(2)) text.bytes += "\xEF\xBB\xBF";
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t fields = 2 + source.below(3);
    for (std::size_t i = 0; i < fields; ++i) {
      const bool quoted = source.one_in(3);
      const std::string field = source.word(quoted ? "ab \",\n\r\n\"" : "ab ;\t");
      if (i > 0) text.bytes += ',';
      if (quoted) text.bytes += '"';
      for (const char c : field) text.bytes += c == '"' ? "\"\"" : std::string(1, c);
      if (quoted) text.bytes += '"';
      if (i != 1) continue;
      if (field.empty()) {
        ++text.empty;
      } else {
        text.keys.push_back(field);
      }
    }
    text.bytes += ends[source.below(ends.size())];
    if (source.one_in(20)) text.bytes += ends[source.below(ends.size())];
  }
  return text;
}

Text tsv(std::uint64_t seed, std::size_t rows) {
  Source source(seed);
  Text text;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::string key = source.word("ab\t\n\\\",");
    text.bytes += source.word("xy") + '\t';
    for (const char c : key) {
      text.bytes += c == '\t' ? "\\t" : c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
    }
    text.bytes += source.one_in(2) ? "\tz\r\n" : "\n";
    if (key.empty()) {
      ++text.empty;
    } else {
      text.keys.push_back(key);
    }
  }
  return text;
}

/// What was read, up to an error if there is one.
struct Read {
  std::vector<std::string> keys;
  std::uint64_t empty = 0, bytes = 0;
  std::string error;
};

Read read(const std::vector<std::string>& files, const KeyFormat& format, const Reading& reading) {
  Read result;
  KeyReader reader(files, format, reading);
  const auto use = [&](const KeyBlock& block) {
    for (const std::string_view key : block.lines()) result.keys.emplace_back(key);
    for (const std::uint64_t key : block.numbers()) result.keys.push_back(std::to_string(key));
    EXPECT_EQ(block.keys_so_far(), result.keys.size());
    if (block.kind() == KeyKind::lines && reading.seed) {
      EXPECT_EQ(block.batch().hashes(0), KeyBatch(block.lines()).hashes(*reading.seed));
    }
  };
  try {
    for_each_block(reader, reading.threads > 1, use);
  } catch (const IoError& error) {
    result.error = error.what();
  }
  result.empty = reader.totals().empty_lines;
  result.bytes = reader.totals().bytes;
  EXPECT_EQ(reader.totals().keys, result.keys.size());
  return result;
}

class KeyReaderText : public testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view bytes) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  /// Calls check(reading) for many ways to read.
  template <class Check>
  void in_all_ways(const Check& check) {
    for (const unsigned threads : {1u, 2u, 3u, 8u}) {
      for (const std::size_t piece : {61u, 1'000u, 20'000u}) {
        for (const std::size_t block : {std::size_t{1} << 10, std::size_t{4} << 20}) {
          SCOPED_TRACE(testing::Message()
                       << threads << " threads, pieces of " << piece << ", blocks of " << block);
          check(Reading{.threads = threads,
                        .seed = block > kSmallBlock ? std::nullopt : std::optional(kSeed),
                        .block_bytes = block,
                        .piece_bytes = piece});
        }
      }
    }
  }
  void expect_keys(const Text& text, const std::string& name, const KeyFormat& format) {
    const std::string path = file(name, text.bytes);
    in_all_ways([&](const Reading& reading) {
      const Read found = read({path}, format, reading);
      EXPECT_EQ(found.error, "");
      EXPECT_TRUE(found.keys == text.keys) << found.keys.size() << " of " << text.keys.size();
      EXPECT_EQ(found.empty, text.empty);
      EXPECT_EQ(found.bytes, text.bytes.size());
    });
  }

  scbf_test::TemporaryFolder folder_;
};

TEST_F(KeyReaderText, LinesAreFound) {
  for (const std::size_t count : {0u, 1u, 40u, 3'000u}) {
    expect_keys(lines(count, count, false), "lines", {});
  }
}

TEST_F(KeyReaderText, NumbersAreFound) {
  for (const std::size_t count : {1u, 40u, 5'000u}) {
    expect_keys(lines(count, count, true), "numbers", {.kind = KeyKind::u64, .decimal = true});
  }
}

TEST_F(KeyReaderText, ColumnsOfCsvAreFound) {
  for (const std::vector<std::string>& ends :
       {std::vector<std::string>{"\n"}, {"\r\n"}, {"\r"}, {"\n", "\r\n", "\r"}}) {
    for (const std::size_t rows : {1u, 30u, 1'200u}) {
      expect_keys(csv(rows, rows, ends), "t.csv", {.column = KeyColumn{.name = "2"}});
    }
  }
}

TEST_F(KeyReaderText, AMarkMayStandBeforeALongQuotedField) {
  Text text{.keys = {"k"}};
  text.bytes = "\xEF\xBB\xBF\"" + std::string(3'000, 'x') + "\n\",k\n";
  expect_keys(text, "t.csv", {.column = KeyColumn{.name = "2"}});
}

TEST_F(KeyReaderText, AMarkBehindAHeaderIsPartOfAKey) {
  const Text text{.bytes = "k\r\xEF\xBB\xBFx\ry\r", .keys = {"\xEF\xBB\xBFx", "y"}};
  expect_keys(text, "t.csv", {.column = KeyColumn{.name = "k"}});
}

TEST_F(KeyReaderText, ColumnsOfTsvAreFound) {
  for (const std::size_t rows : {1u, 30u, 1'500u}) {
    expect_keys(tsv(rows, rows), "t.tsv", {.column = KeyColumn{.name = "2"}});
  }
}

TEST_F(KeyReaderText, EachTableNamesItsColumns) {
  std::vector<std::string> files;
  std::vector<std::string> keys;
  for (int i = 0; i < 60; ++i) {
    const Text text = csv(static_cast<std::uint64_t>(i), 1u << i % 10, {"\n"});
    const std::string_view rows =
        std::string_view(text.bytes).substr(text.bytes.starts_with('\xEF') ? 3 : 0);
    const std::string header = i % 2 == 0 ? "\n\"a\",\"k\n\"\n" : "a,\"k\n\"\r\n\r\n";
    files.push_back(file("t" + std::to_string(i), header + std::string(rows)));
    keys.insert(keys.end(), text.keys.begin(), text.keys.end());
  }
  in_all_ways([&](const Reading& reading) {
    const Read found = read(files, {.column = KeyColumn{.name = "k\n"}}, reading);
    EXPECT_EQ(found.error, "");
    EXPECT_TRUE(found.keys == keys);
  });
}

/// The keys before an error are delivered, and its line is right.
TEST_F(KeyReaderText, ErrorsAreInTheirLine) {
  struct Case {
    const char *name, *wrong, *error;
    std::size_t good_after;
    KeyFormat format;
  };
  const KeyFormat column{.column = KeyColumn{.name = "2"}}, named{.column = KeyColumn{.name = "k"}};
  const Case cases[] = {
      {"t.csv", "a,b\"c", "a quote in the middle of a field", 1'000, column},
      {"t.csv", "a,\"b\"c,d", "a quote in the middle of a field", 1'000, column},
      {"t.csv", "a,\"b", "a quote is opened in this row and never closed", 0, column},
      {"t.csv", "a", "1 field, and the key is in field 2", 1'000, column},
      {"named.csv", "a,b\"c", "a quote in the middle of a field", 1'000, named},
      {"t.tsv", "a\tb\\x", "a backslash that begins none of", 1'000, column},
      {"numbers",
       "12x",
       "must be a decimal number",
       1'000,
       {.kind = KeyKind::u64, .decimal = true}},
  };
  for (const Case& one : cases) {
    const std::string name = one.name;
    const bool is_csv = name.ends_with(".csv");
    const std::string header = name == "named.csv" ? "\n\"a\nb\",k\n" : "";
    const std::string good = is_csv ? "1,\"2\n\"\n" : name == "t.tsv" ? "1\t2\n" : "12\n";
    for (const std::size_t before : {0u, 7u, 6'000u}) {
      std::string text = header;
      for (std::size_t i = 0; i < before; ++i) text += good;
      const auto line = 1 + std::ranges::count(text, '\n');
      text += one.wrong + std::string("\n");
      for (std::size_t i = 0; i < one.good_after; ++i) text += good;
      const std::string path = file(name, text);
      const std::string wanted = ": line " + std::to_string(line) + ": ";
      in_all_ways([&](const Reading& reading) {
        const Read found = read({path}, one.format, reading);
        EXPECT_EQ(found.keys.size(), before);
        EXPECT_NE(found.error.find(wanted), std::string::npos) << found.error;
        EXPECT_NE(found.error.find(one.error), std::string::npos) << found.error;
      });
    }
  }
}

/// The keys of the inputs before one that cannot be read are delivered.
TEST_F(KeyReaderText, UnreadableInputsAreToldInTheirTurn) {
  const Text text = lines(3, 900, false);
  const std::string good = file("good", text.bytes);
  for (const std::string& wrong : {file("zeros", std::string("a\nb\n\0\n", 6)),
                                   file("cut.gz", std::string("\x1F\x8B\x08\0\0", 5))}) {
    in_all_ways([&](const Reading& reading) {
      const Read found = read({good, wrong, good}, {}, reading);
      EXPECT_TRUE(found.keys == text.keys) << found.keys.size();
      EXPECT_NE(found.error.find(wrong), std::string::npos) << found.error;
    });
  }
}

/// An error is told although the next input, which nobody writes to, could only be waited for.
TEST_F(KeyReaderText, ErrorsDoNotWaitForTheNextInput) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string wrong = file("numbers", "1\n2\nx\n");
  for (const unsigned threads : {2u, 3u, 8u}) {
    for (int i = 0; i < 20; ++i) {
      const Read found = read({wrong, pipe}, {.kind = KeyKind::u64, .decimal = true},
                              {.threads = threads, .piece_bytes = 61});
      EXPECT_EQ(found.keys.size(), 2u);
      EXPECT_NE(found.error.find("line 3"), std::string::npos) << found.error;
    }
  }
}

/// The decoder may hold more than was asked for.
TEST_F(KeyReaderText, CompressedKeysAreDeliveredBeforeMoreIsWaitedFor) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string lines;
  for (int i = 0; i < 25'000; ++i) lines += "k\r\t\n";
  std::promise<void> delivered;
  std::thread writer([&] {
    const std::unique_ptr<ZSTD_CStream, decltype(&ZSTD_freeCStream)> stream(ZSTD_createCStream(),
                                                                            ZSTD_freeCStream);
    std::ofstream to(pipe, std::ios::binary);
    ZSTD_inBuffer in{lines.data(), lines.size(), 0};
    for (const ZSTD_EndDirective how : {ZSTD_e_flush, ZSTD_e_end}) {
      std::string packed(1 << 20, '\0');
      ZSTD_outBuffer out{packed.data(), packed.size(), 0};
      ZSTD_compressStream2(stream.get(), &out, &in, how);
      to.write(packed.data(), static_cast<std::streamsize>(out.pos)).flush();
      if (how == ZSTD_e_end) break;
      EXPECT_EQ(delivered.get_future().wait_for(std::chrono::seconds(20)),
                std::future_status::ready);
    }
  });
  KeyReader reader({pipe}, {}, {.threads = 2, .pace = Pace::prompt});
  KeyBlock block;
  while (reader.fill(block)) {
    if (reader.keys() == 25'000) delivered.set_value();
  }
  writer.join();
  EXPECT_EQ(reader.keys(), 25'000u);
}

/// A thread that helps to read must not wait for input while there are keys to use.
TEST_F(KeyReaderText, KeysAreUsedWhileTheInputWaits) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "a\n";
  for (const unsigned threads : {2u, 3u}) {
    for (int i = 0; i < 20; ++i) {
      std::promise<void> used;
      std::thread writer([&] {
        std::ofstream to(pipe);
        to << lines << std::flush;
        EXPECT_EQ(used.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
      });
      KeyReader reader({pipe}, {}, {.threads = threads, .piece_bytes = 10'000});
      std::size_t count = 0;
      for_each_block(reader, true, [&](const KeyBlock& block) {
        if (count == 0) used.set_value();
        count += block.size();
      });
      writer.join();
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(count, 100'000u);
    }
  }
}

/// A file that becomes shorter, or longer, while it is read.
TEST_F(KeyReaderText, AFileMayChangeItsLength) {
  const Text text = lines(1, 60'000, true);
  for (const bool longer : {false, true}) {
    for (const unsigned threads : {1u, 3u}) {
      const std::string path = file("numbers", text.bytes);
      KeyReader reader({path}, {.kind = KeyKind::u64, .decimal = true},
                       {.threads = threads, .piece_bytes = 10'000});
      KeyBlock block;
      std::vector<std::string> keys;
      bool changed = false;
      while (reader.fill(block)) {
        for (const std::uint64_t key : block.numbers()) keys.push_back(std::to_string(key));
        if (changed) continue;
        changed = true;
        if (longer) {
          std::ofstream(path, std::ios::app) << "\n1\n2\n3";
        } else {
          std::filesystem::resize_file(path, 100);
        }
      }
      std::vector<std::string> wanted = text.keys;
      if (longer) {
        wanted.insert(wanted.end(), {"1", "2", "3"});
        EXPECT_TRUE(keys == wanted);
      } else {
        // The last one may have lost digits.
        ASSERT_LT(keys.size(), wanted.size());
        keys.pop_back();
        wanted.resize(keys.size());
        EXPECT_TRUE(keys == wanted);
      }
    }
  }
}

}  // namespace
}  // namespace scbf::cli
