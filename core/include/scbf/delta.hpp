// SPDX-License-Identifier: Apache-2.0
// Deltas: the bits of a filter that changed between two epochs, in a message for readers. One
// writer counts, a thousand readers ask; what travels is a few bytes for each key that changed.
//
//   // The writer, who has a scbf::Filter `counters`:
//   scbf::BloomFilter published(counters);           // the bits as the readers have them
//   send(published.advance(counters));               // epoch 1: the whole filter
//   counters.insert(new_keys);
//   counters.remove(old_keys);
//   send(published.advance(counters));               // epoch 1 to 2: what changed
//
//   // A reader, whose threads ask all the time:
//   scbf::Replica replica(scbf::Delta::read(first_message));
//   replica.contains(keys, hit);                     // any thread
//   replica.apply(scbf::Delta::read(next_message));  // one thread, meanwhile
//
// docs/readers.md says which kind of filter to keep where, and what deltas cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "scbf/bloom_filter.hpp"
#include "scbf/epoch.hpp"

namespace scbf {

/// The change of a filter of bits from one epoch to a later one, packed and verified; or, where a
/// change would not be shorter, all bits of the later epoch. Immutable. Copyable, movable
/// (errors.hpp: "Moving").
class Delta {
 public:
  /// Reads and verifies a message: what write wrote, or a file or stream of a BloomFilter that has
  /// an epoch. Memory: the message, and two chunks. Throws IoError, CorruptFile, or WrongKind
  /// (files.hpp) if it is another kind of file.
  static Delta load(const std::filesystem::path& path);
  static Delta read(const ByteSource& source);
  /// Writes atomically, as Filter::save.
  void save(const std::filesystem::path& path) const;
  void write(const ByteSink& sink) const;
  /// The message itself; valid as long as this object.
  std::span<const std::byte> message() const noexcept { return message_; }

  /// The epoch that it is applied to; none if it is whole.
  Epoch since() const noexcept { return since_; }
  /// The epoch that it leads to.
  Epoch epoch() const noexcept { return epoch_; }
  /// Does it have all bits, so that it can be applied to any filter of an earlier epoch?
  bool whole() const noexcept { return !since_; }
  /// Bits that it changes; if it is whole, bits that are 1.
  std::uint64_t changes() const noexcept { return changes_; }

  Delta(const Delta&) = default;
  Delta(Delta&&) noexcept = default;
  /// By value, as a vector that is moved to itself would lose the message.
  Delta& operator=(Delta other) noexcept;

 private:
  friend class BloomFilter;
  friend struct DeltaCoder;
  Delta() = default;
  /// Throws InvalidArgument if it has been moved from.
  void check_holds() const;

  std::vector<std::byte> message_;
  Epoch since_, epoch_;
  std::uint64_t changes_ = 0;
};

/// A reader's copy of a filter of bits, which many threads query while one applies deltas.
///
/// A key that is in the filter both before and after a delta is found throughout: a bit that is 1
/// in both epochs is never 0. Any other key may look present, even one that looks absent in both.
class Replica {
 public:
  explicit Replica(BloomFilter bits);
  /// Begins with a whole filter, which is unpacked. Throws Incompatible if the delta is not whole.
  explicit Replica(const Delta& whole, const FilterOptions& options = {});
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Any threads, at any time, with the contracts of BloomFilter.

  ContainsReport contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                          const BatchOptions& options = {}) const;
  ContainsReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                               const BatchOptions& options = {}) const;
  ContainsReport find(const KeyBatch& keys, std::span<std::uint64_t> indices,
                      const BatchOptions& options = {}) const;
  ContainsReport count_present(const KeyBatch& keys, const BatchOptions& options = {}) const;
  template <class Key>
  bool contains(const Key& key) const {
    return current()->contains(key);
  }
  /// The filter that lookups which begin now ask, for several lookups of one filter. Deltas may
  /// change its bits in place meanwhile, so only lookups, growth, geometry, seed and bytes() may
  /// be asked of it; for anything else take snapshot(). A delta that brings another filter leaves
  /// this one as it is.
  std::shared_ptr<const BloomFilter> current() const;
  /// Lookups that begin now see this epoch or a later one.
  Epoch epoch() const;

  /// As BloomFilter::apply. Bits of a single stage on the host are changed in place, word by word;
  /// otherwise a copy is changed, which then replaces the filter. Deltas that come from several
  /// threads are applied one after another.
  void apply(const Delta& delta);
  /// A copy as of now, for example to save it.
  BloomFilter snapshot() const;

 private:
  mutable std::mutex changing_;  ///< held while a delta is applied
  mutable std::mutex pointing_;  ///< held while the two below are read or replaced
  std::shared_ptr<BloomFilter> current_;
  Epoch epoch_;
};

}  // namespace scbf
