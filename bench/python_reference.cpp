// SPDX-License-Identifier: Apache-2.0
// The C++ side of python_bench.py: the same operations on the same keys, one after another, as that
// program asks for them, so that both are measured in turn.
//
//   python_reference FOLDER FPR
//
// FOLDER holds present.i64, absent.i64 (numbers), present.text and absent.text (the bytes of
// strings), present.offsets and absent.offsets (int32). A line of input is an operation (insert,
// hit, miss or remove), the kind of keys (int64 or string) and the number of threads; the line of
// output is the seconds it took, and how many keys it found or changed. "context" prints the
// machine.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/machine.hpp"
#include "scbf/filter.hpp"

namespace {

using namespace scbf;

template <class T>
std::vector<T> read(const std::filesystem::path& path) {
  std::vector<T> values(std::filesystem::file_size(path) / sizeof(T));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(T)));
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  return values;
}

/// Keys of one kind, and a filter for them.
class Subject {
 public:
  Subject(const std::filesystem::path& folder, bool strings, double fpr) : strings_(strings) {
    for (const std::string name : {"present", "absent"}) {
      if (strings) {
        text_[name] = read<char>(folder / (name + ".text"));
        offsets_[name] = read<std::int32_t>(folder / (name + ".offsets"));
      } else {
        numbers_[name] = read<std::int64_t>(folder / (name + ".i64"));
      }
    }
    const std::size_t n = keys("present").size();
    filter_ = std::make_unique<Filter>(n, fpr);
    found_.resize(std::max(n, keys("absent").size()));
  }

  struct Result {
    double seconds;
    std::uint64_t keys;
  };
  Result run(const std::string& operation, unsigned threads) {
    const BatchOptions options{.threads = threads};
    if (operation == "insert") filter_->clear();
    const auto began = std::chrono::steady_clock::now();
    // In the time, as in Python's: from_offsets() checks the offsets.
    const KeyBatch batch = keys(operation == "miss" ? "absent" : "present");
    const std::span<std::uint8_t> out(found_.data(), batch.size());
    std::uint64_t count = 0;
    if (operation == "insert") {
      count = filter_->insert(batch, options).inserted;
    } else if (operation == "remove") {
      count = filter_->remove(batch, {}, options).removed;
    } else {
      count = filter_->contains(batch, out, options).hits;
    }
    return {std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), count};
  }

 private:
  KeyBatch keys(const std::string& name) const {
    if (!strings_) return numbers_.at(name);
    return KeyBatch::from_offsets(std::as_bytes(std::span(text_.at(name))), offsets_.at(name));
  }

  bool strings_;
  std::map<std::string, std::vector<std::int64_t>> numbers_;
  std::map<std::string, std::vector<char>> text_;
  std::map<std::string, std::vector<std::int32_t>> offsets_;
  std::unique_ptr<Filter> filter_;
  std::vector<std::uint8_t> found_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: python_reference FOLDER FPR; python_bench.py starts it\n";
    return 2;
  }
  try {
    std::map<std::string, Subject> subjects;
    for (std::string operation; std::cin >> operation;) {
      if (operation == "context") {
        for (const auto& [name, value] : bench::context()) fmt::print("{}\t{}\n", name, value);
        fmt::print("\n");
      } else {
        std::string kind;
        unsigned threads = 0;
        std::cin >> kind >> threads;
        auto subject = subjects.find(kind);
        if (subject == subjects.end()) {
          subject = subjects.try_emplace(kind, argv[1], kind == "string", std::stod(argv[2])).first;
        }
        const Subject::Result result = subject->second.run(operation, threads);
        fmt::print("{:.9f} {}\n", result.seconds, result.keys);
      }
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "python_reference: {}\n", error.what());
    return 1;
  }
}
