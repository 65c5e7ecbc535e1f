// SPDX-License-Identifier: Apache-2.0
#include "read_ahead.hpp"

#include <array>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

namespace scbf::cli {

namespace {

using Use = std::function<void(const KeyBlock&)>;

/// Two blocks: a thread fills one while the other is used. A thread that waits for a block helps to
/// fill it.
class ReadAhead {
 public:
  explicit ReadAhead(KeyReader& reader) : reader_(reader), thread_([this] { fill_all(); }) {}
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead() {
    reader_.stop();
    reader_.pieces().tell([this] { stopped_ = true; });
    thread_.join();
  }

  void use_all(const Use& use) {
    for (std::size_t i = 0;; i ^= 1) {
      reader_.pieces().help_until([this] { return full_ > 0; });
      --full_;
      if (!filled_[i]) break;
      use(blocks_[i]);
      reader_.pieces().tell([this] { ++free_; });
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void fill_all() noexcept {
    for (std::size_t i = 0;; i ^= 1) {
      reader_.pieces().help_until([this] { return free_ > 0 || stopped_; });
      if (stopped_) return;
      --free_;
      try {
        filled_[i] = reader_.fill(blocks_[i]);
      } catch (...) {
        error_ = std::current_exception();
        filled_[i] = false;
      }
      reader_.pieces().tell([this] { ++full_; });
      if (!filled_[i]) return;
    }
  }

  KeyReader& reader_;
  std::array<KeyBlock, 2> blocks_;
  std::array<bool, 2> filled_{};
  std::exception_ptr error_;
  std::atomic<std::size_t> free_ = 2, full_ = 0;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

void for_each_block(KeyReader& reader, bool ahead, const Use& use) {
  std::optional<ReadAhead> two;
  try {
    if (ahead) two.emplace(reader);
  } catch (const std::system_error&) {  // no thread is left: one after the other, then
  }
  if (two) return two->use_all(use);
  KeyBlock block;
  while (reader.fill(block)) use(block);
}

}  // namespace scbf::cli
