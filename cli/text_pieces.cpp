// SPDX-License-Identifier: Apache-2.0
#include "text_pieces.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace scbf::cli {

namespace {

/// Pieces that may be ready or in work beside one for each thread, so that no thread waits for
/// another.
constexpr std::size_t kAhead = 6;
/// Bytes of a piece that is divided at once, not by the next thread that has time.
constexpr std::size_t kSmallPiece = 4096;

void cut(TextPiece& piece) noexcept {
  const auto drop = [&] { piece.to = piece.from; };
  try {
    if (piece.read_error) {
      drop();
    } else {
      piece.of->cut(piece);
    }
  } catch (...) {
    piece.read_error = std::current_exception();
    drop();
  }
  piece.of.reset();
}

}  // namespace

TextPieces::TextPieces(KeySource& source, unsigned threads, std::optional<std::uint64_t> seed)
    : source_(source), threads_(std::max(threads, 1u)), seed_(seed) {}

TextPieces::~TextPieces() {
  tell([this] { stopped_ = true; });
  for (std::thread& helper : helpers_) helper.join();
}

void TextPieces::go_on() {
  tell([this] { ended_ = false; });
}

/// Starts one if it can be started: everything is done without it, too.
void TextPieces::start_helper() {
  try {
    helpers_.emplace_back([this] { help_until([this] { return stopped_; }); });
  } catch (...) {
    threads_ = static_cast<unsigned>(helpers_.size()) + 2;
  }
}

std::unique_ptr<TextPiece> TextPieces::next() {
  Lock lock(mutex_);
  for (;;) {
    if (!pieces_.empty() && pieces_.front().state == State::divided) {
      std::unique_ptr<TextPiece> piece = std::move(pieces_.front().piece);
      pieces_.pop_front();
      changed_.notify_one();  // there is room for another one
      return piece;
    }
    if (failure_ && pieces_.empty()) std::rethrow_exception(failure_);
    if (pieces_.empty() && ended_) return nullptr;
    if (!help(lock, pieces_.empty() ? Wait::yes : Wait::no)) ready_.wait(lock);
  }
}

void TextPieces::give_back(std::unique_ptr<TextPiece> piece) noexcept {
  const Lock lock(mutex_);
  keep(std::move(piece));
}

void TextPieces::keep(std::unique_ptr<TextPiece> piece) noexcept {
  try {
    unused_.push_back(std::move(piece));
  } catch (const std::bad_alloc&) {
    // Its memory is freed.
  }
}

void TextPieces::tell(const std::function<void()>& change) {
  const Lock lock(mutex_);
  change();
  changed_.notify_all();
}

void TextPieces::help_until(const std::function<bool()>& done) {
  Lock lock(mutex_);
  while (!done()) {
    if (threads_ == 1 || !help(lock, Wait::no)) changed_.wait(lock);
  }
}

/// Divides, cuts, loads or begins a piece: the first of these that can be done. Returns whether
/// there was any.
bool TextPieces::help(Lock& lock, Wait wait) {
  if (Entry* const entry = first_in(State::cut)) {
    work_on(*entry, State::dividing, lock, [this](TextPiece& piece) {
      piece.divide(seed_);
      return State::divided;
    });
    return true;
  }
  // Pieces are cut in order.
  const auto uncut = std::ranges::find_if(
      pieces_, [](State state) { return state < State::cut; }, &Entry::state);
  if (uncut != pieces_.end() && uncut->state == State::loaded) {
    work_on(*uncut, State::cutting, lock, [](TextPiece& piece) {
      cut(piece);
      return State::cut;
    });
    return true;
  }
  if (Entry* const entry = first_in(State::begun)) {
    work_on(*entry, State::loading, lock, [](TextPiece& piece) {
      piece.load();
      return State::loaded;
    });
    return true;
  }
  return begin_one(lock, wait);
}

TextPieces::Entry* TextPieces::first_in(State state) {
  const auto entry = std::ranges::find(pieces_, state, &Entry::state);
  return entry == pieces_.end() ? nullptr : &*entry;
}

/// Does work(piece), which returns the state after it. The entry stays where it is while others
/// come and go at the ends.
template <class Work>
void TextPieces::work_on(Entry& entry, State now, Lock& lock, Work work) {
  entry.state = now;
  lock.unlock();
  const State then = work(*entry.piece);
  lock.lock();
  entry.state = then;
  ended_ = ended_ || entry.piece->read_error || entry.piece->divide_error;
  if (then < State::divided) changed_.notify_one();
  ready_.notify_one();
}

bool TextPieces::begin_one(Lock& lock, Wait wait) {
  if (ended_ || stopped_ || first_in(State::beginning) || pieces_.size() >= threads_ + kAhead) {
    return false;
  }
  if (wait == Wait::no && !source_.is_ready()) return false;
  const bool others_are_cut = std::ranges::all_of(
      pieces_, [](State state) { return state >= State::cut; }, &Entry::state);
  if (!add_one()) return true;
  bool some = false;
  Entry& entry = pieces_.back();
  work_on(entry, State::beginning, lock, [&](TextPiece& piece) {
    some = source_.begin(piece);
    if (!some) return State::divided;
    if (piece.place || !others_are_cut) return State::begun;
    piece.load();  // nothing that another thread could do
    cut(piece);
    if (piece.text().size() > kSmallPiece) return State::cut;
    piece.divide(seed_);
    return State::divided;
  });
  if (!some) {
    ended_ = true;
    keep(std::move(entry.piece));
    pieces_.pop_back();
  }
  if (ended_) return true;
  const std::size_t helpers = helpers_.size() + 2;
  if (!stopped_ && helpers < pieces_.size() && helpers < threads_) start_helper();
  changed_.notify_one();
  return true;
}

/// Adds a piece that can be begun. Returns false, and ends, if there is no memory for it.
bool TextPieces::add_one() {
  try {
    if (unused_.empty()) unused_.push_back(std::make_unique<TextPiece>());
    pieces_.push_back({.piece = std::move(unused_.back()), .state = State::beginning});
    unused_.pop_back();
    return true;
  } catch (...) {
    failure_ = std::current_exception();
    ended_ = true;
    ready_.notify_one();
    return false;
  }
}

}  // namespace scbf::cli
