// SPDX-License-Identifier: Apache-2.0
// One subject in one configuration, and the matrix of them that a run goes through. What is done
// with a case is driver.hpp.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "subject.hpp"

namespace scbf::bench {

enum class Operation { insert, miss, hit, mix, count, remove };
std::string to_string(Operation operation);

enum class Kind { split_block, split, textbook, libbloom, unordered_set };
std::string to_string(Kind kind);

struct Case {
  Kind kind = Kind::split_block;
  std::size_t n = 0;
  double fpr = 0.01;
  unsigned words_each = 1;  ///< 8-byte words of a key: 1 = u64, 2 = strings of 16 bytes
  std::string backend = "simd";
  Path path = Path::automatic;
  unsigned threads = 1;

  // How, not what: not part of the name.
  std::size_t batch = 0;    ///< keys per timed call, ≤ n
  std::size_t batches = 1;  ///< timed calls per repetition
  int repetitions = 5;
  std::vector<Operation> operations;

  bool ours() const { return kind == Kind::split_block || kind == Kind::split; }
  /// Everything but the operation: "filter:split_block/n:100000/fpr:0.01/keys:u64/…".
  std::string name() const;
  std::unique_ptr<Subject> make() const;
};

enum class Size {
  smoke,  ///< everything once, on tiny filters: does it work?
  quick,  ///< caches, and the neighbourhood of L3
  full,   ///< and memory: 10^8 keys
};

/// Cases in the order in which they should run: by n, so that keys are made once per n.
std::vector<Case> matrix(Size size);

}  // namespace scbf::bench
