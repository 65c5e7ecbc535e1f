// SPDX-License-Identifier: Apache-2.0
#include "key_stream.hpp"

#include <algorithm>
#include <cmath>

namespace scbf::cli {

namespace {

constexpr std::uint64_t kGolden = 0x9E37'79B9'7F4A'7C15u;

}  // namespace

// The curve x^−s is convex, so over [k − 1/2, k + 1/2] its area is at least that of the bar of rank
// k. A point is drawn under the curve and accepted if it also falls under the bar. The first bar is
// higher than the curve over part of its width, so it gets exactly its own area, 1.
ZipfRanks::ZipfRanks(std::uint64_t universe, double exponent)
    : universe_(static_cast<double>(universe)), exponent_(exponent) {
  low_ = integral(1.5) - 1;
  high_ = integral(universe_ + 0.5);
}

/// ∫ from 1 to x of t^−s. Uses expm1, because for exponents near 1 the plain formula cancels.
double ZipfRanks::integral(double x) const {
  const double log_x = std::log(x);
  const double t = (1 - exponent_) * log_x;
  return std::abs(t) < 1e-12 ? log_x : std::expm1(t) / (1 - exponent_);
}

double ZipfRanks::inverse(double area) const {
  const double t = (1 - exponent_) * area;
  return std::exp(std::abs(t) < 1e-12 ? area : std::log1p(t) / (1 - exponent_));
}

bool ZipfRanks::accept(double area, std::uint64_t& rank) const {
  const double k = std::clamp(std::floor(inverse(area) + 0.5), 1.0, universe_);
  rank = static_cast<std::uint64_t>(k);
  return area >= integral(k + 0.5) - std::exp(-exponent_ * std::log(k));
}

KeyStream::KeyStream(const StreamOptions& options)
    : options_(options),
      ranks_(options.universe, options.exponent),
      state_(mix(options.seed + kGolden)),
      base_(options.kind == StreamKind::zipf ? mix(state_ ^ kGolden) : mix(options.seed)) {}

std::uint64_t KeyStream::random() noexcept { return mix(state_ += kGolden); }

void KeyStream::fill(std::span<std::uint64_t> out) {
  switch (options_.kind) {
    case StreamKind::uniform:
      for (std::uint64_t& key : out) key = random();
      break;
    case StreamKind::sequential:
      for (std::uint64_t& key : out) key = base_ + place_++;
      break;
    case StreamKind::zipf:
      for (std::uint64_t& key : out) {
        const std::uint64_t rank =
            ranks_.draw([this] { return static_cast<double>(random() >> 11) * 0x1p-53; });
        key = mix(base_ + rank * kGolden);  // one to one, so distinct ranks give distinct keys
      }
      break;
    case StreamKind::clustered:
      for (std::uint64_t& key : out) {
        if (place_ % options_.run == 0) base_ = random();
        key = base_ + place_++ % options_.run;
      }
      break;
  }
}

}  // namespace scbf::cli
