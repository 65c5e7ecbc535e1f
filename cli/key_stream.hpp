// SPDX-License-Identifier: Apache-2.0
// Generated 64-bit keys for gen and bench. Each key depends only on kind, seed and index in the
// stream, so the same command gives the same keys on every machine.
//
// Random numbers come from a Weyl sequence and a 64-bit mixer (splitmix64). This is a one-to-one
// function of the index, so uniform keys never repeat.
#pragma once

#include <cstdint>
#include <span>

namespace scbf::cli {

enum class StreamKind : std::uint8_t {
  uniform,     ///< distinct and random-looking
  sequential,  ///< mix(seed), mix(seed) + 1, …; seed 0 begins at 0
  zipf,  ///< ranks 1 … universe with probability ∝ rank^−exponent, each rank a random key
  clustered,  ///< runs of `run` consecutive numbers, each from a random start
};

/// A one-to-one function on 64 bits; mix(0) == 0.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
  return x ^ (x >> 31);
}

/// Draws ranks 1 … universe with probability ∝ rank^−exponent by rejection from the area under
/// the curve (Hörmann and Derflinger, 1996): exact up to double precision, no tables, about one
/// trial per rank.
class ZipfRanks {
 public:
  /// universe in [1, 2^52], exponent in (0, 10].
  ZipfRanks(std::uint64_t universe, double exponent);
  /// `random()` gives doubles in [0, 1).
  template <class Random>
  std::uint64_t draw(Random&& random) const {
    for (;;) {
      const double area = high_ + random() * (low_ - high_);
      std::uint64_t rank = 0;
      if (accept(area, rank)) return rank;
    }
  }

 private:
  bool accept(double area, std::uint64_t& rank) const;
  double integral(double x) const;
  double inverse(double area) const;

  double universe_, exponent_;
  double low_,
      high_;  // areas up to the start of the first rank's bar and to the end of the last one's
};

struct StreamOptions {
  StreamKind kind = StreamKind::uniform;
  std::uint64_t seed = 0;
  double exponent = 1.2;                 ///< zipf
  std::uint64_t universe = 100'000'000;  ///< zipf
  std::uint64_t run = 1024;              ///< clustered, ≥ 1
};

/// An endless stream of keys.
class KeyStream {
 public:
  explicit KeyStream(const StreamOptions& options);
  /// The next out.size() keys.
  void fill(std::span<std::uint64_t> out);

 private:
  std::uint64_t random() noexcept;

  StreamOptions options_;
  ZipfRanks ranks_;
  std::uint64_t place_ = 0;  // index of the next key
  std::uint64_t state_, base_;
};

}  // namespace scbf::cli
