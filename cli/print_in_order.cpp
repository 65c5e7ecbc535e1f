// SPDX-License-Identifier: Apache-2.0
#include "print_in_order.hpp"

#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <string>

namespace scbf::cli {

namespace {

constexpr std::size_t kPiece = 4096;

/// What the numbers first … last − 1 become.
struct Piece {
  std::size_t first = 0, last = 0;
  std::string text;
  Output to{[this](std::string_view bytes) { text += bytes; }};
  std::exception_ptr error;
};

}  // namespace

void print_in_order(Output& out, unsigned threads, std::size_t count,
                    const std::function<void(Output&, std::size_t, std::size_t)>& make) {
  namespace tbb = oneapi::tbb;
  if (threads < 2 || count <= kPiece) return make(out, 0, count);
  // A ring: the pipeline has no more of them under way.
  std::deque<Piece> pieces(std::min<std::size_t>(2 * threads, (count + kPiece - 1) / kPiece));
  std::size_t begun = 0;
  const auto begin = [&](tbb::flow_control& flow) {
    Piece& piece = pieces[begun % pieces.size()];
    if (begun * kPiece >= count) {
      flow.stop();
    } else {
      piece.first = begun++ * kPiece;
      piece.last = std::min(count, piece.first + kPiece);
    }
    return &piece;
  };
  const auto write = [&](Piece* piece) {
    piece->text.clear();
    try {
      make(piece->to, piece->first, piece->last);
    } catch (...) {
      piece->error = std::current_exception();
    }
    piece->to.finish();
    return piece;
  };
  const auto print = [&](const Piece* piece) {
    out.write(piece->text);
    if (piece->error) std::rethrow_exception(piece->error);
  };
  tbb::task_arena(static_cast<int>(threads)).execute([&] {
    using tbb::filter_mode;
    tbb::parallel_pipeline(pieces.size(),
                           tbb::make_filter<void, Piece*>(filter_mode::serial_in_order, begin) &
                               tbb::make_filter<Piece*, Piece*>(filter_mode::parallel, write) &
                               tbb::make_filter<Piece*, void>(filter_mode::serial_in_order, print));
  });
}

}  // namespace scbf::cli
