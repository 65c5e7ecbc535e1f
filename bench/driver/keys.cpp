// SPDX-License-Identifier: Apache-2.0
#include "keys.hpp"

#include <numeric>

namespace scbf::bench {

namespace {

/// Visits 0 … n − 1 in a scattered order: i · step + start mod n, step coprime to n.
class Walk {
 public:
  Walk(std::uint64_t n, std::uint64_t salt) : n_(n), at_(key_word(salt) % n) {
    step_ = (key_word(salt + 1) % n) | 1;
    while (std::gcd(step_, n_) != 1) step_ += 2;
    step_ %= n_;
  }
  std::uint64_t next() noexcept {
    const std::uint64_t now = at_;
    at_ += step_;
    if (at_ >= n_) at_ -= n_;
    return now;
  }

 private:
  std::uint64_t n_, at_, step_ = 1;
};

}  // namespace

KeyList hit_keys(std::uint64_t batch, std::size_t n, std::size_t queries, KeyShape shape) {
  KeyList keys(shape);
  keys.reserve(queries);
  Walk walk(n, 2 * batch);
  for (std::size_t i = 0; i < queries; ++i) keys.add(present_number(0, walk.next()));
  return keys;
}

KeyList mixed_keys(std::uint64_t batch, std::size_t n, std::size_t queries, std::size_t& hits,
                   KeyShape shape) {
  KeyList keys(shape);
  keys.reserve(queries);
  Walk walk(n, 2 * batch);
  hits = 0;
  for (std::size_t i = 0; i < queries; ++i) {
    const bool present = (key_word(absent_number(1 << 10, i + (batch << 40))) & 1) != 0;
    hits += present;
    // Absent keys come from batches that the measurement of the false-positive rate does not use.
    keys.add(present ? present_number(0, walk.next()) : absent_number(batch + (1 << 12), i));
  }
  return keys;
}

}  // namespace scbf::bench
