// SPDX-License-Identifier: Apache-2.0
// Columns of keys as Python hands them over, and how each becomes batches of the library
// (key_batch.hpp). Where the layout allows, a batch is a view of the caller's memory; otherwise
// keys are converted, some at a time, in memory that is used again. keys.hpp finds the column in an
// object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "key_kinds.hpp"
#include "scbf/key_batch.hpp"

namespace scbf::python {

/// Memory for converted keys, used again by the next batch. A batch from it is valid until then.
struct Room {
  std::vector<std::uint64_t> values;
  std::vector<std::uint32_t> narrow;
  std::vector<std::string_view> views;
  std::vector<char> text;
  std::vector<std::int64_t> offsets;  // into text
  std::vector<std::byte> validity;
};

/// Keys that are converted at a time: so few that their memory stays in cache.
inline constexpr std::size_t kConverted = std::size_t{1} << 18;

/// Keys of one kind that lie in memory, whatever their layout, held as long as the column lives.
/// Made and destroyed with Python's global lock; batch() needs none. One thread at a time reads it.
class Column {
 public:
  virtual ~Column() = default;

  virtual std::size_t size() const noexcept = 0;
  /// What its keys are; none if that is not known because there are none.
  virtual KindsOfKeys kind() const noexcept = 0;
  /// The most keys that one batch should have, so that converting them takes little memory.
  virtual std::size_t most_at_once() const noexcept { return kConverted; }
  /// Keys first … first + count − 1. `seed`: of the filter that they are for. Throws InvalidKey,
  /// naming the key.
  virtual KeyBatch batch(std::size_t first, std::size_t count, std::uint64_t seed,
                         Room& room) const = 0;
  /// Throws what batch() would throw for these keys.
  virtual void check(std::size_t /*first*/, std::size_t /*count*/) const {}
  /// Whether batch() may read this memory. A column that does not know all of its memory says yes.
  virtual bool overlaps(std::span<const std::byte> /*memory*/) const noexcept { return true; }
};

/// Calls each(i, hash) for every key i of the batch that is not null.
template <class Each>
void for_each_hash(const KeyBatch& keys, std::uint64_t seed, Each each) {
  const std::vector<std::uint64_t> of_valid = keys.hashes(seed);
  for (std::size_t i = 0, next = 0; i < keys.size(); ++i) {
    if (keys.valid(i)) each(i, of_valid[next++]);
  }
}

inline bool share_bytes(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  const std::less<> before;  // also of pointers into different objects
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

/// Keys as a view of memory that `owner` holds: no conversion.
template <class Owner>
class PlainColumn final : public Column {
 public:
  /// `memory`: where all of the keys lie; empty if that is not known.
  PlainColumn(const KeyBatch& keys, KindsOfKeys kind, std::span<const std::byte> memory,
              Owner owner)
      : keys_(keys), kind_(kind), memory_(memory), owner_(std::move(owner)) {}
  std::size_t size() const noexcept override { return keys_.size(); }
  KindsOfKeys kind() const noexcept override { return kind_; }
  std::size_t most_at_once() const noexcept override { return ~std::size_t{0}; }
  KeyBatch batch(std::size_t first, std::size_t count, std::uint64_t, Room&) const override {
    return keys_.slice(first, count);
  }
  bool overlaps(std::span<const std::byte> memory) const noexcept override {
    return memory_.empty() || share_bytes(memory_, memory);
  }

 private:
  KeyBatch keys_;
  KindsOfKeys kind_;
  std::span<const std::byte> memory_;
  Owner owner_;
};

template <class Owner>
std::unique_ptr<Column> plain_column(const KeyBatch& keys, KindsOfKeys kind,
                                     std::span<const std::byte> memory, Owner owner) {
  return std::make_unique<PlainColumn<Owner>>(keys, kind, memory, std::move(owner));
}

/// The parts of a chunked array, of a stream or of an iterator, one after another.
class KeySource {
 public:
  virtual ~KeySource() = default;
  /// The next part; null at the end. With Python's global lock, which it may release meanwhile.
  virtual std::unique_ptr<Column> next() = 0;
  /// May Python code run in next()? It might use the filter that the keys are for.
  virtual bool runs_python() const noexcept { return false; }
};

/// A source of one part.
class OneColumn final : public KeySource {
 public:
  explicit OneColumn(std::unique_ptr<Column> column) : column_(std::move(column)) {}
  std::unique_ptr<Column> next() override { return std::move(column_); }

 private:
  std::unique_ptr<Column> column_;
};

}  // namespace scbf::python
