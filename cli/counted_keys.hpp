// SPDX-License-Identifier: Apache-2.0
// Keys that are counted before a filter is made for them. Their hashes are kept while memory
// allows, so that the inputs are read, split and decompressed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "key_reader.hpp"
#include "options.hpp"
#include "scbf/filter_base.hpp"

namespace scbf::cli {

class CountedKeys {
 public:
  /// Counts the keys of the inputs, with repetitions, and shows progress. Reads everything once;
  /// for u64 keys that are neither text nor compressed, only the lengths. Keeps hashes of this seed
  /// in at most `most_bytes`. Requires all_regular(inputs). Throws IoError.
  CountedKeys(const std::vector<std::string>& inputs, const KeyFormat& format, std::uint64_t seed,
              const RunOptions& run, std::uint64_t most_bytes);

  std::uint64_t keys() const noexcept { return totals_.keys; }
  /// Were the inputs read? If so, their notes were printed.
  bool were_read() const noexcept { return were_read_; }
  /// Are the hashes of all keys there?
  bool have_hashes() const noexcept { return have_hashes_; }
  /// Frees the hashes; the inputs must then be read again.
  void forget_hashes() noexcept {
    have_hashes_ = false;
    hashes_.clear();
  }
  /// What was read.
  const KeyTotals& totals() const noexcept { return totals_; }
  /// Calls use(hashes, how many have been used with these) for all hashes and frees them.
  void take_hashes(const std::function<void(const KeyBatch&, std::uint64_t)>& use);

 private:
  struct Hashes {
    std::unique_ptr<std::uint64_t[]> words;
    std::size_t size = 0;
    /// Frees the room that is not used, if there is memory to move the hashes.
    void shrink() noexcept;
  };

  KeyTotals totals_;
  bool were_read_ = false, have_hashes_ = false;
  std::vector<Hashes> hashes_;
};

/// Inserts all keys of the inputs into a new filter: the hashes of `counted` if it has them, else
/// the keys as they are read. Shows progress, labelled `what`. Throws IoError, also if there are
/// fewer keys than were counted.
KeyTotals insert_keys(FilterBase& filter, const std::vector<std::string>& inputs, KeyFormat format,
                      std::optional<CountedKeys>& counted, const RunOptions& run, const char* what);

}  // namespace scbf::cli
