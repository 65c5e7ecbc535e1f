// SPDX-License-Identifier: Apache-2.0
// Pieces of text, which are begun and cut in order, and loaded and divided by several threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "key_source.hpp"
#include "text_piece.hpp"

namespace scbf::cli {

/// Two threads work on the pieces: the one that wants the next one, and one that helps while it has
/// nothing else to do. If more are wanted, others are started when there are pieces for them.
class TextPieces {
 public:
  /// On so many threads, at least one. Lines are hashed with the seed, if there is one. `source`
  /// must outlive this.
  TextPieces(KeySource& source, unsigned threads, std::optional<std::uint64_t> seed);
  TextPieces(const TextPieces&) = delete;
  TextPieces& operator=(const TextPieces&) = delete;
  /// Waits for threads that read, so the source must be stopped if they may wait for input.
  ~TextPieces();

  /// The next piece, divided, which may be empty; none if there is no text left. Nothing is read
  /// before go_on() is called: at first, and after an error or the end. Throws bad_alloc.
  std::unique_ptr<TextPiece> next();
  void go_on();
  /// Takes a piece back, whose memory is used again.
  void give_back(std::unique_ptr<TextPiece> piece) noexcept;

  /// Calls change(), which may make true what a helper waits for.
  void tell(const std::function<void()>& change);
  /// Helps, unless there is one thread, until `done` returns true, which it begins to do only
  /// within tell(). Meanwhile it waits for no input.
  void help_until(const std::function<bool()>& done);

 private:
  /// What was done with a piece, or is being done.
  enum class State : unsigned char {
    beginning,
    begun,
    loading,
    loaded,
    cutting,
    cut,
    dividing,
    divided
  };
  struct Entry {
    std::unique_ptr<TextPiece> piece;
    State state;
  };
  using Lock = std::unique_lock<std::mutex>;

  /// Whether a thread may wait for input: only in next(), when no piece is in work.
  enum class Wait : bool { no, yes };

  void start_helper();
  void keep(std::unique_ptr<TextPiece> piece) noexcept;
  bool help(Lock& lock, Wait wait);
  Entry* first_in(State state);
  template <class Work>
  void work_on(Entry& entry, State now, Lock& lock, Work work);
  bool begin_one(Lock& lock, Wait wait);
  bool add_one();

  KeySource& source_;
  unsigned threads_;
  std::optional<std::uint64_t> seed_;
  std::mutex mutex_;
  std::condition_variable ready_;    // for next(): a step was done
  std::condition_variable changed_;  // there is work, or something was told
  std::deque<Entry> pieces_;         // in order, from the next one on
  std::vector<std::unique_ptr<TextPiece>> unused_;
  bool ended_ = true, stopped_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> helpers_;
};

}  // namespace scbf::cli
